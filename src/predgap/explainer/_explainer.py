"""The class `Explainer`: gaps, curves, scores and rankings of a model under a noise."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from predgap._engine.accuracy import EXACT, RTOL, checked_rtol, guaranteed
from predgap._engine.choosing import answer_by, guaranteed_if_affordable, sampler_for
from predgap._engine.costs import Cost, refusing
from predgap._engine.engine import Engine, Strategy, resolve_n_jobs
from predgap._engine.engines import EngineRecipe
from predgap._engine.estimates import GapEstimate
from predgap._engine.points import checked_seed
from predgap._engine.progress import Tell, checked_progress
from predgap._engine.questions import N_SAMPLES, Draws, Gaps
from predgap._engine.scale import RankMethod
from predgap._inputs.units import read_units
from predgap._typing import Progress
from predgap.explainer._approximation import Approximation, Method
from predgap.explainer._arguments import Inputs, check_choice
from predgap.explainer._batches import BatchFunction, What, batch_function
from predgap.explainer._decisions import DecisionAnswers
from predgap.explainer._opening import explaining_features, opened
from predgap.explainer._outputs import ExplainedOutputs
from predgap.explainer._pricing import cost_of
from predgap.explainer._ranges import ReferenceRanges
from predgap.explainer._spread import SpreadAnswers
from predgap.explainer._sweep import STRENGTHS, Sweep, swept
from predgap.loaders import package_of
from predgap.noise import Noise
from predgap.ranking import Ranking

if TYPE_CHECKING:  # optional
    import pyarrow as pa

EstimateMethod = Literal["auto", "exact", "bounded", "mc", "qmc"]


class Explainer(SpreadAnswers, DecisionAnswers):
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
        True shows a bar on a terminal, which needs rich (`pip install 'predgap[cli]'`); None does so after 5
        seconds. A call that is expected to take more than 10 s warns, once. False shows and warns nothing.

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
        self.progress = checked_progress(progress)
        n_threads = resolve_n_jobs(n_jobs)
        given = opened(model, noise, feature_names, one_hot)
        outputs = ExplainedOutputs(given.ensemble, output)
        e = self.ensemble = outputs.explained()
        units = None if groups is None else read_units(groups, e.n_features, e.feature_names)
        self.model, self.noise, self.output, self.groups = model, given.noise, output, groups
        self._accuracy = guaranteed(self.rtol)
        with explaining_features(given.reader):
            self._recipe = EngineRecipe.of(e, given.noise, n_threads, _strategy)
            self._engine = self._recipe.engine(e)
            ranges = ReferenceRanges.of(given.noise, e)
        outputs = outputs.answered_by(self._recipe)
        self._inputs = Inputs(e, given.reader, outputs, units, given.takes_names, ranges)

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
        by = self._engine.method_for(method)
        rows = self._inputs.rows(X)
        mask = self._inputs.one_mask(len(rows), subset)

        def answered(question: Gaps, tell: Tell) -> GapEstimate:
            n_used = (mask & question.engine.used).sum()
            sampler = method if method in ("mc", "qmc") else sampler_for(n_used)
            draws = Draws(sampler, n_samples, rtol, checked_seed(seed), sequence)
            accuracies = {"exact": EXACT, "bounded": guaranteed(draws.budget.rtol or RTOL)}
            choose = partial(guaranteed_if_affordable, bounded=accuracies["bounded"], sampler=sampler)
            return answer_by(by, question, accuracies, draws, choose, tell)

        asked, works = (f"estimate(X, subset, method={how!r})" for how in (method, "auto"))
        with refusing(asked, f"explainer.{works}"):
            question = Gaps(self._engine, rows.values, mask[None])
            return self._answer(question, rows, answered, asked, sampled=False)

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
            The rows of the call, of which up to 20 are used. None makes up twelve rows, whose numbers are
            quantiles of the thresholds of the model's last splits; this is less sure, for real rows may lie
            elsewhere.

        Returns
        -------
        Cost, with `method`, `milliseconds` and `megabytes` per row, on one thread; and whether the call would
        be `refused`. The 0.03 ms that any call takes are shared by the rows of X; without X they are those of
        a call about one row.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from predgap import Explainer, Uniform
        >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
        >>> Explainer(tree, Uniform(1.0)).cost("rank").method
        'exact'
        """
        return cost_of(self._engine, self._inputs, question, X, self._accuracy)

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

    def _for_batches(self, n_jobs: int, noise: Noise) -> Explainer:
        """The same explainer with other threads, and without what a batch function does not need."""
        recipe = replace(self._recipe, noise=noise, n_threads=resolve_n_jobs(n_jobs))
        engine = copy.copy(self._engine)
        engine.n_threads = recipe.n_threads
        other = self._with_recipe(recipe, engine)
        other.noise, other.progress, other.model = noise, False, self._inputs.outputs.model
        return other

    def _with_noise(self, noise: Noise) -> Explainer:
        """The same explainer with another noise; the model is not loaded again."""
        recipe = EngineRecipe.of(self.ensemble, noise, self._recipe.n_threads, self._recipe.strategy)
        other = self._with_recipe(recipe, recipe.engine(self.ensemble))
        other.noise = noise
        return other

    def _with_recipe(self, recipe: EngineRecipe, engine: Engine) -> Explainer:
        """The same explainer with another engine, and the recipe that makes it."""
        other = copy.copy(self)
        other._recipe, other._engine = recipe, engine
        other._inputs = replace(self._inputs, outputs=self._inputs.outputs.answered_by(recipe))
        return other

    def _with_rtol(self, rtol: float) -> Explainer:
        """The same explainer with another tolerance."""
        other = copy.copy(self)
        other.rtol, other._accuracy = rtol, guaranteed(rtol)
        return other

    def __call__(self, X: Any) -> Ranking:
        """The same as `rank(X)`: a greedy ranking of all features."""
        return self.rank(X)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: no engine, and the trees once. treelite's models cannot be pickled, so that the
        trees take their place."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("_engine", "ensemble")}
        if not isinstance(self.model, str | PathLike) and package_of(self.model) == "treelite":
            state["model"] = self._inputs.outputs.model
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.ensemble = self._inputs.ensemble

    def __copy__(self) -> Self:
        other = object.__new__(type(self))  # by __getstate__ the engine would be built again
        other.__dict__.update(self.__dict__)
        return other

    def __repr__(self) -> str:
        return f"Explainer({self.ensemble.source}, {self.noise!r})"
