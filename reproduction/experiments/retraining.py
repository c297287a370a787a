"""The error of models that are trained without the k most important features (the table `tab:retraining`).

The paper scores a ranking π by the RMSE, over the test rows x, of m_S(x): m_S is a model trained on S, all
features but π(x)[1..k], which differ from row to row. The larger the error, the more was lost with these
features. Rankings are those of the full model, by SHAP and by greedy; only the m_S that some row needs are
trained. Rows are drawn for each tree (`subsample`), so every number hangs on the seed of the training and on
the order of its rows. Several trainings tell how much: `rmse` is the mean over trainings of their RMSEs, and
`training_sd` their standard deviation. Two protocols stand side by side:

- **as described**: the hyperparameters of the paper's appendix, and for other data sets those of the config;
  the number of trees is the full model's where the appendix names none. One training for each of several
  seeds.
- **as published**: the hyperparameters of the models that the paper's authors saved, which differ from the
  appendix, see `PUBLISHED_SETTINGS`; the seed is 42. With the authors' rows in their order this is one
  training. Where the order is not known, there is one for each of several random orders.

Both have bootstrap intervals over test rows, and the advantage over SHAP with an interval of its own; they
hold the trainings fixed. `advantage_training_sd` is how much the advantage differs from training to training.

A published cell is judged by its digits (`verdict`), and as one more training: `z` is its distance from
`rmse` in standard deviations of that, `within` says whether it lies in the t interval of `confidence`, and
`within_jointly` whether it lies in the wider one that should hold for all cells of a subject at once
(Šidák). Both allow for the rounding of the printed number. Cells as published also have the range over all
ways to break greedy's ties, see `reproduction.ties`: `lowest` and `highest` for exact ties,
`lowest_float32` and `highest_float32` for gaps that the paper's float32 could not tell apart; with several
trainings, the means of each one's.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from scipy.special import stdtrit

from predgap import Explainer, Normal, PredgapError, Ranking
from reproduction.helpers import BoolArray, FloatArray, IndexArray, Progress
from reproduction.models import (
    Scale,
    Subject,
    Training,
    method_of,
    parameters,
    per_subject,
    rankings,
    sha256_of_arrays,
    top_masks,
)
from reproduction.published import (
    DESCRIBED,
    HYPERPARAMETERS,
    PLACES,
    PUBLISHED,
    SCALES,
    cells,
    judge,
    judge_range,
    printed,
)
from reproduction.results import Folder, Resampled, Result, Spread, Steps, Value, pool, remembered, spreads
from reproduction.ties import Step, float32_tolerance, steps

COLUMNS: Final = (
    *("protocol", "kind", "dataset", "k", "method", "scale", "n_rows"),
    *("max_depth", "eta", "subsample", "trees", "n_trainings"),
    *("rmse", "low", "high", "advantage", "advantage_low", "advantage_high"),
    *("training_sd", "advantage_training_sd"),
    *("lowest", "highest", "lowest_float32", "highest_float32"),
    *("published", "verdict", "in_range", "in_float32_range", "z", "within", "within_jointly"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Says how models are trained."""

    max_depth: int
    eta: float
    subsample: float
    trees: int

    def parameters(self, seed: int) -> dict[str, Any]:
        """The options of XGBoost, but for the number of trees."""
        return parameters(self.max_depth, self.eta, self.subsample, seed)


PUBLISHED_SETTINGS: Final[Mapping[tuple[str, str], Settings]] = MappingProxyType(
    {
        ("Bigger", "wine"): Settings(max_depth=4, eta=0.2, subsample=0.8, trees=32),
        ("Bigger", "housing"): Settings(max_depth=4, eta=0.1, subsample=0.01, trees=40),
        ("Bigger", "telemetry"): Settings(max_depth=4, eta=0.2, subsample=0.8, trees=40),
    }
)
"""How the authors' models were trained.

Trained like this, with seed 42, on the authors' rows in their order, XGBoost gives their wine and telemetry
models again, bit for bit. The order of the housing rows is not known, but the saved trees tell: the numbers
of rows that they were grown from are those of subsample 0.01 and seed 42, and the leaves of the first one
belong to sums of labels only if eta is 0.1.
"""

