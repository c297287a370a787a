"""What experiments are about: models, each with its test rows and its SHAP rankings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap.datasets import SOURCES, data_folders, load_published_split
from predgap.ensemble import Ensemble
from predgap.errors import DatasetError, DependencyError
from predgap.experiments.published import DATASETS, KINDS, Kind
from predgap.loaders import load
from predgap.ranking import Ranking
from predgap.tables import listing

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Subject:
    """A model of one kind and the test rows of its data set."""

    kind: str  # "Bigger" or "Single"
    dataset: str
    model: Path  # a model that XGBoost saved
    X: FloatArray = field(repr=False)  # (n, d)
    files: Mapping[str, str] = field(repr=False)  # SHA-256 of what it was read from, by name
    ensemble: Ensemble = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.dataset}"


def read_subject(
    kind: str,
    dataset: str,
    model: str | os.PathLike[str],
    X: Any,
    *,
    files: Mapping[str, str] | None = None,
) -> Subject:
    """The subject of a saved XGBoost model with rows X (n, d).

    `files` are the SHA-256 of further files that X comes from; the model's own is added.
    """
    path = Path(model)
    rows = np.array(X, dtype=np.float64)
    rows.setflags(write=False)
    ensemble = load(path)
    if rows.ndim != 2 or rows.shape[1] != ensemble.n_features or len(rows) == 0:
        raise DatasetError(
            f"the rows for {kind} {dataset} have shape {rows.shape}; {path.name} needs "
            f"(n, {ensemble.n_features}) with at least one row"
        )
    every = {**(files or {}), f"models/{path.name}": sha256_of(path)}
    return Subject(kind=kind, dataset=dataset, model=path, X=rows, files=every, ensemble=ensemble)


def authors_subjects(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    kinds: Sequence[Kind] = KINDS,
    datasets: Sequence[str] = DATASETS,
) -> tuple[Subject, ...]:
    """The models that the paper's authors saved, each with their own test split.

    Parameters
    ----------
    data_dir : path, optional
        Folder with `models/<stem>.json`, `models/<stem>_single.json` and `splits/test_<stem>_scaled.csv`;
        looked in before `PREDGAP_DATA` and the user's cache, as in `predgap.datasets`.
    kinds, datasets : names
        Which of them; both kinds of a data set share its rows.
    """
    return tuple(_authors_subject(data_dir, kind, dataset) for kind in kinds for dataset in datasets)


def _authors_subject(data_dir: str | os.PathLike[str] | None, kind: Kind, dataset: str) -> Subject:
    if dataset not in DATASETS:
        raise DatasetError(f"the paper has no models of {dataset!r}; its data sets are {listing(DATASETS)}")
    stem = SOURCES[dataset].stem
    model = _find(data_dir, "models", f"{stem}_single.json" if kind == "Single" else f"{stem}.json")
    test = load_published_split(dataset, data_dir).test
    split = _find(data_dir, "splits", f"test_{stem}_scaled.csv")
    subject = read_subject(kind, dataset, model, test.X, files={f"splits/{split.name}": sha256_of(split)})
    if subject.ensemble.feature_names not in (None, test.feature_names):
        raise DatasetError(
            f"{model.name} has the features {listing(subject.ensemble.names)}; "
            f"{split.name} has {listing(test.feature_names)}"
        )
    return subject


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


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def all_files(subjects: Iterable[Subject]) -> dict[str, str]:
    """SHA-256 of every file of the subjects, by name."""
    return dict(sorted(entry for subject in subjects for entry in subject.files.items()))


def _find(data_dir: str | os.PathLike[str] | None, folder: str, name: str) -> Path:
    bases = data_folders(data_dir)
    for path in (place / name for base in bases for place in (base / folder, base)):
        if path.is_file():
            return path
    raise DatasetError(
        f"there is no {folder}/{name} in {listing([str(base) for base in bases])}; "
        "pass the folder that has it as data_dir"
    )
