"""Asks an explainer what an evaluation needs: within a proven error, or estimated if that is too costly."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

import numpy as np

from predgap._engine.context import Call, Context, calling
from predgap._engine.kernels import QUIET
from predgap._engine.questions import Best, Curve, Rows, ask, random_after
from predgap._engine.results import Cost
from predgap._engine.subsets import BestRankings, SubsetEngine
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.explainer import Approximation, Explainer
from predgap.explainer.explainer import BEST_FOUND
from predgap.ranking import Ranking

_ESTIMATED: Final = ("pruned", "qmc", "mc")
_RTOL: Final = 1e-2  # that estimates aim at
_SEARCH: Final = 8.0  # what a search for the best ranking takes, in greedy rankings

Effort = Literal["full", "search", "estimate", "bare"]
"""full: all rankings are compared for best and random; search: a few; estimate: gaps are estimated, too;
bare: and what cannot be estimated is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The rankings with the highest PGI², and what is known after the search for them."""

    ranking: Ranking
    curve: FloatArray  # (n, k)
    is_proven: BoolArray  # (n,)
    random: FloatArray  # (n,) the expected PGI² of a random ranking
    curves: FloatArray  # (n, r, k) of other orders; NaN where they are not known
    methods: set[str]  # how the gaps were obtained


class Answers(Protocol):
    """What an evaluation asks; `how` collects how each quantity was obtained."""

    explainer: Explainer
    how: dict[str, set[str]]

    def curve(self, rows: Rows, order: IndexArray | IntArray, what: str) -> FloatArray:
        """The curves (n, k) of orders (n, k)."""

    def rank(self, rows: Rows, method: str, top: int) -> Ranking:
        """A ranking that is built from gaps."""


@dataclass(eq=False)
class Proven:
    """Answers of an explainer within its tolerance."""

    explainer: Explainer
    how: dict[str, set[str]] = field(default_factory=dict)

    def curve(self, rows: Rows, order: IndexArray | IntArray, what: str) -> FloatArray:
        asked = self.explainer
        call = Call("curve(X, ranking)", asked.rtol)
        with calling(call, len(rows), asked.n_threads, asked.progress) as context:
            found = ask(asked.explained, Curve(rows, order.astype(np.int32)), asked.accuracy, context)
        self.how.setdefault(what, set()).update(np.unique(found.method).tolist())
        return found.value

    def rank(self, rows: Rows, method: str, top: int) -> Ranking:
        found = self.explainer.rank(rows, method, top=top)  # type: ignore[arg-type]
        self.how.setdefault(method, set()).add(found.estimator or "exact")
        return found


@dataclass(eq=False)
class Estimated:
    """Answers whose error is estimated."""

    explainer: Explainer
    seed: int
    how: dict[str, set[str]] = field(default_factory=dict)

    def curve(self, rows: Rows, order: IndexArray | IntArray, what: str) -> FloatArray:
        found = self._asked.curve(rows, order)
        self.how.setdefault(what, set()).update(np.unique(found.method).tolist())
        return found.value

    def rank(self, rows: Rows, method: str, top: int) -> Ranking:
        found = self._asked.rank(rows, method, top=top)  # type: ignore[arg-type]
        self.how.setdefault(method, set()).add(found.estimator or "exact")
        return found

    @property
    def _asked(self) -> Approximation:
        return self.explainer.approximate(rtol=_RTOL, seed=self.seed)


def compared(answers: Answers, rows: Rows, top: int, orders: IntArray) -> Compared:
    """The best rankings within the explainer's tolerance, with the curves of other orders (n, r, top)."""
    asked = answers.explainer
    call = Call("rank(X, 'optimal')", asked.rtol, "explainer.approximate(rtol=1e-2).rank(X)")
    with calling(call, len(rows), asked.n_threads, asked.progress) as context:
        found = ask(asked.explained, Best(rows, top, orders), asked.accuracy, context)
        random = random_after(asked.explained, found, rows, asked.accuracy, context.quiet())
    answers.how["best"] = set(found.method.tolist())
    answers.how["random"] = set(random.method.tolist())
    method = "optimal" if found.is_complete.all() else BEST_FOUND
    ranking = asked.explained.ranking(found, method, rows)
    return Compared(ranking, found.curve, found.is_complete, random.value, found.curves, answers.how["best"])


def random_orders(rows: IndexArray, n_units: int, n_pairs: int, seed: int) -> list[IndexArray]:
    """Random orders of each row of a table, each followed by the same reversed, (n, n_units) each; those of a
    row do not depend on the other rows."""
    in_order = np.tile(np.arange(n_units), (n_pairs, 1))
    drawn = [np.random.default_rng((seed, row)).permuted(in_order, axis=1) for row in rows.tolist()]
    return [order for pair in np.stack(drawn, axis=1) for order in (pair, pair[:, ::-1])]


def expected_cost(explainer: Explainer, rows: Rows, places: int, effort: Effort, n_curves: int) -> Cost:
    """The expected cost of a row, from some of them: of a greedy ranking and n curves, of which each counts
    as much; for the effort "full" of the gaps of all subsets, which tell all curves, or of a search."""
    cost = explainer.cost("rank", rows)
    if effort != "full":
        return replace(cost, milliseconds=cost.milliseconds * (1 + n_curves))
    engine = SubsetEngine(explainer.explained.kernel, QUIET)
    few, many = BestRankings(engine, rows.values, places).split(explainer.accuracy)
    total = (1 + n_curves + _SEARCH) * cost.milliseconds * sum(len(part.some) for part in many)
    for part in few:
        features, at = engine.features_of(part.units), rows.values[part.some]
        total += engine.milliseconds(at, "subsets", features, part.units.shape[1], explainer.accuracy).sum()
    return replace(cost, milliseconds=cost.milliseconds + float(total) / len(rows))


def reporting_to(explainer: Explainer, context: Context | None, begin: float, end: float) -> Explainer:
    """A copy of the explainer whose next call is the work from `begin` to `end` of all, which is 1."""
    asked = copy.copy(explainer)
    asked.progress = False if context is None else context.part(begin, end)
    return asked


def in_words(methods: set[str], rtol: float) -> str:
    """How numbers were obtained, by the least certain of their methods.

    Examples
    --------
    >>> in_words({"exact", "bounded"}, 1e-6), in_words({"exact"}, 1e-6), in_words({"qmc", "exact"}, 1e-2)
    ('bounded (1e-06)', 'exact', 'estimated')
    """
    if methods & {*_ESTIMATED}:
        return "estimated"
    return f"bounded ({rtol:g})" if "bounded" in methods else "exact"
