"""What experiments are about: models, each with the rows it was tested and trained on, and its rankings.

**Training**: the paper cuts each data set 80:20, standardises the features, and trains two kinds of XGBoost
model on the larger part: a "Single" tree, and a "Bigger" model of at most 40 trees. Depth, eta and subsample
come from a grid by 5-fold cross-validation. Here, for every point of the grid:

- rows are put in random order and cut into folds of (almost) equal size, the same for all points;
- for each fold, a model is trained on the rows of the other folds, with squared error as its objective;
- `cv_rmse` is the mean over folds of the RMSE on the fold's own rows, `cv_standard_error` the standard
  deviation of these RMSEs (n - 1) divided by the square root of their number.

Trees are added one by one, so one model of `max_trees` trees tells the error after every number of trees:
after one it is the Single tree of that point, and the Bigger model has the number of trees with the smallest
`cv_rmse`. Each point has thus one row per kind. **Chosen** is, per kind, the one with the smallest `cv_rmse`;
of equal ones that with fewer trees, then the shallower, then that with lower eta, then with lower subsample.

The setting that the paper's appendix says was chosen is marked as `published`. It has the number of trees
that is named there, or else the best one, as above; if that is no row of the grid, it is one more row, which
cannot be chosen. `excess` is how much larger a row's `cv_rmse` is than the chosen one's of its kind. All have
the same folds, so `excess_standard_error` comes from the differences fold by fold.

A search is cut into blocks of one depth and one eta. A finished block can be kept in a folder: a search that
was stopped goes on from there, to the same numbers.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap import DependencyError, Ensemble, Explainer, Normal, PredgapError, Ranking, load
from reproduction.data import (
    SOURCES,
    Dataset,
    PublishedSplit,
    Split,
    data_folders,
    find,
    find_file,
    load_dataset,
    load_published_split,
    places,
    split,
)
from reproduction.helpers import (
    BoolArray,
    DatasetError,
    FloatArray,
    IndexArray,
    Progress,
    atomic_write,
    format_items,
)
from reproduction.published import DATASETS, HYPERPARAMETERS, KINDS, Kind
from reproduction.results import Folder, Result, Steps, Value, collected, merged, pool, remembered

Scale = float | None  # σ of a greedy ranking; None is SHAP


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The rows that a model was trained on."""

    X: FloatArray = field(repr=False)  # (m, d)
    y: FloatArray = field(repr=False)  # (m,)
    in_order: bool = True  # in the order in which the model's authors had them


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Subject:
    """A model of one kind, the test rows of its data set, and its training rows if they are known."""

    kind: str  # "Bigger" or "Single"
    dataset: str
    model: Path  # a model that XGBoost saved
    X: FloatArray = field(repr=False)  # (n, d)
    y: FloatArray = field(repr=False)  # (n,)
    training: Training | None = field(default=None, repr=False)
    files: Mapping[str, str] = field(repr=False)  # SHA-256 of what it was read from, by name
    ensemble: Ensemble = field(repr=False)

    def __post_init__(self) -> None:
        n, d = self.X.shape
        if self.y.shape != (n,):
            raise DatasetError(f"the labels of {self.name} have shape {self.y.shape}, expected ({n},)")
        rows = self.training
        if rows is not None and (rows.X.shape[1:] != (d,) or rows.y.shape != rows.X.shape[:1]):
            raise DatasetError(
                f"the training rows of {self.name} have shape {rows.X.shape}, their labels {rows.y.shape}; "
                f"expected (m, {d}) and (m,)"
            )

    @property
    def name(self) -> str:
        return f"{self.kind} {self.dataset}"


def read_subject(
    kind: str,
    dataset: str,
    model: str | os.PathLike[str],
    X: Any,
    y: Any,
    *,
    training: Training | None = None,
    files: Mapping[str, str] | None = None,
) -> Subject:
    """The subject of a saved XGBoost model with test rows X (n, d) and their labels y (n,).

    `files` are the SHA-256 of further files that the rows come from; the model's own is added.
    """
    path = Path(model)
    rows, labels = np.array(X, dtype=np.float64), np.array(y, dtype=np.float64)
    for array in (rows, labels):
        array.setflags(write=False)
    ensemble = load(path)
    if rows.ndim != 2 or rows.shape[1] != ensemble.n_features or len(rows) == 0:
        raise DatasetError(
            f"the rows for {kind} {dataset} have shape {rows.shape}; {path.name} needs "
            f"(n, {ensemble.n_features}) with at least one row"
        )
    return Subject(
        kind=kind,
        dataset=dataset,
        model=path,
        X=rows,
        y=labels,
        training=training,
        files={**(files or {}), f"models/{path.name}": sha256_of(path)},
        ensemble=ensemble,
    )


