"""The parts that `predgap.spark` and `predgap.dask` share: five functions of a table on many machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from predgap._text import require, shown
from predgap.errors import TableError
from predgap.explainer import BatchFunction, Explainer

if TYPE_CHECKING:
    from predgap._engine.questions import RankMethod
    from predgap.explainer.batches import Layout, ScoreName

Frame = TypeVar("Frame")


class ColumnPlaces(NamedTuple):
    """The places of some columns of a table, ascending."""

    features: tuple[int, ...]
    keys: tuple[int, ...]


class FrameFunctions(ABC, Generic[Frame]):
    """The functions `rank`, `gap`, `curve`, `pgi2` and `scores` for the tables of one engine.

    Each makes a batch function of the explainer, and has the engine map it over the rows. Nothing is computed
    before the result is asked for.
    """

    engine: str  # the name of the extra

    @abstractmethod
    def reads(self, df: Any) -> bool:
        """True if df is a table of the engine."""

    @abstractmethod
    def names(self, df: Frame) -> list[str]:
        """The names of the columns of a table."""

    @abstractmethod
    def mapped(self, df: Frame, function: BatchFunction, columns: ColumnPlaces) -> Frame:
        """A table of the keys of df, and of the function of its features."""

    def rank(
        self,
        df: Frame,
        explainer: Explainer,
        *,
        method: RankMethod = "greedy",
        top: int | None = None,
        columns: Layout = "arrays",
        keys: Sequence[str] | None = None,
    ) -> Frame:
        """Ranks the features of every row by how far they move its prediction.

        Parameters
        ----------
        df : DataFrame
            A Spark DataFrame, classic or Connect, for `predgap.spark`; a Dask DataFrame for `predgap.dask`.
            It has a column for each feature of the model, in any order.
        explainer : Explainer
        method : {"greedy", "single", "optimal", "shapley"}, default="greedy"
            See `Explainer.rank`.
        top : int or None, default=None
            How many places to fill; None for all.
        columns : {"arrays", "wide"}, default="arrays"
            "wide" has `place_1`, … (names) and `score_<feature>` in place of `order` and `scores`.
        keys : sequence of names, or None, default=None
            Columns to pass through, in the order that they have in df; None for all that are no features.

        Returns
        -------
        DataFrame
            Lazy: the keys, then `order` (an array of the indices of the features, most important first),
            `scores` (an array with a score per feature), `proven` (whether all places are) and `method`
            ("exact" or "bounded"). Rows are in the order, and partitions, of df.

        Raises
        ------
        DependencyError
            If the engine is not installed.
        TableError
            If df is no table of the engine, or lacks a feature.
        """
        return self._asked(df, explainer, "rank", keys, method=method, top=top, columns=columns)

    def gap(
        self, df: Frame, explainer: Explainer, subset: Any, *, keys: Sequence[str] | None = None
    ) -> Frame:
        """The gap of one subset of the features, for every row.

        Parameters
        ----------
        df, explainer, keys
            As in `rank`.
        subset : names, indices or a boolean mask (d,)
            The features that are perturbed.

        Returns
        -------
        DataFrame
            Lazy: the keys, then `gap` and `method`.
        """
        return self._asked(df, explainer, "gap", keys, subset=subset)

    def curve(
        self,
        df: Frame,
        explainer: Explainer,
        ranking: Any,
        *,
        top: int | None = None,
        columns: Layout = "arrays",
        keys: Sequence[str] | None = None,
    ) -> Frame:
        """The gaps of the first 1, 2, … features of a ranking, for every row.

        Parameters
        ----------
        df, explainer, top, keys
            As in `rank`.
        ranking : word or order
            "greedy", "single", "optimal", "shapley", "shap" or "gain"; or one order for all rows: names,
            indices, or a Series of importances.
        columns : {"arrays", "wide"}, default="arrays"
            "wide" has `gap_1`, … in place of the array `curve`.

        Returns
        -------
        DataFrame
            Lazy: the keys, then `curve` (an array) and `method`.
        """
        return self._asked(df, explainer, "curve", keys, ranking=ranking, top=top, columns=columns)

    def pgi2(
        self,
        df: Frame,
        explainer: Explainer,
        ranking: Any,
        *,
        top: int | None = None,
        keys: Sequence[str] | None = None,
    ) -> Frame:
        """The score of a ranking, for every row: the mean of its `curve`.

        Parameters
        ----------
        df, explainer, ranking, top, keys
            As in `curve`; "random" is the expected score of a random ranking.

        Returns
        -------
        DataFrame
            Lazy: the keys, then `pgi2` and `method`.
        """
        return self._asked(df, explainer, "pgi2", keys, ranking=ranking, top=top)

    def scores(
        self,
        df: Frame,
        explainer: Explainer,
        rankings: Any,
        *,
        metrics: Sequence[ScoreName] = ("pgi2",),
        top: int | None = None,
        keys: Sequence[str] | None = None,
    ) -> Frame:
        """The scores of several rankings, for every row.

        Parameters
        ----------
        df, explainer, top, keys
            As in `rank`.
        rankings : sequence of words, or mapping from names to words or orders
            Words and orders as in `pgi2`.
        metrics : sequence of "pgi2" and "pgu2", default=("pgi2",)

        Returns
        -------
        DataFrame
            Lazy: the keys, then the PGI² of each ranking in a column of its name, its PGU² in <name>_pgu2,
            and `method`.
        """
        return self._asked(df, explainer, "scores", keys, rankings=rankings, metrics=metrics, top=top)

    def _asked(
        self, df: Frame, explainer: Explainer, what: Any, keys: Sequence[str] | None, **asked: Any
    ) -> Frame:
        require(f"predgap.{self.engine}", self.engine)
        if not self.reads(df):
            raise TableError(
                f"df is {shown(df)}, expected a {self.engine.capitalize()} DataFrame; the methods of the "
                "explainer take tables that are in memory"
            )
        import pyarrow as pa

        names = self.names(df)
        any_types = pa.schema([(name, pa.null()) for name in names])
        function = explainer.batch_function(what, any_types, keys=keys, **asked)
        columns = ColumnPlaces(_places(names, function.features or ()), _places(names, function.keys))
        return self.mapped(df, _without_keys(function), columns)


def _places(names: Sequence[str], some: Sequence[str]) -> tuple[int, ...]:
    return tuple(j for j, name in enumerate(names) if name in some)


def _without_keys(function: BatchFunction) -> BatchFunction:
    """The function of the features alone: engines pass keys on as they are, whatever their types."""
    import pyarrow as pa

    return replace(function, schema=pa.schema(list(function.schema)[len(function.keys) :]), keys=())
