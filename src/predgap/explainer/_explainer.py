"""The explainer: a model and a noise, and everything that can be asked of them."""

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
    """Squared prediction gaps of a tree ensemble, and rankings of its features, within a guaranteed error.

    The gap of a row x and a subset S of its features is PG²(x, S) = E[(f(x') - f(x))²], where x' is x with
    independent noise on the features in S, and f is the model's raw margin. A missing value stays missing.
    Of several outputs the squared gaps are summed: E[|f(x') - f(x)|²].

    Every number of `gap`, `curve`, `pgi2`, `pgu2` and `rank` is within `rtol`, proven, and exact up to
    rounding wherever that takes less than about 50 ms a row. What cannot be guaranteed within two minutes and
    1 GiB a row raises `CostError`; `approximate` gives answers with an estimated error instead, and `cost`
    tells beforehand.

    Of a scikit-learn Pipeline the model at its end is explained: X is raw and goes through the steps before
    it, and noise, subsets, rankings and names are those of the features after these steps. `transform` shows
    them, and a `Ranking` says so in its `feature_space`.

    Parameters
    ----------
    model : model object, path of a model file, or Ensemble
        Anything that `predgap.load` takes.
    noise : Noise
        How each feature is perturbed, e.g. `Normal(0.3)` or `Normal.relative(X, 0.3)`. Features that no split
        uses need none.
    output : int, or None, default=None
        Which output to explain; None for all of them together.
    feature_names : sequence of d strings, or None, default=None
        Names to use instead of the model's own.
    rtol : float, default=1e-6
        The largest relative error that an answer may have; that of a curve is relative to its mean. 0 asks
        for exact answers.
    n_jobs : int, default=1
        Threads; -1 for all cores. The answers are the same bits for any number.
    progress : callable, True or None, default=None
        A function that is called now and then with the number of rows done and their total; True shows a bar
        on a terminal, which needs rich (`pip install 'predgap[cli]'`).

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
        """X as the model's features, (n, d): after the steps of a pipeline, in the order of the names."""
        return self._inputs.table(X).values

    def gap(self, X: Any, subset: Any) -> FloatArray:
        """The gap of each row when the features of `subset` are perturbed.

        Parameters
        ----------
        X : (n, d) array or frame
        subset : names, indices, a boolean mask (d,), or one mask per row (n, d)
            The empty subset gives 0.

        Returns
        -------
        (n,) array, each within `rtol`
        """
        rows = self._inputs.rows(X)
        masks = self._inputs.masks(len(rows), subset)
        with self._asking("gap(X, subset)"), reporting(self.progress, len(rows)) as tell:
            return self._engine.gap(rows, masks, self._accuracy, tell)[0]

    def curve(self, X: Any, ranking: Any) -> FloatArray:
        """Gaps of the prefixes of a ranking: of its first feature, of its first two, and so on.

        Parameters
        ----------
        X : (n, d) array or frame
        ranking : Ranking, or indices or names, (k,) for all rows or (n, k)
            A ranking of the first k places is enough.

        Returns
        -------
        (n, k) array
            Column j perturbs the j + 1 most important features. The error of each gap is at most `rtol` times
            the mean of its row.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).curve([[0.0, 7.0]], [1, 0]).round(6)
        array([[0., 1.]])
        """
        rows = self._inputs.rows(X)
        return self._curve(rows, self._inputs.order(len(rows), ranking), "curve(X, ranking)")

    def pgi2(self, X: Any, ranking: Any) -> FloatArray:
        """PGI² of a ranking, the mean of its `curve`: is the ranking faithful to the model?

        PGI²(x, π) = 1/k · Σ_{j=1..k} PG²(x, {π(1), ..., π(j)}), over the k places of the ranking π. Higher is
        better: the features that change the prediction most when they are perturbed come first. It is in
        squared units of the model's margin, so compare rankings of the same rows, model and noise. A curve
        may fall as well as rise: perturbing one more feature can undo part of what the others do.

        Parameters
        ----------
        X : (n, d) array or frame
        ranking : Ranking, or indices or names, (k,) for all rows or (n, k)
            Of a ranking of the first k places the mean is taken over these k prefixes; compare it with
            rankings of as many places only.

        Returns
        -------
        (n,) array, each within `rtol`

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
        """PGU² of a ranking: PGI² of the reversed one. Lower is better: what comes last changes little.

        Parameters
        ----------
        X : (n, d) array or frame
        ranking : Ranking, or indices or names, (d,) for all rows or (n, d)
            All d places; `RankingError` for fewer.

        Returns
        -------
        (n,) array, each within `rtol`
        """
        rows = self._inputs.rows(X)
        order = self._inputs.reversed_order(len(rows), ranking)
        return mean_of_curve(self._curve(rows, order, "pgu2(X, ranking)"))

    def rank(self, X: Any, method: RankingMethod = "greedy", *, top: int | None = None) -> Ranking:
        """A ranking of the features for each row.

        Parameters
        ----------
        X : (n, d) array or frame
        method : {"greedy", "single"}, default="greedy"
            "greedy" takes at each step the feature that makes the gap of all taken so far largest; its
            scores are the marginal gains, which may be negative. "single" orders by the gap of each feature
            alone, its score. Gaps that differ by rounding only are ties, which go to the lower index.
        top : int, or None, default=None
            How many places; None for all. Few places of many cost much less.

        Returns
        -------
        Ranking
            Its `scores` (n, d) are within `rtol` times the gap that all taken features make, and NaN for
            features that were not taken. Its `confidence` (n, top) is 1 where a place is proven, NaN where
            `rtol` is too coarse for that. Its `estimator` is "exact", or "bounded" if some row's is.

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
        """E[f(x')]: the expected margin when the features of `subset` are perturbed; exact.

        Parameters
        ----------
        X : (n, d) array or frame
        subset : names, indices, a boolean mask (d,), or one mask per row (n, d)

        Returns
        -------
        (n,) array, or (n, n_outputs) for several outputs

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
        """The gap of each row by a method of choice, with its error.

        Parameters
        ----------
        X : (n, d) array or frame
        subset : names, indices, or a boolean mask (d,)
        method : {"auto", "exact", "bounded", "mc", "qmc"}, default="auto"
            "exact" is right up to rounding. "bounded" leaves out terms whose total effect is provably below
            `rtol`, and returns the bound. "mc" draws independent samples; of several outputs its standard
            error is an upper bound. "qmc" draws randomised quasi-random points, the same for all rows, in 16
            replicates whose spread gives the standard error. "auto" decides for each row: "exact" if that
            takes up to about 5 s, else "bounded" if that does, else "qmc".
        rtol : float, or None, default=None
            Stop sampling a row once its standard error is this share of its value; None draws all samples.
            For "bounded", the largest error bound's share of the value; None is 1e-6.
        n_samples : int, default=16384
            Samples per row, at most; Sobol's are rounded down to 16 times a power of 2.
        sequence : {"sobol", "halton"}, default="sobol"
            The quasi-random sequence of "qmc".
        seed : int, default=0
            The same seed gives the same numbers; more samples repeat the draws of fewer.

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
        """The same questions, answered faster and with a stated error instead of a guaranteed one.

        Parameters
        ----------
        rtol : float, default=1e-2
            The relative error to aim at; that of a curve is relative to its mean. Rankings by samples do not
            use it: they draw as many samples as it takes to tell features apart.
        method : {"auto", "pruned", "qmc", "mc"}, default="auto"
            "pruned" leaves out terms that are small, without proof that their sum is; its standard error, a
            third of `rtol`, was calibrated on many models. "qmc" and "mc" sample at quasi-random and random
            points; those of curves and rankings are the same for all rows. "auto" decides for each row: exact
            where that is cheap (about 50 ms), else "pruned", which is called "bounded" where its bound is
            within `rtol`, and "qmc" where even that exceeds the limits. The result says which it was.
        n_samples : int, or None, default=None
            Samples per row, at most, and per place of rankings; rounded down to 16 times a power of 2. None
            is 16384 for gaps and curves, 4096 for rankings.
        seed : int, default=0
            The same seed gives the same numbers, whatever other rows there are.

        Returns
        -------
        Approximation
            Its `gap`, `curve`, `pgi2` and `pgu2` return `GapEstimate`, its `rank` a `Ranking` with the
            confidence in each place. It has an example.
        """
        return Approximation(self._inputs, self._engine, self.progress, rtol, method, n_samples, seed)

    def cost(self, question: Any, X: Any = None) -> Cost:
        """What an answer would take per row, before it is asked for.

        Parameters
        ----------
        question : "rank", a Ranking, or a subset
            "rank" asks about a greedy ranking of all features, a `Ranking` about its curve or PGI², anything
            else about the gap of a subset: names, indices or a mask. A feature called rank is `["rank"]`.
        X : (n, d) array or frame, or None, default=None
            Rows to look at, at most 20 of them; None makes some up from the model's thresholds.

        Returns
        -------
        Cost : method, milliseconds and megabytes, the mean over the rows; on one thread

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
        """`rank(X)`."""
        return self.rank(X)

    def __repr__(self) -> str:
        return f"Explainer({self.ensemble.source}, {self.noise!r})"

    def _curve(self, rows: FloatArray, order: NDArray[np.int32], call: str) -> FloatArray:
        with self._asking(call), reporting(self.progress, len(rows)) as tell:
            return self._engine.curve(rows, order, self._accuracy, tell)[0]

    def _asking(self, call: str) -> AbstractContextManager[None]:
        """For the time of one call: a refusal says what was asked, and what works instead."""
        return refusing(f"{call} at rtol={self.rtol:g}", f"explainer.approximate(rtol=1e-2).{call}")
