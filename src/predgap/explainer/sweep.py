"""`Explainer.sweep`: the scores of rankings at several strengths of the noise, and how far they agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._engine.context import Call, calling
from predgap._engine.questions import Curve, Found, Question, RankMethod, ask, ranking_question
from predgap._inputs.tables import to_native
from predgap._tables import ShownAsTable
from predgap._text import count, shown
from predgap._typing import FloatArray, IndexArray, IntArray
from predgap.errors import CostError, NoiseError, RankingError
from predgap.explainer.explained import Explained, rank_call
from predgap.noise import Noise

if TYPE_CHECKING:
    from predgap.explainer.explainer import Explainer

STRENGTHS: Final = (0.1, 0.2, 0.3, 0.5, 1.0)
"""The default strengths."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sweep(ShownAsTable):
    """Scores of m rankings of n rows at s strengths of the noise; `Explainer.sweep` returns it.

    Compare scores within a strength, not between strengths: stronger noise makes all gaps larger.

    Attributes
    ----------
    strengths : tuple of s floats
    names : tuple of m strings
        The rankings.
    scores : (s, m, n) array
        PGI² of each row.
    same_first : (s, m, m) array
        Of each two rankings: the share of rows that have the same first feature.
    correlation : (s, m, m) array
        Of each two rankings: the mean over the rows of Spearman's correlation of the features' places, from
        -1 (reversed) to 1 (equal). NaN if the rankings are partial.
    same_first_as_own : (s, m) array
        The share of rows whose first feature is that which the same kind of ranking has at the explainer's
        own noise; 1 for a ranking that was given, as it does not depend on the noise.
    correlation_with_own : (s, m) array
        The same for Spearman's correlation.
    backend : "pandas", "polars", "pyarrow" or None
        The library whose frame `to_frame` returns; None takes the first one that is installed.
    """

    strengths: tuple[float, ...]
    names: tuple[str, ...]
    scores: FloatArray
    same_first: FloatArray
    correlation: FloatArray
    same_first_as_own: FloatArray
    correlation_with_own: FloatArray
    backend: str | None = None

    @property
    def mean(self) -> FloatArray:
        """The mean PGI² over the rows, (s, m); NaN without rows."""
        s, m, n = self.scores.shape
        return self.scores.sum(axis=2) / n if n else np.full((s, m), np.nan)

    @property
    def order(self) -> NDArray[np.str_]:
        """The names of the rankings at each strength, highest mean PGI² first, (s, m). Of equal ones the one
        that was given first comes first."""
        names: NDArray[np.str_] = np.array(self.names, dtype=np.str_)
        return names[np.argsort(-self.mean, axis=1, kind="stable")]

    def to_frame(self) -> Any:
        """The sweep as a frame with s * m rows, one for each strength and ranking.

        Returns
        -------
        frame
            With the columns `strength`, `ranking`, `pgi2` (the mean over the rows), `place` (1 is the highest
            at this strength), `same_first_as_own` and `correlation_with_own`.
        """
        s, m = self.mean.shape
        place = np.argsort(np.argsort(-self.mean, axis=1, kind="stable"), axis=1) + 1
        columns = {
            "strength": np.repeat(self.strengths, m),
            "ranking": np.tile(np.array(self.names, dtype=np.str_), s),
            "pgi2": self.mean.ravel(),
            "place": place.ravel(),
            "same_first_as_own": self.same_first_as_own.ravel(),
            "correlation_with_own": self.correlation_with_own.ravel(),
        }
        return to_native(columns, self.backend)

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        """The head, the rows and the caption of a table with the mean scores."""
        rows: list[list[Any]] = [
            [strength, *scores, best]
            for strength, scores, best in zip(self.strengths, self.mean, self.order[:, 0], strict=True)
        ]
        caption = f"Sweep of {count(self.scores.shape[2], 'row')}: mean PGI² by strength of the noise"
        return ["strength", *self.names, "best"], rows, caption


@dataclass(frozen=True, slots=True, eq=False)
class Swept:
    """What a sweep sums up, row by row; so sweeps of parts of the rows can be joined."""

    strengths: tuple[float, ...]
    names: tuple[str, ...]
    scores: FloatArray  # (s, m, n)
    orders: tuple[tuple[IntArray, ...], ...]  # of s strengths and m rankings, (n, k) each
    own: tuple[IntArray, ...]  # of m rankings at the explainer's own noise, (n, k) each
    is_full: bool  # do all rankings have all places?
    backend: str | None

    def sweep(self) -> Sweep:
        """The scores and how far the rankings agree."""
        pairs = [[[agreement(a, b, self.is_full) for b in now] for a in now] for now in self.orders]
        kept = [
            [agreement(a, b, self.is_full) for a, b in zip(now, self.own, strict=True)] for now in self.orders
        ]
        of_pairs, with_own = np.array(pairs), np.array(kept)
        return Sweep(
            strengths=self.strengths,
            names=self.names,
            scores=self.scores,
            same_first=of_pairs[..., 0],
            correlation=of_pairs[..., 1],
            same_first_as_own=with_own[..., 0],
            correlation_with_own=with_own[..., 1],
            backend=self.backend,
        )


