"""The explainer: a model and a noise, and everything that can be asked of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args, overload

import numpy as np
from numpy.typing import NDArray

from predgap.bounding import RTOL, bounded_curve, bounded_gap, bounded_rank
from predgap.engine import Engine, Nested, Progress, Strategy, affordable, rank, threads_of
from predgap.ensemble import Ensemble
from predgap.errors import NoiseError, PredgapError, RankingError, SubsetError
from predgap.laws import Law
from predgap.loaders import load
from predgap.loaders.pipelines import preparation
from predgap.noise import Noise
from predgap.racing import race
from predgap.ranking import Ranking, ranking_order
from predgap.sampling import (
    Budget,
    GapEstimate,
    bounded_estimate,
    estimate_curve,
    estimate_mc,
    estimate_qmc,
    exact_estimate,
)
from predgap.subsets import subset_mask
from predgap.tables import Table, read_table

FloatArray = NDArray[np.float64]
Estimator = Literal["auto", "exact", "bounded", "qmc"]
Answer = TypeVar("Answer")
_Inexact = Literal["auto", "bounded", "qmc"]


class _Sampling(TypedDict, total=False):
    """The options of `curve`, `pgi2` and `pgu2`."""

    rtol: float | None
    n_samples: int
    seed: int


class Explainer:
    """Exact squared prediction gaps of a tree ensemble.

    The gap of a row x and a subset S of its features is PG²(x, S) = E[(f(x') - f(x))²], where x' is x with
    independent noise added to the features in S, and f is the model's raw margin. A missing value stays
    missing. Of several outputs the squared gaps are summed: E[|f(x') - f(x)|²].

    Of a scikit-learn Pipeline the model at its end is explained: X is raw and goes through the steps before
    it, and noise, subsets, rankings and names are those of the features after these steps. `transform` shows
    them, and a `Ranking` says so in its `space`.

    Parameters
    ----------
    model : model object, path of a model file, or Ensemble
        Anything that `predgap.load` takes.
    noise : Noise
        How each feature moves, e.g. `Normal(0.3)` or `Normal.relative(X, 0.3)`.
    output : int, or None
        Which output to explain; None for all of them together.
    feature_names : sequence of d strings, or None
        Names to use instead of the model's own.
    n_jobs : int
        Threads; -1 for all cores. The answers are the same bits for any number.
    progress : callable, or None
        Called now and then with the number of rows done and their total.

    Examples
    --------
    >>> from predgap import Ensemble, Explainer, Uniform
    >>> stump = Ensemble(
    ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[10.0],
    ...     n_features=2, feature_names=("age", "bmi"))
    >>> explainer = Explainer(stump, Uniform(1.0))
    >>> explainer.gap([[0.0, 7.0]], ["age"])
    array([1.])
    >>> explainer.rank([[0.0, 7.0]]).top(2)
    array([['age', 'bmi']], dtype='<U3')

    >>> import numpy as np
    >>> from predgap import Normal
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> pipeline = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=1)).fit(X, X[:, 1])
    >>> explainer = Explainer(pipeline, Normal.relative(pipeline[:-1].transform(X), 0.3))
    >>> ranking = explainer.rank(X)
    >>> ranking.names, ranking.space
    (('x0', 'x1'), 'after StandardScaler')
    """

    def __init__(
        self,
        model: Any,
        noise: Noise,
        *,
        output: int | None = None,
        feature_names: Sequence[str] | None = None,
        n_jobs: int = 1,
        progress: Progress | None = None,
        _strategy: Strategy | None = None,
    ) -> None:
        if not isinstance(noise, Noise):
            raise NoiseError(f"noise is {noise!r}, expected a Noise such as Normal(0.3)")
        if progress is not None and not callable(progress):
            raise PredgapError(
                f"progress is {progress!r}, expected a function of the rows done and their number"
            )
        self._preparation = preparation(model)
        ensemble = load(model)
        if feature_names is not None:
            ensemble = ensemble.named(feature_names)
        self.ensemble: Ensemble = ensemble if output is None else ensemble.select(output)
        self.noise = noise
        self.output = output
        laws = noise.laws(self.ensemble.n_features, self.ensemble.feature_names)
        if len(laws) != self.ensemble.n_features:
            raise NoiseError(f"{noise!r} gives {len(laws)} laws for {self.ensemble.n_features} features")
        categorical = self.ensemble.categorical()
        laws = tuple(law if q in categorical else self._met(law) for q, law in enumerate(laws))
        self._engines = tuple(
            Engine(self.ensemble.select(k), laws, threads_of(n_jobs), progress, _strategy)
            for k in range(self.ensemble.n_outputs)
        )
        self._affordable: dict[Nested, bool] = {}  # whether "auto" is exact

    def transform(self, X: Any) -> FloatArray:
        """X as the model's features, (n, d): after the steps of a pipeline, in the order of the names."""
        return self._table(X).values

    def gap(self, X: Any, subset: Any) -> FloatArray:
        """The gap of each row when the features of `subset` move, (n,).

        Parameters
        ----------
        X : (n, d) array or frame
        subset : names, indices, a boolean mask (d,), or one mask per row (n, d)
            The empty subset gives 0.
        """
        rows, _ = self._read(X)
        mask = self._mask(rows, subset)
        return self._sum(lambda engine: engine.gap(rows, mask))

    def mean(self, X: Any, subset: Any) -> FloatArray:
        """E[f(x')], (n,) or (n, n_outputs): the expected margin when the features of `subset` move; exact.

        Parameters
        ----------
        X : (n, d) array or frame
        subset : names, indices, or a boolean mask (d,)
        """
        rows, _ = self._read(X)
        mask = self._one_mask(rows, subset)
        changes = np.stack([engine.mean_change(rows, mask) for engine in self._engines], axis=-1)
        margin = self._margin(rows)
        return margin + changes.reshape(margin.shape)

    def estimate(
        self,
        X: Any,
        subset: Any,
        method: Literal["auto", "exact", "bounded", "mc", "qmc"] = "auto",
        *,
        rtol: float | None = None,
        n_samples: int = 16384,
        sequence: Literal["sobol", "halton"] = "sobol",
        seed: int = 0,
    ) -> GapEstimate:
        """The gap of each row, with its standard error and the method that gave it.

        Parameters
        ----------
        X : (n, d) array or frame
        subset : names, indices, or a boolean mask (d,)
        method : "auto", "exact", "bounded", "mc" or "qmc"
            "bounded" gives numbers with a guaranteed error bound. "mc" draws independent samples, a stream
            per row. "qmc" draws randomised quasi-random points, the same for all rows, in 16 replicates whose
            spread gives the standard error. "auto" is exact if that takes up to about 5 s a row, else "qmc".
            Of several outputs, the standard error of "mc" is an upper bound.
        rtol : float, or None
            Stop sampling a row once its standard error is this share of its value; for "bounded", the error
            bound's share to aim at, 1e-6 by default.
        n_samples : int
            Model evaluations per row, at most; Sobol's are rounded down to 16 times a power of 2.
        sequence : "sobol" or "halton"
        seed : int
            The same seed gives the same numbers; more samples repeat the draws of fewer.

        Examples
        --------
        >>> from predgap import Ensemble, Explainer, Uniform
        >>> stump = Ensemble(
        ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
        ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[10.0],
        ...     n_features=1)
        >>> found = Explainer(stump, Uniform(1.0)).estimate([[0.0]], [0], "qmc", n_samples=1024)
        >>> float(found.value[0]), str(found.method[0])
        (1.0, 'qmc')
        """
        _check_choice("method", method, ("auto", "exact", "bounded", "mc", "qmc"))
        _check_choice("sequence", sequence, ("sobol", "halton"))
        rows, _ = self._read(X)
        mask = self._one_mask(rows, subset)
        if method == "auto":
            method = "exact" if all(engine.affordable(mask) for engine in self._engines) else "qmc"
        if method == "exact":
            return exact_estimate(self._sum(lambda engine: engine.gap(rows, mask)))
        budget = Budget(n_samples, rtol)
        if method == "bounded":
            return bounded_estimate(*bounded_gap(self._engines, rows, mask, rtol or RTOL))
        if not mask.any():
            return exact_estimate(np.zeros(len(rows)))
        if method == "mc":
            return estimate_mc(self._engines, rows, mask, budget, seed)
        return estimate_qmc(self._engines, rows, mask, budget, seed, sequence)

    @overload
    def curve(
        self, X: Any, ranking: Any, *, estimator: Literal["exact"] = "exact", **options: Unpack[_Sampling]
    ) -> FloatArray: ...
    @overload
    def curve(
        self, X: Any, ranking: Any, *, estimator: _Inexact, **options: Unpack[_Sampling]
    ) -> GapEstimate: ...
    def curve(
        self,
        X: Any,
        ranking: Any,
        *,
        estimator: Estimator = "exact",
        rtol: float | None = None,
        n_samples: int = 16384,
        seed: int = 0,
    ) -> FloatArray | GapEstimate:
        """Gaps of the prefixes, (n, d): column k - 1 moves the k most important features.

        Parameters
        ----------
        X : (n, d) array or frame
        ranking : Ranking, or indices or names, (d,) for all rows or (n, d)
        estimator : "exact", "auto", "bounded" or "qmc"
            "exact" gives an array. The others give a `GapEstimate`, which says how its numbers were obtained:
            "bounded" with a guaranteed error bound; "qmc" from samples, all prefixes at the same points, with
            a standard error; "auto" exactly if that takes up to about 5 s a row, else by "qmc".
        rtol : float, or None
            Stop sampling a row once its standard errors are this share of its values; for "bounded", the
            error bound's share to aim at, 1e-6 by default.
        n_samples : int
            Samples per row, at most; rounded down to 16 times a power of 2.
        seed : int
            The same seed gives the same numbers; more samples repeat the draws of fewer.

        Examples
        --------
        >>> from predgap import Ensemble, Explainer, Uniform
        >>> stump = Ensemble(
        ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
        ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[10.0],
        ...     n_features=2)
        >>> explainer = Explainer(stump, Uniform(1.0))
        >>> explainer.curve([[0.0, 7.0]], [1, 0])
        array([[0., 1.]])
        >>> found = explainer.curve([[0.0, 7.0]], [1, 0], estimator="qmc", n_samples=1024)
        >>> found.value, found.method
        (array([[0., 1.]]), array([['qmc', 'qmc']], dtype='<U3'))
        """
        rows, _ = self._read(X)
        order = self._order(rows, ranking)
        return self._score(rows, order, estimator, Budget(n_samples, rtol), seed, average=False)

    @overload
    def pgi2(
        self, X: Any, ranking: Any, *, estimator: Literal["exact"] = "exact", **options: Unpack[_Sampling]
    ) -> FloatArray: ...
    @overload
    def pgi2(
        self, X: Any, ranking: Any, *, estimator: _Inexact, **options: Unpack[_Sampling]
    ) -> GapEstimate: ...
    def pgi2(
        self,
        X: Any,
        ranking: Any,
        *,
        estimator: Estimator = "exact",
        rtol: float | None = None,
        n_samples: int = 16384,
        seed: int = 0,
    ) -> FloatArray | GapEstimate:
        """PGI² of a ranking, (n,): the mean of its `curve`, which takes the same options. Higher means that
        the ranking names first the features that move the prediction most."""
        rows, _ = self._read(X)
        order = self._order(rows, ranking)
        return self._score(rows, order, estimator, Budget(n_samples, rtol), seed, average=True)

    @overload
    def pgu2(
        self, X: Any, ranking: Any, *, estimator: Literal["exact"] = "exact", **options: Unpack[_Sampling]
    ) -> FloatArray: ...
    @overload
    def pgu2(
        self, X: Any, ranking: Any, *, estimator: _Inexact, **options: Unpack[_Sampling]
    ) -> GapEstimate: ...
    def pgu2(
        self,
        X: Any,
        ranking: Any,
        *,
        estimator: Estimator = "exact",
        rtol: float | None = None,
        n_samples: int = 16384,
        seed: int = 0,
    ) -> FloatArray | GapEstimate:
        """PGU² of a ranking, (n,): PGI² of the reversed one, with the same options. Lower is better."""
        rows, _ = self._read(X)
        reverse = self._order(rows, ranking)[:, ::-1]
        return self._score(rows, reverse, estimator, Budget(n_samples, rtol), seed, average=True)

    def rank(
        self,
        X: Any,
        method: Literal["greedy", "single"] = "greedy",
        *,
        estimator: Estimator = "auto",
        n_samples: int = 4096,
        seed: int = 0,
    ) -> Ranking:
        """A ranking of the features for each row; its `estimator` says how the gaps were obtained.

        Parameters
        ----------
        X : (n, d) array or frame
        method : "greedy" or "single"
            "greedy" takes at each step the feature that makes the gap of all taken so far largest; its
            scores are the marginal gains, which may be negative. "single" orders by the gap of each feature
            alone, its score. Gaps that differ by less than their error bound are ties, and go to the
            feature with the lower index.
        estimator : "auto", "exact", "bounded" or "qmc"
            "bounded" ranks by gaps with a guaranteed error bound. "qmc" samples all candidates for a place at
            the same points, as many as it takes to tell them apart, and the ranking's `sureness` says how
            sure each place is. "auto" is exact if that takes up to about 5 s a row, else "qmc".
        n_samples : int
            Samples per row and place, at most; rounded down to 16 times a power of 2.
        seed : int
            The same seed gives the same ranking, whatever other rows there are.

        Examples
        --------
        >>> from predgap import Ensemble, Explainer, Uniform
        >>> stump = Ensemble(
        ...     root=[0], feature=[1, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
        ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[10.0],
        ...     n_features=2)
        >>> ranking = Explainer(stump, Uniform(1.0)).rank([[7.0, 0.0]], estimator="qmc")
        >>> ranking.order, ranking.sureness, ranking.estimator
        (array([[1, 0]]), array([[1., 1.]]), 'qmc')
        """
        if not isinstance(method, str) or method not in ("greedy", "single"):
            raise RankingError(f"method={method!r} is unknown; expected 'greedy' or 'single'")
        _check_choice("estimator", estimator, get_args(Estimator))
        rows, table = self._read(X)
        how, order, scores, sureness = self._rank(rows, method, estimator, Budget(n_samples), seed)
        space = None if self._preparation is None else self._preparation.space
        names = self.ensemble.names
        return Ranking(order, scores, names, table.index, table.backend, space, how, sureness)

    def __call__(self, X: Any) -> Ranking:
        """`rank(X)`."""
        return self.rank(X)

    def __repr__(self) -> str:
        return f"Explainer({self.ensemble.source}, {self.noise!r})"

    @property
    def _engine(self) -> Engine:
        """The engine of the only output."""
        (engine,) = self._engines
        return engine

    def _met(self, law: Law) -> Law:
        """The law of a numeric feature as the model sees it."""
        kind, missing = self.ensemble.row_dtype, self.ensemble.missing
        law = law.rounded(kind)
        return law if np.isnan(missing) else law.avoiding(float(kind.type(missing)))

    def _score(
        self,
        rows: FloatArray,
        order: NDArray[np.intp],
        estimator: Estimator,
        budget: Budget,
        seed: int,
        *,
        average: bool,
    ) -> FloatArray | GapEstimate:
        """Gaps of the prefixes, (n, d), or their average, (n,)."""
        _check_choice("estimator", estimator, get_args(Estimator))
        over_places: Callable[[FloatArray], FloatArray] = _mean_of_curve if average else np.asarray
        curve = self._exactly("curve", estimator, lambda: self._sum(lambda engine: engine.curve(rows, order)))
        if curve is not None:
            value = over_places(curve)
            return value if estimator == "exact" else exact_estimate(value)
        if estimator == "bounded":
            bounded = bounded_curve(self._engines, rows, order, budget.rtol or RTOL)
            return bounded_estimate(*map(over_places, bounded))
        return estimate_curve(self._engines, rows, order, budget, seed, average=average)

    def _rank(
        self,
        rows: FloatArray,
        method: Literal["greedy", "single"],
        estimator: Estimator,
        budget: Budget,
        seed: int,
    ) -> tuple[str, NDArray[np.intp], FloatArray, FloatArray | None]:
        """How it was ranked, order, scores and sureness."""
        exact = self._exactly(method, estimator, lambda: rank(self._engines, rows, method))
        if exact is not None:
            return "exact", *exact, None
        if estimator == "bounded":
            return "bounded", *bounded_rank(self._engines, rows, method)
        return "qmc", *race(self._engines, rows, method, budget.n_samples, seed)

    def _exactly(self, what: Nested, estimator: Estimator, answer: Callable[[], Answer]) -> Answer | None:
        """The exact answer, if it is asked for, or affordable where that is left to us."""
        if estimator == "auto" and what not in self._affordable:
            self._affordable[what] = affordable(self._engines, what)  # to find out takes seconds
        asked = self._affordable[what] if estimator == "auto" else estimator == "exact"
        return answer() if asked else None

    def _sum(self, asked: Callable[[Engine], FloatArray]) -> FloatArray:
        """The sum over the outputs, in their order."""
        total = asked(self._engines[0])
        for engine in self._engines[1:]:
            total = total + asked(engine)
        return total

    def _read(self, X: Any) -> tuple[FloatArray, Table]:
        table = self._table(X)
        return self.ensemble.cast(table.values), table

    def _table(self, X: Any) -> Table:
        if self._preparation is not None:
            return self._preparation.table(X, self.ensemble)
        return read_table(X, self.ensemble.n_features, self.ensemble.feature_names, self.ensemble.categories)

    def _order(self, rows: FloatArray, ranking: Any) -> NDArray[np.intp]:
        n, d = rows.shape
        return ranking_order(ranking, n, d, self.ensemble.feature_names)

    def _mask(self, rows: FloatArray, subset: Any) -> NDArray[np.bool_]:
        n, d = rows.shape
        return subset_mask(subset, n, d, self.ensemble.feature_names)

    def _one_mask(self, rows: FloatArray, subset: Any) -> NDArray[np.bool_]:
        mask = self._mask(rows, subset)
        if mask.ndim == 2:
            raise SubsetError("one subset for all rows is expected here, not one mask per row")
        return mask

    def _margin(self, rows: FloatArray) -> FloatArray:
        """f(x) of rows that are cast already."""
        return self.ensemble.predict(np.where(np.isnan(rows), self.ensemble.missing, rows))


def _mean_of_curve(curve: FloatArray) -> FloatArray:
    return curve.mean(axis=1) if curve.shape[1] else np.zeros(len(curve))


def _check_choice(name: str, given: Any, choices: tuple[str, ...]) -> None:
    if given not in choices:
        expected = " or ".join([", ".join(map(repr, choices[:-1])), repr(choices[-1])])
        raise PredgapError(f"{name}={given!r} is unknown; expected {expected}")
