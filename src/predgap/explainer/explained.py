"""The class `Explained`: what an explainer is about. It reads arguments, and holds the kernels that answer.

`Explainer` asks it, and so may whoever adds to it: metrics, evaluations, the command line. Its attributes and
methods are documented here and do not change what is explained.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._attributions import is_explanation
from predgap._engine.context import Call
from predgap._engine.decisions import Predictions, Space
from predgap._engine.kernels import Kernel, NoiseOfModel, Strategy
from predgap._engine.questions import HasKernels, Rows
from predgap._engine.results import Ranked
from predgap._inputs.subsets import subset_mask
from predgap._inputs.tables import Table, names_of, read_table
from predgap._inputs.units import grouping_hint, read_units
from predgap._model.ensemble import Ensemble
from predgap._text import names_or_default, shown
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import OutputError, PredgapError, RankingError, SubsetError, TableError
from predgap.explainer._opening import explaining_features, opened
from predgap.explainer._outputs import OutputChoice, margins
from predgap.explainer._ranges import ReferenceRanges
from predgap.noise import Noise
from predgap.ranking import Ranking, check_same_rows, made_ranking, ranking_order

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
        other.noise, other._ranges = noise, None
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
        all_margins = margins(self.model, rows.values).reshape(len(rows), -1)
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
    """Of the ways in which numbers were obtained, the least certain; "exact" if there are none."""
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
    call, less = ranking_call(method, top), "Fewer places cost less: rank(X, top=k)."
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
