"""Makes the rankings that `evaluate` takes by a word: from gaps, SHAP values, importances, or at random."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from predgap._engine.questions import Rows
from predgap._typing import FloatArray, IndexArray
from predgap.errors import RankingError
from predgap.explainer import Explainer
from predgap.explainer.own_rankings import ShapValues, gains, permutation_importances
from predgap.ranking import Ranking


class OwnRankings:
    """The rankings by a word that are not made from gaps; of all rows of a table, or of some of them."""

    def __init__(self, explainer: Explainer, X: Any, rows: Rows, y: Any, seed: int) -> None:
        self._explainer, self._X, self._rows, self._y, self._seed = explainer, X, rows, y, seed

    def made(self, word: str, some: IndexArray) -> Ranking:
        """The ranking of some of the rows, all places."""
        n = len(some)
        rows = self._rows.at(some)
        if word == "random":
            return self._ranking(rows, self._shuffled[some], None, word)
        if word == "shap":
            sizes = self._shap.sizes(some, rows)
        elif word == "gain":
            sizes = np.broadcast_to(self._gains, (n, len(self._gains)))
        else:
            sizes = np.broadcast_to(self._permutation, (n, len(self._permutation)))
        return self._ranking(rows, np.argsort(-sizes, axis=1, kind="stable"), sizes, word)

    @cached_property
    def _shap(self) -> ShapValues:
        return ShapValues(self._explainer, self._X)

    @cached_property
    def _gains(self) -> FloatArray:
        return gains(self._explainer)

    @cached_property
    def _permutation(self) -> FloatArray:
        if self._y is None:
            raise RankingError(
                "the ranking 'permutation' needs y, the outcomes of the rows: evaluate(..., y=y)"
            )
        return permutation_importances(self._explainer, self._rows, self._y, self._seed)

    @cached_property
    def _shuffled(self) -> IndexArray:
        d = self._explainer.explained.n_units
        in_order = np.broadcast_to(np.arange(d, dtype=np.intp), (len(self._rows), d))
        return np.random.default_rng(self._seed).permuted(in_order, axis=1)

    def _ranking(self, rows: Rows, order: IndexArray, scores: FloatArray | None, word: str) -> Ranking:
        return ranking_of(self._explainer, rows, order, scores=scores, method=word)


def ranking_of(explainer: Explainer, rows: Rows, order: Any, **about: Any) -> Ranking:
    """A Ranking of the explainer's units, with the labels of the rows."""
    inputs, table = explainer.explained, rows.table
    names = table.names or inputs.ensemble.feature_names
    return Ranking(
        order,
        feature_names=names if inputs.units is None else inputs.units.named(names),
        n_features=inputs.n_units,
        index=table.index,
        backend=table.backend,
        feature_space=None if inputs.reader is None else inputs.reader.feature_space,
        output=inputs.outputs.of_ranking(rows.outputs),
        **about,
    )
