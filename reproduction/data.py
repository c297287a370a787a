"""The data sets of the paper: find, fetch, check, clean, standardise, split.

======================  =====================================  ======  ==  ==================
name                    data set                                 rows   d  target
======================  =====================================  ======  ==  ==================
``wine``                Red Wine Quality (UCI)                   1599  11  quality
``housing``             California Housing (1990 census)        20433   8  median_house_value
``telemetry``           Parkinsons Telemonitoring (UCI)          5875  17  motor_UPDRS
``diabetes``            the diabetes data of scikit-learn         442  10  progression
======================  =====================================  ======  ==  ==================

`housing` has 20,640 rows in its file, 207 of them without `total_bedrooms`; these are dropped, as is
`ocean_proximity`. `telemetry` goes without subject, age, sex and total_UPDRS. `diabetes` comes with
scikit-learn and needs no file.

**Where files are looked for**: the folder `data_dir`, the folder that the environment variable
`PREDGAP_DATA` names, and a cache folder of the user (`cache_dir`), in this order; in each of them first
in `raw/`, then in the folder itself. A file is used only if its SHA-256 is the known one.

**Download**: a file that is in none of them is fetched over HTTPS into the first of these folders. What
arrives gets its name when it is complete and its SHA-256 is right. The tests run this against a local
server; the addresses in `SOURCES` are data, which no test visits.

**Names of features** are those of the raw header, such as 'fixed acidity' and 'Jitter(%)'. The models
saved by the authors of the paper use other names for some of them ('fixed_acidity', 'Jitter_8_'):
`model_name` translates, `Dataset.model_names` are all of them.
"""

from __future__ import annotations

import hashlib
import math
import operator
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from predgap._text import did_you_mean, format_items
from predgap._typing import FloatArray, IndexArray
from predgap.errors import DatasetError, DependencyError
from reproduction.data.download import Download as Download
from reproduction.data.numbers import Numbers, read_bytes, read_numbers
from reproduction.data.sources import DATA_VARIABLE as DATA_VARIABLE
from reproduction.data.sources import SOURCES as SOURCES
from reproduction.data.sources import Source as Source
from reproduction.data.sources import absent, fetch_into, find, places
from reproduction.data.sources import cache_dir as cache_dir
from reproduction.data.sources import data_folders as data_folders

NAMES: Final = (*SOURCES, "diabetes")
"""What `load_dataset` knows."""

PUBLISHED: Final = (*SOURCES, "heloc")
"""What `load_published_split` knows; of these, `heloc` and `housing` have a test part only."""

_HELOC_TARGET: Final = "RiskPerformance"
_MODEL_NAME: Final = str.maketrans(" ():%", "____8")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dataset:
    """Rows with a target; all values are finite, the arrays read-only.

    Examples
    --------
    >>> diabetes = load_dataset("diabetes")
    >>> diabetes.X.shape, diabetes.feature_names[:3], diabetes.target_name
    ((442, 10), ('age', 'sex', 'bmi'), 'progression')
    """

    name: str
    X: FloatArray = field(repr=False)  # (n, d)
    y: FloatArray = field(repr=False)  # (n,)
    feature_names: tuple[str, ...]  # d
    target_name: str
    source: str  # for people
    sha256: str | None = None  # of the file it was read from, if that is known
    n_incomplete: int = 0  # rows with missing values, which were dropped

    def __post_init__(self) -> None:
        for name in ("X", "y"):
            object.__setattr__(self, name, _frozen(self.name, name, getattr(self, name)))
        object.__setattr__(self, "feature_names", tuple(map(str, self.feature_names)))
        expected = (self.y.size, len(self.feature_names))
        if self.X.shape != expected or self.y.ndim != 1:
            raise DatasetError(
                f"the data set {self.name!r} has X of shape {self.X.shape} and y of shape {self.y.shape}; "
                f"expected (n, {expected[1]}), as there are {expected[1]} feature names, and (n,)"
            )
        if not (np.isfinite(self.X).all() and np.isfinite(self.y).all()):
            raise DatasetError(f"the data set {self.name!r} has missing or infinite values; drop these rows")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def model_names(self) -> tuple[str, ...]:
        """The feature names as the saved models of the paper have them."""
        return tuple(map(model_name, self.feature_names))

    def take(self, rows: ArrayLike) -> Dataset:
        """The data set of these rows, by number, in this order."""
        chosen = np.asarray(rows, dtype=np.intp)
        return replace(self, X=self.X[chosen], y=self.y[chosen])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Split:
    """A data set cut into two parts, with the features standardised by the training part."""

    train: Dataset  # standardised features; the target is as it was
    test: Dataset
    raw_train: Dataset  # the same rows before that
    raw_test: Dataset
    train_rows: IndexArray  # (n_train,) row numbers in the data set that was split
    test_rows: IndexArray  # (n_test,)
    mean: FloatArray  # (d,) of the training part
    scale: FloatArray  # (d,) population standard deviation of the training part; 1 where that is 0
    seed: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PublishedSplit:
    """The split that a saved model of the paper was trained and tested on, as far as it is known.

    Unlike a `Split`, its features were scaled by mean and variance of **all** complete rows, training
    and test part together: that is what the published scaling parameters are.
    """

    train: Dataset | None  # None if no file has it
    test: Dataset  # standardised features; names as the models have them
    mean: FloatArray | None  # (d,); None if no file has it
    scale: FloatArray | None  # (d,)

    def complement(self, dataset: Dataset) -> Dataset:
        """The training part without a file: the rows of `dataset` that are not in `test`, standardised.

        They are in the order of `dataset`. Of equal rows, as many are left out as `test` has.
        """
        if self.mean is None or self.scale is None:
            raise DatasetError(f"the split {self.test.name!r} has no scaling parameters to compare rows by")
        if dataset.model_names != self.test.feature_names:
            raise DatasetError(
                f"the data set {dataset.name!r} has features {format_items(dataset.model_names)}; the split "
                f"{self.test.name!r} has {format_items(self.test.feature_names)}"
            )
        whole = replace(
            dataset, X=(dataset.X - self.mean) / self.scale, feature_names=self.test.feature_names
        )
        tested = Counter(_row_keys(self.test))
        rest = []
        for row, key in enumerate(_row_keys(whole)):
            if tested[key] > 0:
                tested[key] -= 1
            else:
                rest.append(row)
        if n_unknown := tested.total():
            raise DatasetError(
                f"{n_unknown} of {len(self.test)} test rows of the split {self.test.name!r} are not in the "
                f"data set {dataset.name!r}; expected the cleaned data set that the split was made from"
            )
        return whole.take(rest)


