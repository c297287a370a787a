"""Evaluations to write pages of: a small one as users make it, and large ones of made-up numbers."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

import predgap
from predgap.evaluation import Evaluation

EVIL = "<img src=x onerror=alert(1)>"
NAMES = ("age", EVIL, "</script><script>alert(2)</script>", "a & 'b' \"c\"", "line\nbreak")


def small() -> Evaluation:
    """Of 40 rows and five features with names that are markup; one ranking has such a name, too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = 2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * X[:, 3]
    model = GradientBoostingRegressor(n_estimators=10, max_depth=3, random_state=0).fit(X, y)
    explainer = predgap.Explainer(model, predgap.Normal.relative(X, 0.3), feature_names=NAMES)
    rankings = {
        EVIL: rng.permuted(np.tile(np.arange(5), (40, 1)), axis=1),
        "gain": "gain",
        "greedy": "greedy",
    }
    return predgap.evaluate(explainer, X[:40], {**rankings, "random": "random"}, strengths=[0.1, 0.3, 1.0])


def made_up(
    n: int, d: int, m: int, k: int | None = None, seed: int = 0, names: list[str] | None = None
) -> Evaluation:
    """An Evaluation of n rows, d features, m rankings with k places, from random numbers."""
    rng = np.random.default_rng(seed)
    k = d if k is None else k
    features = tuple(f"a feature with a long name, number {j}" for j in range(d))
    keys = tuple(names or [f"ranking {i}" for i in range(m)])
    orders = np.argsort(rng.random((m, n, d)), axis=2)[:, :, :k]
    curves = np.cumsum(rng.random((m, n, k)), axis=2)
    scores = curves.mean(axis=2)
    highest = scores.argmax(axis=0)
    values = rng.normal(size=(n, d))
    at = np.arange(n)
    return Evaluation(
        names=keys,
        rankings={
            key: predgap.Ranking(orders[i], n_features=d, feature_names=features)
            for i, key in enumerate(keys)
        },
        scores={"pgi2": scores, "pgu2": scores / 2} if k == d else {"pgi2": scores},
        curves=curves,
        random=scores.min(axis=0) / 2,
        random_curve=curves.min(axis=0) / 2,
        best=scores[highest, at],
        best_ranking=predgap.Ranking(orders[highest, at], n_features=d, feature_names=features),
        best_curve=curves[highest, at],
        best_is_proven=np.zeros(n, dtype=bool),
        single=rng.random((n, d)),
        table=values.astype(object),
        values=values,
        feature_names=features,
        index=None,
        rows=np.arange(n),
        predictions=rng.normal(size=n),
        sweep=None,
        description={
            "model": "made up",
            "trees": 1,
            "features": d,
            "units": d,
            "places": k,
            "rows": n,
            "of_rows": n,
            "noise": "Normal(0.3)",
            "noise_table": None,
            "output": None,
            "rtol": 1e-6,
            "seed": 0,
            "budget": 60.0,
            "version": predgap.__version__,
        },
        notes=("Rows were drawn at random.",),
        obtained={
            "pgi2": "estimated",
            "curves": "estimated",
            "random": "exact",
            "best": "estimated",
            "single": "exact",
        },
        words=dict.fromkeys(keys),
    )
