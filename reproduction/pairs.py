"""Random pairs (x, S) of a test row and a subset, balanced over |S|, as the paper draws them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reproduction.common.subjects import Subject


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Rows and subsets of N pairs, and what their random streams depend on."""

    X: NDArray[np.float64] = field(repr=False)  # (N, d)
    masks: NDArray[np.bool_] = field(repr=False)  # (N, d)
    entropy: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.X)

    def stream(self, pair: int, use: int) -> np.random.Generator:
        """A stream of random numbers for one use of one pair, whatever else is drawn."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(pair, use)))


def draw_pairs(subject: Subject, n_pairs: int, seed: int) -> Pairs:
    """`n_pairs` pairs: sizes 1, 2, ..., d in turn, a random subset of that size, a random row.

    More pairs repeat fewer, and add to them.
    """
    d = subject.X.shape[1]
    entropy = (seed, zlib.crc32(subject.name.encode()))
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    rows = np.empty(n_pairs, dtype=np.intp)
    masks = np.zeros((n_pairs, d), dtype=np.bool_)
    for pair in range(n_pairs):
        rows[pair] = rng.integers(len(subject.X))
        masks[pair, rng.permutation(d)[: pair % d + 1]] = True
    return Pairs(subject.X[rows], masks, entropy)
