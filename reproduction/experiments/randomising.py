"""The error of a model whose k most important features are randomised (the table `tab:randomizing`).

The paper scores a ranking π by the RMSE, over the test rows x with labels y, of ξ(x) = E[f(X)]: X is x with
the features π(x)[1..k] drawn anew, independently, from the values of their columns. The larger the error, the
more important were these features. The paper approximates ξ by the average of N draws; here it is exact
(`Explainer.expected_prediction` with `Marginal` noise), and so is what sampling adds to the error. With the
residual r = ξ(x) - y and Var f(X) = PG²(x, S) - (ξ(x) - f(x))², N draws give the squared error
r² + Var f(X) / N on average. Two protocols stand side by side:

- **as described**: test rows, columns of the test set, N = 100; with bootstrap intervals over rows, and the
  advantage over SHAP with an interval of its own;
- **as published**: what the table really holds. Row i of the **training** set, with the features that the
  ranking of test row i names, is compared with the label of **test row i**, which has nothing to do with it;
  columns of the training set, N = 500. It needs the training rows in their order, which are known for wine
  and telemetry.

A published cell is judged against `expected`, the RMSE to expect from N draws per row: by its digits
(`verdict`), and as one outcome of that sampling. `z` is its distance in standard errors; `within` says
whether it lies in the interval of `confidence`, and `within_jointly` whether it lies in the wider one that
should hold for all cells of a subject at once (Šidák). Both allow for the rounding of the printed number.
Draws are taken to be independent from row to row; whether the authors' were is not known. `sampled` is one
such outcome of our own, and `rmse_of_draws` the RMSE of single predictions f(X), not averaged (N = 1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Final

import numpy as np

from predgap import Explainer, Marginal, PredgapError, Ranking
from reproduction.helpers import BoolArray, FloatArray, IndexArray, Progress
from reproduction.models import Scale, Subject, method_of, per_subject, rankings, top_masks
from reproduction.published import DESCRIBED, PLACES, PUBLISHED, SCALES, judge, judge_range, printed
from reproduction.results import Resampled, Result, Value, spreads

Predict = Callable[[FloatArray], FloatArray]

COLUMNS: Final = (
    *("protocol", "kind", "dataset", "k", "method", "scale", "n_rows", "n_samples"),
    *("rmse", "low", "high", "advantage", "advantage_low", "advantage_high"),
    *("expected", "standard_error", "sampled", "rmse_of_draws"),
    *("published", "verdict", "z", "within", "within_jointly"),
)

_DRAWN_AT_ONCE: Final = 1 << 17  # perturbed rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Resampled):
    """Which cells, how many draws each protocol takes per row, and how sure the numbers are."""

    scales: tuple[float, ...] = SCALES
    places: tuple[int, ...] = PLACES
    described_samples: int = 100
    published_samples: int = 500
    sampled: bool = True  # also run each protocol once by sampling

    def __post_init__(self) -> None:
        Resampled.__post_init__(self)
        counts = (self.described_samples, self.published_samples, *self.places)
        if not self.places or min(counts) < 1:
            raise PredgapError(f"{self!r} is impossible; expected places and samples from 1")


# ---- the experiment ------------------------------------------------------------------------------


def run(
    config: Config, subjects: Iterable[Subject], *, n_jobs: int = 1, progress: Progress | None = None
) -> Result:
    """Rows of both protocols, per subject, k and ranking, beside the published cell if there is one.

    For the paper's cells, the subjects are `authors_subjects(data_dir, kinds=["Bigger"])`. Without training
    rows in the authors' order, a subject has no rows of the published protocol.
    """
    rows = partial(_rows, config, n_jobs=n_jobs)
    return per_subject("randomising", COLUMNS, config, subjects, rows, progress)


def _rows(config: Config, subject: Subject, n_jobs: int) -> Iterator[tuple[Value, ...]]:
    training, n = subject.training, len(subject.y)
    if max(config.places) > subject.X.shape[1]:
        raise PredgapError(f"places={config.places!r}, but {subject.name} has {subject.X.shape[1]} features")
    ranked = rankings(subject, config.scales, n_jobs=n_jobs)
    if training is not None and training.in_order and len(training.X) >= n:
        published = _Protocol(PUBLISHED, subject, training.X[:n], training.X, config.published_samples)
        yield from _protocol_rows(config, published, ranked, n_jobs)
    described = _Protocol(DESCRIBED, subject, subject.X, subject.X, config.described_samples)
    yield from _protocol_rows(config, described, ranked, n_jobs)


@dataclass(frozen=True, slots=True, eq=False)
class _Protocol:
    """Which rows are perturbed, what with, and how often; row i is compared with label i."""

    name: str
    subject: Subject
    X: FloatArray  # (n, d)
    pool: FloatArray  # (m, d), whose columns are drawn from
    n_samples: int


def _protocol_rows(
    config: Config, protocol: _Protocol, ranked: Mapping[Scale, Ranking], n_jobs: int
) -> Iterator[tuple[Value, ...]]:
    cells = [(k, scale) for k in config.places for scale in ranked]
    orders = [ranked[scale].order[:, :k] for k, scale in cells]
    errors = _exact_errors(protocol, orders, n_jobs)
    outcomes = _outcomes(protocol, orders, config.seed) if config.sampled else [None] * len(cells)
    ends: Sequence[tuple[Value, ...]] = [(None,) * 5] * len(cells)
    if protocol.name == DESCRIBED:
        ends = _ends(config, errors, len(ranked))
    subject, n = protocol.subject, protocol.n_samples
    for (k, scale), error, outcome, end in zip(cells, errors, outcomes, ends, strict=True):
        expected, standard_error = error.rmse(n), error.standard_error(n)
        yield (
            *(protocol.name, subject.kind, subject.dataset, k, method_of(scale), scale),
            *(len(protocol.X), n, error.rmse(), *end),
            *(expected, standard_error, outcome, error.rmse(1)),
            *_verdicts(_printed(subject, k, scale), expected, standard_error, config, len(cells)),
        )


def _exact_errors(protocol: _Protocol, orders: Sequence[IndexArray], n_jobs: int) -> list[Errors]:
    """The errors of each cell; `orders` (n, k) are the features to draw."""
    subject = protocol.subject
    explainer = Explainer(subject.ensemble, Marginal(protocol.pool), n_jobs=n_jobs, progress=False)
    errors = []
    for order in orders:
        mean, variance = moments(explainer, protocol.X, top_masks(order, protocol.X.shape[1]))
        errors.append(Errors(mean - protocol.subject.y, variance))
    return errors


def _outcomes(protocol: _Protocol, orders: Sequence[IndexArray], seed: int) -> list[float]:
    """The RMSE of each cell in one run by sampling, with draws of its own."""
    predict = _predictor(protocol.subject)
    streams = np.random.SeedSequence([seed, protocol.name == PUBLISHED]).spawn(len(orders))
    outcomes = []
    for order, stream in zip(orders, streams, strict=True):
        rng = np.random.default_rng(stream)
        drawn = sampled_mean(predict, protocol.X, protocol.pool, order, protocol.n_samples, rng)
        outcomes.append(float(np.sqrt(np.mean((drawn - protocol.subject.y) ** 2))))
    return outcomes


# ---- exact errors --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Of n rows, the residual ξ(x) - y and the variance of the f(X) that sampling averages."""

    residual: FloatArray
    variance: FloatArray

    def rmse(self, n_samples: int | None = None) -> float:
        """The error of ξ itself, or the one to expect when ξ is the average of some draws.

        Examples
        --------
        >>> errors = Errors(np.array([3.0, 3.0]), np.array([0.0, 14.0]))
        >>> errors.rmse(), errors.rmse(1)
        (3.0, 4.0)
        """
        added = 0.0 if n_samples is None else self.variance / n_samples
        return float(np.sqrt(np.mean(self.residual**2 + added)))

    def standard_error(self, n_samples: int) -> float:
        """How far `rmse(n_samples)` is off in a run by sampling, with new draws for each row.

        By the delta method, with averages of draws taken as normal.
        """
        spread = self.variance / n_samples
        of_mse = np.sqrt(np.sum(4 * self.residual**2 * spread + 2 * spread**2)) / len(spread)
        return float(of_mse / (2 * self.rmse(n_samples))) if of_mse > 0 else 0.0