def authors_subjects(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    kinds: Sequence[Kind] = KINDS,
    datasets: Sequence[str] = DATASETS,
) -> tuple[Subject, ...]:
    """The models that the paper's authors saved, each with their own split.

    Parameters
    ----------
    data_dir : path, optional
        Folder with `models/<stem>.json`, `models/<stem>_single.json` and `splits/test_<stem>_scaled.csv`;
        looked in before `PREDGAP_DATA` and the user's cache, as in `reproduction.data`.
    kinds, datasets : names
        Which of them; both kinds of a data set share its rows.

    Training rows come from `splits/train_<stem>_scaled.csv`, else they are the other rows of the raw data
    set, in another order than the authors', if a folder has that, and `splits/<stem>_scaling_params.csv`.
    """
    splits = {dataset: _authors_split(data_dir, dataset) for dataset in datasets}
    return tuple(
        _authors_subject(data_dir, kind, dataset, *splits[dataset]) for kind in kinds for dataset in datasets
    )


def _authors_split(
    data_dir: str | os.PathLike[str] | None, dataset: str
) -> tuple[PublishedSplit, Training | None, dict[str, str]]:
    """A split, its training rows, and the SHA-256 of the files that they come from."""
    if dataset not in DATASETS:
        raise DatasetError(
            f"the paper has no models of {dataset!r}; its data sets are {format_items(DATASETS)}"
        )
    stem = SOURCES[dataset].stem
    parts = load_published_split(dataset, data_dir)
    test = _find(data_dir, "splits", f"test_{stem}_scaled.csv")
    files = {f"splits/{test.name}": sha256_of(test)}
    if parts.train is not None:
        train = test.with_name(f"train_{stem}_scaled.csv")
        files[f"splits/{train.name}"] = sha256_of(train)
        return parts, Training(parts.train.X, parts.train.y), files
    if parts.mean is None or find(SOURCES[dataset], data_folders(data_dir)) is None:
        return parts, None, files
    rest = parts.complement(load_dataset(dataset, data_dir=data_dir, download=False))
    scaling = test.with_name(f"{stem}_scaling_params.csv")
    files[f"splits/{scaling.name}"] = sha256_of(scaling)
    files[f"raw/{SOURCES[dataset].file}"] = SOURCES[dataset].sha256
    return parts, Training(rest.X, rest.y, in_order=False), files


def _authors_subject(
    data_dir: str | os.PathLike[str] | None,
    kind: Kind,
    dataset: str,
    parts: PublishedSplit,
    training: Training | None,
    files: Mapping[str, str],
) -> Subject:
    stem, test = SOURCES[dataset].stem, parts.test
    model = _find(data_dir, "models", f"{stem}_single.json" if kind == "Single" else f"{stem}.json")
    subject = read_subject(kind, dataset, model, test.X, test.y, training=training, files=files)
    if subject.ensemble.feature_names not in (None, test.feature_names):
        raise DatasetError(
            f"{model.name} has the features {format_items(subject.ensemble.names)}; "
            f"its test rows have {format_items(test.feature_names)}"
        )
    return subject


def method_of(scale: Scale) -> Literal["shap", "greedy"]:
    """The name of a ranking in a table."""
    return "shap" if scale is None else "greedy"


def rankings(subject: Subject, scales: Iterable[float], *, n_jobs: int = 1) -> dict[Scale, Ranking]:
    """The rows' rankings by SHAP, under None, and by greedy at each scale σ."""
    found: dict[Scale, Ranking] = {None: shap_ranking(subject)}
    for scale in scales:
        explainer = Explainer(subject.ensemble, Normal(scale), n_jobs=n_jobs, progress=False)
        found[scale] = explainer.rank(subject.X)
    return found


