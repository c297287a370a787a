"""Tiny models for experiments: trained in a moment, of both kinds, with one feature that no tree uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xgboost

from reproduction.models import Subject, read_subject

N_FEATURES = 5


def train(path: Path, seed: int) -> None:
    """A model that uses all features but the second."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, N_FEATURES))
    y = X[:, 0] + 0.7 * (X[:, 3] > 0.3) - X[:, 2] * (X[:, 0] > 0) + 0.4 * X[:, 4]
    X[:, 1] = 0
    data = xgboost.DMatrix(X, y, nthread=1)
    xgboost.train({"max_depth": 3, "eta": 0.5, "seed": 0, "nthread": 1}, data, 6).save_model(path)


def tiny_subjects(folder: Path, n_rows: int) -> tuple[Subject, ...]:
    """A subject of each kind, its model saved in the folder, with so many test rows."""
    made = []
    for number, kind in enumerate(("Bigger", "Single")):
        train(folder / f"{kind}.json", number)
        X = np.random.default_rng(10 + number).normal(size=(n_rows, N_FEATURES))
        made.append(read_subject(kind, "tiny", folder / f"{kind}.json", X, np.zeros(n_rows)))
    return tuple(made)
