"""What experiments are about: models, each with the rows it was tested and trained on, and its rankings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from predgap import Ensemble
from predgap._text import format_items
from predgap._typing import BoolArray, FloatArray, Progress
from predgap.errors import DatasetError, DependencyError
from predgap.explainer import Explainer
from predgap.loaders import load
from predgap.noise import Normal
from reproduction.common.published import DATASETS, KINDS, Kind
from reproduction.common.results import Result, Value, collected
from reproduction.data import SOURCES, PublishedSplit, data_folders, load_dataset, load_published_split
from reproduction.data.sources import find
from predgap.ranking import Ranking

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
    """What a ranking is called in a table."""
    return "shap" if scale is None else "greedy"


def rankings(subject: Subject, scales: Iterable[float], *, n_jobs: int = 1) -> dict[Scale, Ranking]:
    """The rows' rankings by SHAP, under None, and by greedy at each scale σ."""
    found: dict[Scale, Ranking] = {None: shap_ranking(subject)}
    for scale in scales:
        found[scale] = Explainer(subject.ensemble, Normal(scale), n_jobs=n_jobs).rank(subject.X)
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
    for path in (place / name for base in bases for place in (base / folder, base)):
        if path.is_file():
            return path
    raise DatasetError(
        f"there is no {folder}/{name} in {format_items([str(base) for base in bases])}; "
        "pass the folder that has it as data_dir"
    )
