"""The class `Explained`: what an explainer is about. It reads arguments, and holds the kernels that answer.

`Explainer` asks it, and so may whoever adds to it: metrics, evaluations, the command line.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import Accuracy, Prices
from predgap._engine.context import Call
from predgap._engine.decisions import Predictions, Space
from predgap._engine.kernels import Kernel, NoiseOfModel, Strategy
from predgap._engine.questions import Curve, Gap, HasKernels, Question, Rank, Rows
from predgap._engine.results import Cost, Ranked, assembled
from predgap._inputs.one_hot import OneHot
from predgap._inputs.outputs import OTHER_CLASS, Output, Outputs, OutputsOfRows, read_output
from predgap._inputs.subsets import grouping_hint, read_units, subset_mask
from predgap._inputs.tables import Table, columns_of, matching_rows, names_of, read_table
from predgap._model.ensemble import Ensemble, has_other_class, of_other_class, other_margin, used_features
from predgap._model.rewriting import DummyTables, with_categories
from predgap._text import count, format_items, names_or_default, shown, warn
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import (
    NoiseError,
    OutputError,
    OutsideWarning,
    PredgapError,
    RankingError,
    SubsetError,
    TableError,
)
from predgap.loaders.pipelines import TableReader, load_with_reader
from predgap.loaders.pipelines.steps import Preparation
from predgap.noise import Noise, Relative
from predgap.noise.noise import ModelFeatures, Range
from predgap.ranking import Ranking, check_same_rows, made_ranking, ranking_order
from predgap.ranking.reading import is_explanation

# ------------------------------------------------------------------------------------------------------------
# An `Explainer` is given a model, perhaps with steps before it, and a noise or a table.


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A model in the features that are perturbed and ranked, and the noise of these features."""

    ensemble: Ensemble
    reader: TableReader | None  # reads X, where its columns are not simply the model's features
    noise: Noise
    takes_names: bool  # are the columns of X called as those of the noise's table, as the model has no names?


def opened(
    model: Any,
    noise: Any,
    feature_names: Sequence[str] | None,
    one_hot: Mapping[str, Sequence[str | int]] | None,
) -> Opened:
    """The arguments of `Explainer`, opened. A table in place of the noise becomes `Relative` noise."""
    ensemble, pipeline, not_raw = load_with_reader(model)
    reader: TableReader | None = pipeline
    if feature_names is not None:
        ensemble = ensemble.named(feature_names)
    if not_raw is not None and isinstance(pipeline, Preparation):
        may_be_of_x = isinstance(noise, Noise) and _may_be_of_x(noise, ensemble, pipeline)
        _warn_of_features(pipeline.feature_space, not_raw, may_be_of_x)
    if not isinstance(noise, Noise):
        _check_table(noise)
    if pipeline is None or pipeline.feature_space is None:
        noise = noise if isinstance(noise, Noise) else Relative(noise)
        own = ensemble.feature_names
        seen = noise.names_for(ensemble.n_features) if own is None else None
        if seen is not None:
            ensemble = ensemble.named(seen)
    else:  # a Noise is one of the features after the steps; only a table tells the columns of X
        own = pipeline.column_names
        seen = names_of(noise) if own is None and not isinstance(noise, Noise) else None
    if pipeline is not None and pipeline.column_names is None:
        reader = pipeline = pipeline.named(own or seen)
    if not isinstance(noise, Noise):
        assert reader is not None
        noise = _relative_after_steps(noise, ensemble, reader)
    if one_hot is not None:
        if reader is not None:
            raise PredgapError(
                "one_hot is for a model without a Pipeline: the encoders of a Pipeline are read anyway"
            )
        dummies = OneHot.of(one_hot, ensemble.n_features, ensemble.feature_names, ensemble.missing)
        reader, noise = DummyTables(dummies, ensemble), noise.with_one_hot(dummies)
        ensemble = with_categories(ensemble, dummies)
    return Opened(ensemble, reader, noise.for_model(_features(ensemble)), seen is not None)


def _features(e: Ensemble) -> ModelFeatures:
    return ModelFeatures(e.n_features, e.feature_names, frozenset(e.categorical()), e.missing, e.is_missing)