def swept(explainer: Explainer, X: Any, rankings: Any, strengths: Any) -> Swept:
    """What `Explainer.sweep` computes, row by row."""
    named, explained = _checked_rankings(rankings), explainer.explained
    noises = _noises(explainer.noise, strengths)
    rows, n_features = explained.rows(X), explained.places(None)
    n, n_built = len(rows), sum(map(_is_built, named.values()))
    given = {name: explained.order(rows, r) for name, r in named.items() if not _is_built(r)}
    top = _places(given, n_features)
    asked = None if top == n_features else top
    scores, orders = [], []
    less = "Fewer rows, strengths and rankings are faster."
    n_steps, rtol = n_built + len(noises) * (len(named) + n_built), explainer.rtol
    call = Call("sweep(X, rankings)", faster=less, n_passes=n_steps)
    with calling(call, n * n_steps, explainer.n_threads, explainer.progress) as context:
        steps = (context.part(i, i + 1, n_steps, n) for i in range(n_steps))

        def answer(source: Explained, question: Question[Found], call: Call) -> Found:
            """The answer of the next step; an error names the call that gives the same."""
            with calling(call, n, explainer.n_threads, next(steps)) as step:
                return ask(source, question, explainer.accuracy, step)

        def ranked(source: Explained) -> list[IntArray]:
            """The rankings in their order, those that are words built under the noise of `source`."""
            return [
                answer(source, ranking_question(r, rows, top), rank_call(r, asked, rtol)).order
                if _is_built(r)
                else given[name]
                for name, r in named.items()
            ]

        def score(source: Explained, order: IntArray) -> FloatArray:
            """PGI², (n,)."""
            question = Curve(rows, order, average=True)
            return answer(source, question, Call("pgi2(X, ranking)", rtol)).value

        with _saying("at the explainer's own noise"):
            own = ranked(explained)
        for strength, noise in noises:
            with _saying(f"at strength {strength:g}"):
                source = explained.under(noise)
                now = ranked(source)
                scores.append([score(source, order) for order in now])
                orders.append(now)
    return Swept(
        strengths=tuple(strength for strength, _ in noises),
        names=tuple(named),
        scores=np.array(scores).reshape(len(noises), len(named), n),
        orders=tuple(map(tuple, orders)),
        own=tuple(own),
        is_full=top == n_features,
        backend=rows.table.backend,
    )


@contextmanager
def _saying(when: str) -> Iterator[None]:
    """A context in which `CostError` says which part of a sweep it is about."""
    try:
        yield
    except CostError as error:
        raise CostError(f"sweep, {when}: {error}") from None


def _is_built(ranking: Any) -> bool:
    return isinstance(ranking, str)


def _checked_rankings(rankings: Any) -> dict[str, Any]:
    words = get_args(RankMethod)
    if not isinstance(rankings, Mapping) or not all(isinstance(name, str) for name in rankings):
        raise RankingError(
            f"rankings is a {type(rankings).__name__}, expected a mapping from names to rankings, such as "
            '{"greedy": "greedy", "SHAP": ranking}'
        )
    if not rankings:
        raise RankingError('rankings is empty, expected at least one, such as {"greedy": "greedy"}')
    for name, ranking in rankings.items():
        if isinstance(ranking, str) and ranking not in words:
            raise RankingError(
                f"rankings[{name!r}] is {ranking!r}, expected a ranking, or one of the words "
                f"{', '.join(map(repr, words))} for one that is built at each strength"
            )
    return dict(rankings)


def _noises(noise: Noise, strengths: Any) -> list[tuple[float, Noise]]:
    """Each strength and the noise that has it."""
    is_list = isinstance(strengths, Sequence | np.ndarray) and not isinstance(strengths, str | bytes)
    if (
        not is_list
        or len(strengths) == 0
        or not all(isinstance(s, int | float | np.number) for s in strengths)
    ):
        raise NoiseError(
            f"strengths is {shown(strengths)}, expected a list of numbers such as [0.1, 0.3, 1.0]"
        )
    return [(float(s), noise.with_strength(s)) for s in strengths]  # which refuses what is not positive


def _places(given: dict[str, NDArray[np.int32]], n_features: int) -> int:
    """How many places the given rankings have, d if none is given; RankingError if they differ."""
    places = {name: order.shape[1] for name, order in given.items()}
    if len(set(places.values())) > 1:
        (one, few), (other, many) = (pick(places.items(), key=lambda item: item[1]) for pick in (min, max))
        raise RankingError(
            f"{one!r} has {few} places and {other!r} has {many}; PGI² can be compared between rankings of "
            f"equal length only: pass all with {few} places"
        )
    return next(iter(places.values()), n_features)


def agreement(a: IntArray | IndexArray, b: IntArray | IndexArray, full: bool) -> tuple[float, float]:
    """The share of rows with the same first feature, and the mean correlation of places, of orders (n, k)."""
    if len(a) == 0 or a.shape[1] == 0:
        return float("nan"), float("nan")
    same = float(np.mean(a[:, 0] == b[:, 0]))
    return same, float(np.mean(_spearman(a, b))) if full else float("nan")


def _spearman(a: IntArray | IndexArray, b: IntArray | IndexArray) -> FloatArray:
    """Spearman's correlation of the places of each row, (n,); 1 if there is one feature only."""
    d = a.shape[1]
    moved = np.argsort(a, axis=1) - np.argsort(b, axis=1)  # the place of each feature
    correlation: FloatArray = 1.0 - 6.0 * (moved**2.0).sum(axis=1) / max(1, d * (d * d - 1))
    return correlation
