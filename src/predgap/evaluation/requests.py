"""Reads the argument `rankings` of `evaluate`: words, files, and rankings in any form."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from predgap._engine.questions import Rows
from predgap._text import did_you_mean, shown
from predgap._typing import FloatArray, IntArray
from predgap.errors import RankingError
from predgap.evaluation.files import SUFFIXES, read_ranking_file
from predgap.explainer import Explainer
from predgap.explainer.explained import Explained
from predgap.metrics._attributions import attributions_of, sizes_of
from predgap.ranking import Ranking
from predgap.ranking.reading import open_order

WORDS: Final = ("greedy", "single", "optimal", "shapley", "shap", "gain", "permutation", "random")
"""The rankings that `evaluate` makes by itself."""

BY_ROW: Final = ("greedy", "single", "optimal", "shapley", "shap", "random")
"""Those of them that differ from row to row."""

_LONGEST: Final = 60  # characters of a name that is made from a path
_EXPECTED: Final = "a ranking, the path of a .csv or .parquet file, or one of the words " + ", ".join(
    map(repr, WORDS)
)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A ranking that is to be evaluated."""

    name: str
    given: Any  # a word, or a ranking in any form

    @property
    def word(self) -> str | None:
        """The word, if it is one."""
        return self.given if isinstance(self.given, str) else None

    @property
    def is_shap(self) -> bool:
        """Is it by SHAP values? Known of the word and a shap.Explanation, else told by the name."""
        if self.word is not None:
            return self.word == "shap"
        named = re.search(r"(?<![a-z])(tree|kernel|fast)?shap(?![a-z])", self.name.lower())
        return hasattr(self.given, "base_values") or named is not None


def read_requests(rankings: Any) -> tuple[Request, ...]:
    """The rankings by name; RankingError if one is neither a word nor a ranking. Files are read."""
    if isinstance(rankings, str | os.PathLike):
        rankings = [rankings]
    if isinstance(rankings, Mapping):
        named = list(rankings.items())
    elif isinstance(rankings, Sequence) and all(isinstance(each, str | os.PathLike) for each in rankings):
        named = [(_name_of(each), each) for each in rankings]
    else:
        raise RankingError(
            f"rankings is {shown(rankings)}, expected words such as ['shap', 'gain', 'greedy'], or a mapping "
            "from names to rankings such as {'shap': 'shap', 'mine': frame}"
        )
    if not named:
        raise RankingError("rankings is empty, expected at least one, such as ['shap', 'greedy']")
    names = [name for name, _ in named]
    for name in names:
        if not isinstance(name, str) or not name:
            raise RankingError(f"rankings has the name {shown(name)}, expected a text that is not empty")
        if names.count(name) > 1:
            raise RankingError(f"two rankings are called {name!r}; pass a mapping with a name for each")
    return tuple(Request(name, _opened(name, given)) for name, given in named)


def _word(given: Any) -> str | None:
    """The word, which may be written in capitals, if it is one."""
    lower = given.lower() if isinstance(given, str) else None
    return lower if lower in WORDS else None


def _name_of(each: str | os.PathLike[str]) -> str:
    return _word(each) or Path(each).stem[:_LONGEST]


def _opened(name: str, given: Any) -> Any:
    """A word as it is, what is in a file, or the ranking itself."""
    if not isinstance(given, str | os.PathLike):
        if given is None:
            raise RankingError(f"rankings[{name!r}] is None, expected {_EXPECTED}")
        return given
    word = _word(given)
    if word is not None:
        return word
    path = Path(given)
    if path.suffix.lower() not in SUFFIXES:
        meant = did_you_mean(str(given).lower(), WORDS)
        raise RankingError(
            f"rankings[{shown(name)}] is {shown(os.fspath(given))}: {meant}expected {_EXPECTED}"
        )
    return read_ranking_file(path)


def given_order(request: Request, inputs: Explained, rows: Rows) -> IntArray:
    """A given ranking as indices of the ranked units, (n, k); errors say which ranking it is."""
    return inputs.given_order(rows, request.given, request.name)


class Given(NamedTuple):
    """What is behind a ranking that is given: the sizes of attributions, and the attributions themselves."""

    sizes: FloatArray | None = None  # (n, units)
    attributions: FloatArray | None = None  # with their signs, (n, d)


def given_attributions(request: Request, explainer: Explainer, rows: Rows) -> Given:
    """The attributions behind a ranking that is given by them, or by a Ranking with scores."""
    given = request.given
    try:
        if isinstance(given, Ranking):
            known = given.scores is not None and bool(np.isfinite(given.scores).all())
            return Given(sizes_of(explainer, rows, given)) if known else Given()
        if request.word is not None or not _are_attributions(given, explainer):
            return Given()
        attributions = attributions_of(explainer, rows, given)
    except RankingError as error:
        raise RankingError(f"rankings[{request.name!r}]: {error}") from None
    return Given(np.abs(attributions), attributions)


def _are_attributions(given: Any, explainer: Explainer) -> bool:
    if isinstance(given, np.ndarray):
        return given.dtype.kind == "f" and given.ndim > 1
    return open_order(given, explainer.ensemble.names) is None
