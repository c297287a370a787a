"""What a batch function computes: the columns of its answers, and how they are asked of an explainer."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._engine.context import Call, calling
from predgap._engine.questions import (
    Curve,
    Gap,
    Question,
    RandomMean,
    RankMethod,
    Rows,
    ask,
    ranking_question,
)
from predgap._engine.results import Ranked, mean_of_curve
from predgap._text import shown
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import RankingError
from predgap.explainer._arrow import as_arrow, as_lists, as_texts, as_words
from predgap.explainer._importances import gains
from predgap.explainer._own_model import own_model
from predgap.explainer._shap_values import ShapValues
from predgap.explainer.explained import Explained, rank_call
from predgap.ranking import ranking_order

if TYPE_CHECKING:  # PyArrow is optional; the explainer imports this module
    import pyarrow as pa

    from predgap.explainer.explainer import Explainer

Layout = Literal["arrays", "wide"]
ScoreName = Literal["pgi2", "pgu2"]
Found = TypeVar("Found")

RANDOM: Final = "random"
"""The word for the expected score of a random ranking."""

METHOD: Final = "method"
"""The column that says how the numbers of a row were obtained."""


def score_column(ranking: str, metric: ScoreName) -> str:
    """The name of the column with a score of a ranking."""
    return ranking if metric == "pgi2" else f"{ranking}_{metric}"


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A batch of which something is asked."""

    explainer: Explainer
    batch: pa.RecordBatch
    X: Any  # its features, as the explainer reads them
    rows: Rows  # those of X, read


class OrderMaker(ABC):
    """Makes rankings of rows that have nothing to do with gaps; it can be pickled."""

    @abstractmethod
    def order(self, asked: Asked) -> IntArray:
        """The units of each row, (n, k), most important first."""


@dataclass(frozen=True, slots=True, eq=False)
class ShapOrders(OrderMaker):
    """Orders by absolute SHAP values."""

    model: Any  # an object of the library that computes them

    def order(self, asked: Asked) -> IntArray:
        """The units of each row, (n, d), largest first, ties to the lower index."""
        explainer = copy.copy(asked.explainer)
        explainer.model = self.model
        sizes = ShapValues(explainer, asked.X).sizes(np.arange(len(asked.rows)), asked.rows)
        return np.argsort(-sizes, axis=1, kind="stable").astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnOrders(OrderMaker):
    """Rankings in a column of the batches, a list for each row: whole numbers are the numbers of features,
    most important first; others are attributions, one for each feature, and perhaps the bias."""

    column: str

    @staticmethod
    def can_read(kind: pa.DataType) -> bool:
        """Whether a column of this type has such lists."""
        import pyarrow.types as of

        is_list = of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind)
        return bool(is_list and (of.is_integer(kind.value_type) or of.is_floating(kind.value_type)))

    def order(self, asked: Asked) -> IntArray:
        """The units of each row, (n, k), most important first."""
        lists = self._lists(asked.batch.column(self.column))
        return asked.explainer.explained.given_order(asked.rows, lists, self.column)

    def _lists(self, lists: pa.Array) -> NDArray[Any]:
        """The lists as an array, (n, k)."""
        import pyarrow.compute as pc

        lengths = pc.list_value_length(lists)
        if lists.null_count or len(lengths.unique()) != 1:
            sizes = " and ".join(map(str, lengths.unique().to_pylist()))
            raise RankingError(f"column {self.column!r} has lists of {sizes} entries, expected one length")
        values = lists.flatten().to_numpy(zero_copy_only=False)
        return np.asarray(values).reshape(len(lists), -1)


def _shap(explainer: Explainer) -> ShapOrders:
    own = own_model(explainer, "shap")  # raises if the model does not tell them
    is_file = isinstance(explainer.model, str | os.PathLike)  # a worker may not see it
    return ShapOrders(own.model if is_file else explainer.model)


def _gain(explainer: Explainer) -> IntArray:
    return np.argsort(-gains(explainer), kind="stable").astype(np.int32)


def _permutation(explainer: Explainer) -> IntArray:
    raise RankingError(
        "the ranking 'permutation' needs outcomes, which batches do not have; compute it before, and pass "
        "its order"
    )


WORDS: Final[dict[str, Callable[[Explainer], OrderMaker | IntArray]]] = {
    "shap": _shap,
    "gain": _gain,
    "permutation": _permutation,
}
"""By word: what asks the model's own library for such rankings, or one order (d,) for all rows."""