PUBLISHED_SEED: Final = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Resampled):
    """Which cells, how often models are trained, and how sure the numbers are.

    `max_depth`, `eta` and `subsample` are for data sets that the paper's appendix does not name.
    """

    scales: tuple[float, ...] = SCALES
    places: tuple[int, ...] = PLACES
    max_depth: int = 4
    eta: float = 0.2
    subsample: float = 0.9
    n_seeds: int = 3  # trainings as described
    n_orders: int = 20  # trainings as published where the order of rows is not known

    def __post_init__(self) -> None:
        Resampled.__post_init__(self)
        counts = (self.max_depth, self.n_seeds, self.n_orders, *self.places)
        shares = (self.eta, self.subsample)
        if not self.places or min(counts) < 1 or not all(0 < share <= 1 for share in shares):
            raise PredgapError(
                f"{self!r} is impossible; expected places, max_depth, n_seeds and n_orders from 1, eta and "
                "subsample in (0, 1]"
            )


# ---- the experiment ------------------------------------------------------------------------------


def run(
    config: Config,
    subjects: Iterable[Subject],
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
    cache: Folder = None,
) -> Result:
    """Rows of both protocols, per subject, k and ranking, beside the published cell if there is one.

    For the paper's cells, the subjects are `authors_subjects(data_dir, kinds=["Bigger"])`. One without
    training rows has no rows here; one that `PUBLISHED_SETTINGS` does not name has none of the published
    protocol. `progress` counts trained models; `cache` keeps their predictions.
    """
    chosen = tuple(subjects)
    plans = {subject: list(_protocols(config, subject, n_jobs)) for subject in chosen}
    told = Steps(progress, sum(protocol.n_models for subject in chosen for protocol in plans[subject]))

    def rows(subject: Subject) -> Iterator[tuple[Value, ...]]:
        for protocol in plans[subject]:
            yield from _rows(config, protocol, _errors(protocol, n_jobs, told, cache))

    return per_subject("retraining", COLUMNS, config, chosen, rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    """The subset that each row must do without, and the ones that ties allow instead."""

    k: int
    scale: Scale
    removed: BoolArray  # (n, d)
    ties: Step | None


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """One training of all models: the order of the rows, if it is not the given one, and the seed."""

    order: IndexArray | None
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class _Protocol:
    """What is to be trained for a subject, and for which cells; SHAP leads each k."""

    name: str
    subject: Subject
    training: Training
    settings: Settings
    rounds: Sequence[_Round]
    cells: Sequence[_Cell]

    @property
    def subsets(self) -> BoolArray:
        """The distinct subsets that some cell needs, (m, d)."""
        masks = [cell.removed for cell in self.cells]
        masks += [cell.ties.subset for cell in self.cells if cell.ties is not None]
        return np.unique(np.concatenate(masks), axis=0)

    @property
    def n_models(self) -> int:
        return len(self.subsets) * len(self.rounds)


def _protocols(config: Config, subject: Subject, n_jobs: int) -> Iterator[_Protocol]:
    training, d = subject.training, subject.X.shape[1]
    if max(config.places) >= d:
        raise PredgapError(
            f"places={config.places!r}, but {subject.name} has {d} features; expected fewer than that, as a "
            "model is trained on the others"
        )
    if training is None:
        return
    ranked = rankings(subject, config.scales, n_jobs=n_jobs)
    settings = PUBLISHED_SETTINGS.get((subject.kind, subject.dataset))
    if settings is not None:
        ties = _ties(config, subject, ranked, n_jobs)
        found = _cells(config, ranked, d, ties)
        yield _Protocol(PUBLISHED, subject, training, settings, _orders(config, subject, training), found)
    found = _cells(config, ranked, d, {})
    settings = described_settings(config, subject)
    yield _Protocol(DESCRIBED, subject, training, settings, _seeds(config, subject), found)


def described_settings(config: Config, subject: Subject) -> Settings:
    """The choice that the appendix states, or else that of the config."""
    entry: dict[str, Any] = {
        **{"max_depth": config.max_depth, "eta": config.eta, "subsample": config.subsample},
        **{"trees": subject.ensemble.n_trees},
        **HYPERPARAMETERS.get((subject.kind, subject.dataset), {}),
    }
    return Settings(
        max_depth=int(entry["max_depth"]),
        eta=float(entry["eta"]),
        subsample=float(entry["subsample"]),
        trees=int(entry["trees"]),
    )


def _orders(config: Config, subject: Subject, training: Training) -> list[_Round]:
    if training.in_order:
        return [_Round(None, PUBLISHED_SEED)]
    orders = _stream(config, subject, 0).spawn(config.n_orders)
    n = len(training.y)
    return [_Round(np.random.default_rng(order).permutation(n), PUBLISHED_SEED) for order in orders]


def _seeds(config: Config, subject: Subject) -> list[_Round]:
    drawn = _stream(config, subject, 1).generate_state(config.n_seeds)
    return [_Round(None, int(seed) >> 1) for seed in drawn]  # XGBoost takes 31 bits


def _stream(config: Config, subject: Subject, purpose: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([config.seed, zlib.crc32(subject.name.encode()), purpose])


def _cells(
    config: Config, ranked: Mapping[Scale, Ranking], d: int, ties: Mapping[tuple[int, Scale], Step]
) -> list[_Cell]:
    return [
        _Cell(k, scale, top_masks(ranking.order[:, :k], d), ties.get((k, scale)))
        for k in config.places
        for scale, ranking in ranked.items()
    ]


def _ties(
    config: Config, subject: Subject, ranked: Mapping[Scale, Ranking], n_jobs: int
) -> dict[tuple[int, Scale], Step]:
    """The subsets that greedy may have at the top, by k and σ."""
    tolerance = float32_tolerance(subject.ensemble, subject.X)
    found: dict[tuple[int, Scale], Step] = {}
    for scale in config.scales:
        explainer = Explainer(subject.ensemble, Normal(scale), n_jobs=n_jobs, progress=False)
        ways = steps(explainer, subject.X, ranked[scale], tolerance, max(config.places))
        found |= {(k, scale): step for k, step in enumerate(ways, start=1)}
    return found


# ---- training ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """The squared errors of the models of a protocol."""

    number: Mapping[bytes, int]  # of a model, by the mask of what it does without
    squares: FloatArray  # (models, rounds, n)

    def of(self, row: IndexArray, subset: BoolArray) -> FloatArray:
        """Those of rows (e,) without subsets (e, d): (rounds, e)."""
        models = [self.number[mask.tobytes()] for mask in subset]
        return np.asarray(self.squares[models, :, row].T)


def _errors(protocol: _Protocol, n_jobs: int, told: Steps, cache: Folder) -> _Errors:
    """Train the models of a protocol, several at a time."""
    subsets, y = protocol.subsets, protocol.subject.y
    jobs = [(subset, once) for subset in subsets for once in protocol.rounds]
    data = sha256_of_arrays(protocol.training.X, protocol.training.y, protocol.subject.X)

    def predictions(job: tuple[BoolArray, _Round]) -> FloatArray:
        return remembered(cache, _key(protocol, data, *job), lambda: _predictions(protocol, *job))

    found = list[FloatArray]()
    with pool(n_jobs) as threads:
        for array in threads.map(predictions, jobs):
            found.append((array - y) ** 2)
            told.add()
    number = {subset.tobytes(): i for i, subset in enumerate(subsets)}
    return _Errors(number, np.reshape(found, (len(subsets), len(protocol.rounds), len(y))))


def _predictions(protocol: _Protocol, removed: BoolArray, once: _Round) -> FloatArray:
    """What a model that is trained without some features says about the test rows, (n,)."""
    import xgboost  # it is there, as SHAP needs it too

    X, y = protocol.training.X[:, ~removed], protocol.training.y
    if once.order is not None:
        X, y = X[once.order], y[once.order]
    rows = xgboost.DMatrix(X, y, nthread=1)
    booster = xgboost.train(protocol.settings.parameters(once.seed), rows, protocol.settings.trees)
    asked = xgboost.DMatrix(protocol.subject.X[:, ~removed], nthread=1)
    return np.asarray(booster.predict(asked), dtype=np.float64)


def _key(protocol: _Protocol, data: str, removed: BoolArray, once: _Round) -> dict[str, Any]:
    """All that the predictions of a model depend on; `data` is the SHA-256 of all rows."""
    import xgboost

    return {
        "experiment": "retraining",
        "data": data,
        "order": None if once.order is None else sha256_of_arrays(once.order),
        "removed": np.flatnonzero(removed).tolist(),
        "parameters": protocol.settings.parameters(once.seed),
        "trees": protocol.settings.trees,
        "xgboost": xgboost.__version__,
    }


# ---- rows of the table ---------------------------------------------------------------------------


def _rows(config: Config, protocol: _Protocol, errors: _Errors) -> Iterator[tuple[Value, ...]]:
    subject, settings = protocol.subject, protocol.settings
    every = np.arange(len(subject.y))
    squares = np.stack([errors.of(every, cell.removed) for cell in protocol.cells])  # (cells, rounds, n)
    found = _spreads(config, squares, len(config.places))
    for cell, (spread, sd, advantage_sd) in zip(protocol.cells, found, strict=True):
        ranges = _ranges(cell.ties, errors, len(every))
        yield (
            *(protocol.name, subject.kind, subject.dataset),
            *(cell.k, method_of(cell.scale), cell.scale, len(every)),
            *(settings.max_depth, settings.eta, settings.subsample, settings.trees, len(protocol.rounds)),
            *(*spread, sd, advantage_sd, *ranges),
            *_verdicts(config, protocol, cell, (spread.score, sd), ranges),
        )


def _spreads(
    config: Config, squares: FloatArray, n_places: int
) -> Iterator[tuple[Spread, float | None, float | None]]:
    """For each cell, from squared errors (cells, rounds, n), intervals over rows, and the standard deviations
    of RMSE and advantage over trainings, if there are several; SHAP leads each k."""
    for group in squares.reshape(n_places, -1, *squares.shape[1:]):  # (rankings, rounds, n)
        rmse = np.sqrt(group.mean(axis=-1))
        several = rmse.shape[1] > 1
        sds = [one.std(ddof=1) if several else None for one in rmse]
        advantage_sds = [(one - rmse[0]).std(ddof=1) if several else None for one in rmse[1:]]
        found = spreads(group, config, score=lambda means: np.sqrt(means).mean(axis=1))
        yield from zip(found, sds, [None, *advantage_sds], strict=True)


def _ranges(ties: Step | None, errors: _Errors, n: int) -> tuple[float | None, ...]:
    """The smallest and largest RMSE over ways to break exact ties, then the same for float32."""
    if ties is None:
        return (None,) * 4
    squares = errors.of(ties.row, ties.subset)
    found = []
    for only in (ties.exact, np.ones_like(ties.exact)):
        for extreme, nothing in ((np.minimum, np.inf), (np.maximum, -np.inf)):
            best = np.full((n, len(squares)), nothing)
            extreme.at(best, ties.row[only], squares.T[only])
            found.append(float(np.sqrt(best.mean(axis=0)).mean()))
    return tuple(found)


def _verdicts(
    config: Config,
    protocol: _Protocol,
    cell: _Cell,
    rmse: tuple[float, float | None],
    ranges: tuple[float | None, ...],
) -> tuple[Value, ...]:
    """The published text, its verdict, those of two ranges, and those of it as one more training.

    `rmse` is the mean over trainings, and their standard deviation.
    """
    kind, dataset = protocol.subject.kind, protocol.subject.dataset
    method = method_of(cell.scale)
    text = printed("retraining", kind=kind, dataset=dataset, method=method, scale=cell.scale, k=cell.k)
    if text is None:
        return (None,) * 7
    lowest, highest, lowest_float32, highest_float32 = ranges
    in_ranges = [
        None if low is None or high is None else judge_range(text, low, high)
        for low, high in ((lowest, highest), (lowest_float32, highest_float32))
    ]
    n_cells = sum((one.kind, one.dataset) == (kind, dataset) for one in cells("retraining"))
    levels = (config.confidence, config.confidence ** (1 / n_cells))
    return (
        *(text, judge(text, rmse[0]), *in_ranges),
        *_as_one_more(text, *rmse, len(protocol.rounds), levels),
    )


def _as_one_more(
    text: str, mean: float, sd: float | None, n: int, levels: Sequence[float]
) -> tuple[Value, ...]:
    """A printed number beside n values with this mean and standard deviation: z, and in which intervals.

    Examples
    --------
    >>> _as_one_more("1.2", 1.0, 0.1, 3, (0.5, 0.95))  # t quantiles of 0.816 and 4.303
    (1.732..., 'outside', 'inside')
    """
    if sd is None:
        return (None,) * (1 + len(levels))
    error = sd * float(np.sqrt(1 + 1 / n))
    halves = [float(stdtrit(n - 1, (1 + level) / 2)) * error for level in levels]
    z = (float(text) - mean) / error if error > 0 else None
    return (z, *(judge_range(text, mean - half, mean + half) for half in halves))
