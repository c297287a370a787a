"""Which ranking is best by which score? Writes the tables of docs/leaderboard.md.

python benchmarks/leaderboard.py [--rows N] [--data NAME,NAME] [--models NAME,NAME] [--page FILE]

Rankings by several methods, for the libraries' default models on data that come with scikit-learn, and for
the paper's models where they are at hand. What is random has a seed. The page is written between its two
marks; everything else on it stays.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

from rivals import PROBLEMS, SCORES, Case, paper_cases, scored_case, trained_cases
from rivals_page import page_with, written

PAGE = Path(__file__).resolve().parents[1] / "docs" / "leaderboard.md"
MODELS = ("XGBoost", "LightGBM", "CatBoost", "forest")


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=40, help="rows of each case (default %(default)s)")
    parser.add_argument("--data", default=",".join([*PROBLEMS, "paper"]), help="names (default %(default)s)")
    parser.add_argument("--models", default=",".join(MODELS), help="names (default %(default)s)")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write (default %(default)s)")
    return parser.parse_args(given)


def all_cases(data: list[str], models: list[str]) -> list[Case]:
    found = [case for name in data if name in PROBLEMS for case in trained_cases(name, models)]
    return found + (paper_cases() if "paper" in data else [])


def main(given: list[str] | None = None) -> int:
    asked = arguments(given)
    begin, tables = time.process_time(), {}
    for case in all_cases(asked.data.split(","), asked.models.split(",")):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries about names and constant columns
            tables[case.name] = scored_case(case, asked.rows)
        print(f"{case.name}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
    minutes = (time.process_time() - begin) / 60
    print(f"{minutes:.1f} minutes of processor time", file=sys.stderr)
    block = written(tables, SCORES, asked.rows)
    asked.page.write_text(page_with(asked.page.read_text(), block))
    return 0


if __name__ == "__main__":
    sys.exit(main())
