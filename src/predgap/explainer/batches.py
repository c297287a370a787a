"""`Explainer.batch_function`: an Arrow record batch in, an Arrow record batch out."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._engine.context import Call, calling, resolve_n_jobs
from predgap._engine.questions import (
    Curve,
    Found,
    Gap,
    Question,
    RandomMean,
    RankMethod,
    Rows,
    ask,
    ranking_question,
)
from predgap._engine.results import METHODS, Ranked, mean_of_curve
from predgap._inputs.subsets import match_names
from predgap._model.rewriting import DummyTables
from predgap._text import count, format_items, names_or_default, shown
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import DependencyError, PredgapError, RankingError, TableError
from predgap.explainer.explained import Explained, check_choice, rank_call
from predgap.explainer.own_rankings import ShapValues, gains, own_model
from predgap.noise import Noise
from predgap.noise.law import Law
from predgap.noise.noise import Names
from predgap.ranking import ranking_order

if TYPE_CHECKING:
    import pyarrow as pa

    from predgap.explainer.explainer import Explainer

# ------------------------------------------------------------------------------------------------------------
# Arrays become Arrow arrays.


def as_words(how: NDArray[np.str_]) -> pa.Array:
    """Names of methods as an Arrow array; faster than pa.array, which converts each of them."""
    codes = (how[:, None] == METHODS).argmax(axis=1)
    return as_texts(METHODS.tolist()).take(as_arrow(codes))


def as_arrow(values: NDArray[Any]) -> pa.Array:
    """Numbers or truth values, (n,), as an Arrow array."""
    import pyarrow as pa

    if values.dtype == np.bool_:
        return pa.Array.from_buffers(
            pa.bool_(), len(values), [None, _buffer(np.packbits(values, bitorder="little"))]
        )
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, _buffer(values)])


def as_texts(words: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array."""
    import pyarrow as pa

    encoded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(words), _buffer(ends), pa.py_buffer(b"".join(encoded)))


def _buffer(values: NDArray[Any]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.ascontiguousarray(values))


def as_lists(rows: NDArray[Any]) -> pa.Array:
    """The rows of an array (n, k) as an Arrow array of n lists."""
    import pyarrow as pa

    n, k = rows.shape
    offsets = np.arange(0, n * k + 1, k, dtype=np.int32) if k else np.zeros(n + 1, dtype=np.int32)
    return pa.ListArray.from_arrays(as_arrow(offsets), as_arrow(rows.reshape(-1)))


# ------------------------------------------------------------------------------------------------------------
# A batch function computes columns; each kind of column asks the explainer for its numbers.

Layout = Literal["arrays", "wide"]
ScoreName = Literal["pgi2", "pgu2"]

RANDOM: Final = "random"
"""The word for the expected score of a random ranking."""

METHOD: Final = "method"
"""The column that says how the numbers of a row were obtained."""


def score_column(ranking: str, metric: ScoreName) -> str:
    """The name of the column with a score of a ranking."""
    return ranking if metric == "pgi2" else f"{ranking}_{metric}"


@dataclass(frozen=True, slots=True, eq=False)
class AskedBatch:
    """A batch of which something is asked."""

    explainer: Explainer
    batch: pa.RecordBatch
    X: Any  # its features, as the explainer reads them
    rows: Rows  # those of X, read


class OrderMaker(ABC):
    """Makes rankings of rows that have nothing to do with gaps; it can be pickled."""

    @abstractmethod
    def order(self, asked: AskedBatch) -> IntArray:
        """The units of each row, (n, k), most important first."""


@dataclass(frozen=True, slots=True, eq=False)
class ShapOrders(OrderMaker):
    """Orders by absolute SHAP values."""

    model: Any  # an object of the library that computes them

    def order(self, asked: AskedBatch) -> IntArray:
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

    def order(self, asked: AskedBatch) -> IntArray:
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
"""Each word has a function that asks the model's own library for such rankings, or for one order (d,)."""


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

    def order(self, asked: AskedBatch) -> IntArray:
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

    def curve(self, asked: AskedBatch) -> tuple[FloatArray, NDArray[np.str_]]:
        """The curve of each row, (n, k), and how it was obtained, (n,)."""
        return _curve(asked, self.order(asked))

    def scores(self, asked: AskedBatch, metrics: Sequence[ScoreName]) -> tuple[list[FloatArray], BoolArray]:
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


def _curve(asked: AskedBatch, order: IntArray) -> tuple[FloatArray, NDArray[np.str_]]:
    found = _answer(asked, Curve(asked.rows, order), "batch_function(...)")
    how: NDArray[np.str_] = found.method[:, 0] if order.shape[1] else np.full(len(asked.rows), "exact")
    return found.value, how


def _expected(asked: AskedBatch, places: int) -> tuple[FloatArray, NDArray[np.str_]]:
    found = _answer(asked, RandomMean(asked.rows, places), "random_pgi2(X)")
    return found.value, found.method


def _ranked(asked: AskedBatch, method: RankMethod, places: int) -> Ranked:
    call = rank_call(method, places, asked.explainer.rtol)
    found: Ranked = _answer(asked, ranking_question(method, asked.rows, places), call)
    return found


