"""Answers about the distribution of the prediction: crossing a threshold, absolute and probability gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._engine.bounding import ChangeOfRow, change_of_row, crossing_bounds, size_bounds
from predgap._engine.brackets import Bracket
from predgap._engine.engine import Engine
from predgap._engine.outcomes import SAMPLES, Expectations
from predgap._engine.progress import Tell, reporting
from predgap._model.ensemble import Ensemble
from predgap._model.links import ROUNDED, Link
from predgap._text import shown
from predgap._typing import FloatArray, IndexArray
from predgap.errors import OutputError, PredgapError
from predgap.explainer._arguments import Rows, check_choice
from predgap.explainer._guaranteed import GuaranteedAnswers
from predgap.explainer._outputs import margins

Space = Literal["margin", "probability"]

_ROUNDING: Final = 1e-12  # of the sizes that are added up: predictions that differ by less are the same


@dataclass(frozen=True, slots=True, eq=False)
class _Predictions:
    """What is compared before and after a change: margins, or the probabilities that follow from them."""

    margins: FloatArray  # (n, k) of the outputs that the engine changes
    link: Link | None  # None: margins
    column: IndexArray | None  # (n,) the output that counts, of several; None: all

    def difference(self, row: int, change: FloatArray) -> FloatArray:
        """How much the outputs that count change, (their number, m), for changes of margins (k, m)."""
        if self.link is None:
            return self._counted(row, change)
        return self._counted(row, self.link.differences(self.margins[row][:, None], change))

    def before(self, row: int) -> float:
        """The only output that counts, of the row as it is."""
        now = self.margins[row][:, None]
        return float(self._counted(row, now if self.link is None else self.link.probabilities(now))[0, 0])

    def margin_of(self, output: float) -> float:
        """The margin of an output that is compared; infinite for probabilities that are never reached."""
        if self.link is None or self.link.kind == "identity":
            return output
        with np.errstate(divide="ignore"):
            share = np.clip(output, 0.0, 1.0)
            return float((np.log(share) - np.log1p(-share)) / self.link.scale)

    def slopes(self, row: int, change: ChangeOfRow) -> tuple[float, float]:
        """The smallest and the largest size of a difference, relative to the change of margins."""
        if self.link is None:
            return 1.0, 1.0
        now, column = self.margins[row], None if self.column is None else int(self.column[row])
        return self.link.slopes(now + change.least, now + change.most, column)

    def reached(self, row: int, change: ChangeOfRow) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest value of the outputs that count, (their number, 1)."""
        low, high = self.margins[row] + change.least, self.margins[row] + change.most
        if self.link is not None:
            low, high = self.link.ranges(low, high)
        return self._counted(row, low[:, None]), self._counted(row, high[:, None])

    def largest(self, row: int, change: ChangeOfRow) -> float:
        """The largest size of a difference, whatever the distribution of the change."""
        if self.link is None or self.link.kind == "identity":
            return np.inf
        if self.link.kind == "logistic":
            ends = np.stack([change.least, change.most], axis=1)
            farthest = np.abs(self.difference(row, ends)).max(axis=1)
            return float(np.sqrt((farthest**2).sum()))
        now = self._counted(row, self.link.probabilities(self.margins[row][:, None]))
        low, high = self.reached(row, change)
        size = float(np.sqrt(((np.maximum(high - now, now - low) + ROUNDED) ** 2).sum()))
        if self.column is None:  # at most all to the least likely class
            return min(size, float(np.sqrt((now**2).sum() - 2.0 * now.min() + 1.0)) + ROUNDED)
        return size

    def _counted(self, row: int, outputs: FloatArray) -> FloatArray:
        return outputs if self.column is None else outputs[[self.column[row]]]


_BracketArrays = tuple[FloatArray, FloatArray, FloatArray, FloatArray, NDArray[np.str_], NDArray[np.int64]]
"""Values, lower and upper bounds, standard errors, methods and numbers of samples, all (n,)."""

_Bounds = Callable[[int, ChangeOfRow], tuple[float, float]]


