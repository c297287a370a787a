"""The class `Approximation`: the methods of an explainer with estimated instead of proven errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from predgap._engine.accuracy import MOST_MILLISECONDS, Auto, Draws, How, checked_rtol, pruned
from predgap._engine.context import Call, calling
from predgap._engine.questions import Curve, Found, Gap, Question, Rank, RankingMethod, RankMethod, ask
from predgap._engine.results import GapEstimate
from predgap._engine.sampling import Budget, checked_seed
from predgap.errors import PredgapError
from predgap.explainer.explained import check_choice, ranking_call
from predgap.ranking import Ranking

if TYPE_CHECKING:
    from predgap.explainer.explainer import Explainer

Method = Literal["auto", "pruned", "qmc", "mc"]


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
        explainer: Explainer,
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
        if method != "auto":
            explainer.explained.kernel.independent(f"method={method!r}")
        self._explained = explainer.explained
        self._n_threads, self._progress = explainer.n_threads, explainer.progress

    @property
    def _how(self) -> How:
        """How rows are answered: "pruned" within the limits, else sampled; or as it was asked.

        Among the ways without samples "pruned" is always the cheapest. The core answers exactly where that is
        as cheap, and an answer counts as "bounded" if its error bound is within `rtol`.
        """
        sampler = self.method if self.method in ("mc", "qmc") else None
        draws = Draws(sampler, self.n_samples, self.rtol, self.seed)
        if self.method == "auto":
            return Auto(((pruned(self.rtol), MOST_MILLISECONDS),), draws)
        return pruned(self.rtol) if self.method == "pruned" else draws

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
        rows = self._explained.rows(X)
        return self._answer(Gap(rows, self._explained.masks(rows, subset)), "gap(X, subset)")

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
        rows = self._explained.rows(X)
        return self._answer(Curve(rows, self._explained.order(rows, ranking)), "curve(X, ranking)")

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
        rows = self._explained.rows(X)
        asked = Curve(rows, self._explained.order(rows, ranking), average=True)
        return self._answer(asked, "pgi2(X, ranking)")

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
        rows = self._explained.rows(X)
        asked = Curve(rows, self._explained.reversed_order(rows, ranking), average=True)
        return self._answer(asked, "pgu2(X, ranking)")

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
        if isinstance(method, str) and method in {*get_args(RankMethod)} - {*get_args(RankingMethod)}:
            raise PredgapError(
                f"method={method!r} is not estimated: it compares gaps of many subsets, whose errors would "
                f"decide; use explainer.rank(X, {method!r}), with a larger rtol if it is too costly"
            )
        check_choice("method", method, get_args(RankingMethod))
        places, rows = self._explained.places(top), self._explained.rows(X)
        found = self._answer(Rank(rows, method, places), ranking_call(method, top))
        return self._explained.ranking(found, method, rows)

    def __call__(self, X: Any) -> Ranking:
        """The same as `rank(X)`: a greedy ranking of all features."""
        return self.rank(X)

    def __repr__(self) -> str:
        return f"Approximation(rtol={self.rtol:g}, method={self.method!r})"

    def _answer(self, question: Question[Found], call: str) -> Found:
        """Asks about all rows of a call, as `Explainer` does."""
        names = Call(
            f"approximate(rtol={self.rtol:g}, method={self.method!r}).{call}",
            instead=f"explainer.approximate(rtol={self.rtol:g}, method='qmc').{call}",
            faster="A larger rtol, fewer samples and fewer rows are faster.",
        )
        with calling(names, len(question.rows), self._n_threads, self._progress) as context:
            return ask(self._explained, question, self._how, context)
