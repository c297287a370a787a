"""Finds which output of a model is meant: by position or by the label of its class, for all or each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._text import did_you_mean, format_items, shown, warn
from predgap._typing import FloatArray, IndexArray
from predgap.errors import OutputError, PredgapError, RankingError

OTHER_CLASS: Final = 1
"""The position of the first of two classes that share one output, which belongs to the second."""

Output = int | str | NDArray[Any]
"""A position, the label of a class, or an array (n,) of either, one per row."""


def read_output(output: Any, error: type[PredgapError] = OutputError) -> Output:
    """A position, a label, or a read-only array of one or the other per row; `error` for anything else."""
    if isinstance(output, str):
        return str(output)
    if isinstance(output, int | np.integer) and not isinstance(output, bool):
        return int(output)
    try:
        items = output.tolist() if isinstance(output, np.ndarray) else list(output)
        texts = all(isinstance(item, str) for item in items)
        whole = all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items)
    except TypeError:
        texts = whole = False
    if not (texts or whole):
        raise error(
            f"output={shown(output)}, expected the position of an output, the label of a class, or an array "
            "(n,) of one of them per row"
        )
    array = np.array(
        [str(item) for item in items] if texts and items else items, dtype=None if items else int
    )
    array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a model, and the labels of the classes that they belong to.

    Examples
    --------
    >>> Outputs(3, ("low", "mid", "high")).position("mid")
    1
    """

    n: int
    class_names: tuple[str, ...] | None = None  # as in an Ensemble
    has_other_class: bool = False  # of two classes with one output, can the first be explained?

    def position(self, output: int | str) -> int:
        """The position of one output; OutputError if the model does not have it."""
        return self._labelled(output) if isinstance(output, str) else self._numbered(output)

    def positions(self, output: Output) -> int | IndexArray:
        """The position of one output, or of each row's, (n,)."""
        if not isinstance(output, np.ndarray):
            return self.position(output)
        different, which = np.unique(output, return_inverse=True)
        places = [self.position(each) for each in different.tolist()]
        return np.array(places, dtype=np.intp)[which.reshape(-1)]

    def show(self, position: int) -> str:
        """An output for a message: its position, and the label of its class."""
        names = self.class_names
        return str(position) if names is None or len(names) != self.n else f"{position} ({names[position]!r})"

    def warn_of_numbers(self, output: Output) -> None:
        """Warns if a position is the label of another class, as may be for classes labelled 1, 2, 3."""
        names = self.class_names or ()
        numbers = [each for each in np.unique(np.atleast_1d(output)).tolist() if isinstance(each, int)]
        if self.has_other_class and np.ndim(output) and any(str(each) in names for each in numbers):
            warn(
                f"output has numbers, which are positions: 0 is the model's one output, that of class "
                f"{names[1]!r}. Pass labels as text, e.g. output=y.astype(str), or output='predicted'"
            )
        for each in numbers if len(names) == self.n else ():
            label = str(each)
            if label in names and names[each] != label:
                warn(
                    f"output={each} is the class labelled {names[each]!r}: a number is a position. Write "
                    f"output={label!r} for the class labelled {label}",
                )
                return

    def _numbered(self, output: int) -> int:
        if 0 <= output < self.n:
            return output
        label, names = str(output), self.class_names or ()
        labelled = f"; a number is a position: the class labelled {label} is output={label!r}"
        raise OutputError(
            f"output={output} does not exist; the model has {self.n} (0 to {self.n - 1})"
            + (self._pair() or (labelled if label in names else ""))
        )

    def _labelled(self, output: str) -> int:
        if self.class_names is None:
            raise OutputError(
                f"output={shown(output)}: the model does not tell the labels of classes; pass the position "
                f"of an output, 0 to {self.n - 1}"
            )
        names = self.class_names[-self.n :]  # of two classes with one output, the second
        if output in names:
            return names.index(output)
        if output in self.class_names and self.has_other_class:
            return OTHER_CLASS
        if output in self.class_names:
            raise OutputError(f"output={shown(output)} is not an output of its own{self._pair()}")
        raise OutputError(
            f"the model has no class {shown(output)}; {did_you_mean(output, self.class_names)}its classes "
            f"are {format_items(self.class_names)}"
        )

    def _pair(self) -> str:
        """The part of a message that tells of two classes with one output; empty for other models."""
        if self.class_names is None or self.n != 1 or len(self.class_names) != 2:
            return ""
        other = f"output={shown(self.class_names[0])} is the other class, whose gaps are the same"
        same = "its gaps are the same for both: leave output out"
        return (
            f"; of its two classes the model has one output, that of {self.class_names[1]!r}, and "
            f"{other if self.has_other_class else same}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class OutputsOfRows:
    """The outputs explained in the rows of a call: all together (None), one, or each row's own (n,)."""

    outputs: Outputs
    chosen: int | IndexArray | None

    def check(self, output: Output | None) -> None:
        """RankingError unless a ranking of this output answers the same question; None is unknown."""
        if output is None:
            return
        if self.outputs.n == 1:
            self._check_one(output)
            return
        try:
            theirs = self.outputs.positions(output)
        except OutputError as error:
            raise RankingError(
                f"the ranking is of an output that the model cannot place: {error}. {_REGARDLESS}"
            ) from None
        if self.chosen is None:
            which = "an output per row" if np.ndim(theirs) else f"output {self._show(theirs)}"
            raise RankingError(
                f"the ranking is of {which}, the explainer of all {self.outputs.n} outputs together; pass "
                f"output={'...' if np.ndim(theirs) else shown(output)} to Explainer, or rank by the "
                f"attributions of all outputs, e.g. their absolute values summed over outputs. {_REGARDLESS}"
            )
        differs = np.atleast_1d(np.not_equal(theirs, self.chosen))
        if differs.any():
            self._refuse(theirs, differs)

    def output_of(self, n_outputs: int) -> int | IndexArray | None:
        """The output to take from attributions of `n_outputs`; None if they have one only."""
        if n_outputs == 1:
            return None
        if self.outputs.n == 1 and n_outputs == 2:  # of two classes
            return 1 - (0 if self.chosen is None else self.chosen)
        if n_outputs != self.outputs.n:
            raise RankingError(
                f"the attributions are of {n_outputs} outputs, the model has {self.outputs.n}; choose one "
                "with Ranking.from_attributions(values, output=...)"
            )
        if self.chosen is None:
            raise RankingError(
                f"the attributions are of {n_outputs} outputs one by one, the explainer is of all together; "
                "pass output= to Explainer, or rank by the absolute values summed over outputs"
            )
        return self.chosen

    def signs_of(self, n_outputs: int) -> FloatArray:
        """The signs (n,) or (1,) by which attributions of `n_outputs` become those of what is explained: of
        two classes with one output, attributions of one output belong to the second."""
        if self.chosen is None or n_outputs > 1 or self.outputs.n > 1:
            return np.ones(1)
        return np.where(np.atleast_1d(self.chosen) == OTHER_CLASS, -1.0, 1.0)

    def _check_one(self, output: Output) -> None:
        """The model has one output. Of two classes it belongs to the second; the attributions of the first
        are the same with the other sign, so their ranking is the same."""
        names = self.outputs.class_names
        for each in np.unique(np.atleast_1d(output)).tolist():
            known = each in (0, 1) if isinstance(each, int) else names is None or each in names
            if not known:
                has = f", of the classes {format_items(names)}" if names else ""
                raise RankingError(
                    f"the ranking is of output {each!r}, the model has one output{has}. {_REGARDLESS}"
                )

    def _refuse(self, theirs: int | IndexArray, differs: NDArray[np.bool_]) -> None:
        if isinstance(theirs, int) and isinstance(self.chosen, int):
            raise RankingError(
                f"the ranking is of output {self._show(theirs)}, the explainer of output "
                f"{self._show(self.chosen)}; pass output={theirs} to Explainer, or a ranking of the "
                f"explainer's output. {_REGARDLESS}"
            )
        row = int(np.flatnonzero(differs)[0])
        mine, other = (np.broadcast_to(np.asarray(of), differs.shape)[row] for of in (self.chosen, theirs))
        raise RankingError(
            f"in row {row} the ranking is of output {self._show(other)}, the explainer of output "
            f"{self._show(mine)} ({int(differs.sum())} of {len(differs)} rows differ). {_REGARDLESS}"
        )

    def _show(self, position: Any) -> str:
        return self.outputs.show(int(position))


_REGARDLESS = "To score its order all the same, pass ranking.order"
