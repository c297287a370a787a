"""Answers with a stated error, where guaranteed ones take too long."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, TypeVar, get_args

from predgap._engine.accuracy import checked_rtol, pruned
from predgap._engine.choosing import answer_by, cheapest, sampler_for
from predgap._engine.costs import refusing
from predgap._engine.engine import Engine, RankingMethod
from predgap._engine.estimates import GapEstimate
from predgap._engine.points import checked_seed
from predgap._engine.progress import reporting
from predgap._engine.questions import Curves, Draws, Gaps, Question, Rankings
from predgap._engine.sampling import Budget
from predgap._typing import Progress
from predgap.explainer._arguments import Inputs, check_choice, ranking_call
from predgap.ranking import Ranking

Method = Literal["auto", "pruned", "qmc", "mc"]
Found = TypeVar("Found")


class Approximation:
    """Gaps, curves, scores and rankings of an explainer, with a stated error; see `Explainer.approximate`.

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
        progress: Progress | bool | None,
        rtol: float,
        method: Method,
        n_samples: int | None,
        seed: int,
    ) -> None:
        check_choice("method", method, get_args(Method))
        self.rtol, self.method, self.n_samples = checked_rtol(rtol, zero=False), method, n_samples
        self.seed = checked_seed(seed)
        if n_samples is not None:
            Budget(n_samples)  # is it a number of samples?
        self._inputs, self._engine, self._progress = inputs, engine, progress
        sampler = "mc" if method == "mc" else "qmc" if method == "qmc" else sampler_for(engine.used.sum())
        self._draws = Draws(sampler, n_samples, self.rtol, self.seed)

    def gap(self, X: Any, subset: Any) -> GapEstimate:
        """The gap of each row when the features of `subset` are perturbed.

        Parameters
        ----------
        X : (n, d) array or frame
        subset : names, indices, a boolean mask (d,), or one mask per row (n, d)

        Returns
        -------
        GapEstimate
            Of shape (n,).
        """
        rows = self._inputs.rows(X)
        question = Gaps(self._engine, rows, self._inputs.masks(len(rows), subset))
        return self._ask(question, "gap(X, subset)")

    def curve(self, X: Any, ranking: Any) -> GapEstimate:
        """Gaps of the prefixes of a ranking.

        Parameters
        ----------
        X : (n, d) array or frame
        ranking : Ranking, or indices or names, (k,) for all rows or (n, k)

        Returns
        -------
        GapEstimate
            Of shape (n, k). `rtol` is relative to the mean of a row's curve, and so are its errors: prefixes
            that are much smaller than it may be all wrong.
        """
        rows = self._inputs.rows(X)
        return self._ask(
            Curves(self._engine, rows, self._inputs.order(len(rows), ranking)), "curve(X, ranking)"
        )

    def pgi2(self, X: Any, ranking: Any) -> GapEstimate:
        """PGI² of a ranking: the mean of its `curve`; see `Explainer.pgi2`.

        Parameters
        ----------
        X : (n, d) array or frame
        ranking : Ranking, or indices or names, (k,) for all rows or (n, k)

        Returns
        -------
        GapEstimate
            Of shape (n,).
        """
        rows = self._inputs.rows(X)
        order = self._inputs.order(len(rows), ranking)
        return self._ask(Curves(self._engine, rows, order, average=True), "pgi2(X, ranking)")

    def pgu2(self, X: Any, ranking: Any) -> GapEstimate:
        """PGU² of a full ranking: PGI² of the reversed one; see `Explainer.pgu2`.

        Parameters
        ----------
        X : (n, d) array or frame
        ranking : Ranking, or indices or names, (d,) for all rows or (n, d)

        Returns
        -------
        GapEstimate
            Of shape (n,).
        """
        rows = self._inputs.rows(X)
        order = self._inputs.reversed_order(len(rows), ranking)
        return self._ask(Curves(self._engine, rows, order, average=True), "pgu2(X, ranking)")

    def rank(self, X: Any, method: RankingMethod = "greedy", *, top: int | None = None) -> Ranking:
        """A ranking of the features for each row.

        Parameters
        ----------
        X : (n, d) array or frame
        method : {"greedy", "single"}, default="greedy"
            As in `Explainer.rank`.
        top : int, or None, default=None
            How many places; None for all.

        Returns
        -------
        Ranking
            Its `estimator` says how the gaps were obtained; of rows that differ in that, the least certain.
            Its `confidence` is 1 where a place is proven, the estimated probability that it is right where
            samples decided, and NaN where nothing is known.
        """
        check_choice("method", method, get_args(RankingMethod))
        places = self._inputs.places(top)
        table = self._inputs.table(X)
        question = Rankings(self._engine, self._inputs.ensemble.cast(table.values), method, places)
        ranked = self._ask(question, ranking_call(method, top))
        return self._inputs.ranking(ranked, method, table)

    def __call__(self, X: Any) -> Ranking:
        """`rank(X)`."""
        return self.rank(X)

    def __repr__(self) -> str:
        return f"Approximation(rtol={self.rtol:g}, method={self.method!r})"

    def _ask(self, question: Question[Found], call: str) -> Found:
        accuracies = {"pruned": pruned(self.rtol)}
        asked = f"approximate(rtol={self.rtol:g}, method={self.method!r}).{call}"
        instead = f"explainer.approximate(rtol={self.rtol:g}, method='qmc').{call}"
        with refusing(asked, instead), reporting(self._progress, len(question.rows)) as tell:
            choose = partial(cheapest, rtol=self.rtol, sampler=self._draws.method)
            return answer_by(self.method, question, accuracies, self._draws, choose, tell)
