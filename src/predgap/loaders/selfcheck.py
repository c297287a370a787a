"""Checks that a loaded ensemble predicts what its model predicts; every loader of objects uses it.

The rows of the check are at and around the thresholds, where mistakes of loaders (< or <=, rounding, missing
values) show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predgap._inputs.categories import Categories
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble
from predgap._typing import FloatArray, IntArray
from predgap.errors import LoaderError

__all__ = ["ask", "check", "rows_at_thresholds", "thresholds_by_feature"]

Rows = NDArray[np.floating[Any]]

MAX_ROWS: Final = 512
_MAX_CELLS: Final = 1 << 22  # limit of rows x features and of rows x trees, for time and memory
_MIN_ROWS: Final = 16


def ask(library: str, what: str, question: Callable[[], Any], advice: str = "is it fitted?") -> Any:
    """Calls a library's object; whatever that raises becomes `LoaderError`: the model is not usable."""
    try:
        return question()
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise LoaderError(f"the {library} model cannot {what} ({reason.strip()}); {advice}") from error


def check(
    ensemble: Ensemble,
    *,
    library: str,
    margins: Callable[[Rows], ArrayLike],
    leaves: Callable[[Rows], ArrayLike] | None = None,
    double: bool = False,
    takes_missing: bool = True,
    rows: Rows | None = None,
) -> None:
    """Raises `LoaderError` unless the ensemble agrees with its model on rows made from its thresholds.

    Parameters
    ----------
    ensemble : Ensemble
        The loaded model.
    library : str
        Name of the library, for the message.
    margins : callable
        Takes rows (n, d) and returns the model's raw margins, (n,) or
        (n, n_outputs). The model is expected to add its leaves tree by tree in single precision, with the
        bias first or last. Margins must agree to 1e-6 times the sum of the absolute values that are added.
    leaves : callable, or None, default=None
        Takes rows and returns the leaf that each row reaches in each tree, (n, n_trees), as the number of the
        node minus that of the tree's root. None if the library does not tell.
    double : bool, default=False
        True if the model adds in double precision: margins must then agree to 1e-12.
    takes_missing : bool, default=True
        False if the model does not accept missing values: the rows then have none.
    rows : (n, d) array, or None, default=None
        The rows to compare on; None makes them with `rows_at_thresholds`.

    Examples
    --------
    >>> stump = Ensemble(
    ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[0.0],
    ...     n_features=1)
    >>> check(stump, library="mine", margins=lambda rows: np.where(rows[:, 0] >= 0.5, 3.0, 1.0))
    >>> check(stump, library="mine", margins=lambda rows: np.where(rows[:, 0] > 0.5, 3.0, 1.0))
    Traceback (most recent call last):
      ...
    predgap.errors.LoaderError: ...
    """
    if rows is None:
        rows = rows_at_thresholds(ensemble, takes_missing=takes_missing)
    mine = ensemble.leaves(rows)
    if leaves is not None:
        _compare_leaves(rows, mine - ensemble.root, np.asarray(leaves(rows)), library)
    theirs = np.asarray(margins(rows), dtype=np.float64)
    _compare_margins(ensemble, rows, mine, theirs, library, double)


