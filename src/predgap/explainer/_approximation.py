"""The class `Approximation`: the methods of an explainer with estimated instead of proven errors."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, TypeVar, get_args

from predgap._engine.accuracy import EXACT, checked_rtol, pruned
from predgap._engine.choosing import answer_by, cheapest, sampler_for
from predgap._engine.costs import refusing
from predgap._engine.engine import Engine, RankingMethod
from predgap._engine.estimates import GapEstimate
from predgap._engine.points import checked_seed
from predgap._engine.progress import Advice, Reports, Tell, reporting
from predgap._engine.questions import Curves, Draws, Gaps, Question, Rankings
from predgap._engine.sampling import Budget
from predgap._engine.scale import RankMethod
from predgap._text import count
from predgap.errors import PredgapError
from predgap.explainer._arguments import Inputs, Rows, check_choice, ranking_call
from predgap.ranking import Ranking

Method = Literal["auto", "pruned", "qmc", "mc"]
Found = TypeVar("Found")


class Approximation:
    """Gaps, curves, scores and rankings of an explainer, each with an estimate of its error.

    Made by `Explainer.approximate`, which describes the methods and options.

    Attributes
    ----------
    rtol : float
        The relative error to aim at.
    method : {"auto", "pruned", "qmc", "mc"}
        How answers are obtained.
    n_samples : int, or None
        The largest number of samples; None for the default.
    seed : int
        The seed of the samples.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform
    >>> tree = DecisionTreeRegressor().fit([[7, 0], [7, 1]], [1, 3])  # splits the second feature at 0.5
    >>> sampled = Explainer(tree, Uniform(1.0)).approximate(rtol=0.05, method="qmc")
    >>> found = sampled.gap([[7.0, 0.0]], [1])
    >>> bool(abs(found.value[0] - 1.0) <= 3 * found.standard_error[0]), str(found.method[0])
    (True, 'qmc')
    >>> ranking = sampled.rank([[7.0, 0.0]])
    >>> ranking.order, ranking.confidence, ranking.estimator
    (array([[1, 0]]), array([[1., 1.]]), 'qmc')
    """

    def __init__(
        self,
        inputs: Inputs,
        engine: Engine,
        progress: Reports,
        rtol: float,
        method: Method,
        n_samples: int | None,
        seed: int,
    ) -> None:
        check_choice("method", method, get_args(Method))
        self.rtol, self.method, self.n_samples = checked_rtol(rtol, zero=False), method, n_samples
        self.seed = checked_seed(seed)
        if n_samples is not None:
            Budget(n_samples)  # raises if it is not a valid number of samples
        self._inputs, self._engine, self._progress = inputs, engine, progress
        self._by = engine.method_for(method)

    def gap(self, X: Any, subset: Any) -> GapEstimate:
        """The gap of each row when the features of `subset` are perturbed; see `Explainer.gap`.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows to explain.
        subset : names, indices, a boolean mask (d,), or one boolean mask per row (n, d)
            The features to perturb.

        Returns
        -------
        GapEstimate
            Of shape (n,): the gap of each row and its error.
        """
        rows = self._inputs.rows(X)
        question = Gaps(self._engine, rows.values, self._inputs.masks(len(rows), subset))
        return self._ask(question, rows, "gap(X, subset)")

    def curve(self, X: Any, ranking: Any) -> GapEstimate:
        """Gaps when the first feature of a ranking is perturbed, the first two, and so on.

        See `Explainer.curve`.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows to explain.
        ranking : Ranking, or another form of a ranking that `Explainer.curve` takes
            Most important first.

        Returns
        -------
        GapEstimate
            Of shape (n, k): the gaps of each row and their errors. `rtol` and the errors are relative to the
            mean of the row's curve, so a gap that is much smaller than this mean may have no correct digit.
        """
        rows = self._inputs.rows(X)
        order = self._inputs.order(rows, ranking)
        question = Curves(self._engine, rows.values, order, self._inputs.members)
        return self._ask(question, rows, "curve(X, ranking)")

    def pgi2(self, X: Any, ranking: Any) -> GapEstimate:
        """PGI² of a ranking, the mean of its `curve`: higher is better; see `Explainer.pgi2`.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows to explain.
        ranking : Ranking, or another form of a ranking that `Explainer.curve` takes
            Most important first.

        Returns
        -------
        GapEstimate
            Of shape (n,): PGI² of each row and its error.
        """
        rows = self._inputs.rows(X)
        order = self._inputs.order(rows, ranking)
        question = Curves(self._engine, rows.values, order, self._inputs.members, average=True)
        return self._ask(question, rows, "pgi2(X, ranking)")

    def pgu2(self, X: Any, ranking: Any) -> GapEstimate:
        """PGU² of a ranking, PGI² of the reversed ranking: lower is better; see `Explainer.pgu2`.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows to explain.
        ranking : Ranking, or another form of a ranking that `Explainer.curve` takes
            Most important first, with all d places.

        Returns
        -------
        GapEstimate
            Of shape (n,): PGU² of each row and its error.
        """
        rows = self._inputs.rows(X)
        order = self._inputs.reversed_order(rows, ranking)
        question = Curves(self._engine, rows.values, order, self._inputs.members, average=True)
        return self._ask(question, rows, "pgu2(X, ranking)")

    def rank(self, X: Any, method: RankingMethod = "greedy", *, top: int | None = None) -> Ranking:
        """Ranks the features of each row by importance, from approximate gaps.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows to explain.
        method : {"greedy", "single"}, default="greedy"
            As in `Explainer.rank`.
        top : int, or None, default=None
            How many places to fill; None for all.

        Returns
        -------
        Ranking
            `confidence` is 1 where a place is proven, an estimated probability that it is right where samples
            decided, and NaN where nothing is known. `estimator` says how the gaps were obtained; if rows
            differ, it is the least certain of their methods.
        """
        if method in get_args(RankMethod) and method not in get_args(RankingMethod):
            raise PredgapError(
                f"method={method!r} is not estimated: it compares gaps of many subsets, whose errors would "
                f"decide; use explainer.rank(X, {method!r}), with a larger rtol if it is too costly"
            )
        check_choice("method", method, get_args(RankingMethod))
        places = self._inputs.places(top)
        rows = self._inputs.rows(X)
        question = Rankings(self._engine, rows.values, method, places, self._inputs.members)
        return self._inputs.ranking(self._ask(question, rows, ranking_call(method, top)), method, rows)

    def __call__(self, X: Any) -> Ranking:
        """The same as `rank(X)`: a greedy ranking of all features."""
        return self.rank(X)

    def __repr__(self) -> str:
        return f"Approximation(rtol={self.rtol:g}, method={self.method!r})"

    def _ask(self, question: Question[Found], rows: Rows, call: str) -> Found:
        asked = f"approximate(rtol={self.rtol:g}, method={self.method!r}).{call}"
        instead = f"explainer.approximate(rtol={self.rtol:g}, method='qmc').{call}"

        def advice() -> Advice:
            rows_of = f"{asked} of {count(len(rows), 'row')}"
            return Advice(rows_of, "A larger rtol, fewer samples and fewer rows are faster.")

        with refusing(asked, instead), reporting(self._progress, len(rows), advice) as tell:
            found: Found = self._inputs.outputs.answer(question, rows.outputs, self._answered, tell)
            return found

    def _answered(self, question: Question[Found], tell: Tell) -> Found:
        """The answer for rows of one output, or of all outputs together."""
        sampler = self.method if self.method in ("mc", "qmc") else sampler_for(question.engine.used.sum())
        draws = Draws(sampler, self.n_samples, self.rtol, self.seed)
        choose = partial(cheapest, rtol=self.rtol, sampler=sampler)
        accuracies = {"exact": EXACT, "pruned": pruned(self.rtol)}
        return answer_by(self._by, question, accuracies, draws, choose, tell)
