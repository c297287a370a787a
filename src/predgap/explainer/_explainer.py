"""The class `Explainer`: gaps, curves, scores and rankings of a model under a noise."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import EXACT, RTOL, checked_rtol, guaranteed
from predgap._engine.choosing import answer_by, guaranteed_if_affordable, sampler_for
from predgap._engine.costs import Cost, refusing
from predgap._engine.engine import Engine, RankingMethod, Strategy, resolve_n_jobs
from predgap._engine.estimates import GapEstimate
from predgap._engine.kernel_noise import laws_for_model
from predgap._engine.points import checked_seed
from predgap._engine.progress import checked_progress, reporting
from predgap._engine.questions import N_SAMPLES, Draws, Gaps, Rankings, mean_of_curve
from predgap._model.ensemble import Ensemble
from predgap._typing import FloatArray, Progress
from predgap.errors import NoiseError
from predgap.explainer._approximation import Approximation, Method
from predgap.explainer._arguments import Inputs, check_choice, ranking_call
from predgap.explainer._pricing import cost_of
from predgap.loaders import load
from predgap.loaders.pipelines import preparation
from predgap.noise import Noise
from predgap.ranking import Ranking

EstimateMethod = Literal["auto", "exact", "bounded", "mc", "qmc"]


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
    They are exact up to rounding where that takes less than about 50 ms per row. If a row would need more
    than two minutes or 1 GiB, `CostError` is raised. `cost` estimates time and memory before a call;
    `approximate` gives faster answers whose error is estimated, not proven.

    If the model is a scikit-learn Pipeline, its last step is explained. Pass the raw X: the steps before the
    last one are applied to it. Noise, subsets, rankings and names refer to the features after these steps,
    which `transform` shows. `Ranking.feature_space` names the steps.

    Parameters
    ----------
    model : model object, path of a model file, or Ensemble
        Anything that `predgap.load` accepts.
    noise : Noise
        How each feature is perturbed, e.g. `Normal(0.3)` or `Normal.relative(X, 0.3)`. Features that the
        model never splits on need no noise.
    output : int, or None, default=None
        Which output of the model to explain. None explains all outputs together.
    feature_names : sequence of d strings, or None, default=None
        Names to use instead of the model's own. None keeps those.
    rtol : float, default=1e-6
        The largest relative error that a result may have. In a curve, errors are relative to the mean of the
        curve. 0 asks for exact results.
    n_jobs : int, default=1
        Number of threads; -1 uses all cores. The results do not depend on it, down to the last bit.
    progress : callable, True or None, default=None
        A function that is called from time to time with the number of rows done and the number of all rows.
        True shows a bar on a terminal, which needs rich (`pip install 'predgap[cli]'`).

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])  # 1 if the first feature <= 0.5, else 3
    >>> explainer = Explainer(tree, Uniform(1.0), feature_names=["age", "bmi"])
    >>> explainer.gap([[0.0, 7.0]], ["age"]).round(6)  # a quarter of [-1, 1] is beyond 0.5: 1 becomes 3
    array([1.])
    >>> explainer.rank([[0.0, 7.0]]).top(2)
    array([['age', 'bmi']], dtype='<U3')
    """

    def __init__(
        self,
        model: Any,
        noise: Noise,
        *,
        output: int | None = None,
        feature_names: Sequence[str] | None = None,
        rtol: float = RTOL,
        n_jobs: int = 1,
        progress: Progress | bool | None = None,
        _strategy: Strategy | None = None,  # forces an algorithm, in tests
    ) -> None:
        if not isinstance(noise, Noise):
            raise NoiseError(f"noise is {noise!r}, expected a Noise such as Normal(0.3)")
        self.rtol = checked_rtol(rtol, zero=True)
        self.progress = checked_progress(progress)
        n_threads = resolve_n_jobs(n_jobs)
        steps = preparation(model)
        ensemble = load(model)
        if feature_names is not None:
            ensemble = ensemble.named(feature_names)
        self.ensemble: Ensemble = ensemble if output is None else ensemble.select(output)
        self.noise, self.output = noise, output
        self._inputs = Inputs(self.ensemble, steps)
        self._accuracy = guaranteed(self.rtol)
        self._engine = Engine(self.ensemble, laws_for_model(noise, self.ensemble), n_threads, _strategy)

    def transform(self, X: Any) -> FloatArray:
        """X as the model sees it: after the steps of a pipeline, with columns in the model's order.

        Use it to look at the features that a pipeline makes of X. Missing values are NaN, categories are
        codes.

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
        with self._asking("gap(X, subset)"), reporting(self.progress, len(rows)) as tell:
            return self._engine.gap(rows, masks, self._accuracy, tell)[0]

    def curve(self, X: Any, ranking: Any) -> FloatArray:
        """Gaps when the first feature of a ranking is perturbed, the first two, and so on.

        Use it to see where a ranking gains its PGI², and to draw it with `plots.gap_curves`. A curve that
        rises early belongs to a ranking that puts the features first which move the prediction.

        A curve may also fall: a gap does not always grow with its subset, because perturbing one more feature
        may cancel the change that the others made. The second example shows this.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        ranking : Ranking, or indices or names, (k,) for all rows or (n, k)
            Most important first. It may have fewer than d places.

        Returns
        -------
        (n, k) array
            Column j is the gap when the j + 1 most important features are perturbed. The error of each gap is
            at most `rtol` times the mean of its row of the result.

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
        return self._curve(rows, self._inputs.order(len(rows), ranking), "curve(X, ranking)")

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
        ranking : Ranking, or indices or names, (k,) for all rows or (n, k)
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
        return mean_of_curve(self._curve(rows, self._inputs.order(len(rows), ranking), "pgi2(X, ranking)"))

    def pgu2(self, X: Any, ranking: Any) -> FloatArray:
        """PGU² of a ranking: PGI² of the reversed ranking; lower is better.

        The least important feature is perturbed, then the two least important ones, and so on, and the d gaps
        are averaged. A low value is good: the features that the ranking puts last hardly move the prediction.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        ranking : Ranking, or indices or names, (d,) for all rows or (n, d)
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
        order = self._inputs.reversed_order(len(rows), ranking)
        return mean_of_curve(self._curve(rows, order, "pgu2(X, ranking)"))

    def rank(self, X: Any, method: RankingMethod = "greedy", *, top: int | None = None) -> Ranking:
        """Ranks the features of each row by importance, from gaps.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        method : {"greedy", "single"}, default="greedy"
            "greedy" fills the places one after the other: each goes to the feature that, added to those
            already placed, gives the largest gap. The score of a feature is the gain, by how much it changed
            the gap; it may be negative. Use it for rankings with a high PGI². "single" sorts the features by
            the gap of each one alone, which is its score; it is faster, but ignores what features do
            together. In both, gaps that differ by no more than rounding are ties, and the lower index comes
            first.
        top : int, or None, default=None
            How many places to fill; None for all d. A few places of many features take much less time.

        Returns
        -------
        Ranking
            With k = `top` places. `scores` (n, d) have an error of at most `rtol` times the gap of all placed
            features, and are NaN for features without a place. `confidence` (n, k) is 1 where a place is
            proven, and NaN where `rtol` is too coarse to prove it. `estimator` is "exact", or "bounded" if
            some rows were not computed exactly.

        Raises
        ------
        CostError
            If a row would take more than two minutes or 1 GiB; use `approximate().rank(X)`.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[7, 0], [7, 1]], [1, 3])
        >>> ranking = Explainer(tree, Uniform(1.0)).rank([[7.0, 0.0]])
        >>> ranking.order, ranking.scores.round(6), ranking.estimator
        (array([[1, 0]]), array([[0., 1.]]), 'exact')
        """
        check_choice("method", method, get_args(RankingMethod))
        places = self._inputs.places(top)
        table = self._inputs.table(X)
        rows = self.ensemble.cast(table.values)
        with self._asking(ranking_call(method, top)), reporting(self.progress, len(rows)) as tell:
            ranked = Rankings(self._engine, rows, method, places).answer(self._accuracy, tell)
        return self._inputs.ranking(ranked, method, table)

    def expected_prediction(self, X: Any, subset: Any) -> FloatArray:
        """The expected prediction E[f(x')] of each row when the features of `subset` are perturbed.

        Use it to see in which direction the noise moves a prediction; a gap, being squared, does not tell.

        Parameters
        ----------
        X : (n, d) array or frame of the rows to explain
        subset : names, indices, a boolean mask (d,), or one boolean mask per row (n, d)

        Returns
        -------
        (n,) array of raw margins, or (n, n_outputs) for several outputs; exact up to rounding

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
        with reporting(self.progress, len(rows)) as tell:
            change = self._engine.mean_change(rows, masks, tell)
        margin = self.ensemble.predict(np.where(np.isnan(rows), self.ensemble.missing, rows))
        expected: FloatArray = margin + change.reshape(margin.shape)
        return expected

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
        rows = self._inputs.rows(X)
        mask = self._inputs.one_mask(len(rows), subset)
        sampler = method if method in ("mc", "qmc") else sampler_for((mask & self._engine.used).sum())
        draws = Draws(sampler, n_samples, rtol, checked_seed(seed), sequence)
        accuracies = {"exact": EXACT, "bounded": guaranteed(draws.budget.rtol or RTOL)}
        choose = partial(guaranteed_if_affordable, bounded=accuracies["bounded"], sampler=sampler)
        question = Gaps(self._engine, rows, mask[None])
        asked, works = (f"estimate(X, subset, method={how!r})" for how in (method, "auto"))
        with refusing(asked, f"explainer.{works}"), reporting(self.progress, len(rows)) as tell:
            return answer_by(method, question, accuracies, draws, choose, tell)

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
            "auto" chooses for each row: exact if that takes up to about 50 ms, else "pruned", else "qmc" if
            "pruned" would exceed the limits of time and memory. The result says which method was used; a
            pruned answer whose error bound happens to be within `rtol` is called "bounded".
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
        return Approximation(self._inputs, self._engine, self.progress, rtol, method, n_samples, seed)

    def cost(self, question: Any, X: Any = None) -> Cost:
        """Estimates the time and memory per row of a call, to decide between it and `approximate`.

        Parameters
        ----------
        question : "rank", a Ranking, or a subset
            "rank": the cost of `rank(X)`, a greedy ranking of all features. A `Ranking`: the cost of its
            `curve`, `pgi2` or `pgu2`. Anything else is a subset (names, indices or a mask): the cost of its
            `gap`. Pass a feature that is called rank as `["rank"]`.
        X : (n, d) array or frame, or None, default=None
            The rows of the call, of which up to 20 are used; None makes rows up from the model's thresholds.

        Returns
        -------
        Cost, with `method`, `milliseconds` and `megabytes` per row, on one thread

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).cost("rank").method
        'exact'
        """
        return cost_of(self._engine, self._inputs, question, X, self._accuracy)

    def __call__(self, X: Any) -> Ranking:
        """The same as `rank(X)`: a greedy ranking of all features."""
        return self.rank(X)

    def __repr__(self) -> str:
        return f"Explainer({self.ensemble.source}, {self.noise!r})"

    def _curve(self, rows: FloatArray, order: NDArray[np.int32], call: str) -> FloatArray:
        with self._asking(call), reporting(self.progress, len(rows)) as tell:
            return self._engine.curve(rows, order, self._accuracy, tell)[0]

    def _asking(self, call: str) -> AbstractContextManager[None]:
        """A context for one call: if it is too costly, `CostError` names the call and one that works."""
        return refusing(f"{call} at rtol={self.rtol:g}", f"explainer.approximate(rtol=1e-2).{call}")
