"""Many rows in one call: the paper's models with a subset for every row, and ensembles that grow."""

from __future__ import annotations

import numpy as np
from explainers import Explainers
from found import Found
from questions import ALONE
from rowwise import measure
from settings import Settings
from timing import Timing, least
from trained import Trained
from treeshap import by_shap, contributions, order_of

AIMS = {  # gap / pred_contribs row, greedy / shap row, PGI² / shap row
    "wine": (0.35, 1.5, 0.9),
    "housing": (0.35, 1.5, 0.9),
    "telemetry": (0.35, 2.5, 1.2),
    "heloc": (0.06, 0.4, 0.2),
}
OWN_OVER_SHARED = 1.2
SIZES = (4, 8, 12, 16, 20)  # of the subsets of growing ensembles
TOGETHER = 3  # rows in one call


def random_masks(d: int, sizes: list[int]) -> np.ndarray:
    """(len(sizes), d): a random subset of each size."""
    rng = np.random.default_rng(0)
    return np.array([rng.permutation(d) < size for size in sizes])


def paper(case: Trained, settings: Settings) -> tuple[float, list[Found]]:
    """Rows alone against one row of the shap package, then batches."""
    rows = case.rows(settings.rows)
    calls = by_shap(case.model, [x[None] for x in rows])
    shap_ms, alone = measure(case, ALONE, ("shap.TreeExplainer", calls), rows, settings)
    for line in alone:
        line.question += ", one row alone"
    return shap_ms, alone + in_batches(case, settings)


def in_batches(case: Trained, settings: Settings) -> list[Found]:
    X, (n, d) = case.X, case.X.shape
    explainers = Explainers(case)
    explainer = explainers.within(1e-6)
    masks = random_masks(d, list(range(1, d + 1)))
    own = masks[np.arange(n) % d]
    contribs = contributions(case.model, X)
    order = order_of(contribs())
    found = least(
        {
            "pred_contribs": [contribs],
            "shap": by_shap(case.model, [X]),
            "own": [lambda: explainer.gap(X, own)],
            "shared": [lambda: [explainer.gap(X, mask) for mask in masks]],
            "greedy": [lambda: explainer.rank(X)],
            "pgi2": [lambda: explainer.pgi2(X, order)],
        },
        settings.rounds,
        patience=10 * settings.patience,
    )
    per_row = {name: timing.milliseconds / n for name, timing in found.items()}
    per_row["shared"] /= d
    lines = batch_lines(case.name, per_row, n)
    check_batches(explainers, X, own, order, found, lines)
    return lines


def batch_lines(name: str, per_row: dict[str, float], n: int) -> list[Found]:
    gap, greedy, pgi2 = AIMS[name]

    def line(question: str, what: str, unit: str, unit_name: str, aim: float) -> Found:
        ratio = per_row[what] / per_row[unit]
        return Found(f"{question}, {n:,} rows", per_row[what], unit_name, ratio, aim)

    return [
        line("gap, a subset for every row", "own", "pred_contribs", "XGBoost pred_contribs", gap),
        line("gap, a subset for every row", "own", "shared", "gap, one subset for all", OWN_OVER_SHARED),
        line("PGI², 1e-6", "pgi2", "shap", "shap.TreeExplainer", pgi2),
        line("greedy, 1e-6", "greedy", "shap", "shap.TreeExplainer", greedy),
    ]


def check_batches(
    explainers: Explainers,
    X: np.ndarray,
    own: np.ndarray,
    order: np.ndarray,
    found: dict[str, Timing],
    lines: list[Found],
    n: int = 32,
) -> None:
    """The first n rows against exact ones, and bit for bit against rows alone."""
    exact, explainer = explainers.within(0.0), explainers.within(1e-6)
    gaps, pgi2, ranking = (found[name].answers[0] for name in ("own", "pgi2", "greedy"))
    compare(lines[0], gaps[:n], exact.gap(X[:n], own[:n]))
    lines[1].error, lines[1].against = lines[0].error, lines[0].against  # the same answers
    compare(lines[2], pgi2[:n], exact.pgi2(X[:n], order[:n]))
    scores, total = exact.rank(X[:n]).scores, exact.gap(X[:n], np.ones(X.shape[1], dtype=bool))
    compare(lines[3], ranking.scores[:n], scores, scale=total[:, None])
    for r in range(n):
        if explainer.gap(X[r : r + 1], own[r])[0] != gaps[r]:
            lines[0].wrong.append(f"row {r}: alone it has other bits")


def compare(line: Found, value: np.ndarray, truth: np.ndarray, scale: np.ndarray | None = None) -> None:
    scale = np.abs(truth) if scale is None else scale
    off = np.abs(value - truth)
    line.error = float(np.max(off / np.maximum(scale, np.finfo(float).tiny)))
    line.against = "exact"
    if np.any(off > (1e-6 + 1e-12) * scale):
        line.wrong.append(f"{line.error:.1e} off, 1e-6 allowed")


def grown(case: Trained, settings: Settings) -> tuple[float, list[Found]]:
    """Gaps of three rows in one call, each of a subset of its own."""
    count = TOGETHER * settings.rows
    X = case.rows(count).reshape(settings.rows, TOGETHER, -1)
    masks = random_masks(X.shape[2], np.resize(SIZES, count).tolist()).reshape(X.shape)
    explainers = Explainers(case)
    explainer = explainers.within(1e-6)
    found = least(
        {
            "pred_contribs": [contributions(case.model, rows) for rows in X],
            "gap": [lambda a=a, m=m: explainer.gap(a, m) for a, m in zip(X, masks, strict=True)],
        },
        settings.rounds,
        settings.patience,
    )
    ours, theirs = (found[name].milliseconds / TOGETHER for name in ("gap", "pred_contribs"))
    line = Found("gap, 3 rows with subsets of 4 to 20", ours, "XGBoost pred_contribs", ours / theirs, 1.0)
    for r in range(min(settings.checked, settings.rows)):
        compare(line, found["gap"].answers[r], explainers.within(1e-10).gap(X[r], masks[r]))
    line.against = "within 1e-10"
    return theirs, [line]