def _warn_of_features(feature_space: str | None, reason: str, may_be_of_x: bool) -> None:
    table = (
        "; the table of the noise is read as theirs, too: if it is X, pass X itself, Explainer(model, X)"
        if may_be_of_x
        else ""
    )
    warn(
        f"the Pipeline is explained {feature_space}, not in the columns of X, because {reason}. Noise, "
        f"subsets and rankings are those of the features that explainer.transform(X) returns{table}",
    )


def _may_be_of_x(noise: Noise, ensemble: Ensemble, reader: Preparation) -> bool:
    """Whether a table that a noise was built from may be one of before the steps, as well as one of after.

    NoiseError if it looks like one of before: its columns are called as those of X.
    """
    before, after = {*(reader.column_names or ())}, {*(ensemble.feature_names or ())}
    possible = False
    for table in noise._tables():
        if not before or table.names is None or table.numbered:
            n_before = reader.n_columns or ensemble.n_features
            possible |= table.n_columns == ensemble.n_features == n_before
            continue
        both = [name for name in table.names if name in before and (not after or name in after)]
        if both and after.isdisjoint({*table.names} - before):
            called = "are called so, too" if after else "have no names"
            raise NoiseError(
                f"the table given to {table.given_to} has columns of X: {format_items(both)}. The features "
                f"{reader.feature_space} {called}, but have other values, which the noise must be made from. "
                "Pass X itself, Explainer(model, X), or noise made from explainer.transform(X)"
            )
    return possible


def _check_table(X: Any) -> None:
    """NoiseError unless X, which was given in place of a noise, is a table."""
    if not (hasattr(X, "shape") or hasattr(X, "columns") or isinstance(X, list | tuple)):
        raise NoiseError(f"noise is {shown(X)}, expected a Noise such as Relative(X, 0.3), or a table X")


def _relative_after_steps(X: Any, ensemble: Ensemble, reader: TableReader) -> Noise:
    """`Relative` noise of the features that the steps of a pipeline make of X."""
    after = reader.table(X, ensemble)  # the features after the steps
    if isinstance(reader, Preparation) and reader.takes_zero_for_missing(X):
        _warn_of_absent_values(after.values, ensemble.names)
    return Relative(columns_of(after, ensemble.feature_names))


def _warn_of_absent_values(values: FloatArray, names: Sequence[str]) -> None:
    """Warns of columns that are one value or missing, because a sparse table has no entry there."""
    gone = np.isnan(values)
    lowest, highest = np.where(gone, np.inf, values).min(axis=0), np.where(gone, -np.inf, values).max(axis=0)
    dummies = [names[q] for q in np.flatnonzero(gone.any(axis=0) & (lowest == highest)).tolist()]
    if dummies:
        warn(
            f"the steps make a sparse table, and XGBoost takes what is absent in it for missing: "
            f"{count(len(dummies), 'column')} have one value or none, so that noise cannot move them, and "
            f"their gaps are 0: {format_items(dummies)}. To explain them, train with a dense table, e.g. "
            "OneHotEncoder(sparse_output=False)"
        )


@contextmanager
def explaining_features(reader: TableReader | None) -> Iterator[None]:
    """A context in which a NoiseError says that the features are not the columns of X, if so."""
    try:
        yield
    except NoiseError as error:
        if reader is None or reader.feature_space is None:
            raise
        raise NoiseError(
            f"{error}. The noise must be that of the features {reader.feature_space}, not of the columns of "
            "X: pass X itself, Explainer(model, X), or noise made from explainer.transform(X)"
        ) from None


# ------------------------------------------------------------------------------------------------------------
# The output that each row is explained for: all together, one, or each row's own.
#
# Each output has a kernel of its own: so every row has the answer of an explainer of that output alone, to
# the last bit.

PREDICTED: Final = "predicted"
"""The class that is predicted in each row: of several outputs, the one with the largest margin."""


