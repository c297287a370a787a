"""The models people train, against one TreeSHAP row of their own library; answers are checked as well.

python benchmarks/production.py [--models NAME,NAME] [--rows N] [--quick] [--json FILE] [--isa avx2]

Every model has a process of its own, with one thread. Rows are asked one at a time where a table does not say
otherwise, contenders take turns, and what counts is the median over the rows of the least of the repeats. The
noise has 0.3 of each column's standard deviation. A second process per model asks the same questions and
reports its peak memory. The exit status is 1 if an answer was wrong or a process failed; aims that are not
reached are only listed. Another Python with other libraries may run this, too: the versions are printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from settings import QUICK, Settings

import report

HERE = Path(__file__).parent
NAMES = (
    "lightgbm-30",
    "xgboost-30",
    "lightgbm-housing",
    "xgboost-8",
    "forest",
    "categories",
    "digits",
    "stump",
    "wine",
    "housing",
    "telemetry",
    "heloc",
    "grown-100",
    "grown-400",
    "grown-1600",
)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", default=",".join(NAMES), help="names, separated by commas; all: %(default)s"
    )
    parser.add_argument("--rows", type=int, help=f"rows of each model (default {Settings.rows})")
    parser.add_argument("--quick", action="store_true", help="few rows and repeats, and cheaper references")
    parser.add_argument("--json", type=Path, help="write everything that was found to this file")
    parser.add_argument("--isa", help="the most that predgap's kernels may use, for example avx2")
    parser.add_argument("--baseline", action="store_true", help="time TreeSHAP only; predgap is not needed")
    parser.add_argument("--trees", type=float, default=1.0, help="part of the trees, to try this script out")
    asked = parser.parse_args()
    unknown = set(asked.models.split(",")) - set(NAMES)
    if unknown:
        parser.error(f"no model is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    return asked


def settings_of(asked: argparse.Namespace) -> Settings:
    settings = QUICK if asked.quick else Settings()
    settings = dataclasses.replace(settings, part=asked.trees, baseline=asked.baseline)
    return settings if asked.rows is None else dataclasses.replace(settings, rows=asked.rows)


def environment(isa: str | None) -> dict[str, str]:
    """One thread everywhere; the instruction set must be known before predgap is imported."""
    return os.environ | ONE_THREAD | ({"PREDGAP_ISA": isa} if isa else {})


def run(script: str, *options: str, env: dict[str, str]) -> str:
    command = [sys.executable, str(HERE / script), *options]
    return subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE, text=True).stdout


def measure(name: str, settings: Settings, env: dict[str, str]) -> report.Json | None:
    """What was found; None where the model cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        run("measure_one.py", name, json.dumps(dataclasses.asdict(settings)), str(path), env=env)
        found = json.loads(path.read_text())
    if found is not None:
        file = found.pop("file")
        if not settings.baseline:
            found["memory"] = json.loads(run("peak.py", file, env=env))
    return found


def main() -> int:
    asked = arguments()
    settings, env = settings_of(asked), environment(asked.isa)
    results, failed = [], []
    for name in asked.models.split(","):
        try:
            found = measure(name, settings, env)
        except subprocess.CalledProcessError as error:
            print(f"{name}: {Path(error.cmd[1]).name} failed\n", flush=True)
            failed.append(name)
            continue
        if found is None:
            print(f"{name}: skipped, its data is not at hand\n", flush=True)
            continue
        if not results:
            print(f"{report.versions(found)}\n", flush=True)
        results.append(found)
        print(report.section(found), flush=True)
    if not settings.baseline:
        print(report.summary(results))
    if asked.json:
        asked.json.write_text(
            json.dumps({"settings": dataclasses.asdict(settings), "models": results}, indent=1)
        )
    return int(bool(failed) or any(report.wrong_answers(found) for found in results))


if __name__ == "__main__":
    sys.exit(main())
