"""The class `Categories`: the categories of one feature that a model knows, with codes and labels."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._text import format_items, shown, warn
from predgap.errors import EnsembleError, TableError, UnsupportedModelError

UNSEEN: Final = -1.0
"""The code of a category that the model does not know."""

_LARGEST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Categories:
    """The categories of one feature that a model knows; also called its levels.

    Each has a code, which arrays of rows hold, and a label, which frames hold.

    Parameters
    ----------
    codes : (m,) integers
        Ascending, from 0.
    labels : sequence of m different labels, or None, default=None
        None if the model stores no labels: then the codes are the labels.
    closed : bool, default=False
        True: a code that is not among `codes` is an error. False: it is a category that the model does not
        know.
    complete : bool, default=True
        Are these all categories of the training table? False if the model does not tell.

    Attributes
    ----------
    labelled : bool
        Whether labels were given.
    place : dict
        The code of each label.

    Examples
    --------
    >>> colour = Categories([0, 1, 2], ("red", "green", "blue"))
    >>> colour.codes_of(["blue", None, "mauve"])
    array([ 2., nan, -1.])
    """

    codes: NDArray[np.int32]  # (m,) ascending, none negative
    labels: tuple[Any, ...] | None = None  # (m,) all different; the codes if not given
    closed: bool = False  # are codes that are not in `codes` an error?
    complete: bool = True  # are these all categories of the training table?
    labelled: bool = field(init=False, repr=False)  # were labels given?
    place: dict[Any, float] = field(init=False, repr=False)  # the code of each label

    def __post_init__(self) -> None:
        given = np.asarray(self.codes)
        whole = given.ndim == 1 and (given.dtype.kind in "iu" or given.size == 0)
        if not whole or (np.diff(given, prepend=-1) <= 0).any() or given.max(initial=0) > _LARGEST:
            raise EnsembleError(
                f"the codes of categories must be whole numbers from 0 to {_LARGEST}, in ascending order"
            )
        codes = given.astype(np.int32)
        codes.setflags(write=False)
        labels = tuple(codes.tolist() if self.labels is None else self.labels)
        if len(labels) != len(codes):
            raise EnsembleError(f"{len(labels)} labels for {len(codes)} categories")
        try:
            place = dict(zip(labels, codes.astype(float).tolist(), strict=True))
        except TypeError as error:
            raise EnsembleError(f"a label of a category cannot be looked up: {error}") from None
        if len(place) < len(labels):
            raise EnsembleError(f"the labels of {len(labels)} categories are not all different")
        object.__setattr__(self, "labelled", self.labels is not None)
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "place", place)

    def __len__(self) -> int:
        return len(self.codes)

    def codes_of(self, labels: Iterable[Any]) -> NDArray[np.float64]:
        """The codes of labels, (n,): NaN if a label is missing, -1 if the model does not know it."""
        return np.array([self.code_of(label) for label in labels], dtype=np.float64)

    def levels_of(self, codes: NDArray[Any]) -> NDArray[np.intp]:
        """The index of each code among the codes that the model knows, (n,); -1 if it does not know it."""
        if not len(self.codes):
            return np.full(len(codes), -1)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, at, -1)

    def code_of(self, label: Any) -> float:
        """The code of one label: NaN if it is missing, -1 if the model does not know it."""
        try:
            return self.place[label]
        except (KeyError, TypeError):  # not found; NaN is not found either, since it is not equal to itself
            return math.nan if is_missing(label) else UNSEEN

    def own_code(self, label: Any) -> float:
        """The code of a label that is a category by itself to the model; -1 if it is not."""
        code = self.code_of(label)
        return UNSEEN if math.isnan(code) else code

    @property
    def holds_text(self) -> bool:
        """True if some labels are text, so that text in a table may be one of them."""
        labels = self.labels or ()
        return any(isinstance(label, str) for label in labels) or (self.labelled and not labels)

    @property
    def unknown(self) -> float:
        """The code of a label that the model does not know."""
        return UNSEEN

    def merged(self, other: Categories, what: str) -> Categories:
        """The categories of two models for the same feature, matched by label; messages call it `what`.

        Codes are those of the first model; categories that only the second one has come after them. A model
        that refuses unknown categories (`closed`) has no answer for those that it lacks: they are left out.

        Raises
        ------
        UnsupportedModelError
            If one model has labels and the other one codes only, or one has text and the other one numbers.

        Examples
        --------
        >>> both = of_labels(["red", "green"]).merged(of_labels(["blue", "red"]), "colour")
        >>> both.labels, both.codes
        (('red', 'green', 'blue'), array([0, 1, 2], dtype=int32))
        """
        if type(other) is not Categories:  # labels are looked up in another way there
            return other.merged(self, what)
        _check_labels_match(self, other, what)
        mine, theirs = self.labels or (), other.labels or ()
        lacking = {label for label in mine if other.closed and label not in other.place}
        more = [] if self.closed else [label for label in theirs if label not in self.place]
        kept = [(code, label) for label, code in self.place.items() if label not in lacking]
        if self.labelled and other.labelled:
            kept += [(int(self.codes.max(initial=-1)) + 1 + i, label) for i, label in enumerate(more)]
        else:  # the codes are the labels
            kept = sorted([*kept, *((other.place[label], label) for label in more)])
        return Categories(
            np.array([code for code, _ in kept], dtype=np.int32),
            tuple(label for _, label in kept) if self.labelled or other.labelled else None,
            closed=self.closed or other.closed,
            complete=self.complete and other.complete,
        )


def is_missing(value: Any) -> bool:
    """True if the value is None, NaN, or pandas' NA or NaT (told by name, without importing pandas)."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def of_labels(labels: Sequence[Any]) -> Categories:
    """Categories with these labels and the codes 0, 1, 2, ..."""
    return Categories(np.arange(len(labels), dtype=np.int32), tuple(labels))


