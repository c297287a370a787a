"""Between users' objects and arrays in the model's terms: tables, subsets, rankings, choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._engine.questions import Ranked
from predgap._inputs.subsets import subset_mask
from predgap._inputs.tables import Table, read_table
from predgap._model.ensemble import Ensemble
from predgap._typing import BoolArray, FloatArray
from predgap.errors import PredgapError, RankingError, SubsetError
from predgap.loaders.pipelines import Preparation
from predgap.ranking import Ranking, ranking_order

_BY_CERTAINTY: Final = ("exact", "bounded", "pruned", "qmc", "mc")


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Reads what is asked about a model, which may be the last step of a pipeline."""

    ensemble: Ensemble
    preparation: Preparation | None  # the steps before the model

    def table(self, X: Any) -> Table:
        """X as the model's features, after the steps of a pipeline."""
        if self.preparation is not None:
            return self.preparation.table(X, self.ensemble)
        e = self.ensemble
        return read_table(X, e.n_features, e.feature_names, e.categories)

    def rows(self, X: Any) -> FloatArray:
        """X as the model casts it, (n, d)."""
        return self.ensemble.cast(self.table(X).values)

    def masks(self, n_rows: int, subset: Any) -> BoolArray:
        """The perturbed features, (1, d) for all rows or (n, d)."""
        mask = subset_mask(subset, n_rows, self.ensemble.n_features, self.ensemble.feature_names)
        return mask[None] if mask.ndim == 1 else mask

    def one_mask(self, n_rows: int, subset: Any) -> BoolArray:
        """The perturbed features of all rows, (d,); SubsetError if rows have subsets of their own."""
        mask = subset_mask(subset, n_rows, self.ensemble.n_features, self.ensemble.feature_names)
        if mask.ndim == 2:
            raise SubsetError("one subset for all rows is expected here, not one mask per row")
        return mask

    def order(self, n_rows: int, ranking: Any) -> NDArray[np.int32]:
        """A ranking's features, (n, k), most important first."""
        order = ranking_order(ranking, n_rows, self.ensemble.n_features, self.ensemble.feature_names)
        return np.ascontiguousarray(order, dtype=np.int32)

    def reversed_order(self, n_rows: int, ranking: Any) -> NDArray[np.int32]:
        """A full ranking's features, (n, d), least important first; RankingError if it is partial."""
        order, d = self.order(n_rows, ranking), self.ensemble.n_features
        if order.shape[1] < d:
            raise RankingError(
                f"PGU² needs all {d} places of a ranking, and this one has the first {order.shape[1]}: they "
                "say nothing about the order of the rest. Pass a full ranking, or ask for pgi2"
            )
        return np.ascontiguousarray(order[:, ::-1])

    def places(self, top: Any) -> int:
        """How many places to rank; RankingError unless it is a number of features, or None for all."""
        d = self.ensemble.n_features
        if top is None:
            return d
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or not 1 <= top <= d:
            raise RankingError(
                f"top is {top!r}, expected a whole number from 1 to {d}, the number of features, or None for "
                "all"
            )
        return int(top)

    def ranking(self, ranked: Ranked, method: str, table: Table) -> Ranking:
        """Rankings of a table's rows; the estimator is that of the least certain row."""
        return Ranking(
            order=ranked.order.astype(np.intp),
            scores=ranked.scores,
            feature_names=table.names or self.ensemble.feature_names,
            index=table.index,
            backend=table.backend,
            feature_space=None if self.preparation is None else self.preparation.feature_space,
            method=method,
            estimator=max(set(ranked.method.tolist()), key=_BY_CERTAINTY.index, default="exact"),
            confidence=ranked.confidence,
        )


def check_choice(name: str, given: Any, choices: tuple[str, ...]) -> None:
    """PredgapError unless the text that was given is one of those that are known."""
    if not isinstance(given, str) or given not in choices:
        expected = " or ".join([", ".join(map(repr, choices[:-1])), repr(choices[-1])])
        raise PredgapError(f"{name}={given!r} is unknown; expected {expected}")


def ranking_call(method: str, top: int | None) -> str:
    """The call of `rank` as one would write it.

    Examples
    --------
    >>> ranking_call("single", 5)
    "rank(X, 'single', top=5)"
    """
    options = ["X", *([repr(method)] if method != "greedy" else []), *([f"top={top}"] if top else [])]
    return f"rank({', '.join(options)})"
