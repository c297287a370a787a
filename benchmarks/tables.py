"""Tables to train on: made ones with the faults of real ones, and two that come from outside."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HIDDEN = 6  # factors that the columns of a made table share
LEVELS = (20, 200)  # of the two categorical columns

Table = tuple[np.ndarray, np.ndarray]  # X (n, d), y (n,)


def correlated(n: int, d: int, seed: int) -> Table:
    """Columns that hang together, some skewed and some rounded; a target with interactions of up to three."""
    rng = np.random.default_rng([seed, n, d])
    loadings = rng.normal(scale=0.5, size=(HIDDEN, d))
    X = rng.normal(size=(n, HIDDEN)) @ loadings + rng.normal(size=(n, d))
    skewed, rounded = np.arange(0, d, 5), np.arange(3, d, 7)
    X[:, skewed] = np.exp(X[:, skewed] / 2)
    X[:, rounded] = np.rint(2 * X[:, rounded]) / 2
    return X, signal(X) + rng.normal(scale=0.7, size=n)


def signal(X: np.ndarray) -> np.ndarray:
    """A few strong features, a few that matter together only, and many weak ones."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    d = Z.shape[1]

    def z(j: int) -> np.ndarray:
        return Z[:, j % d]

    strong = 1.8 * z(0) + 1.4 * np.cos(2 * z(1)) - 0.6 * z(8) + 0.5 * np.maximum(z(9), -0.5)
    pairs = 0.9 * z(2) * z(3) + np.where(z(5) > 0, 1.3 * z(4), -0.2 * z(4)) + np.sin(z(6)) * np.abs(z(7))
    triple = 0.35 * z(1) * np.tanh(z(10)) * z(11)
    weak = sum((0.15 * np.cos(z(j) - j) for j in range(12, d)), np.zeros(len(Z)))
    return strong + pairs + triple + weak


def with_categories(n: int, d: int, seed: int) -> Table:
    """Like `correlated`, with two more columns: codes of 20 and of 200 categories, some far more common."""
    X, y = correlated(n, d, seed)
    rng = np.random.default_rng([seed, 1])
    columns = []
    for n_levels in LEVELS:
        shares = rng.dirichlet(np.full(n_levels, 2.0))
        codes = rng.choice(n_levels, size=n, p=shares)
        effect, slope = rng.normal(size=(2, n_levels))
        y = y + effect[codes] + 0.5 * slope[codes] * X[:, 1]
        columns.append(codes.astype(float))
    return np.column_stack([X, *columns]), y


def california(path: Path) -> Table:
    """The 8 numbers of California Housing, and the logarithm of the price."""
    table = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=range(9))
    table = table[~np.isnan(table).any(axis=1)]
    return table[:, :-1], np.log(table[:, -1])


def digits() -> Table:
    """Images of 8 × 8 pixels, and the digit that each shows."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)