def check_unseen(unseen: Sequence[Any], levels: Categories, what: str) -> None:
    """TableError if unknown labels are text while the model's are numbers, or the reverse.

    Without this check they would all count as unknown categories, even '10' if the model has 10.
    """
    kinds = {_kind(label) for label in levels.labels or ()}
    strange = next((label for label in unseen if _kind(label) not in kinds), None)
    if strange is None or not kinds:
        return
    advice = (
        "make the column one of numbers, in pandas X[name].astype(int)"
        if "numbers" in kinds
        else "a column of a table must hold these labels, no codes"
    )
    raise TableError(
        f"{what} holds {shown(strange)} ({type(strange).__name__}), but the model's categories are "
        f"{' and '.join(sorted(kinds))}: {format_items(levels.labels or ())}; {advice}"
    )


def warn_of_codes(unseen: Sequence[Any], levels: Categories, what: str) -> None:
    """Warns if a column has only unknown labels, and all are codes: perhaps codes were passed as labels."""
    codes = set(levels.codes.tolist())
    if levels.labelled and all(_kind(label) == "numbers" and label in codes for label in unseen):
        warn(
            f"{what} holds {format_items(sorted(set(unseen)))}, none of the model's categories "
            f"{format_items(levels.labels or ())}; they count as unseen. If these are codes, replace them by "
            "the labels: codes are for arrays, which have no column names",
        )


def _check_labels_match(a: Categories, b: Categories, what: str) -> None:
    """UnsupportedModelError unless labels of the two can be compared."""
    lists = f"{format_items(a.labels or ())} and {format_items(b.labels or ())}"
    named = next((each for each in (a, b) if each.labelled), a)
    if a.labelled != b.labelled and named.labels != tuple(named.codes.tolist()):
        raise UnsupportedModelError(
            f"one model has the labels of the categories of {what}, the other one only codes, so that they "
            f"cannot be matched: {lists}; train both on a frame with the same labels, or both on codes"
        )
    kinds = [{_kind(label) for label in each.labels or ()} for each in (a, b)]
    if all(kinds) and not kinds[0] & kinds[1]:
        raise UnsupportedModelError(
            f"the categories of {what} are {' and '.join(sorted(kinds[0]))} in one model, "
            f"{' and '.join(sorted(kinds[1]))} in the other one: {lists}; train both on the same labels"
        )


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "text"
    return "numbers" if isinstance(label, numbers.Real | Decimal | np.bool_) else "other objects"