class DecisionAnswers(GuaranteedAnswers):
    """The methods of `Explainer` whose answers need the distribution of the prediction, not its moments."""

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
        space = _own_space(self._inputs.outputs.model) if space is None else space
        rows = self._inputs.rows(X)
        self._check_one_output(rows)
        seen, engine = self._seen(rows, space)
        line = _threshold(threshold, space)

        def crosses(row: int, change: FloatArray) -> FloatArray:
            now, by = seen.before(row), seen.difference(row, change)[0]
            slack = _ROUNDING * (abs(now) + abs(line) + np.abs(by).max(initial=0.0))
            is_above = now >= line - slack
            crossed: FloatArray = ((now + by >= line - slack) != is_above).astype(np.float64)
            return crossed

        def bounds(row: int, change: ChangeOfRow) -> tuple[float, float]:
            if seen.column is not None:
                return 0.0, _largest_crossing(seen, row, change, line)
            now, margin = seen.before(row), float(seen.margins[row, 0])
            least_slack = _ROUNDING * (abs(now) + abs(line))
            largest = float(change.most[0] - change.least[0]) if seen.link is None else 1.0
            # twice what `crosses` can use, so that sums in another order are within it
            low, high = (
                seen.margin_of(at) for at in (line - 2.0 * (least_slack + _ROUNDING * largest), line)
            )
            if now >= line - least_slack:
                near, far = min(high - margin, 0.0), low - margin
            elif margin < low:
                near, far = low - margin, high - margin
            else:
                return 0.0, 1.0  # the size of the change decides on which side the row is
            return crossing_bounds(change, far)[0], crossing_bounds(change, near)[1]

        moved = np.ones(self._inputs.n_units, dtype=np.bool_) if subset is None else subset
        found = self._bracket(rows, moved, engine, crosses, bounds, n_samples, seed)
        return _as_probabilities(found)

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
        rows = self._inputs.rows(X)
        seen, engine = self._seen(rows, space)

        def size(row: int, change: FloatArray) -> FloatArray:
            by = seen.difference(row, change)
            sizes: FloatArray = np.abs(by[0]) if len(by) == 1 else np.sqrt((by**2).sum(axis=0))
            return sizes

        def bounds(row: int, change: ChangeOfRow) -> tuple[float, float]:
            least, most = size_bounds(change)
            low, high = seen.slopes(row, change)
            return low * least, min(high * most, seen.largest(row, change))

        return self._bracket(rows, subset, engine, size, bounds, n_samples, seed)

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
        rows = self._inputs.rows(X)
        seen, engine = self._seen(rows, "probability", instead="gap, which is about the margin")

        def square(row: int, change: FloatArray) -> FloatArray:
            squares: FloatArray = (seen.difference(row, change) ** 2).sum(axis=0)
            return squares

        def bounds(row: int, change: ChangeOfRow) -> tuple[float, float]:
            low, high = seen.slopes(row, change)
            return low**2 * change.least_square, min(high**2 * change.square, seen.largest(row, change) ** 2)

        return self._bracket(rows, subset, engine, square, bounds, n_samples, seed)

    def _seen(
        self, rows: Rows, space: str, instead: str = "space='margin'"
    ) -> tuple[_Predictions, Engine | None]:
        """What is compared, and the engine whose outputs change; None: the engine of each row's output."""
        check_choice("space", space, get_args(Space))
        outputs, whole = self._inputs.outputs, self._inputs.outputs.model
        all_margins = margins(whole, rows.values).reshape(len(rows), -1)
        column = outputs.positions(rows.outputs, len(rows))
        link = whole.link if space == "probability" else None
        if space == "probability" and (link is None or not link.gives_probabilities):
            raise PredgapError(
                f"probabilities of a model of {whole.source} are not known; predgap knows those of most "
                f"classifiers by XGBoost, LightGBM, CatBoost and scikit-learn. Use {instead}"
            )
        if link is not None and link.kind == "softmax":  # all margins matter to each probability
            return _Predictions(all_margins, link, column), outputs.whole_engine()
        own = all_margins if column is None else outputs.own_margins(all_margins, column)
        return _Predictions(own, link, None), None

    def _check_one_output(self, rows: Rows) -> None:
        whole = self._inputs.outputs.model
        if whole.n_outputs > 1 and self._inputs.outputs.positions(rows.outputs, len(rows)) is None:
            raise OutputError(
                f"the model has {whole.n_outputs} outputs, and one threshold is for one of them; choose it: "
                "Explainer(..., output=0), the label of a class, or output='predicted'"
            )

    def _bracket(
        self,
        rows: Rows,
        subset: Any,
        engine: Engine | None,
        function: Callable[[int, FloatArray], FloatArray],
        bounds: _Bounds,
        n_samples: int,
        seed: int,
    ) -> Bracket:
        """Expected values of a function; where they are sampled, between bounds."""
        n, used = len(rows), self._engine if engine is None else engine
        masks = self._inputs.masks(n, subset)
        question = Expectations(used, rows.values, masks, function, np.arange(n), n_samples, seed)

        def ask(part: Expectations, tell: Tell) -> _BracketArrays:
            return self._between_bounds(part, bounds, tell)

        advice = self._advice("the answer", n, sampled=False)
        with reporting(self.progress, n, advice) as tell:
            outputs = rows.outputs if engine is None else None
            found = self._inputs.outputs.answer(question, outputs, ask, tell)
        return Bracket(*found, index=rows.table.index, backend=rows.table.backend)

    def _between_bounds(self, part: Expectations, bounds: _Bounds, tell: Tell) -> _BracketArrays:
        found = part.answer(self._accuracy, tell)
        value, error, method = found.value.copy(), found.standard_error.copy(), found.method.copy()
        lower, upper = value.copy(), value.copy()
        for r in np.flatnonzero(method != "exact").tolist():
            mask = part.masks[[r if len(part.masks) > 1 else 0]]
            change = change_of_row(part.engine, part.rows[[r]], mask, self._accuracy)
            lower[r], upper[r] = bounds(int(part.numbers[r]), change)
            value[r] = np.clip(value[r], lower[r], upper[r])
            error[r] = min(error[r], upper[r] - lower[r])
            if lower[r] == upper[r]:
                method[r] = "exact"
        return value, lower, upper, error, method, np.where(method == "exact", 0, found.n_samples)


