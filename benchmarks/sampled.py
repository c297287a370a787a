"""Gaps sampled through the model's own library: rough, but owing nothing to predgap."""

from __future__ import annotations

from typing import Any

import numpy as np
from explainers import SIGMA, is_known
from trained import Trained

DEVIATIONS = 6.0  # how far from the sample mean an answer may be, in standard errors


def agrees(case: Trained, x: np.ndarray, mask: np.ndarray, gap: float, n: int = 4_000) -> bool:
    """Whether samples of the gap of one row, (d,), are what they should be if this is it."""
    moved = perturbed(case, x, mask, n)
    outputs = predict(case.model, np.vstack([x, moved]))
    squares = np.sum((outputs[1:] - outputs[0]) ** 2, axis=1)
    error = squares.std() / np.sqrt(n)
    rounding = 4e-6 * np.abs(outputs).max() * np.sqrt(gap)  # XGBoost adds its trees up in float32
    return bool(abs(squares.mean() - gap) <= DEVIATIONS * error + rounding)


def perturbed(case: Trained, x: np.ndarray, mask: np.ndarray, n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    deviations = np.ones(len(x)) if case.standardised else case.X.std(axis=0)
    moved = np.tile(x, (n, 1))
    for j in np.flatnonzero(mask):
        if j in case.categorical:
            moved[:, j] = rng.choice(case.X[is_known(case, j), j], size=n)
        else:
            moved[:, j] += rng.normal(scale=SIGMA * deviations[j], size=n)
    return moved


def predict(model: Any, X: np.ndarray) -> np.ndarray:
    """(n, k): margins of boosted trees, probabilities of a classifying forest."""
    library = type(model).__module__.split(".")[0]
    if library == "lightgbm":
        found = model.predict(X, raw_score=True, num_threads=1)
    elif library == "xgboost":
        found = model.inplace_predict(X.astype(np.float32), predict_type="margin")
    else:
        found = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return np.asarray(found, dtype=np.float64).reshape(len(X), -1)
