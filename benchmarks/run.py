"""predgap against its baselines, as ratios measured in one run; answers are asserted.

One thread unless said, sigma = 0.3. Our side goes through the public API, tables included; DMatrix is built
before. A TreeSHAP row is one of `shap.TreeExplainer` (tree_path_dependent) for rankings and scores, one of
XGBoost's `pred_contribs` for gaps.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import planner
import shap
import xgboost
from models import Case, cases, deep, grown
from timing import medians

import predgap
from predgap import _core

SIGMA = 0.3
SAMPLES = 1000  # Monte Carlo samples per gap
RESULTS = Path(__file__).parent / "results"


def subsets(d: int, rng: np.random.Generator) -> list[np.ndarray]:
    """One random mask of each size 1 ... d."""
    masks = np.zeros((d, d), dtype=bool)
    for k in range(d):
        masks[k, rng.permutation(d)[: k + 1]] = True
    return list(masks)


def monte_carlo(case: Case, x: np.ndarray, mask: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Squared differences of n samples, predicted by XGBoost itself."""
    moved = np.tile(x, (n, 1))
    moved[:, mask] += rng.normal(scale=SIGMA, size=(n, int(mask.sum()))).astype(np.float32)
    margins = case.booster.inplace_predict(np.vstack([x, moved]), predict_type="margin")
    return (margins[1:].astype(np.float64) - margins[0]) ** 2


