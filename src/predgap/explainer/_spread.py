"""The answers of an `Explainer` about how noise spreads in a prediction: moments and sensitivity."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from predgap._engine.costs import refusing
from predgap._engine.engine import MomentArrays, ShareArrays
from predgap._engine.progress import Tell
from predgap._engine.questions import words
from predgap._engine.spread import OutputMoments, VarianceShares
from predgap._inputs.tables import Table
from predgap._text import count, format_items
from predgap._typing import FloatArray
from predgap.errors import NoiseError, OutputError
from predgap.explainer._arguments import Rows
from predgap.explainer._guaranteed import GuaranteedAnswers
from predgap.explainer._spread_results import Moments, Sensitivity


class SpreadAnswers(GuaranteedAnswers):
    """The methods of `Explainer` that say how far noise spreads a prediction, and which features do it."""

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
        rows = self._inputs.rows(X)
        every = np.ones((1, self.ensemble.n_features), dtype=np.bool_)
        masks = every if subset is None else self._inputs.masks(len(rows), subset)
        call = "moments(X)" if subset is None else "moments(X, subset)"

        def found(part: OutputMoments, tell: Tell) -> tuple[FloatArray, *MomentArrays]:
            return part.engine.margins(part.rows), *part.answer(self._accuracy, tell)

        with self._asking_for(call, "explainer.approximate(rtol=1e-2).gap(X, subset), without its parts"):
            question = OutputMoments(self._engine, rows.values, masks, covariance)
            margin, change, products, bound, method = self._answer(question, rows, found, call, sampled=False)
        several = change.shape[1] > 1
        shape = change.shape if several else (len(rows),)
        return Moments(
            mean=(margin + change).reshape(shape),
            mean_change=change.reshape(shape),
            variance=np.diagonal(products, axis1=1, axis2=2).reshape(shape).copy(),
            covariance=products if several and covariance else None,
            error_bound=bound,
            method=words(method),
            output_names=self._output_names() if several else None,
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
        rows = self._any_row() if X is None else self._inputs.rows(X)

        def found(part: VarianceShares, tell: Tell) -> ShareArrays:
            return part.answer(self._accuracy, tell)

        with self._asking_for("sensitivity(X)", "explainer.approximate(rtol=1e-2).rank(X), without shares"):
            question = VarianceShares(self._engine, rows.values, self._inputs.members)
            variance, first, total, shapley, pairs, bound, method = self._answer(
                question, rows, found, "sensitivity(X)", sampled=False
            )
        return Sensitivity(
            first=first,
            total=total,
            shapley=shapley,
            interactions=pairs,
            variance=variance,
            error_bound=bound,
            method=words(method),
            feature_names=self._inputs.names_in(rows),
            index=rows.table.index,
            backend=rows.table.backend,
        )

    def _asking_for(self, call: str, instead: str) -> AbstractContextManager[None]:
        """A context for one call, which has no approximate variant: `CostError` names what comes closest."""
        return refusing(f"{call} at rtol={self.rtol:g}", instead, "A larger rtol or weaker noise costs less.")

    def _output_names(self) -> tuple[str, ...]:
        e = self.ensemble
        return tuple(map(str, e.class_names or range(e.n_outputs)))

    def _any_row(self) -> Rows:
        """A made-up row, if the answer is the same for all rows; NoiseError or OutputError if it is not."""
        no_rows = VarianceShares(self._engine, np.empty((0, self.ensemble.n_features)), self._inputs.members)
        no_rows.answer(self._accuracy)  # refuses Background, whose features have no laws of their own
        kept = [q for q, law in self._engine.laws.items() if not law.forgets]
        if kept:
            named = format_items([self.ensemble.names[q] for q in kept])
            raise NoiseError(
                f"sensitivity() without X needs noise that replaces every feature, as Marginal(X) does; the "
                f"noise of {count(len(kept), 'feature')} depends on the row: {named}. Pass the rows: "
                "sensitivity(X)"
            )
        values = self._engine.typical_rows()[:1]
        if self._inputs.outputs.of_made_up_rows(values) is not None:
            raise OutputError("sensitivity() without X needs one output for all rows: pass output=, or X")
        return Rows(values, Table(values), None)