# ---- rankings ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RankingSource:
    """A ranking of every row: given, built from gaps, or made by the model's library."""

    given: str | IntArray | OrderMaker  # a word, one order (1, k) for all rows, or what makes them
    places: int

    @classmethod
    def of(cls, explainer: Explainer, ranking: Any, top: int | None, names: Sequence[str] | None) -> Any:
        """The source of a ranking that was given; RankingError if it is none that fits all rows."""
        inputs = explainer.explained
        places = inputs.places(top)
        if isinstance(ranking, OrderMaker):
            return cls(ranking, places)
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

    def order(self, asked: Asked) -> IntArray:
        """The order of each row, (1 or n, k)."""
        if isinstance(self.given, np.ndarray):
            return self.given
        if isinstance(self.given, str):
            method = cast(RankMethod, self.given)
            return _ranked(asked, method, self.places).order
        order = self.given.order(asked)
        if order.shape[1] < self.places:
            raise RankingError(
                f"a ranking has {order.shape[1]} places, but the first {self.places} are scored; ask for "
                f"the first {order.shape[1]} of all rankings"
            )
        return np.ascontiguousarray(order[:, : self.places])

    def curve(self, asked: Asked) -> tuple[FloatArray, NDArray[np.str_]]:
        """The curve of each row, (n, k), and how it was obtained, (n,)."""
        return _curve(asked, self.order(asked))

    def scores(self, asked: Asked, metrics: Sequence[ScoreName]) -> tuple[list[FloatArray], BoolArray]:
        """Each score of each row, (n,), and in which rows all of them are exact, (n,)."""
        if isinstance(self.given, str) and self.given == RANDOM:
            score, how = _expected(asked, self.places)
            return [score] * len(metrics), how == "exact"  # reversed, a random ranking is a random one
        order = self.order(asked)
        orders = {"pgi2": order, "pgu2": np.ascontiguousarray(order[:, ::-1])}
        curves, hows = zip(*(_curve(asked, orders[metric]) for metric in metrics), strict=True)
        return [mean_of_curve(curve) for curve in curves], np.all([how == "exact" for how in hows], axis=0)


def _one_order(inputs: Explained, ranking: Any, names: Sequence[str] | None) -> IntArray:
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


def _curve(asked: Asked, order: IntArray) -> tuple[FloatArray, NDArray[np.str_]]:
    found = _answer(asked, Curve(asked.rows, order), "batch_function(...)")
    how: NDArray[np.str_] = found.method[:, 0] if order.shape[1] else np.full(len(asked.rows), "exact")
    return found.value, how


def _expected(asked: Asked, places: int) -> tuple[FloatArray, NDArray[np.str_]]:
    found = _answer(asked, RandomMean(asked.rows, places), "random_pgi2(X)")
    return found.value, found.method


def _ranked(asked: Asked, method: RankMethod, places: int) -> Ranked:
    call = rank_call(method, places, asked.explainer.rtol)
    found: Ranked = _answer(asked, ranking_question(method, asked.rows, places), call)
    return found


def _answer(asked: Asked, question: Question[Found], call: Call | str) -> Found:
    """Asks about the rows of a batch; `call` is named if it is too costly."""
    e = asked.explainer
    call = Call(call, e.rtol) if isinstance(call, str) else call
    with calling(call, len(question.rows), e.n_threads, e.progress) as context:
        return ask(e.explained, question, e.accuracy, context)


# ---- what is asked -------------------------------------------------------------------------------


class BatchQuestion(ABC):
    """What a batch function computes for each row."""

    @abstractmethod
    def fields(self) -> list[pa.Field]:
        """The columns of the answer."""

    @abstractmethod
    def columns(self, asked: Asked) -> list[Any]:
        """The columns, as Arrow arrays or (n,) arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class GapColumns(BatchQuestion):
    """The gap of a subset: `gap`, `method`."""

    mask: BoolArray  # (d,)

    def fields(self) -> list[pa.Field]:
        import pyarrow as pa

        return [pa.field("gap", pa.float64()), pa.field(METHOD, pa.string())]

    def columns(self, asked: Asked) -> list[Any]:
        found = _answer(asked, Gap(asked.rows, self.mask[None]), "batch_function(...)")
        return [found.value, as_words(found.method)]


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

    def columns(self, asked: Asked) -> list[Any]:
        curve, how = self.source.curve(asked)
        return [*([as_lists(curve)] if self.layout == "arrays" else curve.T), as_words(how)]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreColumns(BatchQuestion):
    """Scores of rankings, a column for each of each ranking; `method`."""

    sources: Mapping[str, RankingSource]
    metrics: tuple[ScoreName, ...] = ("pgi2",)

    def fields(self) -> list[pa.Field]:
        import pyarrow as pa

        names = [score_column(name, metric) for name in self.sources for metric in self.metrics]
        return [*(pa.field(name, pa.float64()) for name in names), pa.field(METHOD, pa.string())]

    def columns(self, asked: Asked) -> list[Any]:
        found = [source.scores(asked, self.metrics) for source in self.sources.values()]
        exact = np.all([is_exact for _, is_exact in found], axis=0)
        return [
            *(score for scores, _ in found for score in scores),
            as_words(np.where(exact, "exact", "bounded")),
        ]


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

    def columns(self, asked: Asked) -> list[Any]:
        found = _ranked(asked, self.method, self.places)
        if self.layout == "arrays":
            own = [as_lists(found.order.astype(np.int32)), as_lists(found.scores)]
        else:
            names = as_texts(self.names)
            own = [*(names.take(as_arrow(place)) for place in found.order.T), *found.scores.T]
        return [*own, ~np.isnan(found.confidence).any(axis=1), as_words(found.method)]
