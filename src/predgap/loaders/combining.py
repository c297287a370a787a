"""Combines ensembles to one: f = bias + the sum of matrix_i · f_i, exactly tree by tree.

Trees of all members stand side by side in the result, with their leaves multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from predgap._inputs.categories import Categories
from predgap._inputs.subsets import match_names
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble, tree_of_node
from predgap._model.rewriting import Levels, Line, rewritten
from predgap._text import count, format_items
from predgap._typing import FloatArray, IntArray
from predgap.errors import TableError, UnsupportedModelError
from predgap.loaders.translation import thresholds_by_feature

__all__ = ["Member", "aligned", "combined"]


class Member(NamedTuple):
    """An ensemble in a sum, and the matrix that its outputs are multiplied with."""

    name: str  # for messages
    ensemble: Ensemble
    matrix: FloatArray  # (n_outputs of the sum, n_outputs of the ensemble)


def combined(members: Sequence[Member], bias: FloatArray, source: str) -> Ensemble:
    """The ensemble of bias + Σ matrix · member, for members that take the same rows.

    Raises
    ------
    UnsupportedModelError
        If the members read rows differently: other features, categories, or values that count as missing.

    Examples
    --------
    >>> stump = Ensemble(
    ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[10.0],
    ...     n_features=1)
    >>> both = combined([Member("a", stump, np.array([[1.0], [0.0]])),
    ...                  Member("b", stump, np.array([[0.0], [2.0]]))], np.array([0.0, 100.0]), "both")
    >>> both.predict([[0.0]])
    array([[ 11., 122.]])
    """
    first = members[0].ensemble
    for member in members:
        if member.matrix.shape != (len(bias), member.ensemble.n_outputs):
            raise UnsupportedModelError(
                f"{member.name} has {count(member.ensemble.n_outputs, 'output')}, expected "
                f"{member.matrix.shape[1]}"
            )
    for other in members[1:]:
        _check_same_rows(members[0], other)
    ensembles = [member.ensemble for member in members]
    targets, values = _leaves(members)
    return replace(
        first,
        **_side_by_side(ensembles),
        value=np.concatenate(values),
        target=np.concatenate(targets),
        bias=bias + sum(m.matrix @ m.ensemble.bias for m in members),
        feature_names=next((e.feature_names for e in ensembles if e.feature_names is not None), None),
        class_names=None,
        link=None,
        largest=min(e.largest for e in ensembles),
        source=source,
    )


def _check_same_rows(one: Member, other: Member) -> None:
    """UnsupportedModelError unless both read the same rows in the same way."""
    a, b = one.ensemble, other.ensemble
    both = f"{one.name} and {other.name}"
    if a.n_features != b.n_features:
        raise UnsupportedModelError(f"{both} have {a.n_features} and {b.n_features} features")
    if a.feature_names is not None and b.feature_names is not None:
        place = match_names(a.feature_names, b.feature_names, UnsupportedModelError)
        if [place.get(name) for name in a.feature_names] != list(range(a.n_features)):
            raise UnsupportedModelError(f"{both} name their features differently, or in another order")
    if not np.array_equal(a.missing_range, b.missing_range, equal_nan=True):
        raise UnsupportedModelError(
            f"{both} take different values for missing: {_missing(a)} and {_missing(b)}"
        )
    categorical = a.categories is not None or b.categories is not None
    if categorical and (
        a.unseen_is_missing != b.unseen_is_missing
        or len(a.categorical()) != len(b.categorical())
        or not all(_same(levels, b.categorical().get(q)) for q, levels in a.categorical().items())
    ):
        raise UnsupportedModelError(f"{both} know different categories")


def _missing(ensemble: Ensemble) -> str:
    low, high = ensemble.missing_range
    return f"{ensemble.missing:g}" if low == high or np.isnan(low) else f"{low!r} to {high!r}"


def _same(a: Categories, b: Categories | None) -> bool:
    return (
        type(a) is type(b)
        and b is not None
        and (a.closed, a.complete, a.labelled, a.labels, a.codes.tolist())
        == (
            b.closed,
            b.complete,
            b.labelled,
            b.labels,
            b.codes.tolist(),
        )
    )


def _side_by_side(ensembles: list[Ensemble]) -> dict[str, Any]:
    """The arrays of nodes and sets of all ensembles, renumbered."""
    first_node = np.cumsum([0, *(e.n_nodes for e in ensembles)])
    first_set = np.cumsum([0, *(len(e.set_begin) - 1 for e in ensembles)])
    first_code = np.cumsum([0, *(len(e.set_code) for e in ensembles)])

    def moved(name: str, by: IntArray, unless: int | None = None) -> IntArray:
        arrays = [getattr(e, name) for e in ensembles]
        return np.concatenate(
            [np.where(a == unless, a, a + n) for a, n in zip(arrays, by[: len(arrays)], strict=True)]
        )

    begin = [e.set_begin[:-1] + n for e, n in zip(ensembles, first_code, strict=False)]
    return {
        "root": moved("root", first_node),
        "left": moved("left", first_node, LEAF),
        "right": moved("right", first_node, LEAF),
        "category_set": moved("category_set", first_set, NUMERIC),
        "set_begin": np.concatenate([*begin, first_code[-1:]]),
        **{
            name: np.concatenate([getattr(e, name) for e in ensembles])
            for name in ("feature", "threshold", "default_left", "set_code")
        },
    }


def _leaves(members: Sequence[Member]) -> tuple[list[IntArray], list[FloatArray]]:
    """The targets (n_trees,) and values (n_nodes, width) of each member, multiplied with its matrix.

    Leaves stay single numbers where every tree adds to one output; else they are vectors.
    """
    if all(_is_scalar(member) for member in members):
        return [_moved_targets(m) for m in members], [
            m.ensemble.value * _factors(m)[:, None] for m in members
        ]
    every = ALL_OUTPUTS if len(members[0].matrix) > 1 else 0
    targets = [np.full(m.ensemble.n_trees, every) for m in members]
    return targets, [_vectors(m.ensemble) @ m.matrix.T for m in members]


def _is_scalar(member: Member) -> bool:
    """True if each output of the member goes to at most one output of the sum, and each tree to one."""
    one_value = member.ensemble.value.shape[1] == 1
    return one_value and bool((np.count_nonzero(member.matrix, axis=0) <= 1).all())


def _moved_targets(member: Member) -> IntArray:
    moved: IntArray = np.abs(member.matrix).argmax(axis=0)[member.ensemble.target]
    return moved


def _factors(member: Member) -> FloatArray:
    """The factor that the value of each node is multiplied with, (n_nodes,)."""
    factor: FloatArray = member.matrix.sum(axis=0)[_outputs(member.ensemble)]
    return factor


def _vectors(ensemble: Ensemble) -> FloatArray:
    """The leaf values as vectors, (n_nodes, n_outputs)."""
    if ensemble.value.shape[1] == ensemble.n_outputs:
        return ensemble.value
    out = np.zeros((ensemble.n_nodes, ensemble.n_outputs))
    out[np.arange(ensemble.n_nodes), _outputs(ensemble)] = ensemble.value[:, 0]
    return out


def _outputs(ensemble: Ensemble) -> IntArray:
    """The output that the tree of each node adds to, (n_nodes,); 0 for nodes of no tree."""
    tree = tree_of_node(ensemble)
    out: IntArray = np.append(ensemble.target, np.int32(0))[tree]  # the last one for nodes of no tree
    return out


# ------------------------------------------------------------------------------------------------------------
# Two ensembles of different features are first rewritten in the same ones, so that both read the same rows.
#
# Features are matched by name, and categories by label. What one model lacks, the other one keeps: a feature
# that a model does not have does not change what it predicts, and a category that it does not know is unseen.


def aligned(f: Ensemble, g: Ensemble) -> tuple[Ensemble, Ensemble]:
    """The same functions of rows that have the features of both; those of f come first.

    Raises
    ------
    UnsupportedModelError
        If features or categories cannot be matched.

    Examples
    --------
    >>> def stump(names, feature):
    ...     return Ensemble(
    ...         root=[0], feature=[feature, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1],
    ...         right=[2, -1, -1], default_left=[True, False, False], value=[[0.0], [1.0], [3.0]],
    ...         target=[0], bias=[0.0], n_features=len(names), feature_names=names)
    >>> f, g = aligned(stump(["age", "bmi"], 0), stump(["job", "age"], 1))
    >>> f.feature_names, g.feature_names, bool(f.feature[0] == g.feature[0])
    (('age', 'bmi', 'job'), ('age', 'bmi', 'job'), True)
    """
    features = _features(f, g)
    unseen_is_missing = all(e.unseen_is_missing for e in (f, g) if e.categories is not None)
    categories = _categories(f, g, features)
    return (
        _in_features(f, range(f.n_features), features, categories, unseen_is_missing),
        _in_features(g, features.of_second, features, categories, unseen_is_missing),
    )


@dataclass(frozen=True, slots=True)
class _Features:
    """The features of both models; those of the first one come first, in its order."""

    n: int
    names: tuple[str, ...] | None
    of_second: Sequence[int]  # the place of each feature of the second model

    def show(self, q: int) -> str:
        return f"feature {q if self.names is None else repr(self.names[q])}"


def _features(f: Ensemble, g: Ensemble) -> _Features:
    mine, theirs = f.feature_names, g.feature_names
    if mine is None or theirs is None:
        if f.n_features != g.n_features:
            raise UnsupportedModelError(
                f"the models have {f.n_features} and {g.n_features} features, and not both have names to "
                "match them by; give them names: predgap.load(model).named([...])"
            )
        return _Features(f.n_features, mine or theirs, range(f.n_features))
    place = match_names(theirs, mine, UnsupportedModelError)
    if not place and mine and theirs:
        raise UnsupportedModelError(
            f"the models have no feature in common: {format_items(mine)}; and {format_items(theirs)}"
        )
    new = [name for name in theirs if name not in place]
    place |= {name: f.n_features + i for i, name in enumerate(new)}
    return _Features(f.n_features + len(new), (*mine, *new), [place[name] for name in theirs])


def _categories(f: Ensemble, g: Ensemble, features: _Features) -> list[Categories | None]:
    """The categories of each feature of both models, None if it is numeric."""
    mine, theirs = f.categorical(), g.categorical()
    found = [mine.get(q) for q in range(features.n)]
    in_f, in_g = set(f.feature.tolist()), set(g.feature.tolist())  # features that are split on
    for j, q in enumerate(features.of_second):
        a, b = mine.get(q), theirs.get(j)
        if a is not None and b is not None:
            found[q] = _merged(a, b, features.show(q))
        elif q >= f.n_features or (q not in in_f and j in in_g):  # only g tells what it is
            found[q] = b
        elif (a is None) != (b is None) and j in in_g:
            raise UnsupportedModelError(
                f"{features.show(q)} is categorical in one model and a number in the other one; train both "
                "on the same kind of column"
            )
    return found


def _merged(a: Categories, b: Categories, what: str) -> Categories:
    try:
        return a.merged(b, what)
    except TableError as error:  # a label that the other model cannot have
        raise UnsupportedModelError(f"the categories of {what} do not match: {error}") from None


def _in_features(
    e: Ensemble,
    places: Sequence[int],
    features: _Features,
    categories: Sequence[Categories | None],
    unseen_is_missing: bool,
) -> Ensemble:
    """The ensemble in the features of both; `places` has the new place of each of its features."""
    columns: list[Levels | Line | None] = [None] * e.n_features
    for j, cuts in thresholds_by_feature(e).items():
        columns[j] = Line(places[j], np.unique(cuts), np.unique(cuts))
    for j, own in e.categorical().items():
        new = categories[places[j]]
        columns[j] = None if new is None else _as_levels(e, own, places[j], new, unseen_is_missing)
    return rewritten(
        e,
        columns,
        n_features=features.n,
        categories=categories,
        feature_names=features.names,
        unseen_is_missing=unseen_is_missing,
    )


def _as_levels(e: Ensemble, own: Categories, place: int, new: Categories, unseen_is_missing: bool) -> Levels:
    """A categorical column of a model as a function of the categories of both."""
    unknown = np.nan if e.unseen_is_missing else own.unknown
    values = np.full(len(new), unknown)
    codes = new.codes_of(own.labels or ())  # -1 for categories that were left out
    at = new.levels_of(codes)
    values[at[at >= 0]] = own.codes[at >= 0]
    can_be_unseen = not (new.closed or unseen_is_missing)
    return Levels(place, new.codes, values, unknown if can_be_unseen else None, np.nan)
