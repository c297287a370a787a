"""The class `Explainer`: gaps, curves, scores and rankings of a model under a noise.

Each method reads its arguments, makes the question they stand for, and asks it: see `_engine/questions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from predgap._engine.accuracy import (
    AFFORDABLE,
    EXACT,
    N_SAMPLES,
    RTOL,
    Accuracy,
    Auto,
    Draws,
    How,
    checked_rtol,
    guaranteed,
)
from predgap._engine.context import Call, Reports, calling, checked_progress, resolve_n_jobs
from predgap._engine.decisions import (
    SAMPLES,
    Bounds,
    Function,
    Space,
    as_probabilities,
    own_space,
    read_threshold,
)
from predgap._engine.kernels import Strategy
from predgap._engine.questions import (
    Best,
    Curve,
    Expectation,
    Found,
    Gap,
    HasKernels,
    MeanChange,
    OutputMoments,
    Question,
    RandomMean,
    RankMethod,
    Rows,
    VarianceShares,
    ask,
    random_after,
    ranking_question,
)
from predgap._engine.results import (
    Bracket,
    Cost,
    GapEstimate,
    Moments,
    Searched,
    Sensitivity,
    words,
)
from predgap._engine.sampling import Budget, checked_seed
from predgap._engine.subsets import TIE
from predgap._text import count, format_items
from predgap._typing import FloatArray, Progress
from predgap.errors import NoiseError, OutputError
from predgap.explainer.approximation import Approximation, Method
from predgap.explainer.batches import BatchFunction, What, batch_function
from predgap.explainer.explained import NOT_SAMPLED, Explained, check_choice, cost_of, rank_call
from predgap.explainer.sweep import STRENGTHS, Sweep, swept
from predgap.loaders import package_of
from predgap.noise import Noise
from predgap.ranking import Ranking

if TYPE_CHECKING:  # optional
    import pyarrow as pa

EstimateMethod = Literal["auto", "exact", "bounded", "mc", "qmc"]

_OF_A_RANKING = "explainer.approximate(rtol=1e-2).pgi2(X, ranking)"

BEST_FOUND = "best found"
"""The method of a ranking that was asked to be optimal, where not all rankings could be compared."""


class Explainer:
    """Computes squared prediction gaps of a tree ensemble, and ranks its features by them.

    The gap of a row x and a subset S of its features is PG²(x, S) = E[(f(x') - f(x))²]: the expected squared
    change of the prediction when the features in S are perturbed. x' is x with independent random noise on
    the features in S; all other features keep their values, and a missing value stays missing. f is the
    sum of the model's trees before any link function: the margin of boosted models, the average of forests.
    For several outputs the squared changes of all outputs are added up: E[|f(x') - f(x)|²].

    Use `gap` to measure how much given features move the prediction, `rank` to order the features of each
    row by importance, and `pgi2` or `curve` to score any ranking (for example one by SHAP values) by how
    faithful it is to the model.

    The results of `gap`, `curve`, `pgi2`, `pgu2` and `rank` have a proven relative error of at most `rtol`.
    They are exact up to rounding where that takes less than about 50 ms per row; curves and rankings of more
    than 10 ms, only if an answer within `rtol` would not take a third less. If a row would need more than two
    minutes or 1 GiB, `CostError` is raised. `cost` estimates time and memory before a call;
    `approximate` gives faster answers whose error is estimated, not proven.

    If the model is a scikit-learn Pipeline, pass the raw X. Noise, subsets, rankings and names are those of
    the columns of X wherever every step allows it: scaling, imputing, one-hot and ordinal encoding, and
    ColumnTransformer. Otherwise they are those of the features after the steps, which `transform` shows; a
    warning says why, and `Ranking.feature_space` names the steps.

    Parameters
    ----------
    model : model object, path of a model file, or Ensemble
        Anything that `predgap.load` accepts.
    noise : Noise, or (n, d) array or frame
        How each feature is perturbed, e.g. `Relative(X, 0.3)`. A table X, usually the training table, stands
        for just this noise; if the model is a pipeline, pass the raw table. Features that the model never
        splits on need no noise. `Background(X)` perturbs features together instead.
    output : int, str, (n,) array of them, or None, default=None
        Which output of the model to explain. None explains all outputs together. An int is the position of an
        output, a str the label of a class (`Ensemble.class_names`). "predicted" explains in each row the
        class that is predicted, the output with the largest margin; a class that is itself called
        "predicted" is chosen by its position. An array has the output of each row; X then has n rows in every
        call. Two classes with one output, which belongs to the second: position 0 is that output; the label
        of the first class explains 1 minus its probability, or its log-odds with the other sign.
    feature_names : sequence of d strings, or None, default=None
        Names to use instead of the model's own. None keeps those; a model without names takes those of the
        frame that its noise was made from. Frames are matched by these names, arrays by position.
    groups : dict of names and features, or None, default=None
        Features that are perturbed at the same time and ranked as one, e.g. `{"place": ["lat", "lon"]}`;
        features are names or indices. Each feature keeps its own noise, independent of the others'. Subsets,
        rankings, curves and scores are then those of the groups and of the features in no group, ordered by
        their first features; where the methods say d features, these are counted. Attributions are summed
        over a group before their size is taken: see `Ranking.from_attributions`.
    one_hot : mapping from name to dummies, or None, default=None
        Columns that are the dummies (0 or 1, at most one of them 1) of one category, by name or index, e.g.
        `{"job": ["job_clerk", "job_nurse"]}`. They become one categorical feature of that name, at the place
        of the first of them. Its levels are called as the dummies, and "(none)" where all are 0. X, and the
        table of a noise, keep the dummies. A Pipeline needs none: its encoders are read.
    rtol : float, default=1e-6
        The largest relative error that a result may have, below 1. In a curve, errors are relative to the
        mean of the curve. 0 asks for exact results.
    n_jobs : int, default=1
        Number of threads; -1 uses all cores. The results do not depend on it, down to the last bit.
    progress : callable, bool or None, default=None
        A function that is called from time to time with the number of rows done and the number of all rows.
        True shows a bar on a terminal, which needs rich (`pip install 'predgap[cli]'`). None shows it after 5
        seconds if rich is installed. A call that is expected to take more than 10 seconds warns, once, with
        the time and what takes less. False shows nothing and does not warn.

    Attributes
    ----------
    model : model object, path of a model file, or Ensemble
        As it was given; `predgap.evaluate` asks it for its own SHAP values and importances.
    ensemble : Ensemble
        The trees that are explained.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Flip, Uniform
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])  # 1 if the first feature <= 0.5, else 3
    >>> explainer = Explainer(tree, Uniform(1.0), feature_names=["age", "bmi"])
    >>> explainer.gap([[0.0, 7.0]], ["age"]).round(6)  # a quarter of [-1, 1] is beyond 0.5: 1 becomes 3
    array([1.])
    >>> explainer.rank([[0.0, 7.0]]).top(2)
    array([['age', 'bmi']], dtype='<U3')

    Two columns that move together are one:

    >>> sum_of = DecisionTreeRegressor().fit([[0, 0, 7], [0, 1, 7], [1, 0, 7], [1, 1, 7]], [0, 1, 1, 2])
    >>> together = Explainer(sum_of, Flip(0.5), feature_names=["lat", "lon", "age"], groups={"place": [0, 1]})
    >>> together.rank([[0, 0, 7]]).top(2)
    array([['place', 'age']], dtype='<U5')
    >>> together.gap([[0, 0, 7]], ["place"])
    array([1.5])
    """

    def __init__(
        self,
        model: Any,
        noise: Noise | Any,
        *,
        output: Any = None,
        feature_names: Sequence[str] | None = None,
        groups: Mapping[str, Any] | None = None,
        one_hot: Mapping[str, Sequence[str | int]] | None = None,
        rtol: float = RTOL,
        n_jobs: int = 1,
        progress: Progress | bool | None = None,
        _strategy: Strategy | None = None,  # forces an algorithm, in tests
    ) -> None:
        self.rtol = checked_rtol(rtol, zero=True)
        self.progress: Reports = checked_progress(progress)
        self.n_threads = resolve_n_jobs(n_jobs)
        self.model, self.output, self.groups = model, output, groups
        self.explained = Explained(model, noise, output, feature_names, groups, one_hot, _strategy)
        self.noise, self.ensemble = self.explained.noise, self.explained.ensemble

    @property
    def accuracy(self) -> Accuracy:
        """The accuracy that is promised of answers."""
        return Accuracy("bounded", self.rtol) if self.rtol > 0 else EXACT

    # ---- gaps and scores ----

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
        return self.explained.table(X).values

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
        rows = self.explained.rows(X)
        return self._answer(Gap(rows, self.explained.masks(rows, subset)), "gap(X, subset)").value

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
        rows = self.explained.rows(X)
        return self._answer(Curve(rows, self.explained.order(rows, ranking)), "curve(X, ranking)").value

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
        rows = self.explained.rows(X)
        asked = Curve(rows, self.explained.order(rows, ranking), average=True)
        return self._answer(asked, "pgi2(X, ranking)").value

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
        rows = self.explained.rows(X)
        asked = Curve(rows, self.explained.reversed_order(rows, ranking), average=True)
        return self._answer(asked, "pgu2(X, ranking)").value

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
        rows = self.explained.rows(X)
        call = Call("random_pgi2(X)", self.rtol, _OF_A_RANKING, faster=NOT_SAMPLED)
        return self._answer(RandomMean(rows, self.explained.places(top)), call).value

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
        rows = self.explained.rows(X)
        call = Call("normalized_pgi2(X, ranking)", self.rtol, _OF_A_RANKING, faster=NOT_SAMPLED)
        order = self.explained.order(rows, ranking)
        with calling(call, len(rows), self.n_threads, self.progress) as context:
            first, second, third, fourth = (context.part(i, i + 1, 4) for i in range(4))
            score = ask(self.explained, Curve(rows, order, average=True), self.accuracy, first).value
            found = ask(self.explained, Best(rows, order.shape[1]), self.accuracy, second)
            random = random_after(self.explained, found, rows, self.accuracy, third).value
            highest = Curve(rows, found.order, average=True)
            best = np.maximum(ask(self.explained, highest, self.accuracy, fourth).value, score)
        width = np.where(best - random > TIE * best, best - random, np.nan)
        normalized: FloatArray = (score - random) / width
        return normalized

    # ---- rankings ----

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
        places, rows = self.explained.places(top), self.explained.rows(X)
        found = self._answer(ranking_question(method, rows, places), rank_call(method, top, self.rtol))
        if isinstance(found, Searched) and not found.is_complete.all():
            return self.explained.ranking(found, BEST_FOUND, rows)
        return self.explained.ranking(found, method, rows)

    def __call__(self, X: Any) -> Ranking:
        """The same as `rank(X)`: a greedy ranking of all features."""
        return self.rank(X)

    # ---- the distribution of the prediction ----

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
        rows = self.explained.rows(X)
        asked = MeanChange(rows, self.explained.masks(rows, subset))
        (change,) = self._answer(asked, "expected_prediction(X, subset)", EXACT)
        return self.explained.margins(rows) + (change[:, 0] if change.shape[1] == 1 else change)

    def moments(self, X: Any, subset: Any = None, *, covariance: bool = False) -> Moments:
        """Mean and variance of the prediction of each row when features are perturbed.

        PG² = E[(f(x') - f(x))²] is the sum of two parts: the squared mean change, by how much the noise moves
        the prediction on average, and the variance, how far it spreads around that mean. Both are computed
        directly; none is the difference of two large numbers. Use them to see how certain a prediction is if
        its inputs are known up to noise.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        subset : names, indices, a boolean mask (d,), one boolean mask per row (n, d), or None, default=None
            The features to perturb; None for all.
        covariance : bool, default=False
            Whether to compute the covariances between the outputs too, if several are explained. They take
            longer where each output has trees of its own, as in boosted classifiers.

        Returns
        -------
        Moments
            With `mean`, `mean_change`, `variance` and `gap`, and `covariance` if asked for. The errors of
            variances, covariances and `gap` are at most `rtol` times `gap`; that of the mean is at most
            `rtol` times the square root of `gap`.

        Raises
        ------
        CostError
            If a row would take more than two minutes or 1 GiB.

        Notes
        -----
        Without covariances it takes as long as `gap`.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])  # 1 if the feature is at most 0.5, else 3
        >>> Explainer(tree, Uniform(1.0)).moments([[0.0]])  # 1 becomes 3 with probability 1/4
        Moments of 1 row
        row  mean  mean change  variance  error bound  method
          0   1.5          0.5      0.75            0  exact
        """
        rows, every = self.explained.rows(X), self.explained.every
        masks = every if subset is None else self.explained.masks(rows, subset)
        call = Call(
            f"moments(X{'' if subset is None else ', subset'})",
            self.rtol,
            "explainer.approximate(rtol=1e-2).gap(X, subset), without its parts",
            "A larger rtol or weaker noise costs less.",
            NOT_SAMPLED,
        )
        change, products, bound, method = self._answer(OutputMoments(rows, masks, covariance), call)
        several = change.shape[1] > 1
        change = change if several else change[:, 0]
        return Moments(
            mean=self.explained.margins(rows) + change,
            mean_change=change,
            variance=np.diagonal(products, axis1=1, axis2=2).reshape(change.shape).copy(),
            covariance=products if several and covariance else None,
            error_bound=bound,
            method=words(method),
            output_names=self.explained.output_names if several else None,
            index=rows.table.index,
            backend=rows.table.backend,
        )

    def sensitivity(self, X: Any = None) -> Sensitivity:
        """Which features the variance of each row's prediction comes from, when all features are perturbed.

        The variance of f(x') is the sum of what each feature does by itself, each two do together, and so on;
        these are its Sobol' indices and Shapley effects. With noise around each row, as `Relative(X)`, they
        belong to the row: which uncertain input makes this prediction uncertain? With `Marginal(X)` they are
        the global sensitivity indices of the model, the same for all rows: then leave X out.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain, or None, default=None
            None is for noise that replaces all features by values that do not depend on the row, as
            `Marginal(X)` does; the result then has one row.

        Returns
        -------
        Sensitivity
            With `first`, `total` and `shapley` (n, d), `interactions` (n, d, d) and `variance` (n,). The
            error of all shares is at most `rtol`. With groups, a group counts as one feature.

        Raises
        ------
        NoiseError
            If X is None and the noise of some feature depends on its value.
        PredgapError
            If the noise is `Background`: the features must move independently.
        CostError
            If a row would take more than two minutes or 1 GiB, or all interactions more than 1 GiB.

        Notes
        -----
        A missing value stays missing, also under `Marginal`; the answer without X is for rows that have none.
        What is left out at `rtol` is small relative to the variance, so a variance that is far smaller than
        the squared mean change takes longer. A variance that is itself only rounding (1e-30 of the squared
        prediction, say, where trees cancel each other) has shares that mean nothing.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Marginal
        >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> both = DecisionTreeRegressor().fit(X, [0, 0, 0, 4])  # 4 if both are 1
        >>> found = Explainer(both, Marginal(X), feature_names=["age", "bmi"]).sensitivity()
        >>> found
        Sensitivity of 1 row to 2 features
        feature   first  shapley   total
        age      0.3333      0.5  0.6667
        bmi      0.3333      0.5  0.6667
        >>> float(found.interactions[0, 0, 1].round(6)), float(found.variance[0])
        (0.333333, 3.0)
        """
        rows = self._any_row() if X is None else self.explained.rows(X)
        call = Call(
            "sensitivity(X)",
            self.rtol,
            "explainer.approximate(rtol=1e-2).rank(X), without shares",
            "A larger rtol or weaker noise costs less.",
            NOT_SAMPLED,
        )
        asked = VarianceShares(rows)
        asked.refuse_if_too_large(self.explained.n_units)  # all rows together, before they come in parts
        variance, first, total, shapley, pairs, bound, method = self._answer(asked, call)
        return Sensitivity(
            first=first,
            total=total,
            shapley=shapley,
            interactions=pairs,
            variance=variance,
            error_bound=bound,
            method=words(method),
            feature_names=self.explained.names_in(rows),
            index=rows.table.index,
            backend=rows.table.backend,
        )

    def flip(
        self,
        X: Any,
        threshold: float,
        subset: Any = None,
        *,
        space: Space | None = None,
        n_samples: int = SAMPLES,
        seed: int = 0,
    ) -> Bracket:
        """The probability that the prediction of each row crosses a threshold when features are perturbed.

        A row whose prediction is at the threshold or above crosses it by falling below it, another row by
        reaching it. Use it to see whether a decision is stable under the noise. Predictions that differ by
        rounding only (1e-12 of the sizes that are added up) count as equal.

        The probability is exact where all outcomes can be listed: one tree, few features, few thresholds, or
        `Background`. In other rows it is an estimate from samples between proven bounds, which follow from
        the exact mean and variance of the change (Cantelli's and Chebyshev's inequalities).

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        threshold : float
            Of the prediction, in the units of `space`.
        subset : names, indices, a mask (d,), one mask per row (n, d), or None, default=None
            The perturbed features; None for all.
        space : {"margin", "probability"}, or None, default=None
            "margin": the threshold is one of the sum of the trees. "probability": of the probability of the
            explained class; the model must be a classifier whose probabilities are known. None chooses
            "probability" for such classifiers, and "margin" for models that predict their margin.
        n_samples : int, default=16384
            The number of samples for rows that are not exact.
        seed : int, default=0
            The same seed gives the same numbers.

        Returns
        -------
        Bracket

        Raises
        ------
        OutputError
            If several outputs are explained together: choose one with `Explainer(..., output=)`.
        PredgapError
            If `space` is None and the threshold could be of either: the model predicts something else than
            its margin, and predgap does not know how it follows.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).flip([[0.0]], 2.0).value.round(6)  # a quarter is beyond 0.5
        array([0.25])
        """
        space = own_space(self.explained.model) if space is None else space
        rows, line = self.explained.rows(X), read_threshold(threshold, space)
        self.explained.check_one_output(rows)
        asked, seen = self.explained.predictions(rows, space)
        moved = np.ones(self.explained.n_units, dtype=np.bool_) if subset is None else subset
        call = f"flip(X, threshold{'' if subset is None else ', subset'})"
        return as_probabilities(self._bracket(call, rows, moved, asked, seen.crossing(line), n_samples, seed))

    def absolute_gap(
        self,
        X: Any,
        subset: Any,
        *,
        space: Space = "margin",
        n_samples: int = SAMPLES,
        seed: int = 0,
    ) -> Bracket:
        """The expected absolute change of the prediction of each row, E|f(x') - f(x)|.

        For several outputs explained together it is the Euclidean norm of their changes. Use it to compare
        with libraries that report absolute gaps; `gap` is squared, and always exact or bounded within `rtol`.

        It is exact where all outcomes can be listed: one tree, few features, few thresholds, or `Background`.
        In other rows it is an estimate from samples between the proven bounds |E f(x') - f(x)| and √PG².

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        subset : names, indices, a boolean mask (d,), or one boolean mask per row (n, d)
        space : {"margin", "probability"}, default="margin"
            "probability": f is the probability of the explained class, or of all classes. The bounds are then
            multiplied by the smallest and the largest slope of the link between the margins that the row can
            reach: at most 1/4 for two classes, √2/4 for one of several, whose lower bound is 0. No bound is
            above what a change to the farthest probability that the row can reach makes.
        n_samples : int, default=16384
            The number of samples for rows that are not exact.
        seed : int, default=0
            The same seed gives the same numbers.

        Returns
        -------
        Bracket

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).absolute_gap([[0.0]], [0]).value.round(6)  # 2, with probability 1/4
        array([0.5])
        """
        rows = self.explained.rows(X)
        asked, seen = self.explained.predictions(rows, space)
        return self._bracket("absolute_gap(X, subset)", rows, subset, asked, seen.size(), n_samples, seed)

    def probability_gap(self, X: Any, subset: Any, *, n_samples: int = SAMPLES, seed: int = 0) -> Bracket:
        """PG² of probabilities: the expected squared change of a classifier's probability, of each row.

        For several classes explained together, the squared changes of all are added up. `gap` is about the
        margin, before the link; it needs no samples. Here the value is exact where all outcomes can be listed
        (one tree, few features, few thresholds, `Background`, and forests, whose margins are probabilities
        and whose `gap` is this). In other rows it is an estimate from samples between proven bounds: PG²
        times the squares of the smallest and the largest slope of the link between the margins that the row
        can reach.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        subset : names, indices, a boolean mask (d,), or one boolean mask per row (n, d)
        n_samples : int, default=16384
            The number of samples for rows that are not exact.
        seed : int, default=0
            The same seed gives the same numbers.

        Returns
        -------
        Bracket

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeClassifier().fit([[0], [1]], ["no", "yes"])
        >>> Explainer(tree, Uniform(1.0)).probability_gap([[0.0]], [0]).value.round(6)  # 1, in a quarter
        array([0.25])
        """
        rows = self.explained.rows(X)
        asked, seen = self.explained.predictions(rows, "probability", "gap, which is about the margin")
        return self._bracket(
            "probability_gap(X, subset)", rows, subset, asked, seen.square(), n_samples, seed
        )

    # ---- other ways to be answered ----

    def estimate(
        self,
        X: Any,
        subset: Any,
        method: EstimateMethod = "auto",
        *,
        rtol: float | None = None,
        n_samples: int = N_SAMPLES,
        sequence: Literal["sobol", "halton"] = "sobol",
        seed: int = 0,
    ) -> GapEstimate:
        """The gap of each row by a method that you choose, together with its error.

        Use it to compare methods, or to see how far a gap may be off; else use `gap` or `approximate`.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        subset : names, indices, or a boolean mask (d,), the same for all rows
        method : {"auto", "exact", "bounded", "mc", "qmc"}, default="auto"
            "exact" computes the gap completely; its only error is rounding.
            "bounded" skips terms whose total effect is provably below `rtol`, and returns the bound.
            "mc" (Monte Carlo) averages over independent random samples. For several outputs its standard
            error is an upper bound.
            "qmc" (quasi-Monte Carlo) averages over points that fill the space evenly, the same for all rows,
            in 16 independent replicates whose spread gives the standard error.
            "auto" chooses for each row: "exact" if that takes up to about 5 s, else "bounded" if that takes
            up to about 5 s, else "qmc" ("mc" if more than 21,201 features are perturbed).
        rtol : float, or None, default=None
            For "mc" and "qmc": stop once the standard error of a row is at most `rtol` times its gap; None
            draws all `n_samples`. For "bounded": the largest error bound relative to the gap; None is 1e-6.
        n_samples : int, default=16384
            The largest number of samples per row; for Sobol points, rounded down to 16 times a power of 2.
        sequence : {"sobol", "halton"}, the points of "qmc", default="sobol"
        seed : int, default=0
            The same seed gives the same numbers. More samples begin with the samples of fewer.

        Returns
        -------
        GapEstimate of shape (n,)

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
        >>> found = Explainer(tree, Uniform(1.0)).estimate([[0.0]], [0], "qmc", n_samples=1024)
        >>> float(found.value[0]), str(found.method[0])
        (1.0, 'qmc')
        """
        check_choice("method", method, get_args(EstimateMethod))
        check_choice("sequence", sequence, ("sobol", "halton"))
        rows = self.explained.rows(X)
        mask = self.explained.one_mask(len(rows), subset)
        sampler = method if method in ("mc", "qmc") else None
        draws = Draws(sampler, n_samples, rtol, checked_seed(seed), sequence)
        bounded = guaranteed(Budget.of(draws).rtol or RTOL)
        hows: dict[str, How] = {
            "exact": EXACT,
            "bounded": bounded,
            "auto": Auto(((EXACT, AFFORDABLE), (bounded, AFFORDABLE)), draws),
        }
        if method not in ("auto", "exact"):
            self.explained.kernel.independent(f"method={method!r}")
        works = "explainer.estimate(X, subset, method='auto')"
        call = Call(f"estimate(X, subset, {method=})", None, works, faster=NOT_SAMPLED)
        return self._answer(Gap(rows, mask[None]), call, hows.get(method, draws))

    def approximate(
        self, rtol: float = 1e-2, method: Method = "auto", *, n_samples: int | None = None, seed: int = 0
    ) -> Approximation:
        """The methods of this explainer, answered faster: with an estimated error instead of a proven one.

        Use it for large or deep models, where `gap`, `curve` or `rank` take too long or raise `CostError`.

        Parameters
        ----------
        rtol : float, default=1e-2
            The relative error to aim at. In a curve, errors are relative to the mean of the curve. Rankings
            from samples do not use it: they draw samples until the features can be told apart.
        method : {"auto", "pruned", "qmc", "mc"}, default="auto"
            "pruned" skips small terms without a proof that their sum is small. Its standard error, a third of
            `rtol`, was calibrated on many models.
            "qmc" and "mc" average over samples, at quasi-random and at random points.
            "auto" chooses for each row: exact up to about 50 ms (curves and rankings: up to 10 ms, or more if
            "pruned" would save less than a third), else "pruned", else "qmc" if "pruned" would exceed the
            limits of time and memory. The result says which method was used; a pruned answer whose error
            bound happens to be within `rtol` is called "bounded".
        n_samples : int, or None, default=None
            The largest number of samples per row, or for rankings per row and place; rounded down to 16 times
            a power of 2. None is 16384 for gaps and curves, 4096 for rankings.
        seed : int, default=0
            The same seed gives the same numbers for a row, whatever the other rows are.

        Returns
        -------
        Approximation
            Its `gap`, `curve`, `pgi2` and `pgu2` return a `GapEstimate`, its `rank` a `Ranking` with the
            confidence in each place.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
        >>> found = Explainer(tree, Uniform(1.0)).approximate(rtol=0.05).gap([[0.0]], [0])
        >>> found.value.round(6), str(found.method[0])  # exact, because that is fast for this model
        (array([1.]), 'exact')
        """
        return Approximation(self, rtol, method, n_samples, seed)

    def cost(self, question: Any, X: Any = None, *, top: int | None = None) -> Cost:
        """Estimates the time and memory per row of a call, to decide between it and `approximate`.

        Parameters
        ----------
        question : "rank", a Ranking, or a subset
            "rank": the cost of `rank(X)`, a greedy ranking of all features. A `Ranking`: the cost of its
            `curve`, `pgi2` or `pgu2`. Anything else is a subset (names, indices or a mask): the cost of its
            `gap`. Pass a feature that is called rank as `["rank"]`.
        X : (n, d) array or frame, or None, default=None
            The rows of the call, of which up to 20 are used. None makes up twelve rows, whose numbers are
            quantiles of the thresholds of the model's last splits; this is less sure, for real rows may lie
            elsewhere.
        top : int, or None, default=None
            With "rank", the number of first places, as in `rank(X, top=top)`; None for all.

        Returns
        -------
        Cost, with `method`, `milliseconds` and `megabytes` per row, on one thread; and whether the call would
        be `refused`. Of a large forest `cost` takes a part of the time of the call, for it tries some of the
        trees. The 0.03 ms that any call takes are shared by the rows of X; without X they are those of
        a call about one row.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).cost("rank").method
        'exact'
        """
        return cost_of(self.explained, question, X, top, self.accuracy)

    def sweep(self, X: Any, rankings: Any, strengths: Any = STRENGTHS) -> Sweep:
        """PGI² of rankings at several strengths of the noise: does the choice of the strength matter?

        Use it before you report scores: a finding that holds at one strength only is a finding about that
        strength. The noise must have a strength, as `Normal.relative` has; all else of it stays the same.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        rankings : mapping from names to rankings
            A ranking is anything that `pgi2` takes, or one of the words "greedy", "single", "optimal" and
            "shapley", for the ranking that `rank` builds at each strength. All must have as many places.
        strengths : sequence of s positive numbers, default=(0.1, 0.2, 0.3, 0.5, 1.0)
            In the unit in which the noise was given its own.

        Returns
        -------
        Sweep
            With the scores of all rows, their means, which ranking is best at each strength, and how far the
            rankings agree. The scores have a relative error of at most `rtol`.

        Raises
        ------
        NoiseError
            If the noise has no strength that can be changed.
        RankingError
            If a ranking has other places than the rest.
        CostError
            If a row would take more than two minutes or 1 GiB at some strength.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Normal
        >>> X = [[0.0, 0.0], [0.0, 3.0], [1.0, 0.0], [1.0, 3.0]]
        >>> tree = DecisionTreeRegressor().fit(X, [0, 1, 5, 6])
        >>> explainer = Explainer(tree, Normal.relative(X, 0.3))
        >>> explainer.sweep(X, {"greedy": "greedy", "second first": [1, 0]}, [0.3, 1.0])
        Sweep of 4 rows: mean PGI² by strength of the noise
        strength   greedy  second first  best
             0.3  0.01094      0.005792  greedy
               1    4.046         2.142  greedy
        """
        return swept(self, X, rankings, strengths).sweep()

    def batch_function(
        self,
        what: What = "rank",
        schema: pa.Schema | None = None,
        *,
        keys: Sequence[str] | None = None,
        subset: Any = None,
        ranking: Any = None,
        rankings: Any = None,
        metrics: Sequence[Literal["pgi2", "pgu2"]] = ("pgi2",),
        method: RankMethod = "greedy",
        top: int | None = None,
        columns: Literal["arrays", "wide"] = "arrays",
        n_jobs: int = 1,
    ) -> BatchFunction:
        """A pure function of Arrow record batches, to explain tables on many processes or machines.

        Its result has a schema that is known beforehand, and it is small when it is pickled: so it fits
        `mapInArrow` of Spark, `map_partitions` of Dask, joblib, or a loop over the batches of a Parquet file.

        Parameters
        ----------
        what : {"rank", "gap", "curve", "pgi2", "scores"}, default="rank"
            What the columns of the answers are. All but the last have a fixed name:

            - "rank": `order`, the indices of the features (or groups), most important first; `scores`, one
              per feature, as `Ranking.scores`; `proven`, whether all places are proven.
            - "gap": `gap`, that of `subset`.
            - "curve": `curve`, the gaps of the prefixes of `ranking`.
            - "pgi2": `pgi2`, the score of `ranking`.
            - "scores": the PGI² of each of `rankings`, in a column of its name, and PGU² in <name>_pgu2.

            The last column is always `method`: "exact", or "bounded" if the error is proven to be at most
            `rtol`.
        schema : pyarrow.Schema or None, default=None
            The columns of the batches. Those that are no features of the model are passed through, before the
            answers. None: batches have the features only.
        keys : sequence of names, or None, default=None
            Columns of the schema to pass through, features or not; None for all that are no features. If the
            model has no feature names, all columns but the keys are features, in their order.
        subset : names, indices or a boolean mask (d,), for "gap"
        ranking : word or order, for "curve" and "pgi2"
            One order for all rows, as indices, names or a Series of importances; or one of the words
            "greedy", "single", "optimal", "shapley" (as `rank` makes them), "shap", "gain" (see
            `predgap.evaluate`), and for scores also "random", the expected score of a random ranking.
        rankings : sequence of words, or mapping from names to words or orders, for "scores"
        metrics : sequence of "pgi2" and "pgu2", default=("pgi2",), for "scores"
        method : {"greedy", "single", "optimal", "shapley"}, default="greedy"
            How to rank, for "rank".
        top : int or None, default=None
            How many places to fill or to count; None for all.
        columns : {"arrays", "wide"}, default="arrays"
            "wide" has `place_1`, … (names) and `score_<feature>` in place of `order` and `scores`, and
            `gap_1`, … in place of `curve`.
        n_jobs : int, default=1
            Number of threads of a call. With one process per core, 1 is best.

        Returns
        -------
        BatchFunction
            Call it with a `pyarrow.RecordBatch`; its attribute `schema` is that of the results.

        Raises
        ------
        DependencyError
            If PyArrow is not installed.
        TableError
            If the schema lacks a feature of the model.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[7, 0], [7, 1]], [1, 3])
        >>> explainer = Explainer(tree, Uniform(1.0), feature_names=["age", "bmi"])
        >>> batch = pa.RecordBatch.from_pydict({"id": ["a"], "bmi": [0.0], "age": [7.0]})
        >>> ranked = explainer.batch_function("rank", batch.schema)
        >>> ranked.schema.names
        ['id', 'order', 'scores', 'proven', 'method']
        >>> ranked(batch).to_pylist()[0]["order"]
        [1, 0]
        """
        return batch_function(
            self,
            what,
            schema,
            keys=keys,
            subset=subset,
            ranking=ranking,
            rankings=rankings,
            metrics=metrics,
            method=method,
            top=top,
            columns=columns,
            n_jobs=n_jobs,
        )

    # ---- asking ----

    def _answer(self, question: Question[Found], call: Call | str, how: How | None = None) -> Found:
        """Asks about all rows of a call, with its progress and its limits."""
        call = Call(call, self.rtol) if isinstance(call, str) else call
        with calling(call, len(question.rows.values), self.n_threads, self.progress) as context:
            return ask(self.explained, question, self.accuracy if how is None else how, context)

    def _bracket(
        self,
        call: str,
        rows: Rows,
        subset: Any,
        asked: HasKernels,
        wanted: tuple[Function, Bounds],
        n_samples: int,
        seed: int,
    ) -> Bracket:
        """The expected value of a function of the change of each row, and its bounds."""
        masks, numbers = self.explained.masks(rows, subset), np.arange(len(rows))
        n_samples, seed = Budget(n_samples).n_samples, checked_seed(seed)
        question = Expectation(rows, masks, *wanted, numbers, n_samples, seed)
        named = Call(call, instead="explainer.gap(X, subset)", faster="Fewer rows are faster.")
        with calling(named, len(rows), self.n_threads, self.progress) as context:
            found = ask(asked, question, self.accuracy, context)
        return Bracket(*found, index=rows.table.index, backend=rows.table.backend)

    def _any_row(self) -> Rows:
        """A made-up row, if the answer is the same for all rows; NoiseError or OutputError if it is not."""
        explained = self.explained
        explained.kernel.independent("sensitivity", VarianceShares.NEEDS)
        kept = [q for q, law in explained.kernel.laws.items() if not law.forgets]
        if kept:
            named = format_items([self.ensemble.names[q] for q in kept])
            raise NoiseError(
                f"sensitivity() without X needs noise that replaces every feature, as Marginal(X) does; the "
                f"noise of {count(len(kept), 'feature')} depends on the row: {named}. Pass the rows: "
                "sensitivity(X)"
            )
        row = explained.typical_rows().at(np.array([0]))
        if row.outputs is not None:
            raise OutputError("sensitivity() without X needs one output for all rows: pass output=, or X")
        return row

    # ---- copies ----

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: no kernels, and the trees once. treelite's models cannot be pickled, so that the
        trees take their place."""
        state = {key: value for key, value in self.__dict__.items() if key != "ensemble"}
        if not isinstance(self.model, str | PathLike) and package_of(self.model) == "treelite":
            state["model"] = self.explained.model
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.ensemble = self.explained.ensemble

    def __copy__(self) -> Self:
        other = object.__new__(type(self))  # by __getstate__ the trees would be made again
        other.__dict__.update(self.__dict__)
        return other

    def __repr__(self) -> str:
        return f"Explainer({self.ensemble.source}, {self.noise!r})"