def moments(explainer: Explainer, X: FloatArray, masks: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of f(x') for each row of X (n, d), with its own subset in masks (n, d); exact."""
    mean = explainer.expected_prediction(X, masks)
    change = mean - explainer.ensemble.predict(X)
    return mean, np.maximum(explainer.gap(X, masks) - change**2, 0.0)  # a variance of 0 may round below


# ---- by sampling ---------------------------------------------------------------------------------


def sampled_mean(
    predict: Predict,
    X: FloatArray,
    pool: FloatArray,
    order: IndexArray,
    n_samples: int,
    rng: np.random.Generator,
) -> FloatArray:
    """The average of f(X) over draws, (n,): what `moments` gives exactly, done as in the paper.

    Parameters
    ----------
    predict : function from (m, d) to (m,)
    X : (n, d) array
    pool : (m, d) array
        From whose columns values are drawn, each on its own.
    order : (n, k) array
        The features to draw.
    n_samples : int
        Draws for each row.
    rng : Generator
    """
    out = np.empty(len(X))
    step = max(1, _DRAWN_AT_ONCE // n_samples)
    for start in range(0, len(X), step):
        features = order[start : start + step, None, :]
        points = np.repeat(X[start : start + step, None, :], n_samples, axis=1)
        drawn = rng.integers(len(pool), size=(len(points), n_samples, order.shape[1]))
        np.put_along_axis(points, np.broadcast_to(features, drawn.shape), pool[drawn, features], axis=2)
        margins = predict(points.reshape(-1, X.shape[1])).reshape(-1, n_samples)
        out[start : start + step] = margins.mean(axis=1, dtype=np.float64)
    return out


def _predictor(subject: Subject) -> Predict:
    """The model's margins by XGBoost, which is there as SHAP needs it too."""
    import xgboost

    booster = xgboost.Booster({"nthread": 1}, model_file=os.fspath(subject.model))
    return lambda rows: np.asarray(booster.inplace_predict(rows, predict_type="margin"), dtype=np.float64)


# ---- rows of the table ---------------------------------------------------------------------------


def _ends(config: Config, errors: Sequence[Errors], n_rankings: int) -> list[tuple[Value, ...]]:
    """Low, high, and advantage over SHAP with its low and high, for each cell; SHAP leads each k."""
    squares = np.stack([error.residual**2 for error in errors])
    groups = squares.reshape(-1, n_rankings, squares.shape[1])  # (k, rankings, n)
    return [spread[1:] for group in groups for spread in spreads(group, config, score=np.sqrt)]


def _printed(subject: Subject, k: int, scale: Scale) -> str | None:
    method = method_of(scale)
    return printed("randomising", kind=subject.kind, dataset=subject.dataset, method=method, scale=scale, k=k)


def _verdicts(
    text: str | None, expected: float, error: float, config: Config, n_cells: int
) -> tuple[Value, ...]:
    """The published text, its verdict, its distance in standard errors, and two intervals' verdicts."""
    if text is None:
        return (None,) * 5
    positions = []
    for confidence in (config.confidence, config.confidence ** (1 / n_cells)):
        half = NormalDist().inv_cdf((1 + confidence) / 2) * error
        positions.append(judge_range(text, expected - half, expected + half))
    z = (float(text) - expected) / error if error > 0 else None
    return (text, judge(text, expected), z, *positions)
