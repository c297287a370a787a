"""The explainer: a model and a noise, and everything that can be asked of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from predgap.engine import Engine, Progress, Strategy, rank, threads_of
from predgap.ensemble import Ensemble
from predgap.errors import NoiseError, PredgapError, RankingError, SubsetError
from predgap.laws import Law
from predgap.loaders import load
from predgap.loaders.pipelines import preparation
from predgap.noise import Noise
from predgap.ranking import Ranking, ranking_order
from predgap.sampling import Budget, GapEstimate, estimate_mc, estimate_qmc, exact_estimate
from predgap.subsets import subset_mask
from predgap.tables import Table, read_table

FloatArray = NDArray[np.float64]


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
        method: Literal["auto", "exact", "mc", "qmc"] = "auto",
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
        method : "auto", "exact", "mc" or "qmc"
            "mc" draws independent samples, a stream per row. "qmc" draws randomised quasi-random points, the
            same for all rows, in 16 replicates whose spread gives the standard error. "auto" is exact if
            that is affordable, else "qmc". Of several outputs, the standard error of "mc" is an upper bound.
        rtol : float, or None
            Stop sampling a row once its standard error is this share of its value.
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
        rows, _ = self._read(X)
        mask = self._one_mask(rows, subset)
        if method == "auto":
            method = "exact" if all(engine.affordable(mask) for engine in self._engines) else "qmc"
        if method == "exact":
            return exact_estimate(self._sum(lambda engine: engine.gap(rows, mask)))
        budget = Budget(n_samples, rtol)
        if not mask.any():
            return exact_estimate(np.zeros(len(rows)))
        if method == "mc":
            return estimate_mc(self._engines, rows, mask, budget, seed)
        if method != "qmc":
            raise PredgapError(f"method={method!r} is unknown; expected 'auto', 'exact', 'mc' or 'qmc'")
        if sequence not in ("sobol", "halton"):
            raise PredgapError(f"sequence={sequence!r} is unknown; expected 'sobol' or 'halton'")
        return estimate_qmc(self._engines, rows, mask, budget, seed, sequence)

    def curve(self, X: Any, ranking: Any) -> FloatArray:
        """Gaps of the prefixes, (n, d): column k - 1 moves the k most important features.

        Parameters
        ----------
        X : (n, d) array or frame
        ranking : Ranking, or indices or names, (d,) for all rows or (n, d)
        """
        rows, _ = self._read(X)
        order = self._order(rows, ranking)
        return self._sum(lambda engine: engine.curve(rows, order))

    def pgi2(self, X: Any, ranking: Any) -> FloatArray:
        """PGI² of a ranking, (n,): the mean of its `curve`. Higher means that the ranking names first
        the features that move the prediction most."""
        return _mean_of_curve(self.curve(X, ranking))

    def pgu2(self, X: Any, ranking: Any) -> FloatArray:
        """PGU² of a ranking, (n,): PGI² of the reversed one. Lower is better."""
        rows, _ = self._read(X)
        reverse = self._order(rows, ranking)[:, ::-1]
        return _mean_of_curve(self._sum(lambda engine: engine.curve(rows, reverse)))

    def rank(self, X: Any, method: Literal["greedy", "single"] = "greedy") -> Ranking:
        """A ranking of the features for each row.

        Parameters
        ----------
        X : (n, d) array or frame
        method : "greedy" or "single"
            "greedy" takes at each step the feature that makes the gap of all taken so far largest; its
            scores are the marginal gains, which may be negative. "single" orders by the gap of each feature
            alone, its score. Gaps that differ by less than their error bound are ties, and go to the
            feature with the lower index.
        """
        if not isinstance(method, str) or method not in ("greedy", "single"):
            raise RankingError(f"method={method!r} is unknown; expected 'greedy' or 'single'")
        rows, table = self._read(X)
        order, scores = rank(self._engines, rows, method)
        space = None if self._preparation is None else self._preparation.space
        return Ranking(order, scores, self.ensemble.names, table.index, table.backend, space)

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
