"""Opens the model and the tables of a command, and builds the explainer; rows then come in blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeVar

import pyarrow as pa

import predgap
from predgap import Ensemble, Explainer, NoiseError, OutputError, TableError
from predgap._engine.accuracy import RTOL
from predgap._inputs.subsets import are_default
from predgap._inputs.tables import read_table
from predgap._model.ensemble import has_other_class
from predgap._text import count, did_you_mean, format_items, shown
from predgap.cli.app import RowsDone, complain, row_progress
from predgap.cli.noise import MOST_ROWS, NoisePlan, TableOf, check_rows, sampled, values_of
from predgap.cli.tables import DataFile, Roles, csv_columns, layout, open_data, reference_layout, split_names
from predgap.loaders import ModelFile

Found = TypeVar("Found")

_CELLS_AT_ONCE: Final = 200_000  # rows times features of one call
_ALL: Final = 2**62


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """The arguments and options that all commands with DATA have in common."""

    model: ModelFile
    data: str
    reference: str | None
    drop: tuple[str, ...]
    target: str | None
    index: str | None
    noise: NoisePlan
    keep: tuple[str, ...]  # special codes
    flip: float | None
    group: dict[str, list[str]]
    output: str | None  # the label of a class, or a position
    rtol: float | None
    jobs: int
    own_model: bool = False  # the explainer keeps the path of the model, for its SHAP values

    def plan(self, ensemble: Ensemble) -> NoisePlan:
        """The noise with the special codes and groups of all options."""
        if self.keep and self.noise.keep:
            raise NoiseError("special codes are given twice, by --keep and in the noise file")
        both = self.group.keys() & self.noise.groups.keys()
        if both:
            raise NoiseError(
                f"groups are given twice, by --group and in the noise file: {format_items(both)}"
            )
        holds_text = any(levels.holds_text for levels in ensemble.categorical().values())
        keep = tuple(value for text in self.keep for value in values_of(text, holds_text))
        groups = {**self.noise.groups, **self.group}
        return replace(self.noise, keep=keep or self.noise.keep, groups=groups)

    def roles(self, columns: Sequence[str]) -> Roles:
        """The roles that the options give to the columns of a table."""
        return Roles(tuple(split_names(self.drop, columns)), self.target, self.index)


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of DATA."""

    X: pa.Table  # the columns that are features
    labels: pa.Array  # of the rows
    target: pa.Array | None
    has_labels: bool  # labels of their own; else they are numbers


