"""The paper's models in large batches: against TreeSHAP, sampling and the paper's own algorithm.

One thread unless said, σ = 0.3. Every row has a subset of its own. Our side goes through the public methods;
a DMatrix is made before. A shap row is one of `shap.TreeExplainer`, a `pred_contribs` row XGBoost's own. The
answers are held against Algorithm 1, against samples of the model's own predictions, and against the
definition of a greedy ranking. Aims, production models and single rows are in production.py.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import shap
import xgboost
from batches import random_masks
from models import Case, cases, deep
from timing import medians
from treeshap import by_shap, contributions, order_of

import predgap
from predgap import _core
from predgap.algorithm1 import algorithm1_gap

SIGMA = 0.3
SAMPLES = 1000  # Monte Carlo samples per gap
RESULTS = Path(__file__).parent / "results"


# --- answers --------------------------------------------------------------------------------------------


def monte_carlo(case: Case, x: np.ndarray, mask: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Squared differences of n samples, predicted by XGBoost itself."""
    moved = np.tile(x, (n, 1))
    moved[:, mask] += rng.normal(scale=SIGMA, size=(n, int(mask.sum()))).astype(np.float32)
    margins = case.booster.inplace_predict(np.vstack([x, moved]), predict_type="margin")
    return (margins[1:].astype(np.float64) - margins[0]) ** 2


def check_gaps(case: Case, explainer: predgap.Explainer, masks: np.ndarray, n: int = 4) -> None:
    """Those of a few rows equal Algorithm 1's, and lie within 5 standard errors of sampling."""
    rng = np.random.default_rng(1)
    some = np.linspace(0, len(masks) - 1, n).astype(int)  # small subsets to large ones
    X, masks = case.X[some], masks[some]
    ours = explainer.gap(X, masks)
    scale = float(np.square(explainer.ensemble.predict(X)).max())
    theirs = algorithm1_gap(explainer, X, masks, float32=False)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11 * scale)
    for x, mask, gap in zip(X, masks, ours, strict=True):
        samples = monte_carlo(case, x, mask, 20_000, rng)
        error = samples.std() / np.sqrt(len(samples))
        rounding = 2e-6 * np.sqrt(scale * gap)  # XGBoost adds its margins in float32
        assert abs(samples.mean() - gap) <= 5 * error + rounding, (case.name, mask)


def check_ranking(case: Case, explainer: predgap.Explainer) -> None:
    """Each place goes to a feature that makes the gap largest, and PGI² is the mean of these gaps."""
    x, d = case.X[:1], case.X.shape[1]
    order = explainer.rank(x).order
    chosen, gaps = np.zeros(d, dtype=bool), []
    for q in order[0]:
        masks = chosen | np.eye(d, dtype=bool)
        found = np.where(chosen, -np.inf, explainer.gap(np.repeat(x, d, axis=0), masks))
        assert found[q] >= found.max() * (1 - 1e-11), (case.name, q)
        chosen[q] = True
        gaps.append(found[q])
    np.testing.assert_allclose(explainer.pgi2(x, order), np.mean(gaps), rtol=1e-11)


# --- times ----------------------------------------------------------------------------------------------