class OutputChoice:
    """What an explainer explains, `output` of `Explainer`: None for all outputs together, one of them for all
    rows, or one for each row.
    """

    def __init__(self, model: Ensemble, output: Any) -> None:
        self._model = model
        self._outputs = Outputs(model.n_outputs, model.class_names, has_other_class(model))
        self._index = getattr(output, "index", None) if hasattr(output, "to_list") else None
        self._given: Output | None = None if output is None else read_output(output)
        self._chosen: int | IndexArray | None = None
        if isinstance(self._given, str) and self._given == PREDICTED:
            self._check_classes()
            self._chosen = 0 if model.n_outputs == 1 and not has_other_class(model) else None
        elif self._given is not None:
            self._chosen = self._outputs.positions(self._given)
            self._outputs.warn_of_numbers(self._given)
        # Rows have outputs of their own unless one is explained in all of them, or all are together.
        self.vary = self._given is not None and not isinstance(self._chosen, int)

    @property
    def model(self) -> Ensemble:
        """The model with all its outputs."""
        return self._model

    def explained(self) -> Ensemble:
        """The model with the outputs that are explained: one of them, or all."""
        return self.one(self._chosen) if isinstance(self._chosen, int) else self._model

    def of_rows(self, rows: FloatArray, index: Any = None) -> IndexArray | None:
        """The output of each of the rows (n, d) of a call, with these labels; None if all have the same."""
        if self._predicts():
            margin = margins(self._model, rows)
            if self._model.n_outputs == 1:
                return np.where(margin > other_margin(self._model, margin), 0, OTHER_CLASS)
            largest: IndexArray = margin.argmax(axis=1)
            return largest
        if not isinstance(self._chosen, np.ndarray):
            return None
        if len(self._chosen) != len(rows):
            raise OutputError(
                f"output is given for {count(len(self._chosen), 'row')}, X has {len(rows)}; pass one per row"
            )
        own = matching_rows(self._index, index, "output", OutputError)
        return self._chosen if own is None else self._chosen[own]

    def of_made_up_rows(self, rows: FloatArray) -> IndexArray | None:
        """The output of each of some rows that are not of a table; outputs that were given are repeated."""
        if not isinstance(self._chosen, np.ndarray):
            return self.of_rows(rows)
        if len(self._chosen) == 0:
            raise OutputError("output has no entries; pass at least one")
        return np.resize(self._chosen, len(rows))

    def positions(self, outputs: IndexArray | None, n_rows: int) -> IndexArray | None:
        """The output that is explained in each row, (n,); None if all are explained together."""
        chosen = self._chosen if outputs is None else outputs
        return None if chosen is None else np.broadcast_to(chosen, n_rows)

    def own_margins(self, all_margins: FloatArray, positions: IndexArray) -> FloatArray:
        """The margin of the output that is explained in each row, (n, 1), from all of them (n, n_outputs)."""
        if self._outputs.has_other_class:
            other = other_margin(self._model, all_margins)
            return np.where(positions[:, None] == OTHER_CLASS, other, all_margins)
        return np.take_along_axis(all_margins, positions[:, None], axis=1)

    def in_rows(self, outputs: IndexArray | None) -> OutputsOfRows:
        """What is explained in rows with these outputs, to compare rankings with."""
        return OutputsOfRows(self._outputs, self._chosen if outputs is None else outputs)

    def of_ranking(self, outputs: IndexArray | None) -> Output | None:
        """What a ranking of rows with these outputs remembers; None if the model has one output."""
        if self._outputs.n == 1:
            return None
        return self._given if outputs is None else outputs

    def one(self, output: int) -> Ensemble:
        """The model of one output."""
        other = self._outputs.has_other_class and output == OTHER_CLASS
        return of_other_class(self._model) if other else self._model.select(output)

    def _predicts(self) -> bool:
        return self._chosen is None and self._given is not None

    def _check_classes(self) -> None:
        if self._model.n_outputs > 1 and self._model.class_names is None:
            raise OutputError(
                f"output={PREDICTED!r}: the {self._model.n_outputs} outputs of this model are not known to "
                "be classes. If they are, pass the output of each row, e.g. "
                "output=predgap.load(model).predict(X).argmax(axis=1)"
            )
        is_plain = self._model.link is None and self._model.class_names is None
        if self._model.n_outputs == 1 and not is_plain and not self._outputs.has_other_class:
            raise OutputError(
                f"output={PREDICTED!r}: predgap does not know which class a model of {self._model.source} "
                "predicts; if it has two, gaps are the same for both: leave output out"
            )


def margins(ensemble: Ensemble, rows: FloatArray) -> FloatArray:
    """The raw margins of rows that are cast already, (n,) or (n, n_outputs)."""
    return ensemble.predict(np.where(np.isnan(rows), ensemble.missing, rows))


# ------------------------------------------------------------------------------------------------------------
# Rows that are far outside the table of their noise hardly move: a warning says so.