def check_answers(case: Case, explainer: predgap.Explainer, masks: list[np.ndarray]) -> None:
    """Gaps equal Algorithm 1's, lie within 5 standard errors of sampling, and greedy is greedy."""
    rng = np.random.default_rng(1)
    X = case.X[:2]
    scale = float(np.square(explainer.ensemble.predict(X)).max())
    for mask in masks[:: max(1, len(masks) // 4)]:
        ours = explainer.gap(X, mask)
        theirs = algorithm1(explainer, X, mask)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11 * scale)
        samples = monte_carlo(case, X[0], mask, 20_000, rng)
        error = samples.std() / np.sqrt(len(samples))
        rounding = 2e-6 * np.sqrt(scale * ours[0])  # XGBoost adds its margins in float32
        assert abs(samples.mean() - ours[0]) <= 5 * error + rounding, (case.name, mask)
    ranking = explainer.rank(X)
    chosen = np.zeros(case.X.shape[1], dtype=bool)
    for q in ranking.order[0]:
        gaps = {
            i: explainer.gap(X[:1], chosen | (np.arange(len(chosen)) == i))[0]
            for i in np.flatnonzero(~chosen)
        }
        assert gaps[q] >= max(gaps.values()) * (1 - 1e-11), (case.name, q)
        chosen[q] = True


def algorithm1(explainer: predgap.Explainer, X: np.ndarray, mask: np.ndarray) -> np.ndarray:
    rows = explainer.ensemble.cast(X)
    scale = np.full(rows.shape[1], SIGMA)
    return explainer._engine.kernels.algorithm1(rows, scale, mask[None].view(np.uint8))


def measure(case: Case) -> dict[str, float]:
    """Microseconds per row."""
    rng = np.random.default_rng(0)
    case.booster.set_param({"nthread": 1})
    matrix = xgboost.DMatrix(case.X, nthread=1)
    explainer = predgap.Explainer(case.booster, predgap.Normal(SIGMA))
    n, d = case.X.shape
    masks = subsets(d, rng)
    check_answers(case, explainer, masks)
    treeshap = shap.TreeExplainer(case.booster, feature_perturbation="tree_path_dependent")
    shap_ranking = predgap.Ranking.from_attributions(
        case.booster.predict(matrix, pred_contribs=True), feature_names=[f"f{j}" for j in range(d)]
    )
    seconds = medians(
        {
            "pred_contribs": lambda: case.booster.predict(matrix, pred_contribs=True),
            "shap": lambda: treeshap.shap_values(case.X, check_additivity=False),
            "gap": lambda: [explainer.gap(case.X, mask) for mask in masks],
            "greedy": lambda: explainer.rank(case.X),
            "pgi2": lambda: explainer.pgi2(case.X, shap_ranking),
            "monte carlo": lambda: monte_carlo(case, case.X[0], masks[d // 2], SAMPLES, rng),
        }
    )
    slow = medians({"algorithm 1": lambda: algorithm1(explainer, case.X[:1], masks[d // 2])}, rounds=3)
    per_row = {"pred_contribs": n, "shap": n, "gap": n * d, "greedy": n, "pgi2": n, "monte carlo": 1}
    return {name: seconds[name] / per_row[name] * 1e6 for name in per_row} | {
        "algorithm 1": slow["algorithm 1"] * 1e6
    }


LIMITS = {  # gap / pred_contribs row, greedy / shap row, PGI2 / shap row
    "winequality_red": (0.30, 2.0, 1.0),
    "housing": (0.30, 2.0, 1.0),
    "telemetry": (0.30, 2.5, 1.2),
    "heloc": (0.05, 0.5, 0.2),
}


def report(case: Case, micros: dict[str, float]) -> dict[str, object]:
    ratios = {
        "gap / pred_contribs row": micros["gap"] / micros["pred_contribs"],
        "greedy / shap row": micros["greedy"] / micros["shap"],
        "pgi2 / shap row": micros["pgi2"] / micros["shap"],
        "monte carlo (1,000) / gap": micros["monte carlo"] / micros["gap"],
        "algorithm 1 / gap": micros["algorithm 1"] / micros["gap"],
    }
    return {
        "model": case.name,
        "trees": case.booster.num_boosted_rounds(),
        "features": case.X.shape[1],
        "rows": len(case.X),
        "microseconds": {name: round(value, 2) for name, value in micros.items()},
        "ratios": {name: float(f"{value:.3g}") for name, value in ratios.items()},
        "aims": dict(zip(list(ratios)[:3], LIMITS.get(case.name, ()), strict=False)),
    }


def markdown(reports: list[dict], machine: dict[str, str]) -> str:
    names = list(reports[0]["ratios"])
    lines = [
        "| model | trees | d | gap, µs | " + " | ".join(names) + " |",
        "|---" * (len(names) + 4) + "|",
    ]
    for r in reports:
        ratios = [
            f"{value} (aim {r['aims'][name]})" if name in r["aims"] else str(value)
            for name, value in r["ratios"].items()
        ]
        cells = [r["model"], r["trees"], r["features"], r["microseconds"]["gap"], *ratios]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n\n" + ", ".join(f"{k}: {v}" for k, v in machine.items()) + "\n"


def growth(n_trees: int, n_rows: int) -> dict[str, object]:
    """Gaps (mean over five sizes of subset) and pred_contribs of an ensemble of depth 6 on 20 features."""
    case = grown(n_trees, n_rows)
    case.booster.set_param({"nthread": 1})
    explainer = predgap.Explainer(case.booster, predgap.Normal(SIGMA))
    matrix = xgboost.DMatrix(case.X, nthread=1)
    masks = subsets(case.X.shape[1], np.random.default_rng(0))[3::4]
    seconds = medians(
        {
            "pred_contribs": lambda: case.booster.predict(matrix, pred_contribs=True),
            "gap": lambda: [explainer.gap(case.X, mask) for mask in masks],
        },
        rounds=3,
    )
    gap, row = seconds["gap"] / len(masks) / n_rows, seconds["pred_contribs"] / n_rows
    return {"trees": n_trees, "gap, ms": gap * 1e3, "gap / pred_contribs row": gap / row, "aim": 1.0}


def deep_trees() -> dict[str, object]:
    """Gaps, mean over all sizes, of 20 trees of depth 12 on 8 features."""
    case = deep()
    explainer = predgap.Explainer(case.booster, predgap.Normal(SIGMA))
    masks = subsets(case.X.shape[1], np.random.default_rng(0))
    seconds = medians({"gap": lambda: [explainer.gap(case.X, mask) for mask in masks]}, rounds=1)
    return {"gap, ms": seconds["gap"] / len(masks) / len(case.X) * 1e3, "aim": 10.0}


def two_threads(case: Case) -> dict[str, object]:
    explainers = [predgap.Explainer(case.booster, predgap.Normal(SIGMA), n_jobs=n) for n in (1, 2)]
    np.testing.assert_array_equal(explainers[0].rank(case.X).scores, explainers[1].rank(case.X).scores)
    seconds = medians({str(n + 1): lambda e=e: e.rank(case.X) for n, e in enumerate(explainers)})
    return {"model": case.name, "speed-up of greedy": seconds["1"] / seconds["2"], "aim": 1.85}


def memory() -> dict[str, object]:
    """Peak memory of a process that computes curves of 1,600 trees, and what more rows add to it."""
    peaks = {n: _peak_of_curves(n) for n in (16, 64)}
    per_row = max(0.0, peaks[64] - peaks[16]) / 48
    return {"peak, MiB": peaks[64], "of 10,000 rows, MiB": peaks[64] + 9_936 * per_row, "aim": 1024.0}


CURVES = """
import resource, sys
import numpy as np
import predgap
X = np.random.default_rng(0).normal(size=(int(sys.argv[2]), 20))
predgap.Explainer(sys.argv[1], predgap.Normal({sigma})).curve(X, np.arange(20))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def _peak_of_curves(n_rows: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ubj"
        grown(1600, 1).booster.save_model(path)
        code = CURVES.format(sigma=SIGMA)
        asked = [sys.executable, "-c", code, str(path), str(n_rows)]
        return float(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)


def plans() -> dict[str, object]:
    """How much slower the planner's choice is than the better strategy, over a zoo of models."""
    found = planner.measure()
    print(planner.table(found), flush=True)
    worst = max(found, key=lambda t: t.loss)
    return {
        "questions": len(found),
        "worst loss": worst.loss,
        "of": f"{worst.model}, {worst.what}",
        "aim": planner.MOST_LOSS,
    }


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
    others = {
        "growth": [growth(n_trees, n_rows) for n_trees, n_rows in ((100, 1000), (400, 250), (1600, 64))],
        "deep and narrow": deep_trees(),
        "two threads": two_threads(all_cases[-1]),
        "memory": memory(),
        "planner": plans(),
    }
    print(json.dumps(others, indent=2), flush=True)
    RESULTS.mkdir(exist_ok=True)
    found = {"machine": machine, "models": reports, **others}
    (RESULTS / "table.json").write_text(json.dumps(found, indent=2) + "\n")
    table = markdown(reports, machine)
    (RESULTS / "table.md").write_text(table + "\n" + json.dumps(others, indent=2) + "\n")
    print(table)


if __name__ == "__main__":
    main()
