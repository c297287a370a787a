"""What a batch function computes: the columns of its answers, and how they are asked of an explainer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._engine.engine import Answer
from predgap._engine.progress import Tell
from predgap._engine.questions import Computed, Curves, Gaps, mean_of_curve, words
from predgap._engine.scale import RandomScores, RankMethod
from predgap._text import shown
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import RankingError
from predgap.explainer._arguments import Inputs, Rows, ranking_call
from predgap.ranking import ranking_order

if TYPE_CHECKING:  # PyArrow is optional; the explainer imports this module
    import pyarrow as pa

    from predgap.explainer._explainer import Explainer

Layout = Literal["arrays", "wide"]

RANDOM: Final = "random"
"""The word for the expected score of a random ranking."""

METHOD: Final = "method"
"""The column that says how the numbers of a row were obtained."""


class OrderMaker(Protocol):
    """Makes rankings of rows that have nothing to do with gaps; it can be pickled."""

    def order(self, explainer: Explainer, X: Any, rows: Rows) -> IntArray:
        """The units of each row, (n, d), most important first; `rows` are those of X, read."""


WORDS: Final[dict[str, Callable[[Explainer], OrderMaker | IntArray]]] = {}
"""By word: what makes such rankings for an explainer, or one order (d,) for all rows. Layers above this one,
which ask the model's own library, add theirs."""


# ---- rankings ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RankingSource:
    """A ranking of every row: given, built from gaps, or made by the model's library."""

    given: str | IntArray | OrderMaker  # a word, one order (1, k) for all rows, or what makes them
    places: int

    @classmethod
    def of(cls, explainer: Explainer, ranking: Any, top: int | None, names: Sequence[str] | None) -> Any:
        """The source of a ranking that was given; RankingError if it is none that fits all rows."""
        inputs = explainer._inputs
        places = inputs.places(top)
        if isinstance(ranking, str):
            if ranking in (*get_args(RankMethod), RANDOM):
                return cls(ranking, places)
            if ranking not in WORDS:
                known = ", ".join(map(repr, (*get_args(RankMethod), *WORDS, RANDOM)))
                raise RankingError(
                    f"the ranking is {shown(ranking)}; a batch function knows the words {known}, and one "
                    "order for all rows"
                )
            made = WORDS[ranking](explainer)
            return cls(made[None, :places] if isinstance(made, np.ndarray) else made, places)
        order = _one_order(inputs, ranking, names)
        return cls(order[:, :places], min(places, order.shape[1]))

    def order(self, explainer: Explainer, X: Any, rows: Rows) -> IntArray:
        """The order of each row, (1 or n, k)."""
        if isinstance(self.given, np.ndarray):
            return self.given
        if isinstance(self.given, str):
            method: Any = self.given
            return explainer._ranked(rows, method, self.places, ranking_call(method, self.places)).order
        return np.ascontiguousarray(self.given.order(explainer, X, rows)[:, : self.places])

    def curve(self, explainer: Explainer, X: Any, rows: Rows) -> tuple[FloatArray, NDArray[np.str_]]:
        """The curve of each row, (n, k), and how it was obtained, (n,)."""
        order = self.order(explainer, X, rows)
        return _computed(
            explainer, Curves(explainer._engine, rows.values, order, explainer._inputs.members), rows
        )

    def score(self, explainer: Explainer, X: Any, rows: Rows) -> tuple[FloatArray, NDArray[np.str_]]:
        """PGI² of each row, (n,), and how it was obtained, (n,)."""
        if isinstance(self.given, str) and self.given == RANDOM:
            return _expected(explainer, rows, self.places)
        curve, how = self.curve(explainer, X, rows)
        return mean_of_curve(curve), how


def _one_order(inputs: Inputs, ranking: Any, names: Sequence[str] | None) -> IntArray:
    """One order for all rows, (1, k)."""
    units = inputs.units
    named = None if names is None else (names if units is None else units.named(tuple(names)))
    try:
        order = ranking_order(ranking, 1, inputs.n_units, named, units)
    except RankingError as error:
        raise RankingError(
            f"{error}. A batch function takes a word, or one order (k,) for all rows: it does not know which "
            "rows it will get"
        ) from None
    return np.ascontiguousarray(order, dtype=np.int32)


def _computed(
    explainer: Explainer, question: Computed[Any], rows: Rows
) -> tuple[FloatArray, NDArray[np.str_]]:
    def computed(part: Gaps | Curves, tell: Tell) -> Answer:
        return part.computed(explainer._accuracy, tell)

    with explainer._asking("batch_function(...)"):
        value, _, method = explainer._answer(question, rows, computed)
    return value, words(method)