_SHOWN = 3  # columns in the warning


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceRanges:
    """The ranges of the features that the model splits on and to which a noise adds numbers.

    A number that is added does not bring a value back that is further outside than the range is wide.
    """

    of_features: dict[int, Range]
    names: tuple[str, ...]
    limits: FloatArray  # (2, d) the range of each feature, widened by its width on both sides
    inside: bytes  # what comparing one row with the limits gives if the row is within them

    @classmethod
    def of(cls, noise: Noise, ensemble: Ensemble) -> ReferenceRanges | None:
        """The ranges that a noise knows of a model's features; None if it knows none."""
        used = [q for q in used_features(ensemble) if q not in ensemble.categorical()]
        found = noise.ranges_of(used, ensemble.n_features, ensemble.feature_names)
        ranges = {q: each for q, each in zip(used, found, strict=True) if each is not None}
        if not ranges:
            return None
        limits = np.repeat([[-np.inf], [np.inf]], ensemble.n_features, axis=1)
        for q, each in ranges.items():
            width = each.high - each.low
            limits[:, q] = each.low - width, each.high + width
        return cls(
            ranges, ensemble.names, limits, np.repeat([[False], [True]], len(limits[0]), axis=1).tobytes()
        )

    def check(self, rows: FloatArray) -> None:
        """Warns if rows (n, d), as the model sees them, are outside by more than the width of a range."""
        if len(rows) == 1 and np.greater(self.limits, rows).tobytes() == self.inside:
            return  # the usual answer for one row, in less than a microsecond
        outside = (rows < self.limits[0]) | (rows > self.limits[1])
        if outside.any():
            self._warn(rows, outside)

    def _warn(self, rows: FloatArray, outside: BoolArray) -> None:
        for q, each in self.of_features.items():
            outside[:, q] &= ~np.isin(rows[:, q], each.kept)
        columns = np.flatnonzero(outside.any(axis=0)).tolist()
        if not columns:
            return
        told = []
        for q in columns[:_SHOWN]:
            r, each = int(np.flatnonzero(outside[:, q])[0]), self.of_features[q]
            range_of = f"{each.low:g} to {each.high:g}"
            told.append(f"{shown(self.names[q])} ({rows[r, q]:g} in row {r}; the reference has {range_of})")
        more = f", ... ({len(columns)} in all)" if len(columns) > _SHOWN else ""
        n = int(outside.any(axis=1).sum())
        message = (
            f"{n} of {count(len(rows), 'row')} {'is' if n == 1 else 'are'} outside the reference, the table "
            f"of the noise, by more than its width, in {', '.join(told)}{more}. Added noise takes such a "
            "value across hardly any split, so that gaps near 0 follow. Are the units the same?"
        )
        warn(OutsideWarning(message))


_BY_CERTAINTY: Final = ("exact", "bounded", "pruned", "qmc", "mc")
NOT_SAMPLED: Final = "Fewer rows and a larger rtol are faster."
"""What takes less time than a call that samples cannot answer."""

_WHOLE: Final = -1  # stands for all outputs, among the numbers of outputs


