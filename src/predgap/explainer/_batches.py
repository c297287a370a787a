"""`Explainer.batch_function`: an Arrow record batch in, an Arrow record batch out."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from predgap._engine.context import resolve_n_jobs
from predgap._engine.questions import RankMethod
from predgap._inputs.names import match_names
from predgap._model.one_hot import DummyTables
from predgap._text import count, format_items, names_or_default, shown
from predgap.errors import DependencyError, PredgapError, RankingError, TableError
from predgap.explainer._arrow import as_arrow
from predgap.explainer._batch_answers import (
    Asked,
    BatchQuestion,
    CurveColumns,
    GapColumns,
    Layout,
    RankColumns,
    RankingSource,
    ScoreColumns,
    ScoreName,
)
from predgap.explainer.explained import check_choice
from predgap.noise import Noise
from predgap.noise._laws import Law
from predgap.noise._scales import Names

if TYPE_CHECKING:  # PyArrow is optional; the explainer imports this module
    import pyarrow as pa

    from predgap.explainer.explainer import Explainer

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
        columns = self._question.columns(Asked(explainer, batch, X, rows))
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