def shap_ranking(subject: Subject) -> Ranking:
    """The rows' rankings by |SHAP value|, ties to the lower index; `scores` are the |values|.

    The values are those of TreeSHAP, `tree_path_dependent`: XGBoost's own `pred_contribs`.
    """
    try:
        import xgboost
    except ImportError:
        raise DependencyError(
            "SHAP values come from xgboost, which is not installed; try: pip install xgboost"
        ) from None
    booster = xgboost.Booster({"nthread": 1}, model_file=os.fspath(subject.model))
    rows = xgboost.DMatrix(subject.X, feature_names=booster.feature_names, nthread=1)
    contributions = booster.predict(rows, pred_contribs=True)  # (n, d + 1), the bias last
    return Ranking.from_attributions(contributions, feature_names=subject.ensemble.names)


def top_masks(order: NDArray[np.intp], d: int) -> BoolArray:
    """The features (n, k) that are named for each row, as masks (n, d).

    Examples
    --------
    >>> top_masks(np.array([[2, 0], [0, 1]]), 3)
    array([[ True, False,  True],
           [ True,  True, False]])
    """
    out = np.zeros((len(order), d), dtype=np.bool_)
    np.put_along_axis(out, order, True, axis=1)
    return out


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_arrays(*arrays: NDArray[Any]) -> str:
    """The SHA-256 of arrays, their types and their shapes, in hexadecimal."""
    content = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        content.update(f"{array.dtype.str} {array.shape}".encode() + array.tobytes())
    return content.hexdigest()


def per_subject(
    experiment: str,
    columns: tuple[str, ...],
    config: Any,
    subjects: Iterable[Subject],
    rows: Callable[[Subject], Iterable[tuple[Value, ...]]],
    progress: Progress | None = None,
) -> Result:
    """The result of an experiment whose rows come subject by subject, lazily; `progress` counts subjects."""
    chosen = tuple(subjects)
    parts = ((subject.name, rows(subject)) for subject in chosen)
    return collected(experiment, columns, config, parts, all_files(chosen), progress)


def all_files(subjects: Iterable[Subject]) -> dict[str, str]:
    """SHA-256 of every file of the subjects, by name."""
    return dict(sorted(entry for subject in subjects for entry in subject.files.items()))


def _find(data_dir: str | os.PathLike[str] | None, folder: str, name: str) -> Path:
    bases = data_folders(data_dir)
    path = find_file(bases, folder, name)
    if path is None:
        raise DatasetError(
            f"there is no {folder}/{name} in {places(bases)}; pass the folder that has it as data_dir"
        )
    return path


# ---- pairs of a row and a subset -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Rows and subsets of N pairs, and what their random streams depend on."""

    X: NDArray[np.float64] = field(repr=False)  # (N, d)
    masks: NDArray[np.bool_] = field(repr=False)  # (N, d)
    entropy: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.X)

    def stream(self, pair: int, use: int) -> np.random.Generator:
        """A stream of random numbers for one use of one pair, whatever else is drawn."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(pair, use)))


def draw_pairs(subject: Subject, n_pairs: int, seed: int) -> Pairs:
    """`n_pairs` pairs: sizes 1, 2, ..., d in turn, a random subset of that size, a random row.

    More pairs repeat fewer, and add to them.
    """
    d = subject.X.shape[1]
    entropy = (seed, zlib.crc32(subject.name.encode()))
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    rows = np.empty(n_pairs, dtype=np.intp)
    masks = np.zeros((n_pairs, d), dtype=np.bool_)
    for pair in range(n_pairs):
        rows[pair] = rng.integers(len(subject.X))
        masks[pair, rng.permutation(d)[: pair % d + 1]] = True
    return Pairs(subject.X[rows], masks, entropy)


# ---- training by a grid search -------------------------------------------------------------------

COLUMNS: Final = (
    *("dataset", "kind", "max_depth", "eta", "subsample", "trees"),
    *("cv_rmse", "cv_standard_error", "excess", "excess_standard_error", "chosen", "published"),
)

_SHARES: Final = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The grid, and how it is searched; `seed` is that of the split, of the folds and of XGBoost."""

    max_depths: tuple[int, ...] = (1, 2, 3, 4)
    etas: tuple[float, ...] = _SHARES
    subsamples: tuple[float, ...] = _SHARES
    max_trees: int = 40
    n_folds: int = 5
    test_share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        grids = (self.max_depths, self.etas, self.subsamples)
        shares = (*self.etas, *self.subsamples)
        if (
            any(not grid or len(set(grid)) < len(grid) for grid in grids)
            or min(*self.max_depths, self.max_trees, self.n_folds - 1) < 1
            or not (all(0 < share <= 1 for share in shares) and 0 < self.test_share < 1)
            or not 0 <= self.seed < 1 << 31
        ):
            raise PredgapError(
                f"{self!r} is impossible; expected at least one value in each grid, none twice, max_depths "
                "and max_trees from 1, etas and subsamples in (0, 1], n_folds from 2, test_share in (0, 1), "
                "seed from 0 to 2147483647"
            )


