"""The leaderboard as a page: sentences and tables from the scores."""

from __future__ import annotations

from importlib.metadata import packages_distributions, version

import numpy as np
from rivals import Scores

BEGIN, END = "<!-- written by benchmarks/leaderboard.py: begin -->", "<!-- end -->"
LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn", "shap", "shapiq")
MADE_FOR = {"PGI²": "greedy", "deletion": "for deletion", "insertion": "for insertion"}
EQUAL = 1e-9  # scores that differ by less share a place

Tables = dict[str, Scores]  # by case


def page_with(page: str, block: str) -> str:
    """The page with what is between its marks replaced; SystemExit if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"the page has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def written(tables: Tables, scores: dict[str, str], n_rows: int) -> str:
    """Sentences, a table of wins, and a table for each score."""
    parts = [_facts(tables, n_rows), _findings(tables, scores), _wins_table(tables, scores)]
    for score, better in scores.items():
        parts.append(f"## {score} ({better} is better)\n\n{_table(tables, score, better)}")
    return "\n\n".join(parts)


def winners(scores: Scores, score: str, better: str) -> set[str]:
    """The rankings with the best score of a case."""
    sign = 1.0 if better == "higher" else -1.0
    most = max(sign * row[score] for row in scores.values())
    return {name for name, row in scores.items() if sign * row[score] >= most - EQUAL * (1.0 + abs(most))}


def wins(tables: Tables, score: str, better: str) -> dict[str, int]:
    """In how many cases each ranking is best, most first."""
    best = [winners(case, score, better) for case in tables.values()]
    count = {name: sum(name in each for each in best) for name in rankings(tables)}
    return dict(sorted(count.items(), key=lambda item: -item[1]))


def rankings(tables: Tables) -> list[str]:
    """The names of all rankings, in the order in which they were made."""
    return list(dict.fromkeys(name for case in tables.values() for name in case))


def _facts(tables: Tables, n_rows: int) -> str:
    known = ", ".join(map(_version, LIBRARIES))
    absent = [
        f"{name} in {len(tables) - present} of {len(tables)} cases"
        for name in rankings(tables)
        if (present := sum(name in case for case in tables.values())) < len(tables)
    ]
    left_out = f" Left out, as they could not be made: {'; '.join(absent)}." if absent else ""
    return f"{len(tables)} cases, up to {n_rows} rows of each. With {known}.{left_out}"


def _version(module: str) -> str:
    package = packages_distributions().get(module, [""])[0]  # XGBoost has two packages
    return f"{package} {version(package)}" if package else f"{module} (absent)"


def _findings(tables: Tables, scores: dict[str, str]) -> str:
    """For each score who wins, and who is ahead of greedy more often than not."""
    n, said = len(tables), []
    for score, better in scores.items():
        count = wins(tables, score, better)
        first, most = next(iter(count.items()))
        own = "" if first == "greedy" else f" *greedy* is best in {count.get('greedy', 0)}."
        said.append(
            f"- **{score}**: best most often is *{first}*, in {most} of {n} cases.{own}"
            f"{_best_of_others(tables, score, better)} {_ahead_of_greedy(tables, score, better)}"
        )
    return "\n".join(said)


def _best_of_others(tables: Tables, score: str, better: str) -> str:
    """Who wins most often among the rankings that were not made for the score."""
    made = MADE_FOR.get(score)
    if made is None:
        return ""
    others = {case: {r: s for r, s in scores.items() if r != made} for case, scores in tables.items()}
    first, most = next(iter(wins(others, score, better).items()))
    return f" Without *{made}*, which is made for this score, it is *{first}*, in {most}."


def _ahead_of_greedy(tables: Tables, score: str, better: str) -> str:
    """Which rankings are better than greedy in more than half of the cases that have both."""
    sign, ahead = (1.0 if better == "higher" else -1.0), []
    for name in rankings(tables):
        both = [case for case in tables.values() if name in case and "greedy" in case]
        n_ahead = sum(sign * (case[name][score] - case["greedy"][score]) > EQUAL for case in both)
        if 2 * n_ahead > len(both):
            ahead.append(f"*{name}* (in {n_ahead} of {len(both)})")
    if not ahead:
        return "No ranking is ahead of *greedy* in more than half of the cases."
    return f"**Greedy loses** in more than half of the cases to {', '.join(ahead)}."


def _wins_table(tables: Tables, scores: dict[str, str]) -> str:
    counts = {score: wins(tables, score, better) for score, better in scores.items()}
    lines = [
        "## Cases won, and mean scores\n",
        f"| ranking | {' | '.join(f'{s}: {what}' for what in ('won', 'mean') for s in scores)} |",
        "|---" * (2 * len(scores) + 1) + "|",
    ]
    for name in rankings(tables):
        cases = [case[name] for case in tables.values() if name in case]
        means = [np.mean([case[score] for case in cases]) for score in scores]
        cells = [str(counts[score][name]) for score in scores] + [f"{mean:.2f}" for mean in means]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _table(tables: Tables, score: str, better: str) -> str:
    """A line per case and a column per ranking; the best of a line is bold."""
    names = rankings(tables)
    lines = [f"| case | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for case, scores in tables.items():
        best = winners(scores, score, better)
        cells = []
        for name in names:
            text = f"{scores[name][score]:.3f}" if name in scores else "–"
            cells.append(f"**{text}**" if name in best else text)
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)