def load_dataset(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Dataset:
    """A data set by name, cleaned as in the paper, with raw features (n, d) and target (n,).

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_dir : path, optional
        Folder that may have the file; looked in before `PREDGAP_DATA` and the user's cache.
    download : bool
        Whether to fetch a file that is in none of these folders (into the first of them).

    Examples
    --------
    >>> len(load_dataset("diabetes"))
    442
    >>> load_dataset("vine")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    predgap.errors.DatasetError: there is no data set 'vine'; did you mean 'wine'? Known are 'wine', ...
    """
    if name == "diabetes":
        return _diabetes()
    if name not in SOURCES:
        raise _unknown(name, NAMES)
    source = SOURCES[name]
    folders = data_folders(data_dir)
    path = find(source, folders)
    if path is None and not download:
        raise absent(name, source, folders, "is not at hand, and download=False")
    if path is None:
        path = fetch_into(folders, name, source)
    content = read_bytes(path)
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise DatasetError(
            f"{str(path)!r} is not the known file of the data set {name!r}: its SHA-256 is {found}, expected "
            f"{source.sha256}; remove it to download it again, or replace it by the one from {source.page}"
        )
    return _clean(name, source, read_numbers(content, path, source.delimiter, text=source.dropped))


def split(dataset: Dataset, *, test_share: float = 0.2, seed: int = 0) -> Split:
    """Cut a data set at random into a training and a test part, and standardise both by the former.

    Parameters
    ----------
    dataset : Dataset
    test_share : float
        Share of the rows in the test part, rounded up to a whole number of rows.
    seed : int
        The same seed gives the same split.

    Examples
    --------
    >>> parts = split(load_dataset("diabetes"), seed=1)
    >>> parts.train.X.shape, parts.test.X.shape
    ((353, 10), (89, 10))
    >>> bool(abs(parts.train.X.mean(axis=0)).max() < 1e-12)
    True
    """
    n = len(dataset)
    n_test = math.ceil(round(test_share * n, 9)) if 0 < test_share < 1 else 0  # 0.07 * 100 > 7
    if not 0 < n_test < n:
        raise DatasetError(
            f"test_share={test_share} leaves one part of the {n} rows of {dataset.name!r} empty; "
            "expected a share between 0 and 1, such as 0.2"
        )
    order = _generator(seed).permutation(n)
    test_rows, train_rows = order[:n_test], order[n_test:]
    raw_train, raw_test = dataset.take(train_rows), dataset.take(test_rows)
    mean = raw_train.X.mean(axis=0)
    constant = np.ptp(raw_train.X, axis=0) == 0
    scale = np.where(constant, 1.0, raw_train.X.std(axis=0))
    return Split(
        train=replace(raw_train, X=(raw_train.X - mean) / scale),
        test=replace(raw_test, X=(raw_test.X - mean) / scale),
        raw_train=raw_train,
        raw_test=raw_test,
        train_rows=train_rows,
        test_rows=test_rows,
        mean=mean,
        scale=scale,
        seed=seed,
    )


def load_published_split(name: str, data_dir: str | os.PathLike[str] | None = None) -> PublishedSplit:
    """The split of the paper's authors, if a data folder has it; it cannot be downloaded.

    Looked for, in `splits/` of each data folder and in the folder itself, are
    `test_<stem>_scaled.csv`, and beside it `train_<stem>_scaled.csv` and `<stem>_scaling_params.csv`,
    which may be absent. `<stem>` is `winequality_red` for wine, else the name.

    Parameters
    ----------
    name : str
        One of `PUBLISHED`.
    data_dir : path, optional
        As in `load_dataset`.
    """
    if name not in PUBLISHED:
        raise _unknown(name, PUBLISHED)
    source = SOURCES.get(name)
    stem = source.stem if source else name
    folders = data_folders(data_dir)
    file = f"test_{stem}_scaled.csv"
    paths = [folder / file for base in folders for folder in (base / "splits", base)]
    test = next((path for path in paths if path.is_file()), None)
    if test is None:
        raise DatasetError(
            f"there is no published split of {name!r}: expected {file} in {places(folders)}, or in splits/ "
            f"there; pass data_dir or set {DATA_VARIABLE} to the folder that has it"
        )
    train = test.with_name(f"train_{stem}_scaled.csv")
    params = test.with_name(f"{stem}_scaling_params.csv")
    mean, scale = _scaling(params, source) if source and params.is_file() else (None, None)
    return PublishedSplit(
        train=_published_part(train, name, source) if train.is_file() else None,
        test=_published_part(test, name, source),
        mean=mean,
        scale=scale,
    )


def model_name(feature: str) -> str:
    """What the saved models of the paper call a feature of the raw header.

    Space, parentheses and colon are underscores there, and a per cent sign is an 8.

    Examples
    --------
    >>> [model_name(name) for name in ("fixed acidity", "Jitter(%)", "Jitter:RAP", "pH")]
    ['fixed_acidity', 'Jitter_8_', 'Jitter_RAP', 'pH']
    """
    return feature.translate(_MODEL_NAME)


# ---- data sets -----------------------------------------------------------------------------------


def _frozen(dataset: str, name: str, values: Any) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{name} of the data set {dataset!r} are not numbers ({error})") from None
    array.setflags(write=False)
    return array


def _diabetes() -> Dataset:
    try:
        from sklearn.datasets import load_diabetes
    except ImportError:
        raise DependencyError(
            "the data set 'diabetes' comes with scikit-learn, not installed; try: pip install scikit-learn"
        ) from None
    bunch = load_diabetes(scaled=False)
    return Dataset(
        name="diabetes",
        X=bunch.data,
        y=bunch.target,
        feature_names=tuple(map(str, bunch.feature_names)),
        target_name="progression",
        source="diabetes data bundled with scikit-learn",
    )


def _clean(name: str, source: Source, table: Numbers) -> Dataset:
    """The used columns of a raw file, without incomplete rows."""
    table.check_header(source.columns)
    X = table.columns(source.features)
    y = table.columns([source.target])[:, 0]
    whole = ~(np.isnan(X).any(axis=1) | np.isnan(y))
    return Dataset(
        name=name,
        X=X[whole],
        y=y[whole],
        feature_names=source.features,
        target_name=source.target,
        source=f"{source.title}, {source.page}",
        sha256=source.sha256,
        n_incomplete=int((~whole).sum()),
    )


def _published_part(path: Path, name: str, source: Source | None) -> Dataset:
    table = read_numbers(read_bytes(path), path)
    target = source.target if source else _HELOC_TARGET
    if source:
        table.check_header((*map(model_name, source.features), target))
    if table.header[-1] != target or len(set(table.header)) < len(table.header):
        raise table.wrong_header(("one name per feature", target))
    values = table.complete(table.header)
    return Dataset(
        name=name,
        X=values[:, :-1],
        y=values[:, -1],
        feature_names=table.header[:-1],
        target_name=target,
        source=f"published split, {path.name}",
    )


def _scaling(path: Path, source: Source) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation, (d,) each, from a file with rows `mean` and `variance`."""
    table = read_numbers(read_bytes(path), path, text=("",))
    wanted = tuple(map(model_name, source.features))
    if tuple(map(model_name, table.header)) != ("", *wanted):
        raise table.wrong_header(("", *wanted))
    labels = table.table[""].to_pylist()
    if labels != ["mean", "variance"]:
        raise DatasetError(f"{table.where} has rows {format_items(labels)}; expected 'mean', 'variance'")
    mean, variance = table.complete(table.header[1:])
    if not (variance > 0).all():
        raise DatasetError(f"{table.where} has a variance of {variance.min()}; expected positive ones")
    return mean, np.sqrt(variance)


def _row_keys(dataset: Dataset) -> list[bytes]:
    """A key per row: equal for rows that are equal but for rounding."""
    rounded = np.round(np.column_stack([dataset.X, dataset.y]), 9) + 0.0  # + 0.0: no negative zeros
    return [row.tobytes() for row in rounded]


def _generator(seed: int) -> np.random.Generator:
    try:
        return np.random.default_rng(operator.index(seed))
    except (TypeError, ValueError):
        raise DatasetError(f"seed={seed!r}; expected a whole number that is not negative") from None


def _unknown(name: str, names: Sequence[str]) -> DatasetError:
    meant = did_you_mean(str(name), names)
    return DatasetError(f"there is no data set {name!r}; {meant}Known are {format_items(names)}")