def _answer(asked: AskedBatch, question: Question[Found], call: Call | str) -> Found:
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
    def columns(self, asked: AskedBatch) -> list[Any]:
        """The columns, as Arrow arrays or (n,) arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class GapColumns(BatchQuestion):
    """The gap of a subset: `gap`, `method`."""

    mask: BoolArray  # (d,)

    def fields(self) -> list[pa.Field]:
        import pyarrow as pa

        return [pa.field("gap", pa.float64()), pa.field(METHOD, pa.string())]

    def columns(self, asked: AskedBatch) -> list[Any]:
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

    def columns(self, asked: AskedBatch) -> list[Any]:
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

    def columns(self, asked: AskedBatch) -> list[Any]:
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

    def columns(self, asked: AskedBatch) -> list[Any]:
        found = _ranked(asked, self.method, self.places)
        if self.layout == "arrays":
            own = [as_lists(found.order.astype(np.int32)), as_lists(found.scores)]
        else:
            names = as_texts(self.names)
            own = [*(names.take(as_arrow(place)) for place in found.order.T), *found.scores.T]
        return [*own, ~np.isnan(found.confidence).any(axis=1), as_words(found.method)]


# ------------------------------------------------------------------------------------------------------------
# The function itself.

What = Literal["rank", "gap", "curve", "pgi2", "scores"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BatchFunction:
    """A function of an Arrow record batch that explains its rows; `Explainer.batch_function` makes it.

    It is pure: a row has the same answer, to the last bit, whatever batch it is in and wherever it is
    computed. It can be pickled, and is small: it has the trees and the laws of the noise, not its table.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns of what it returns: those that are passed through, then the answers.
    """

    schema: pa.Schema
    keys: tuple[str, ...]  # columns that are passed through
    features: tuple[str, ...] | None  # columns that are features; None: all others
    _question: BatchQuestion = field()
    _explainer: Explainer = field()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The answers for the rows of a batch, in their order.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            With the features of the model and the columns to pass through, in any order.

        Returns
        -------
        pyarrow.RecordBatch
            With the schema `schema`.

        Raises
        ------
        TableError
            If `batch` is no record batch, or its columns are not those that are expected.
        """
        import pyarrow as pa

        if not isinstance(batch, pa.RecordBatch):
            raise TableError(
                f"batch is a {type(batch).__name__}, expected a pyarrow.RecordBatch; Table.to_batches gives "
                "those of a table"
            )
        keys = [self._key(batch, name) for name in self.keys]
        X = self._rows(batch)
        explainer = self._explainer
        if batch.num_rows == 0:
            explainer.explained.table(X)  # raises if columns are missing
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        rows = explainer.explained.rows(X)
        columns = self._question.columns(AskedBatch(explainer, batch, X, rows))
        answers = [as_arrow(each) if isinstance(each, np.ndarray) else each for each in columns]
        return pa.RecordBatch.from_arrays([*keys, *answers], schema=self.schema)

    def _key(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        places = batch.schema.get_all_field_indices(name)
        if len(places) != 1:
            raise TableError(f"the batch has {count(len(places), 'column')} called {name!r}, expected one")
        found, expected = batch.column(places[0]), self.schema.field(name).type
        if found.type != expected:
            raise TableError(
                f"column {name!r} of the batch has type {found.type}, the schema of the batch function says "
                f"{expected}"
            )
        return found

    def _rows(self, batch: pa.RecordBatch) -> Any:
        """The features of the batch as a table that the explainer reads."""
        import pyarrow as pa

        names = batch.schema.names
        if self.features is not None:
            places = [j for j, name in enumerate(names) if name in self.features]
        else:
            places = [j for j, name in enumerate(names) if name not in self.keys]
        table = pa.Table.from_batches([batch]).select(places)
        reader = self._explainer.explained.reader
        # the steps of a pipeline take no Arrow tables
        return table if reader is None or isinstance(reader, DummyTables) else table.to_pandas()

    def __repr__(self) -> str:
        return f"BatchFunction({self._explainer!r}: {', '.join(self.schema.names)})"


def batch_function(
    explainer: Explainer,
    what: What,
    schema: pa.Schema | None,
    *,
    keys: Sequence[str] | None,
    subset: Any,
    ranking: Any,
    rankings: Any,
    metrics: Sequence[ScoreName],
    method: RankMethod,
    top: int | None,
    columns: Layout,
    n_jobs: int,
) -> BatchFunction:
    """The answer of `Explainer.batch_function`."""
    try:
        import pyarrow as pa
    except ImportError:
        raise DependencyError(
            "a batch function needs PyArrow, not installed; try: pip install pyarrow"
        ) from None
    check_choice("what", what, get_args(What))
    check_choice("columns", columns, get_args(Layout))
    check_choice("method", method, get_args(RankMethod))
    _check_arguments(what, subset=subset, ranking=ranking, rankings=rankings)
    if explainer.output is not None and np.ndim(explainer.output):
        raise PredgapError(
            "the explainer has one output per row, but a batch function does not know which rows it will "
            'get; use output="predicted", or one output for all rows'
        )
    features, passed = _columns(explainer, schema, keys)
    names = explainer.ensemble.feature_names or features
    if what == "scores":
        question: BatchQuestion = _scores(explainer, rankings, metrics, top, names)
    else:
        question = _question(explainer, what, subset, ranking, method, top, columns, names)
    answers = question.fields()
    own = [field.name for field in answers]
    twice = [name for name in own if name in passed or own.count(name) > 1]
    if twice:
        raise PredgapError(
            f"the answers have the columns {format_items(own)}; {format_items(dict.fromkeys(twice))} would "
            "be there twice. Rename the columns or rankings, or choose with keys=[...] what is passed through"
        )
    kept = [pa.field(name, schema.field(name).type) for name in passed] if schema is not None else []
    return BatchFunction(
        pa.schema([*kept, *answers]), passed, features, question, _without_tables(explainer, n_jobs)
    )


def _without_tables(explainer: Explainer, n_jobs: int) -> Explainer:
    """The same explainer with other threads, and without what a batch function does not need."""
    other, noise = copy.copy(explainer), NoiseNotPickled(repr(explainer.noise))
    other.n_threads, other.progress, other.noise = resolve_n_jobs(n_jobs), False, noise
    other.explained = explainer.explained.without_noise_table(noise)
    other.model = explainer.explained.model
    return other


def _check_arguments(what: str, **given: Any) -> None:
    """PredgapError unless exactly the argument that `what` needs is given."""
    needed = {"gap": "subset", "curve": "ranking", "pgi2": "ranking", "scores": "rankings"}.get(what)
    for name, value in given.items():
        if (value is not None) != (name == needed):
            said = f"needs {needed}=..." if name == needed else f"takes no {name}"
            raise PredgapError(f"batch_function({what!r}) {said}")


def _question(
    explainer: Explainer,
    what: What,
    subset: Any,
    ranking: Any,
    method: RankMethod,
    top: int | None,
    layout: Layout,
    names: Sequence[str] | None,
) -> BatchQuestion:
    inputs = explainer.explained
    if what == "gap":
        return GapColumns(inputs.one_mask(1, subset))
    if what == "rank":
        units = inputs.unit_names if inputs.units is not None else names_or_default(inputs.n_units, names)
        return RankColumns(method, inputs.places(top), tuple(units or ()), layout)
    source = RankingSource.of(explainer, ranking, top, names)
    return CurveColumns(source, layout) if what == "curve" else ScoreColumns({"pgi2": source})


def _scores(
    explainer: Explainer,
    rankings: Any,
    metrics: Sequence[ScoreName],
    top: int | None,
    names: Sequence[str] | None,
) -> ScoreColumns:
    for metric in metrics:
        check_choice("metrics", metric, get_args(ScoreName))
    sources = {name: RankingSource.of(explainer, each, top, names) for name, each in _named(rankings).items()}
    d = explainer.explained.n_units
    short = [name for name, source in sources.items() if source.places < d]
    if short and "pgu2" in metrics:
        raise RankingError(
            f"PGU² needs all {d} places, and {format_items(short)} has fewer; leave out top, or pgu2"
        )
    return ScoreColumns(sources, tuple(metrics))


def _named(rankings: Any) -> dict[str, Any]:
    if isinstance(rankings, Mapping) and rankings and all(isinstance(name, str) for name in rankings):
        return dict(rankings)
    if isinstance(rankings, Sequence) and rankings and all(isinstance(word, str) for word in rankings):
        return {word: word for word in rankings}
    raise RankingError(
        f"rankings is {shown(rankings)}, expected words such as ['shap', 'greedy'], or a mapping from names "
        "to words or orders"
    )


# ---- columns -------------------------------------------------------------------------------------


def _columns(
    explainer: Explainer, schema: pa.Schema | None, keys: Sequence[str] | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The names of the columns that are features (None: all that batches have), and of those that are passed
    through."""
    if schema is None:
        if keys:
            raise PredgapError(
                "keys are given without a schema; pass the schema of the batches, so that the types of the "
                "keys are known beforehand"
            )
        return None, ()
    known = explainer.explained.column_names
    columns = list(schema.names)
    unknown = [key for key in keys or () if key not in columns]
    if unknown:
        raise TableError(f"keys has {format_items(unknown)}, the schema has {format_items(columns)}")
    if known is None:
        features = tuple(name for name in columns if name not in (keys or ()))
    else:
        found = match_names(columns, known, TableError)
        features = tuple(name for name in columns if name in found)
        missing = [known[q] for q in range(len(known)) if q not in found.values()]
        if missing:
            raise TableError(
                f"the schema lacks {count(len(missing), 'feature')} of the model: {format_items(missing)}; "
                f"it has {format_items(columns)}"
            )
    passed = tuple(keys) if keys is not None else tuple(name for name in columns if name not in features)
    return features, passed


class NoiseNotPickled(Noise):
    """Stands for a noise whose laws were sent to a worker, while its table was not."""

    def __init__(self, text: str) -> None:
        self._text = text

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        raise PredgapError(f"{self._text} is not part of a batch function; ask the explainer that made it")

    def __repr__(self) -> str:
        return self._text