def rows_at_thresholds(ensemble: Ensemble, n_rows: int | None = None, *, takes_missing: bool = True) -> Rows:
    """Rows (n, d) that test a model at its thresholds.

    A numeric column has values at, just below and just above thresholds, missing values and zeros: a library
    that rounds rows must do it as the loader took it to. A
    categorical column has as many known categories as there are rows for, and one that the model does not
    know. Each column is shuffled on its own, always in the same way. The first row is all missing (if
    `takes_missing`), the second all zero.
    """
    if n_rows is None:
        widest = max(1, ensemble.n_features, ensemble.n_trees)
        n_rows = max(_MIN_ROWS, min(MAX_ROWS, _MAX_CELLS // widest))
    shuffle = np.random.default_rng(0)
    rows = np.zeros((n_rows, ensemble.n_features))
    for j, thresholds in thresholds_by_feature(ensemble).items():
        around = _around(ensemble, thresholds, n_rows, takes_missing)
        rows[:, j] = np.resize(shuffle.permutation(around), n_rows)
    for j, levels in ensemble.categorical().items():
        codes, special = _codes(ensemble, levels, takes_missing)
        room = max(1, n_rows - len(special))
        values = np.concatenate([special, codes[:room]])
        rows[:, j] = shuffle.permutation(np.resize(values, n_rows))
    if takes_missing:
        rows[0] = np.nan
    rows[1] = 0.0
    return rows


def thresholds_by_feature(ensemble: Ensemble) -> dict[int, FloatArray]:
    """The thresholds of each feature that is compared with some."""
    inner = np.flatnonzero((ensemble.feature != LEAF) & (ensemble.category_set == NUMERIC))
    inner = inner[np.argsort(ensemble.feature[inner], kind="stable")]
    used, starts = np.unique(ensemble.feature[inner], return_index=True)
    stops = [*starts[1:], len(inner)]
    return {
        int(j): ensemble.threshold[inner[start:stop]]
        for j, start, stop in zip(used, starts, stops[: len(used)], strict=True)
    }


def _around(ensemble: Ensemble, thresholds: FloatArray, n_most: int, takes_missing: bool) -> Rows:
    """Test values for a column with these thresholds, about `n_most` of them at most."""
    cuts = np.unique(thresholds)
    most = max(1, n_most // 4)
    if len(cuts) > most:
        cuts = cuts[np.linspace(0, len(cuts) - 1, most).round().astype(int)]
    with np.errstate(over="ignore"):
        values = np.concatenate([np.nextafter(cuts, -np.inf), cuts, np.nextafter(cuts, np.inf)])
    special = [0.0]
    if takes_missing:
        special += [np.nan, *(ends for ends in ensemble.missing_range if not np.isnan(ends))]
    if ensemble.accepts_infinity:
        special += [-np.inf, np.inf]
    else:
        values = values[np.abs(values) <= ensemble.largest]
    return np.concatenate([values, np.resize(special, max(len(special), len(cuts)))])


def _codes(ensemble: Ensemble, levels: Categories, takes_missing: bool) -> tuple[FloatArray, list[float]]:
    """Test codes for a categorical column, beginning with the ends of sets; and codes that must occur."""
    used = np.unique(ensemble.category_set[ensemble.category_set != NUMERIC])
    begin, end = ensemble.set_begin[used], ensemble.set_begin[used + 1]
    at = np.concatenate([begin[begin < end], end[begin < end] - 1])
    ends = np.unique(ensemble.set_code[at])
    ends = ends[levels.levels_of(ends) >= 0]
    codes = np.concatenate([ends, np.setdiff1d(levels.codes, ends)]).astype(np.float64)
    special = [] if levels.closed else [float(levels.codes.max(initial=-1)) + 1]
    return codes, [*special, np.nan] if takes_missing else special


def _compare_leaves(rows: Rows, mine: IntArray, theirs: NDArray[Any], library: str) -> None:
    if theirs.size != mine.size:
        raise LoaderError(
            f"the load disagrees with {library}: {mine.shape[1]} trees here, leaves of shape "
            f"{theirs.shape} there for {len(rows)} rows; please report this"
        )
    theirs = theirs.reshape(mine.shape)
    if not np.array_equal(mine, theirs):
        r, tree = np.argwhere(mine != theirs)[0]
        raise LoaderError(
            f"the load disagrees with {library}: in tree {tree}, {_show(rows[r])} reaches leaf "
            f"{mine[r, tree]} here and {theirs[r, tree]:g} there; please report this"
        )


def _compare_margins(
    ensemble: Ensemble, rows: Rows, leaves: IntArray, theirs: FloatArray, library: str, double: bool
) -> None:
    shape = len(rows), ensemble.n_outputs
    if theirs.size != shape[0] * shape[1]:
        raise LoaderError(
            f"the load disagrees with {library}: {ensemble.n_outputs} outputs here, margins of shape "
            f"{theirs.shape} there for {len(rows)} rows; please report this"
        )
    theirs = theirs.reshape(shape)
    first, last, size = _sums(ensemble, leaves, np.float64 if double else np.float32)
    tolerance = (1e-12 if double else 1e-6) * size
    # Libraries add the bias first or last; take the order that agrees in more rows.
    mine, wrong = min(
        ((sums, ~(np.abs(sums - theirs) <= tolerance)) for sums in (first, last)),
        key=lambda order: order[1].sum(),
    )
    if wrong.any():
        r, k = np.argwhere(wrong)[0]
        raise LoaderError(
            f"the load disagrees with {library}: output {k} of {_show(rows[r])} is {float(mine[r, k])!r} "
            f"here and {float(theirs[r, k])!r} there, expected within {tolerance[r, k]:.1e}; "
            "please report this"
        )


def _sums(ensemble: Ensemble, leaves: IntArray, kind: type) -> tuple[Rows, Rows, FloatArray]:
    """Margins (n, n_outputs), added tree by tree in this precision as libraries do, with the bias first and
    with the bias last; and the sums of the absolute values that were added."""
    bias: Rows = ensemble.bias.astype(kind)
    trees: Rows = np.zeros((len(leaves), len(bias)), dtype=kind)
    first, size = trees + bias, np.abs(ensemble.bias) + trees.astype(np.float64)
    for tree, target in enumerate(ensemble.target):
        value = ensemble.value[leaves[:, tree]]
        column = slice(None) if target == ALL_OUTPUTS else slice(target, target + 1)
        for sums in (first, trees):
            sums[:, column] += value.astype(kind)
        size[:, column] += np.abs(value)
    return first, trees + bias, size


def _show(row: Rows) -> str:
    shown = ", ".join(f"{value:.9g}" for value in row[:8])
    return f"the row [{shown}{', ...' if len(row) > 8 else ''}]"