def measure(case: Case) -> dict[str, float]:
    """Microseconds per row."""
    rng = np.random.default_rng(0)
    explainer = predgap.Explainer(case.booster, predgap.Normal(SIGMA))
    X, (n, d) = case.X, case.X.shape
    sizes = random_masks(d, list(range(1, d + 1)))
    masks, middle = sizes[np.arange(n) % d], sizes[d // 2]
    check_gaps(case, explainer, sizes)
    check_ranking(case, explainer)
    pred_contribs, (tree_shap,) = contributions(case.booster, X), by_shap(case.booster, [X])
    order = order_of(pred_contribs())
    seconds = medians(
        {
            "pred_contribs": pred_contribs,
            "shap": tree_shap,
            "gap": lambda: explainer.gap(X, masks),
            "greedy": lambda: explainer.rank(X),
            "pgi2": lambda: explainer.pgi2(X, order),
        },
        rounds=5,
    )
    one_row = medians(
        {
            "monte carlo": lambda: monte_carlo(case, X[0], middle, SAMPLES, rng),
            "algorithm 1": lambda: algorithm1_gap(explainer, X[:1], middle[None], float32=False),
        },
        rounds=3,
    )
    return {name: 1e6 * s / n for name, s in seconds.items()} | {name: 1e6 * s for name, s in one_row.items()}


def deep_trees() -> dict[str, float]:
    """Gaps of 20 trees of depth 12 on 8 features, a subset of another size for each row."""
    case = deep()
    explainer, by_pairs = (
        predgap.Explainer(case.booster, predgap.Normal(SIGMA), _strategy=strategy)
        for strategy in (None, "pairs")
    )
    d = case.X.shape[1]
    masks = random_masks(d, np.resize(np.arange(1, d + 1), len(case.X)).tolist())
    np.testing.assert_allclose(explainer.gap(case.X, masks), by_pairs.gap(case.X, masks), rtol=2e-6)
    seconds = medians({"gap": lambda: explainer.gap(case.X, masks)}, rounds=3)
    return {"gap, ms": 1e3 * seconds["gap"] / len(case.X)}


def two_threads(case: Case) -> dict[str, object]:
    """How much faster rankings are; their bits are the same."""
    one, two = (predgap.Explainer(case.booster, predgap.Normal(SIGMA), n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.rank(case.X).scores, two.rank(case.X).scores)
    seconds = medians({"one": lambda: one.rank(case.X), "two": lambda: two.rank(case.X)})
    return {"model": case.name, "speed-up of greedy": seconds["one"] / seconds["two"]}


# --- what it amounts to ---------------------------------------------------------------------------------


def report(case: Case, micros: dict[str, float]) -> dict[str, object]:
    ratios = {
        "gap / pred_contribs row": micros["gap"] / micros["pred_contribs"],
        "pgi2 / shap row": micros["pgi2"] / micros["shap"],
        "greedy / shap row": micros["greedy"] / micros["shap"],
        f"monte carlo ({SAMPLES:,}) / gap": micros["monte carlo"] / micros["gap"],
        "algorithm 1 / gap": micros["algorithm 1"] / micros["gap"],
    }
    return {
        "model": case.name,
        "trees": case.booster.num_boosted_rounds(),
        "features": case.X.shape[1],
        "rows": len(case.X),
        "microseconds": {name: round(value, 2) for name, value in micros.items()},
        "ratios": {name: float(f"{value:.3g}") for name, value in ratios.items()},
    }


def markdown(reports: list[dict], machine: dict[str, str]) -> str:
    head = ["model", "trees", "d", "gap, µs", *reports[0]["ratios"]]
    lines = [head, ["---"] * len(head)]
    for r in reports:
        lines.append([r["model"], r["trees"], r["features"], r["microseconds"]["gap"], *r["ratios"].values()])
    rows = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    return rows + "\n\n" + ", ".join(f"{k}: {v}" for k, v in machine.items()) + "\n"


def main() -> None:
    machine = {
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "xgboost": xgboost.__version__,
        "shap": shap.__version__,
        "predgap": predgap.__version__,
        "kernels": _core.instruction_set(),
    }
    all_cases = cases()
    reports = []
    for case in all_cases:
        reports.append(report(case, measure(case)))
        print(json.dumps(reports[-1], indent=2), flush=True)
    others = {"deep and narrow": deep_trees(), "two threads": two_threads(all_cases[-1])}
    table = markdown(reports, machine) + "\n" + json.dumps(others, indent=2) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "table.json").write_text(
        json.dumps({"machine": machine, "models": reports, **others}, indent=2) + "\n"
    )
    (RESULTS / "table.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