class Explained:
    """A model, how its rows are read, what of it is explained, and how its features move.

    Attributes
    ----------
    model : Ensemble
        The model with all its outputs.
    ensemble : Ensemble
        The trees of the outputs that are explained.
    reader : TableReader or None
        Reads X, where its columns are not simply the model's features.
    outputs : OutputChoice
        Which output each row is explained for.
    units : Units or None
        What subsets and rankings are of; None: each feature alone.
    members : tuple of tuples, or None
        The features of each unit; None: each feature is one.
    n_units : int
        The number of units.
    unit_names : tuple of n_units strings, or None
        The names of the units.
    noise : Noise
        How features move.
    """

    def __init__(
        self,
        model: Any,
        noise: Any,
        output: Any = None,
        feature_names: Sequence[str] | None = None,
        groups: Mapping[str, Any] | None = None,
        one_hot: Mapping[str, Sequence[str | int]] | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        given = opened(model, noise, feature_names, one_hot)
        self.reader, self._takes_names = given.reader, given.takes_names
        self.outputs = OutputChoice(given.ensemble, output)
        e = self.ensemble = self.outputs.explained()
        self.units = None if groups is None else read_units(groups, e.n_features, e.feature_names)
        self.members = None if self.units is None else self.units.members
        self.n_units = e.n_features if self.units is None else len(self.units.members)
        self.unit_names = e.feature_names if self.units is None else self.units.names
        self._strategy: Strategy | None = strategy
        self._set_noise(given.noise)
        self._kernel(None)

    def _set_noise(self, noise: Noise) -> None:
        self.noise = noise
        self._kernels: dict[int | None, Kernel] = {}
        with explaining_features(self.reader):
            self._moves = NoiseOfModel.of(noise, self.ensemble)
            self._ranges = ReferenceRanges.of(noise, self.ensemble)

    def under(self, noise: Noise) -> Explained:
        """The same with another noise; the model is not loaded again."""
        other = copy.copy(self)
        other._set_noise(noise)
        return other

    def without_noise_table(self, noise: Noise) -> Explained:
        """The same with `noise` in place of the noise that was read; what was read of that stays."""
        other = copy.copy(self)
        other.noise = noise
        other._moves = self._moves.called(noise)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: no kernels, and the trees once."""
        return {**self.__dict__, "_kernels": {}, "ensemble": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.ensemble = self.outputs.explained()

    def __copy__(self) -> Explained:
        other = object.__new__(type(self))  # by __getstate__ the kernels would be built again
        other.__dict__.update(self.__dict__)
        return other

    # ---- kernels ----

    def kernels(self, rows: Rows) -> Iterator[tuple[Kernel, IndexArray | None]]:
        """The kernel of each output that is explained in some of the rows, and these rows; None: all rows."""
        if rows.outputs is None:
            yield self._kernels.get(None) or self._kernel(None), None
            return
        for output in np.unique(rows.outputs).tolist() or [0]:  # without rows, any kernel answers
            yield self._kernel(output), np.flatnonzero(rows.outputs == output)

    @property
    def kernel(self) -> Kernel:
        """The kernel of what is explained in all rows; of all outputs, if rows have their own."""
        return self._kernel(None)

    @property
    def whole(self) -> WholeModel:
        """Asks about the model with all its outputs, whichever of them are explained."""
        return WholeModel(self._kernel(_WHOLE))

    @property
    def moves_together(self) -> bool:
        """Whether features move together, by a background."""
        return self._moves.background is not None

    def _kernel(self, output: int | None) -> Kernel:
        if output not in self._kernels:
            if output is None:
                ensemble = self.ensemble
            else:
                ensemble = self.model if output == _WHOLE else self.outputs.one(output)
            self._kernels[output] = self._moves.kernel(ensemble, self.members, self._strategy)
        return self._kernels[output]

    # ---- predictions ----

    def margins(self, rows: Rows) -> FloatArray:
        """f(x) of what is explained in each row, (n,), or (n, n_outputs) if several outputs are."""
        parts = [
            (some, margins(kernel.ensemble, rows.values if some is None else rows.values[some]))
            for kernel, some in self.kernels(rows)
        ]
        if len(parts) == 1:
            return parts[0][1]
        found = np.empty(len(rows))
        for some, own in parts:
            found[some] = own
        return found

    def predictions(
        self, rows: Rows, space: str, instead: str = "space='margin'"
    ) -> tuple[HasKernels, Predictions]:
        """What is compared before and after a change, and what is to be asked about it: this, or the model
        with all its outputs."""
        check_choice("space", space, get_args(Space))
        all_margins = margins(self.model, rows.values).reshape(len(rows), self.model.n_outputs)
        column = self.outputs.positions(rows.outputs, len(rows))
        link = self.model.link if space == "probability" else None
        if space == "probability" and (link is None or not link.gives_probabilities):
            raise PredgapError(
                f"probabilities of a model of {self.model.source} are not known; predgap knows those of most "
                f"classifiers by XGBoost, LightGBM, CatBoost and scikit-learn. Use {instead}"
            )
        if link is not None and link.kind == "softmax":  # all margins matter to each probability
            return self.whole, Predictions(all_margins, link, column)
        own = all_margins if column is None else self.outputs.own_margins(all_margins, column)
        return self, Predictions(own, link, None)

    def check_one_output(self, rows: Rows) -> None:
        """OutputError if several outputs are explained together."""
        if self.model.n_outputs > 1 and self.outputs.positions(rows.outputs, len(rows)) is None:
            raise OutputError(
                f"the model has {self.model.n_outputs} outputs, and one threshold is for one of them; choose "
                "it: Explainer(..., output=0), the label of a class, or output='predicted'"
            )

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs that are explained: of their classes, or numbers."""
        return tuple(map(str, self.ensemble.class_names or range(self.ensemble.n_outputs)))

    # ---- what is asked ----

    @property
    def model(self) -> Ensemble:
        """The model with all its outputs."""
        return self.outputs.model

    @property
    def every(self) -> BoolArray:
        """All features, as a mask (1, d)."""
        return np.ones((1, self.ensemble.n_features), dtype=np.bool_)

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """What the columns of X are called; None if that is not known, so that they go by position."""
        return self.ensemble.feature_names if self.reader is None else self.reader.column_names

    def table(self, X: Any) -> Table:
        """X with one column per feature of the model."""
        try:
            if self.reader is not None:
                return self.reader.table(X, self.ensemble)
            e = self.ensemble
            return read_table(X, e.n_features, e.feature_names, e.categories)
        except TableError as error:
            hint = self._whose_names(X)
            if not hint:
                raise
            raise type(error)(f"{error}{hint}") from None

    def _whose_names(self, X: Any) -> str:
        """What to add to an error about a table that has other columns than the noise's table."""
        if (
            not self._takes_names
            or (names := names_of(X)) is None
            or {*names} == {*(self.column_names or ())}
        ):
            return ""
        return (
            ". The model has no names of its own; these are those of the table that the noise was given: "
            "name the columns of X alike, pass an array to go by position, or give feature_names="
        )

    def rows(self, X: Any) -> Rows:
        """X as the model sees it, and the output of each row; rows that were read before are returned."""
        if isinstance(X, Rows):
            return X
        table = self.table(X)
        values = self.ensemble.cast(table.values)
        if self._ranges is not None:
            self._ranges.check(values)
        outputs = self.outputs.of_rows(values, table.index) if self.outputs.vary else None
        return Rows(values, table, outputs)

    def masks(self, rows: Rows, subset: Any) -> BoolArray:
        """The perturbed features, (1, d) for all rows or (n, d)."""
        if self.units is None:
            mask = subset_mask(subset, len(rows), self.n_units, self.unit_names)
        else:
            mask = self._mask_of_units(len(rows), subset)
        return mask[None] if mask.ndim == 1 else mask

    def one_mask(self, n_rows: int, subset: Any) -> BoolArray:
        """The perturbed features, (d,), the same in all rows; SubsetError if there is one mask per row."""
        mask = self._mask_of_units(n_rows, subset)
        if mask.ndim == 2:
            raise SubsetError(
                f"the subset has one mask per row, shape {mask.shape}; expected one subset for all rows: "
                "names, indices or a mask (d,)"
            )
        return mask

    def _mask_of_units(self, n_rows: int, subset: Any) -> BoolArray:
        """The perturbed features, (d,) or (n, d)."""
        with self._naming_groups():
            mask = subset_mask(subset, n_rows, self.n_units, self.unit_names)
        return mask if self.units is None else self.units.features(mask)

    def order(self, rows: Rows, ranking: Any) -> NDArray[np.int32]:
        """A ranking's units, (n, k), most important first; attributions are summed over groups.

        If the model has no names, those of X's columns count; they are in the order of the model's features.
        """
        names = self.ensemble.feature_names or rows.table.names
        if self.units is not None and names is not None:
            names = self.units.named(names)
        index, explained = rows.table.index, self.outputs.in_rows(rows.outputs)
        self.check_data(ranking, rows)
        with self._naming_groups():
            order = ranking_order(
                ranking, len(rows), self.n_units, names, self.units, index=index, explained=explained
            )
        return np.ascontiguousarray(order, dtype=np.int32)

    def given_order(self, rows: Rows, given: Any, name: str) -> IntArray:
        """The units of one of several rankings, (n, k), or of attributions; errors name it.

        Arrays of floats are attributions or importances, which `order` does not take.
        """
        try:
            return self.order(rows, self._as_ranking(rows, given))
        except RankingError as error:
            raise RankingError(f"rankings[{name!r}]: {error}") from None

    def _as_ranking(self, rows: Rows, given: Any) -> Any:
        """Arrays of floats as a Ranking; all else as it is."""
        if not isinstance(given, np.ndarray) or given.dtype.kind != "f":
            return given
        if given.ndim == 1:
            given = np.broadcast_to(given, (len(rows), len(given)))
        names, k = self.ensemble.names, 1
        if given.ndim == 3:
            k = given.shape[1] if given.shape[2] == len(names) + 1 else given.shape[2]
        elif given.shape[1] > len(names) + 1:
            k = given.shape[1] // (len(names) + 1)
        output = self.outputs.in_rows(rows.outputs).output_of(k)
        ranking = Ranking.from_attributions(given, output, feature_names=names, groups=self.units)
        return Ranking(ranking.order, n_features=ranking.n_features, output=ranking.output)

    def check_data(self, ranking: Any, rows: Rows) -> None:
        """RankingError if a ranking, a shap.Explanation, holds the data of other rows."""
        if not is_explanation(ranking):
            return
        categorical = self.ensemble.categorical()
        numbers = [q for q in range(self.ensemble.n_features) if q not in categorical]
        names = names_or_default(self.ensemble.n_features, self.ensemble.feature_names or rows.table.names)
        check_same_rows(ranking, [names[q] for q in numbers], rows.table.values[:, numbers])

    def typical_rows(self) -> Rows:
        """A few rows that are made up from the model's thresholds."""
        values = self.kernel.typical_rows()
        return Rows(values, Table(values), self.outputs.of_made_up_rows(values))

    def order_of_any_rows(self, ranking: Ranking) -> NDArray[np.int32]:
        """The units of a ranking of rows that are not of a table, (n, k), most important first."""
        names = self.unit_names if self.ensemble.feature_names is not None else None
        with self._naming_groups():
            return ranking_order(ranking, len(ranking), self.n_units, names, self.units).astype(np.int32)

    @contextmanager
    def _naming_groups(self) -> Iterator[None]:
        """Errors about a subset or ranking say that there are groups."""
        try:
            yield
        except (SubsetError, RankingError) as error:
            if self.units is None:
                raise
            raise type(error)(f"{error}{grouping_hint(self.units)}") from None

    def reversed_order(self, rows: Rows, ranking: Any) -> NDArray[np.int32]:
        """A full ranking's units, (n, d), least important first; RankingError if it is partial."""
        order, d = self.order(rows, ranking), self.n_units
        if order.shape[1] < d:
            raise RankingError(
                f"the ranking has the first {order.shape[1]} places; PGU² needs all {d}, because it perturbs "
                "the least important features first. Pass a full ranking, or use pgi2"
            )
        return np.ascontiguousarray(order[:, ::-1])

    def places(self, top: Any) -> int:
        """How many places to rank, d if `top` is None; RankingError unless it is from 1 to d."""
        d = self.n_units
        if top is None:
            return d
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or not 1 <= top <= d:
            raise RankingError(
                f"top is {shown(top)}, expected a whole number from 1 to {d}, the number of "
                f"{'features' if self.units is None else 'groups and other features'}, or None for all"
            )
        return int(top)

    def names_in(self, rows: Rows) -> tuple[str, ...] | None:
        """The names of the units in an answer about these rows; those of X's columns come first."""
        names = rows.table.names or self.ensemble.feature_names
        return names if self.units is None else self.units.named(names)

    def ranking(self, ranked: Ranked, method: str, rows: Rows) -> Ranking:
        """The `Ranking` of the rows. Its estimator is the least certain method of all rows."""
        table = rows.table
        return made_ranking(
            order=ranked.order.astype(np.intp),
            scores=ranked.scores,
            feature_names=self.names_in(rows),
            index=table.index,
            backend=table.backend,
            feature_space=None if self.reader is None else self.reader.feature_space,
            method=method,
            output=self.outputs.of_ranking(rows.outputs),
            estimator=least_certain(ranked.method.tolist()),
            confidence=ranked.confidence,
            n_features=self.n_units,
        )


def least_certain(methods: Iterable[str]) -> str:
    """The least certain of the ways in which numbers were obtained; "exact" if there are none."""
    return max(methods, key=_BY_CERTAINTY.index, default="exact")


class WholeModel:
    """Asks about all outputs of a model in all rows."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def kernels(self, rows: Rows) -> Iterator[tuple[Kernel, IndexArray | None]]:
        """The only kernel, for all rows."""
        yield self._kernel, None


def check_choice(name: str, given: Any, choices: tuple[str, ...]) -> None:
    """Raises PredgapError unless `given` is one of `choices`; `name` is the name of the argument."""
    if not isinstance(given, str) or given not in choices:
        expected = " or ".join([", ".join(map(repr, choices[:-1])), repr(choices[-1])])
        raise PredgapError(f"{name}={shown(given)} is unknown; expected {expected}")


def rank_call(method: str, top: int | None, rtol: float) -> Call:
    """The call of `Explainer.rank`."""
    less = "Fewer places cost less: rank(X, top=k)."
    if method == "greedy" and top is None:
        return Call("rank(X)", rtol, hint=less)
    call = ranking_call(method, top)
    if method == "single":  # all units are asked for any number of places
        return Call(call, rtol)
    if method == "greedy":
        return Call(call, rtol, hint=less)
    greedy = f"explainer.approximate(rtol=1e-2).{ranking_call('greedy', top)}"  # others are not estimated
    return Call(call, rtol, greedy, less, NOT_SAMPLED)


def ranking_call(method: str, top: int | None) -> str:
    """The call of `rank` as a user would write it, for error messages.

    Examples
    --------
    >>> ranking_call("single", 5)
    "rank(X, 'single', top=5)"
    """
    options = ["X", *([repr(method)] if method != "greedy" else []), *([f"top={top}"] if top else [])]
    return f"rank({', '.join(options)})"


# ------------------------------------------------------------------------------------------------------------
# The cost of a call is estimated before it.

_MOST_ROWS: Final = 20  # of X; the cost is the mean over them
CALL: Final = 0.03  # milliseconds that a call takes beside its rows


def cost_of(explained: Explained, question: Any, X: Any, top: Any, accuracy: Accuracy) -> Cost:
    """The mean cost per row of a greedy ranking ("rank"), of a Ranking's curve, or of the gap of a subset.

    If X is None, the cost is estimated for rows made up from the model's thresholds, asked one at a time.
    Otherwise the rows of X share what the call takes by itself.
    """
    if top is not None and not _is_rank(question):
        raise RankingError(f"top={shown(top)} is for cost('rank', top=...); a Ranking has its own places")
    n_places, n_sharing = explained.places(top), 1
    if X is None:
        asked = _on_typical_rows(explained, question, n_places)
    else:
        rows = explained.rows(X)
        asked, n_sharing = _on_rows(explained, question, rows, n_places), max(len(rows), 1)
    if len(asked.rows) == 0:
        raise TableError("X has no rows to estimate the cost from; leave X out, or pass some rows")
    some = np.unique(np.linspace(0, len(asked.rows) - 1, _MOST_ROWS).astype(np.intp))
    cost = prices_of(explained, asked.at(some), accuracy).mean()
    return replace(cost, milliseconds=cost.milliseconds + CALL / n_sharing)


def prices_of(explained: Explained, question: Question[Any], accuracy: Accuracy) -> Prices:
    """What the answer of each row would cost."""
    parts = []
    for kernel, some in explained.kernels(question.rows):
        mine = question if some is None else question.at(some)
        parts.append((some, mine.prices(kernel, accuracy, closely=True)))
    return assembled(len(question.rows), parts)


def _on_rows(explained: Explained, question: Any, rows: Rows, n_places: int) -> Question[Any]:
    if _is_rank(question):
        return Rank(rows, "greedy", n_places)
    if isinstance(question, Ranking):
        return Curve(rows, explained.order(rows, question))
    return Gap(rows, explained.masks(rows, question))


def _on_typical_rows(explained: Explained, question: Any, n_places: int) -> Question[Any]:
    rows = explained.typical_rows()
    if _is_rank(question):
        return Rank(rows, "greedy", n_places)
    if isinstance(question, Ranking):
        order = explained.order_of_any_rows(question)
        if len(order) == 0:
            raise RankingError("the ranking has no rows to estimate the cost from; pass one with rows")
        return Curve(rows, order[np.arange(len(rows)) % len(order)])
    if getattr(question, "ndim", 1) == 2:
        raise SubsetError("the subset has one mask per row; pass these rows as X, or one mask for all")
    return Gap(rows, explained.one_mask(len(rows), question)[None])


def _is_rank(question: Any) -> bool:
    if isinstance(question, str) and question in ("gap", "curve", "pgi2", "pgu2"):
        what = "the subset" if question == "gap" else "the ranking, as a predgap.Ranking"
        raise SubsetError(
            f"cost({question!r}) does not say of what; pass {what}, or 'rank' for a greedy ranking "
            f"(a feature of this name is [{question!r}])"
        )
    return isinstance(question, str) and question == "rank"