@dataclass(frozen=True, slots=True)
class OpenedCommand:
    """An explainer, and the rows to explain."""

    explainer: Explainer
    names: tuple[str, ...]  # of features and groups
    table: ModelTable
    shown: RowsDone

    def answers(self, compute: Callable[[pa.Table], Found]) -> Iterator[tuple[pa.Array, Found]]:
        """The labels of some rows and what is computed for them, block by block; progress is shown."""
        at_once = max(1, _CELLS_AT_ONCE // max(1, self.explainer.ensemble.n_features))
        for block in self.table.rows(at_once):
            with self.table.named_errors():
                found = compute(block.X)
            yield block.labels, found
            self.shown.advance(len(block.labels))

    def whole(self) -> Block:
        """All rows at once."""
        blocks = list(self.table.rows(_ALL))
        if not blocks:
            raise TableError(f"{self.table.name} has no rows")
        X = pa.concat_tables([block.X for block in blocks])
        targets = [block.target for block in blocks if block.target is not None]
        target = pa.concat_arrays(targets) if targets else None
        labels = pa.concat_arrays([block.labels for block in blocks])
        return Block(X, labels, target, blocks[0].has_labels)


@contextmanager
def opened(
    request: CommandRequest, what: str, *, exact: bool = False, ensemble: Ensemble | None = None
) -> Iterator[OpenedCommand]:
    """The job of a command, about `what`; progress is shown while the context lasts.

    `ensemble` is given if it is not simply that of the model file.
    """
    ensemble = predgap.load(request.model) if ensemble is None else ensemble
    output = chosen_output(request.output, ensemble)
    if request.reference == request.data == "-":
        raise TableError("DATA and --reference cannot both be standard input")
    with ExitStack() as files:
        table = files.enter_context(open_data(request.data))
        reference = None if request.reference is None else files.enter_context(open_data(request.reference))
        _tell_of_absent(request, table, reference)
        own = ensemble.feature_names
        ensemble = _named(ensemble, table if reference is None else reference, request)
        data = ModelTable(table, request, ensemble)
        data.takes_names = own is None and reference is not None
        data.check()
        plan = request.plan(ensemble)
        noise = plan.noise(_noise_table(reference, request, ensemble, data), request.flip, ensemble)
        shown = RowsDone(files.enter_context(row_progress(what)), data.n_rows)
        explainer = Explainer(
            request.model if request.own_model else ensemble,
            noise,
            output=output,
            feature_names=None if own else ensemble.feature_names,
            groups=dict(plan.groups) or None,
            one_hot=dict(plan.one_hot) or None,
            rtol=0.0 if exact else RTOL if request.rtol is None else request.rtol,
            n_jobs=request.jobs,
            progress=shown.tell,
        )
        yield OpenedCommand(explainer, (*explainer.ensemble.names, *plan.groups), data, shown)


def _named(ensemble: Ensemble, file: DataFile, request: CommandRequest) -> Ensemble:
    """The ensemble with the names of its features in a table, if it has no names of its own."""
    columns = file.schema.names
    where = reference_layout(columns, ensemble, request.roles(columns))
    names = [columns[j] for j in where.features]
    if ensemble.feature_names is not None or len(names) != ensemble.n_features or are_default(names):
        return ensemble
    return ensemble.named(names)


def _tell_of_absent(request: CommandRequest, table: DataFile, reference: DataFile | None) -> None:
    """Says which columns of --drop are in none of the tables."""
    columns = table.schema.names
    there = [*columns, *([] if reference is None else reference.schema.names)]
    absent = [name for name in split_names(request.drop, there) if name not in there]
    if absent:
        complain(
            f"warning: --drop names {format_items(absent)}, but {table.name} has no such column; "
            f"{did_you_mean(absent[0], columns)}it has {format_items(columns)}",
            0,
        )


class ModelTable:
    """DATA as rows of the model's features."""

    takes_names: bool = False  # are the names of the features those of the reference, as the model has none?

    def __init__(self, file: DataFile, request: CommandRequest, ensemble: Ensemble) -> None:
        columns = file.schema.names
        self.name, self.n_rows = file.name, file.n_rows
        self._file, self._ensemble = file, ensemble
        self._layout = layout(file.name, columns, ensemble, request.roles(columns))
        self._csv = csv_columns(file.schema, self._layout, ensemble)

    @property
    def label_type(self) -> pa.DataType:
        label = self._layout.label
        if label is None:
            return pa.int64()
        return pa.string() if self._file.format == "CSV" else self._file.schema.field(label).type

    def features(self) -> Iterator[pa.Table]:
        """The columns that are features, in blocks as they are read."""
        yield from (block.select(list(self._layout.features)) for block in self._file.blocks(self._csv))

    def rows(self, at_once: int) -> Iterator[Block]:
        """Rows with their labels, at most `at_once` in a block."""
        first, where = 0, self._layout
        for read in self._file.blocks(self._csv):
            for begin in range(0, read.num_rows, at_once):
                block = read.slice(begin, at_once)
                target = None if where.target is None else pa.concat_arrays(block.column(where.target).chunks)
                yield Block(
                    block.select(list(where.features)),
                    where.labels(block, first),
                    target,
                    where.label is not None,
                )
                first += block.num_rows

    def check(self) -> None:
        """TableError if the first rows are not such that the model takes them."""
        e, first = self._ensemble, next(self.features(), None)
        if first is None:
            first = self._file.schema.empty_table().select(list(self._layout.features))
        with self.named_errors():
            read_table(first, e.n_features, e.feature_names, e.categories)

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Adds the file's name to errors of its columns."""
        try:
            yield
        except TableError as error:
            more = len(self._layout.features) > self._ensemble.n_features
            hint = " (--drop NAME)" if more and not self._ensemble.feature_names else ""
            if self.takes_names and {*self._file.schema.names} != {*self._ensemble.names}:
                hint = " (the model has no names of its own; these are those of --reference)"
            raise TableError(f"{self.name}: {error}{hint}") from None


def _noise_table(
    reference: DataFile | None, request: CommandRequest, ensemble: Ensemble, data: ModelTable
) -> TableOf:
    """A function that reads the table of the noise: the reference, or else DATA."""

    @cache
    def table() -> pa.Table:
        if reference is not None:
            return _whole(reference, request, ensemble)
        found, data.n_rows = sampled(data.features())
        if data.n_rows > MOST_ROWS:
            complain(
                f"the noise has the scales and values of {MOST_ROWS:,} of the {data.n_rows:,} rows, drawn at "
                "random; --reference FILE takes those of all rows of a file",
                0,
            )
        return check_rows(data.name, found)

    return table


def _whole(file: DataFile, request: CommandRequest, ensemble: Ensemble) -> pa.Table:
    """All rows of a reference table, with its features."""
    columns = file.schema.names
    where = reference_layout(columns, ensemble, request.roles(columns))
    csv = csv_columns(file.schema, where, ensemble)
    blocks = [block.select(list(where.features)) for block in file.blocks(csv)]
    return check_rows(file.name, pa.concat_tables(blocks) if blocks else None)


# ------------------------------------------------------------------------------------------------------------
# The option `--output` names an output of the model by position or label.

_PREDICTED: Final = "predicted"
_POSITION: Final = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)