# ---- searches and the models they choose ---------------------------------------------------------


def search(
    config: Grid,
    train: Dataset,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
    folder: Folder = None,
) -> Result:
    """The grid search on the training part of a data set: rows of both kinds.

    Parameters
    ----------
    config : Grid
    train : Dataset
        With features as the models shall have them (standardised). The published settings are those for the
        data set of this name.
    n_jobs : int
        Threads, or -1 for all cores; the numbers are the same for any.
    progress : callable, optional
        Told how many models are trained, of how many. An exception raised in it stops the search.
    folder : path, optional
        Where finished blocks are kept, and looked for.
    """
    return _search(config, train, n_jobs, Steps(progress, _n_fits(config, train.name)), folder)


def _search(config: Grid, train: Dataset, n_jobs: int, steps: Steps, folder: Folder) -> Result:
    data = _Data(config, train, folds(config, train.name, len(train)), sha256_of_arrays(train.X, train.y))
    parts = [(train.name, _rows(data, n_jobs, steps, folder))]
    return collected("training", COLUMNS, config, parts, {f"rows/{train.name}": data.sha256})


def trained_subjects(
    config: Grid,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    datasets: Sequence[str] = DATASETS,
    folder: str | os.PathLike[str],
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[tuple[Subject, ...], Result]:
    """The models that the search chooses, trained on the whole training part; and the search's result.

    Parameters
    ----------
    config : Grid
    data_dir : path, optional
        Folder with the data sets, as in `load_dataset`; one that is nowhere is downloaded.
    datasets : names
        What `load_dataset` knows.
    folder : path
        The models are saved there as `models/<stem>.json` and `models/<stem>_single.json`, with the stems of
        the published ones (`winequality_red` for wine, else the name); finished blocks are kept in `search/`.
    n_jobs, progress
        As in `search`; progress counts the models of all searches together.
    """
    if not datasets:
        raise PredgapError("datasets is empty; expected at least one data set")
    splits = {
        name: split(load_dataset(name, data_dir=data_dir), test_share=config.test_share, seed=config.seed)
        for name in datasets
    }
    steps, kept = Steps(progress, sum(_n_fits(config, name) for name in splits)), Path(folder) / "search"
    found = {name: _search(config, parts.train, n_jobs, steps, kept) for name, parts in splits.items()}
    subjects = tuple(
        _subject(config, kind, splits[name], found[name], Path(folder)) for kind in KINDS for name in splits
    )
    result = merged(list(found.values()), config)
    return subjects, replace(result, files={**result.files, **all_files(subjects)})


def _subject(config: Grid, kind: Kind, parts: Split, found: Result, folder: Path) -> Subject:
    """The chosen model of a kind: trained, saved, and read again."""
    train, name = parts.train, parts.train.name
    (chosen,) = found.where(kind=kind, chosen=True)
    stem = SOURCES[name].stem if name in SOURCES else name
    model = folder / "models" / (f"{stem}_single.json" if kind == "Single" else f"{stem}.json")
    model.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(model, _trained(config, train, chosen))
    source = f"raw/{SOURCES[name].file}" if name in SOURCES else f"rows/{name}"
    sha256 = train.sha256 or found.files[f"rows/{name}"]
    return read_subject(
        *(kind, name, model, parts.test.X, parts.test.y),
        training=Training(train.X, train.y),
        files={source: sha256},
    )


def _trained(config: Grid, train: Dataset, chosen: Mapping[str, Any]) -> bytes:
    """The saved model with a row's setting, trained on all rows."""
    xgboost = _xgboost()
    rows = xgboost.DMatrix(train.X, train.y, feature_names=list(train.model_names), nthread=1)
    settings = parameters(chosen["max_depth"], chosen["eta"], chosen["subsample"], config.seed)
    booster = xgboost.train(settings, rows, chosen["trees"])
    return bytes(booster.save_raw("json"))


# ---- candidates and choice -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A setting, and its error on each fold."""

    setting: tuple[int, float, float, int]  # depth, eta, subsample, trees
    rmse: FloatArray  # (n_folds,)

    @property
    def preference(self) -> tuple[float, ...]:
        """Smaller is better."""
        max_depth, eta, subsample, trees = self.setting
        return float(self.rmse.mean()), trees, max_depth, eta, subsample


def _rows(data: _Data, n_jobs: int, steps: Steps, folder: Folder) -> Iterator[tuple[Value, ...]]:
    config, name = data.config, data.train.name
    blocks = _all_blocks(config, name)
    curves = dict(zip(blocks, _curves(data, blocks, n_jobs, steps, folder), strict=True))
    for kind in KINDS:
        grid = [
            candidate
            for block in _grid_blocks(config)
            for candidate in _candidates(block, curves[block], 1 if kind == "Single" else None)
        ]
        listed = None
        if (kind, name) in HYPERPARAMETERS:
            block, trees = _published_block(config, kind, name)
            (listed,) = _candidates(block, curves[block], trees)
        for row in _kind_rows(grid, listed):
            yield (name, kind, *row)


def _candidates(block: _Block, curves: FloatArray, trees: int | None) -> Iterator[_Candidate]:
    """The candidates of a block with curves (subsamples, folds, trees); the best number of trees if None."""
    for subsample, curve in zip(block.subsamples, curves, strict=True):
        n = trees or int(curve.mean(axis=0).argmin()) + 1  # the first of equal ones
        yield _Candidate((block.max_depth, block.eta, subsample, n), curve[:, n - 1])


def _kind_rows(grid: Sequence[_Candidate], listed: _Candidate | None) -> Iterator[tuple[Value, ...]]:
    """The rows of one kind, but for their first two columns; `listed` is the published candidate."""
    chosen = min(grid, key=lambda candidate: candidate.preference)
    wanted = listed.setting if listed else None
    more = [listed] if listed and wanted not in {candidate.setting for candidate in grid} else []
    for candidate in (*grid, *more):
        yield (
            *candidate.setting,
            *_mean_and_error(candidate.rmse),
            *_mean_and_error(candidate.rmse - chosen.rmse),
            *(candidate is chosen, candidate.setting == wanted),
        )


def _mean_and_error(values: FloatArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


# ---- blocks of the grid --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """Points that are computed together, and how many trees their models get."""

    max_depth: int
    eta: float
    subsamples: tuple[float, ...]
    trees: int


def _all_blocks(config: Grid, dataset: str) -> tuple[_Block, ...]:
    kinds = [kind for kind in KINDS if (kind, dataset) in HYPERPARAMETERS]
    listed = [_published_block(config, kind, dataset)[0] for kind in kinds]
    return tuple(dict.fromkeys([*_grid_blocks(config), *listed]))


def _grid_blocks(config: Grid) -> Iterator[_Block]:
    for max_depth in config.max_depths:
        for eta in config.etas:
            yield _Block(max_depth, eta, config.subsamples, config.max_trees)


def _published_block(config: Grid, kind: Kind, dataset: str) -> tuple[_Block, int | None]:
    """The block of the one setting that the paper names, and its number of trees if that is known.

    The setting need not be in the grid, nor its trees within `max_trees`.
    """
    setting = HYPERPARAMETERS[kind, dataset]
    trees = 1 if kind == "Single" else int(setting["trees"]) if "trees" in setting else None
    return (
        _Block(
            max_depth=int(setting["max_depth"]),
            eta=float(setting["eta"]),
            subsamples=(float(setting["subsample"]),),
            trees=trees or config.max_trees,
        ),
        trees,
    )


def _n_fits(config: Grid, dataset: str) -> int:
    return config.n_folds * sum(len(block.subsamples) for block in _all_blocks(config, dataset))


# ---- cross-validation ----------------------------------------------------------------------------


def folds(config: Grid, dataset_name: str, n: int) -> tuple[IndexArray, ...]:
    """The numbers of the rows in each fold, for n rows.

    Examples
    --------
    >>> [len(rows) for rows in folds(Grid(n_folds=3), "wine", 8)]
    [3, 3, 2]
    """
    if n < config.n_folds:
        raise DatasetError(
            f"{dataset_name!r} has {n} rows for {config.n_folds} folds; expected at least one for each"
        )
    rng = np.random.default_rng(np.random.SeedSequence([config.seed, zlib.crc32(dataset_name.encode())]))
    return tuple(np.array_split(rng.permutation(n), config.n_folds))


def parameters(max_depth: int, eta: float, subsample: float, seed: int) -> dict[str, Any]:
    """The options of XGBoost. It uses one thread, so that sums do not depend on the machine's cores.

    Examples
    --------
    >>> parameters(4, 0.2, 0.9, seed=0)["max_depth"]
    4
    """
    return {
        "objective": "reg:squarederror",
        "tree_method": "hist",
        "max_depth": max_depth,
        "eta": eta,
        "subsample": subsample,
        "seed": seed,
        "nthread": 1,
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
    """The rows of a search and their folds."""

    config: Grid
    train: Dataset
    folds: tuple[IndexArray, ...]
    sha256: str  # of rows and labels

    def key(self, block: _Block) -> dict[str, Any]:
        """All that the curves of a block depend on."""
        settings = parameters(block.max_depth, block.eta, subsample=1.0, seed=self.config.seed)
        return {
            "experiment": "training",
            "rows": self.sha256,
            "folds": sha256_of_arrays(*self.folds),
            "parameters": settings | {"subsample": list(block.subsamples)},
            "trees": block.trees,
            "xgboost": _xgboost().__version__,
        }


def _curves(
    data: _Data, blocks: Iterable[_Block], n_jobs: int, steps: Steps, folder: Folder
) -> list[FloatArray]:
    """The curves of each block: RMSE (subsamples, folds, trees) after every number of trees."""
    curves = []
    with pool(n_jobs) as threads:
        fits = _Fits(data, threads)
        for block in blocks:
            end = steps.done + len(block.subsamples) * len(data.folds)
            curves.append(remembered(folder, data.key(block), partial(fits.curves, block, steps)))
            if steps.done < end:  # they were remembered
                steps.add(end - steps.done)
    return curves


@dataclass(frozen=True, slots=True, eq=False)
class _Fits:
    """Trains models on all folds but one, several at a time.

    Matrices are built once and used again; XGBoost does not promise that threads can share one, and fills it
    in on first use, so a fit has its own while it runs.
    """

    data: _Data
    threads: ThreadPoolExecutor
    free: SimpleQueue[Any] = field(default_factory=SimpleQueue)  # matrices that no fit uses just now

    def curves(self, block: _Block, steps: Steps) -> FloatArray:
        n_folds = len(self.data.folds)
        fits = [(subsample, fold) for subsample in block.subsamples for fold in range(n_folds)]
        curves = []
        for curve in self.threads.map(partial(self._curve, block), *zip(*fits, strict=True)):
            curves.append(curve)
            steps.add()
        return np.reshape(curves, (len(block.subsamples), n_folds, block.trees))

    def _curve(self, block: _Block, subsample: float, fold: int) -> list[float]:
        try:
            matrices = self.free.get_nowait()
        except Empty:
            matrices = self._matrices()
        rest, own = matrices[fold]
        history: dict[str, dict[str, list[float]]] = {}
        _xgboost().train(
            parameters(block.max_depth, block.eta, subsample, self.data.config.seed),
            *(rest, block.trees),
            evals=[(own, "own")],
            evals_result=history,
            verbose_eval=False,
        )
        self.free.put(matrices)
        return history["own"]["rmse"]

    def _matrices(self) -> list[tuple[Any, Any]]:
        """For each fold, the rows of the others, and its own."""
        matrix, X, y = _xgboost().DMatrix, self.data.train.X, self.data.train.y
        pairs = []
        for own in self.data.folds:
            rest = np.setdiff1d(np.arange(len(y)), own)
            pairs.append(tuple(matrix(X[rows], y[rows], nthread=1) for rows in (rest, own)))
        return pairs


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise DependencyError(
            "models are trained by xgboost, which is not installed; try: pip install xgboost"
        ) from None
    return xgboost
