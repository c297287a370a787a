"""The answers of an `Explainer` whose error is proven: gaps, curves, scores, rankings, expected values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Final, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import Accuracy
from predgap._engine.costs import refusing
from predgap._engine.engine import Answer, Engine
from predgap._engine.engines import EngineRecipe
from predgap._engine.progress import Advice, Reports, Tell, reporting, share_of, within
from predgap._engine.questions import Computed, Curves, Gaps, Ranked, Rankings, mean_of_curve
from predgap._engine.scale import BestRankings, Expected, RandomScores, RankMethod, Searched, ShapleyRankings
from predgap._engine.subset_tables import TIE
from predgap._model.ensemble import Ensemble
from predgap._text import count
from predgap._typing import FloatArray, IntArray
from predgap.explainer._arguments import Inputs, Rows, check_choice, ranking_call
from predgap.explainer._outputs import margins
from predgap.ranking import Ranking

Found = TypeVar("Found")

BEST_FOUND: Final = "best found"
"""The method of a ranking that was asked to be optimal, where not all rankings could be compared."""


class GuaranteedAnswers:
    """The methods of `Explainer` that answer within a proven tolerance.

    `Approximation` has the same methods, with an estimated error.
    """

    ensemble: Ensemble
    rtol: float
    progress: Reports
    _inputs: Inputs
    _recipe: EngineRecipe
    _accuracy: Accuracy

    @cached_property
    def _engine(self) -> Engine:
        """The kernels; of an explainer from a pickle they are built when they are needed first."""
        return self._recipe.engine(self.ensemble)

    def transform(self, X: Any) -> FloatArray:
        """X as the explainer sees it: one column per feature, so that `ensemble.predict` takes it.

        Use it to look at the features that are perturbed and ranked: the columns of X in the model's order,
        with categories in place of dummies (`one_hot`); if a Pipeline cannot be explained in its raw columns,
        what its steps make of X. Missing values are NaN, categories are codes. Columns of a Pipeline that its
        model never uses are NaN, too.

        Parameters
        ----------
        X : (n, d) array or frame, as you would pass it to the model or pipeline

        Returns
        -------
        (n, d) array
        """
        return self._inputs.table(X).values

    def gap(self, X: Any, subset: Any) -> FloatArray:
        """The gap of each row: the expected squared change of its prediction when `subset` is perturbed.

        PG²(x, S) = E[(f(x') - f(x))²], where x' is x with noise on the features in S. Use it to see how much
        a set of features moves the prediction of a row. It is in squared units of the model's margin.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain; named columns are matched by name
        subset : names, indices, a boolean mask (d,), or one boolean mask per row (n, d)
            The features to perturb. The gap of the empty subset is 0.

        Returns
        -------
        (n,) array of gaps, with a relative error of at most `rtol`

        Raises
        ------
        CostError
            If a row would take more than two minutes or 1 GiB; use `approximate().gap(X, subset)`.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])  # 1 if age <= 0.5, else 3
        >>> explainer = Explainer(tree, Uniform(1.0), feature_names=["age", "bmi"])
        >>> explainer.gap([[0.0, 7.0]], ["age"]).round(6)  # 1 becomes 3 with probability 1/4: 1/4 · 2² = 1
        array([1.])
        """
        rows = self._inputs.rows(X)
        masks = self._inputs.masks(len(rows), subset)
        return self._computed(Gaps(self._engine, rows.values, masks), rows, "gap(X, subset)")

    def curve(self, X: Any, ranking: Any) -> FloatArray:
        """Gaps when the first feature of a ranking is perturbed, the first two, and so on.

        Use it to see where a ranking gains its PGI², and to draw it with `plots.gap_curves`. A curve that
        rises early belongs to a ranking that puts the features first which move the prediction.

        A curve may also fall: a gap does not always grow with its subset, because perturbing one more feature
        may cancel the change that the others made. The second example shows this.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        ranking : Ranking, shap.Explanation, or another form of a ranking
            Most important first; it may have fewer than d places. Also a frame of attributions, a Series of
            importances that is labelled by feature (one order for all rows), and indices or names, (k,) for
            all rows or (n, k). If both X and the ranking have an index, rows are matched by it.

        Returns
        -------
        (n, k) array
            Column j is the gap when the j + 1 most important features are perturbed. The error of each gap is
            at most `rtol` times the mean of its row of the result.

        Raises
        ------
        RankingError
            If it is no ranking of the model's features, is of another output than the explainer, or has an
            index that cannot be matched with that of X.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Flip, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).curve([[0.0, 7.0]], [1, 0]).round(6)
        array([[0., 1.]])

        A model of "are the two values different?": flipping one changes the prediction by 1, flipping both
        does not change it.

        >>> differ = DecisionTreeRegressor().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0])
        >>> Explainer(differ, Flip(1.0)).curve([[0, 0]], [0, 1])
        array([[1., 0.]])
        """
        rows = self._inputs.rows(X)
        return self._curve(rows, self._inputs.order(rows, ranking), "curve(X, ranking)")

    def pgi2(self, X: Any, ranking: Any) -> FloatArray:
        """PGI² of a ranking: a score of how faithful the ranking is to the model; higher is better.

        PGI²(x) = (1/d) Σ_{k=1..d} PG²(x, first k features), where d is the number of features: perturb the
        most important feature, then the two most important ones, and so on, and average the d gaps. It is the
        mean of `curve`.

        A high value is good: the features that the ranking puts first move the prediction most, so the gaps
        are large from the first places on. It is in squared units of the model's margin: compare rankings of
        the same rows, by the same model and noise.

        The gaps need not rise with k. A gap is not monotone: perturbing one more feature may cancel the
        change that the others made (see `curve` for an example).

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        ranking : Ranking, or another form of a ranking that `curve` takes
            Most important first. If it has only the first k < d places, the mean is over these k gaps;
            compare it only with other rankings of k places.

        Returns
        -------
        (n,) array of PGI², with a relative error of at most `rtol`

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
        >>> explainer = Explainer(tree, Uniform(1.0))
        >>> [explainer.pgi2([[0.0, 7.0]], order).round(6) for order in ([0, 1], [1, 0])]
        [array([1.]), array([0.5])]
        """
        rows = self._inputs.rows(X)
        return mean_of_curve(self._curve(rows, self._inputs.order(rows, ranking), "pgi2(X, ranking)"))

    def pgu2(self, X: Any, ranking: Any) -> FloatArray:
        """PGU² of a ranking: PGI² of the reversed ranking; lower is better.

        The least important feature is perturbed, then the two least important ones, and so on, and the d gaps
        are averaged. A low value is good: the features that the ranking puts last hardly move the prediction.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        ranking : Ranking, or another form of a ranking that `curve` takes
            Most important first, with all d places.

        Returns
        -------
        (n,) array of PGU², with a relative error of at most `rtol`

        Raises
        ------
        RankingError
            If the ranking has fewer than d places.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
        >>> explainer = Explainer(tree, Uniform(1.0))
        >>> [explainer.pgu2([[0.0, 7.0]], order).round(6) for order in ([0, 1], [1, 0])]
        [array([0.5]), array([1.])]
        """
        rows = self._inputs.rows(X)
        order = self._inputs.reversed_order(rows, ranking)
        return mean_of_curve(self._curve(rows, order, "pgu2(X, ranking)"))

    def rank(self, X: Any, method: RankMethod = "greedy", *, top: int | None = None) -> Ranking:
        """Ranks the features of each row by importance, from gaps.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        method : {"greedy", "single", "optimal", "shapley"}, default="greedy"
            "greedy" fills the places one after the other: each goes to the feature that, added to those
            already placed, gives the largest gap. The score of a feature is the gain, by how much it changed
            the gap; it may be negative. Use it for rankings with a high PGI². "single" sorts the features by
            the gap of each one alone, which is its score; it is faster, but ignores what features do
            together. In both, gaps that differ by no more than rounding are ties, and the lower index comes
            first.
            "optimal" is the ranking with the highest PGI² of all. Scores are gains, as for "greedy". Of
            rankings whose PGI² is equal (up to 1e-12 of it) it is the first by index, place by place;
            features that cannot change the row's prediction come last, or, where the gap falls, where it is
            largest. All rankings are compared in rows in which at most 14 features (or groups) matter, if
            that takes up to about 20 s. In other rows it is the best ranking that a search finds, never below
            "greedy"; the method of the result is then "best found".
            "shapley" sorts by the Shapley values of the game in which a set of features is worth its gap;
            they are the scores, may be negative, and sum to the gap of all features. Ties go to the lower
            index.
        top : int, or None, default=None
            How many places to fill; None for all d. A few places of many features take much less time.

        Returns
        -------
        Ranking
            With k = `top` places. `scores` (n, d) have an error of at most `rtol` times the gap of all placed
            features, and are NaN for features without a place. `confidence` (n, k) is 1 where a place is
            proven, and NaN where `rtol` is too coarse to prove it; for "optimal" and "shapley" it is 1 in the
            rows that were computed exactly, and all of whose rankings were compared. `estimator` is "exact",
            or "bounded" if some rows were not computed exactly; PGI² of "optimal" is then within `rtol` of
            the highest.

        Raises
        ------
        CostError
            If a row would take more than two minutes or 1 GiB; use `approximate().rank(X)`, or fewer places.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[7, 0], [7, 1]], [1, 3])
        >>> ranking = Explainer(tree, Uniform(1.0)).rank([[7.0, 0.0]])
        >>> ranking.order, ranking.scores.round(6), ranking.estimator
        (array([[1, 0]]), array([[0., 1.]]), 'exact')
        """
        check_choice("method", method, get_args(RankMethod))
        places = self._inputs.places(top)
        rows = self._inputs.rows(X)
        ranked = self._ranked(rows, method, places, ranking_call(method, top))
        if isinstance(ranked, Searched) and not ranked.is_complete.all():
            return self._inputs.ranking(ranked, BEST_FOUND, rows)
        return self._inputs.ranking(ranked, method, rows)

    def expected_prediction(self, X: Any, subset: Any) -> FloatArray:
        """The expected prediction E[f(x')] of each row when the features of `subset` are perturbed.

        Use it to see in which direction the noise moves a prediction; a gap, being squared, does not tell.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        subset : names, indices, a boolean mask (d,), or one boolean mask per row (n, d)

        Returns
        -------
        (n,) array of raw margins, or (n, n_outputs) if several outputs are explained together; exact up to
        rounding

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).expected_prediction([[0.0]], [0]).round(6)
        array([1.5])
        """
        rows = self._inputs.rows(X)
        masks = self._inputs.masks(len(rows), subset)

        def expected(part: Gaps, tell: Tell) -> tuple[FloatArray]:
            change = part.engine.mean_change(part.rows, part.masks, tell)
            margin = margins(part.engine.ensemble, part.rows)
            return (margin + change.reshape(margin.shape),)

        asked = Gaps(self._engine, rows.values, masks)
        return self._answer(asked, rows, expected, "expected_prediction(X, subset)")[0]

    def random_pgi2(self, X: Any, *, top: int | None = None) -> FloatArray:
        """The expected PGI² of a random ranking of each row: what a ranking that knows nothing reaches.

        It is the mean of PGI² over all rankings, each as likely as any other. Use it with the PGI² of
        `rank(X, "optimal")` to judge a score; `normalized_pgi2` does so.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        top : int, or None, default=None
            The number of places; None for all d. For a ranking of the first k places, pass k.

        Returns
        -------
        (n,) array of expected PGI², with a relative error of at most `rtol`

        Raises
        ------
        CostError
            If a row would take more than two minutes; or, unless the noise is `Background`, if more than 14
            features (or groups) matter in it, and `top` is so large that they have more than 30,000 subsets
            of up to `top`, or there are more than six groups.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).random_pgi2([[0.0, 7.0]]).round(6)  # the mean of 1 and 0.5
        array([0.75])
        """
        places = self._inputs.places(top)
        rows = self._inputs.rows(X)
        return self._random(rows, places, "random_pgi2(X)").value

    def normalized_pgi2(self, X: Any, ranking: Any) -> FloatArray:
        """PGI² of a ranking on the scale from random to best: (PGI² - random) / (best - random).

        0 is what a random ranking reaches on average (`random_pgi2`), 1 the best ranking
        (`rank(X, "optimal")`). A negative value is worse than random. Use it to judge a score by itself, and
        to compare models or rows. Over several rows take the ratio of the means of numerator and denominator,
        not the mean of the ratios: rows whose rankings hardly differ would count as much as others.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        ranking : Ranking, or another form of a ranking that `curve` takes
            Most important first. If it has the first k < d places only, random and best are those of k
            places.

        Returns
        -------
        (n,) array
            At most 1: where no best ranking is proven (see `rank`) and the given one is better than the best
            found, it counts as the best. NaN where best and random are equal, so that no ranking is better
            than another.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
        >>> explainer = Explainer(tree, Uniform(1.0))
        >>> [explainer.normalized_pgi2([[0.0, 7.0]], order) for order in ([0, 1], [1, 0])]
        [array([1.]), array([-1.])]
        """
        rows = self._inputs.rows(X)
        order, call = self._inputs.order(rows, ranking), "normalized_pgi2(X, ranking)"
        n, k = len(rows), order.shape[1]
        with reporting(self.progress, n, self._advice(call, n, sampled=False)) as tell:
            parts = [self._telling(share_of(tell, i / 4, (i + 1) / 4, n, n), n) for i in range(4)]
            score = mean_of_curve(parts[0]._curve(rows, order, call))
            found = parts[1]._searched(rows, k, call)
            random = parts[2]._random(rows, k, call, found).value
            best = np.maximum(mean_of_curve(parts[3]._curve(rows, found.order, call)), score)
        width = np.where(best - random > TIE * best, best - random, np.nan)
        normalized: FloatArray = (score - random) / width
        return normalized

    def _random(self, rows: Rows, places: int, call: str, searched: Searched | None = None) -> Expected:
        """The expected PGI² of the first places of a random ranking; what came with a search is reused."""
        known = np.full(len(rows), np.nan) if searched is None else searched.random
        missing = np.flatnonzero(np.isnan(known))
        question = RandomScores(self._engine, rows.values[missing], places, self._inputs.members)
        with self._asking(call):
            found: Expected = self._answer(question, rows.at(missing), self._by_kernels, call, sampled=False)
        if searched is None:
            return found
        value, method = known.copy(), searched.method.copy()
        value[missing], method[missing] = found.value, found.method
        return Expected(value, method)

    def _searched(self, rows: Rows, places: int, call: str, orders: IntArray | None = None) -> Searched:
        """The best rankings that can be found, and the curves of other orders that come along."""
        given = (places, self._inputs.members, orders)
        return self._built(BestRankings(self._engine, rows.values, *given), rows, call)

    def _ranked(self, rows: Rows, method: RankMethod, places: int, call: str) -> Ranked:
        if method == "optimal":
            return self._searched(rows, places, call)
        given = (places, self._inputs.members)
        if method == "shapley":
            return self._built(ShapleyRankings(self._engine, rows.values, *given), rows, call)
        return self._built(Rankings(self._engine, rows.values, method, *given), rows, call)

    def _built(self, question: Computed[Found], rows: Rows, call: str) -> Found:
        with self._asking(call, "Fewer places cost less: rank(X, top=k)."):
            found: Found = self._answer(question, rows, self._by_kernels, call)
        return found

    def _telling(self, tell: Tell, n_rows: int) -> Self:
        """The same explainer, which reports to another function of n_rows rows."""
        other = copy.copy(self)
        other.progress = within(tell, n_rows)
        return other

    def _by_kernels(self, part: Computed[Found], tell: Tell) -> Found:
        return part.answer(self._accuracy, tell)

    def _curve(self, rows: Rows, order: NDArray[np.int32], call: str) -> FloatArray:
        return self._computed(Curves(self._engine, rows.values, order, self._inputs.members), rows, call)

    def _computed(self, question: Gaps | Curves, rows: Rows, call: str) -> FloatArray:
        """Gaps (n,), or curves (n, k); `call` is named if it is too costly."""

        def computed(part: Gaps | Curves, tell: Tell) -> Answer:
            return part.computed(self._accuracy, tell)

        with self._asking(call):
            return self._answer(question, rows, computed, call)[0]

    def _answer(
        self,
        question: Computed[Any],
        rows: Rows,
        ask: Callable[[Any, Tell], Found],
        call: str,
        *,
        sampled: bool = True,
    ) -> Found:
        """The answer to a question about all rows of a call, asked for each output that they have.

        `call` names it if it is expected to be long; `sampled`: can samples answer it?
        """
        with reporting(self.progress, len(rows), self._advice(call, len(rows), sampled)) as tell:
            return self._inputs.outputs.answer(question, rows.outputs, ask, tell)

    def _advice(self, call: str, n_rows: int, sampled: bool = True) -> Callable[[], Advice]:
        """What is said of a call that is expected to be long."""

        def advice() -> Advice:
            faster = f"This is faster: explainer.approximate(rtol=1e-2).{call}"
            if not sampled:
                faster = "Fewer rows and a larger rtol are faster"
            threads = " So are more threads, n_jobs=-1." if self._recipe.n_threads == 1 else ""
            return Advice(f"{call} of {count(n_rows, 'row')} at rtol={self.rtol:g}", f"{faster}.{threads}")

        return advice

    def _asking(self, call: str, hint: str = "") -> AbstractContextManager[None]:
        """A context for one call: if it is too costly, `CostError` names the call and one that works."""
        return refusing(f"{call} at rtol={self.rtol:g}", f"explainer.approximate(rtol=1e-2).{call}", hint)