def chosen_output(text: str | None, ensemble: Ensemble) -> int | str | None:
    """The label of a class, "predicted", or else a position, as `Explainer` takes them; OutputError, in words
    of the command line, if there is no such output."""
    labels, n = ensemble.class_names or (), ensemble.n_outputs
    if text is None:
        return None
    if text in labels:
        if text not in labels[-n:] and not has_other_class(ensemble):
            raise OutputError(
                f"--output {text}: of its two classes the model has one output, that of {labels[1]!r}; its "
                "gaps are the same for both: leave --output out"
            )
        return text
    if text == _PREDICTED:
        _check_predicts(ensemble)
        return text
    if _POSITION.fullmatch(text) and int(text) < n:
        return int(text)
    where = f"a position from 0 to {n - 1}" if n > 1 else "the position 0"
    if not labels:
        raise OutputError(
            f"--output {shown(text)}: the model has {count(n, 'output')} and does not tell the labels of "
            f"classes; expected {where}"
        )
    raise OutputError(
        f"--output: the model has no class {shown(text)}; {did_you_mean(text, labels)}its classes are "
        f"{format_items(labels)}; expected one of them, or {_PREDICTED}{'' if n == 1 else f', or {where}'}"
    )


def _check_predicts(ensemble: Ensemble) -> None:
    """OutputError if it is not known which class the model predicts."""
    labels, n = ensemble.class_names, ensemble.n_outputs
    if n > 1 and labels is None:
        raise OutputError(
            f"--output {_PREDICTED}: the {n} outputs of the model are not known to be classes; choose one by "
            f"its position, from 0 to {n - 1}"
        )
    if n == 1 and not (has_other_class(ensemble) or (labels is None and ensemble.link is None)):
        raise OutputError(
            f"--output {_PREDICTED}: it is not known which class a model of {ensemble.source} predicts; if "
            "it has two, gaps are the same for both: leave --output out"
        )