def _largest_crossing(seen: _Predictions, row: int, change: ChangeOfRow, line: float) -> float:
    """At most how likely the probability of one of several classes crosses a line."""
    away, (low, high) = abs(line - seen.before(row)), seen.reached(row, change)
    slack = 4.0 * _ROUNDING  # of probabilities
    if high[0, 0] < line - slack or low[0, 0] > line + slack:
        return 0.0
    return min(1.0, seen.slopes(row, change)[1] ** 2 * change.square / away**2 if away > 0 else 1.0)


def _own_space(model: Ensemble) -> Space:
    """The space of predictions; PredgapError if they are neither margins nor known probabilities."""
    if model.link is not None and model.link.gives_probabilities:
        return "probability"
    if model.link is None and model.class_names is None:
        return "margin"
    raise PredgapError(
        f"a model of {model.source} predicts something else than the sum of its trees, and predgap does not "
        "know how it follows; so pass space='margin' and a threshold of that sum, which load(model).predict "
        "gives"
    )


def _threshold(threshold: Any, space: str) -> float:
    is_number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
    if not is_number or not np.isfinite(threshold) or (space == "probability" and not 0 <= threshold <= 1):
        expected = "a probability from 0 to 1" if space == "probability" else "a finite number"
        advice = "; space='margin' takes thresholds of the margin" if space == "probability" else ""
        raise PredgapError(f"threshold is {shown(threshold)}, expected {expected}{advice}")
    return float(threshold)


def _as_probabilities(found: Bracket) -> Bracket:
    """The same with what rounding brought above 1 brought back, and errors of at least one sample's weight:
    an event that no sample hit may be as likely."""
    value, lower, upper = (np.minimum(each, 1.0) for each in (found.value, found.lower, found.upper))
    weight = np.divide(1.0, found.n_samples, out=np.zeros(len(value)), where=found.n_samples > 0)
    error = np.minimum(np.maximum(found.standard_error, weight), upper - lower)
    return replace(found, value=value, lower=lower, upper=upper, standard_error=error)