def _expected(explainer: Explainer, rows: Rows, places: int) -> tuple[FloatArray, NDArray[np.str_]]:
    question = RandomScores(explainer._engine, rows.values, places, explainer._inputs.members)
    with explainer._asking("random_pgi2(X)"):
        found = explainer._answer(question, rows, explainer._by_kernels)
    return found.value, found.method


# ---- what is asked -------------------------------------------------------------------------------


class BatchQuestion(ABC):
    """What a batch function computes for each row."""

    @abstractmethod
    def fields(self) -> list[pa.Field]:
        """The columns of the answer."""

    @abstractmethod
    def columns(self, explainer: Explainer, X: Any, rows: Rows) -> list[Any]:
        """The columns, as Arrow arrays or (n,) arrays; `rows` are those of X, read."""


@dataclass(frozen=True, slots=True, eq=False)
class GapColumns(BatchQuestion):
    """The gap of a subset: `gap`, `method`."""

    mask: BoolArray  # (d,)

    def fields(self) -> list[pa.Field]:
        import pyarrow as pa

        return [pa.field("gap", pa.float64()), pa.field(METHOD, pa.string())]

    def columns(self, explainer: Explainer, X: Any, rows: Rows) -> list[Any]:
        return list(_computed(explainer, Gaps(explainer._engine, rows.values, self.mask[None]), rows))


@dataclass(frozen=True, slots=True, eq=False)
class CurveColumns(BatchQuestion):
    """The curve of a ranking: `curve` or `gap_1`, …; `method`."""

    source: RankingSource
    layout: Layout

    def fields(self) -> list[pa.Field]:
        import pyarrow as pa

        k = self.source.places
        if self.layout == "arrays":
            curve = [pa.field("curve", pa.list_(pa.float64()))]
        else:
            curve = [pa.field(f"gap_{place}", pa.float64()) for place in range(1, k + 1)]
        return [*curve, pa.field(METHOD, pa.string())]

    def columns(self, explainer: Explainer, X: Any, rows: Rows) -> list[Any]:
        curve, how = self.source.curve(explainer, X, rows)
        return [*([as_lists(curve)] if self.layout == "arrays" else curve.T), how]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreColumns(BatchQuestion):
    """PGI² of rankings, a column for each; `method`."""

    sources: Mapping[str, RankingSource]

    def fields(self) -> list[pa.Field]:
        import pyarrow as pa

        return [*(pa.field(name, pa.float64()) for name in self.sources), pa.field(METHOD, pa.string())]

    def columns(self, explainer: Explainer, X: Any, rows: Rows) -> list[Any]:
        found = [source.score(explainer, X, rows) for source in self.sources.values()]
        exact = np.all([how == "exact" for _, how in found], axis=0)
        return [*(score for score, _ in found), np.where(exact, "exact", "bounded")]


@dataclass(frozen=True, slots=True, eq=False)
class RankColumns(BatchQuestion):
    """A ranking: `order` and `scores`, or `place_1`, … and `score_…`; `proven`, `method`."""

    method: RankMethod
    places: int
    names: tuple[str, ...]  # of the units
    layout: Layout

    def fields(self) -> list[pa.Field]:
        import pyarrow as pa

        if self.layout == "arrays":
            own = [pa.field("order", pa.list_(pa.int32())), pa.field("scores", pa.list_(pa.float64()))]
        else:
            own = [pa.field(f"place_{place}", pa.string()) for place in range(1, self.places + 1)]
            own += [pa.field(f"score_{name}", pa.float64()) for name in self.names]
        return [*own, pa.field("proven", pa.bool_()), pa.field(METHOD, pa.string())]

    def columns(self, explainer: Explainer, X: Any, rows: Rows) -> list[Any]:
        found = explainer._ranked(rows, self.method, self.places, ranking_call(self.method, self.places))
        if self.layout == "arrays":
            own = [as_lists(found.order.astype(np.int32)), as_lists(found.scores)]
        else:
            names = np.array(self.names, dtype=object)
            own = [*names[found.order].T, *found.scores.T]
        return [*own, ~np.isnan(found.confidence).any(axis=1), found.method]


def as_lists(rows: NDArray[Any]) -> pa.Array:
    """The rows of an array (n, k) as an Arrow array of n lists."""
    import pyarrow as pa

    n, k = rows.shape
    offsets = np.arange(0, n * k + 1, k, dtype=np.int32) if k else np.zeros(n + 1, dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, np.ascontiguousarray(rows).reshape(-1))
