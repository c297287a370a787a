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
arrives is kept in a `.part` file, from which an interrupted download is resumed; the file gets its name
when it is complete and its SHA-256 is right. The tests run this against a local server; the addresses in
`SOURCES` are data, which no test visits.

**Names of features** are those of the raw header, such as 'fixed acidity' and 'Jitter(%)'. The models
saved by the authors of the paper use other names for some of them ('fixed_acidity', 'Jitter_8_'):
`model_name` translates, `Dataset.model_names` are all of them.
"""

from __future__ import annotations

import csv
import difflib
import errno
import hashlib
import http.client
import io
import lzma
import math
import operator
import os
import re
import sys
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predgap.errors import DatasetError, DependencyError
from predgap.tables import listing

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived, and all there are if the server says so."""

DATA_VARIABLE: Final = "PREDGAP_DATA"
"""Environment variable that names a folder with data files."""


@dataclass(frozen=True, slots=True)
class Download:
    """An address, and what it serves: the file itself or a zip archive with the file in it."""

    url: str
    member: str | None = None  # name of the file inside the archive; None if there is no archive


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the file of a data set comes from, what is in it, and what of that is used."""

    title: str
    page: str  # for people
    file: str  # its official name
    also: tuple[str, ...] = ()  # other names under which it is accepted in a data folder
    sha256: str
    downloads: tuple[Download, ...]  # tried in this order
    delimiter: str = ","
    columns: tuple[str, ...]  # the header
    target: str
    dropped: tuple[str, ...] = ()
    stem: str  # names the published splits (test_<stem>_scaled.csv) and models (<stem>.json)

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in (self.target, *self.dropped))


_UCI: Final = "https://archive.ics.uci.edu"
_HANDS_ON: Final = "https://raw.githubusercontent.com/ageron"  # where this version of the census data is from

SOURCES: Final[Mapping[str, Source]] = MappingProxyType(
    {
        "wine": Source(
            title="Red Wine Quality, UCI Machine Learning Repository",
            page=f"{_UCI}/dataset/186/wine+quality",
            file="winequality-red.csv",
            also=("winequality_red.csv",),
            sha256="4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
            downloads=(
                Download(f"{_UCI}/static/public/186/wine+quality.zip", "winequality-red.csv"),
                Download(f"{_UCI}/ml/machine-learning-databases/wine-quality/winequality-red.csv"),
            ),
            delimiter=";",
            columns=(
                *("fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides"),
                *("free sulfur dioxide", "total sulfur dioxide", "density", "pH", "sulphates", "alcohol"),
                "quality",
            ),
            target="quality",
            stem="winequality_red",
        ),
        "housing": Source(
            title="California Housing (1990 census), as distributed with Hands-On Machine Learning",
            page="https://github.com/ageron/handson-ml2/tree/master/datasets/housing",
            file="housing.csv",
            sha256="8a3727f4cf54ac1a327f69b1d5b4db54c5834ea81c6e4efc0d163300022a685e",
            downloads=(
                Download(f"{_HANDS_ON}/handson-ml2/master/datasets/housing/housing.csv"),
                Download(f"{_HANDS_ON}/handson-ml/master/datasets/housing/housing.csv"),
            ),
            columns=(
                *("longitude", "latitude", "housing_median_age", "total_rooms", "total_bedrooms"),
                *("population", "households", "median_income", "median_house_value", "ocean_proximity"),
            ),
            target="median_house_value",
            dropped=("ocean_proximity",),
            stem="housing",
        ),
        "telemetry": Source(
            title="Parkinsons Telemonitoring, UCI Machine Learning Repository",
            page=f"{_UCI}/dataset/189/parkinsons+telemonitoring",
            file="parkinsons_updrs.data",
            sha256="f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
            downloads=(
                Download(f"{_UCI}/static/public/189/parkinsons+telemonitoring.zip", "parkinsons_updrs.data"),
                Download(
                    f"{_UCI}/ml/machine-learning-databases/parkinsons/telemonitoring/parkinsons_updrs.data"
                ),
            ),
            columns=(
                *("subject#", "age", "sex", "test_time", "motor_UPDRS", "total_UPDRS"),
                *("Jitter(%)", "Jitter(Abs)", "Jitter:RAP", "Jitter:PPQ5", "Jitter:DDP"),
                *("Shimmer", "Shimmer(dB)", "Shimmer:APQ3", "Shimmer:APQ5", "Shimmer:APQ11", "Shimmer:DDA"),
                *("NHR", "HNR", "RPDE", "DFA", "PPE"),
            ),
            target="motor_UPDRS",
            dropped=("subject#", "age", "sex", "total_UPDRS"),
            stem="telemetry",
        ),
    }
)
"""The data sets that are files, by name."""

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
    train_rows: IntArray  # (n_train,) row numbers in the data set that was split
    test_rows: IntArray  # (n_test,)
    mean: FloatArray  # (d,) of the training part
    scale: FloatArray  # (d,) population standard deviation of the training part; 1 where that is 0
    seed: int

    def standardise(self, X: ArrayLike) -> FloatArray:
        """Raw rows (n, d) in the units of `train` and `test`."""
        return np.asarray((np.asarray(X, dtype=np.float64) - self.mean) / self.scale)


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
                f"the data set {dataset.name!r} has features {listing(dataset.model_names)}; the split "
                f"{self.test.name!r} has {listing(self.test.feature_names)}"
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
    progress: Progress | None = None,
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
    progress : callable, optional
        Told of a download: `progress(bytes so far, bytes in all or None)`. An exception raised in it
        stops the download, which can be resumed.

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
    path = _find(source, folders)
    if path is None and not download:
        raise _absent(name, source, folders, "is not at hand, and download=False")
    if path is None:
        path = _fetch_into(folders, name, source, progress)
    content = _read_bytes(path)
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise DatasetError(
            f"{str(path)!r} is not the known file of the data set {name!r}: its SHA-256 is {found}, expected "
            f"{source.sha256}; remove it to download it again, or replace it by the one from {source.page}"
        )
    return _clean(name, source, _parse_csv(content, str(path), source.delimiter))


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
    places = [folder / file for base in folders for folder in (base / "splits", base)]
    test = next((path for path in places if path.is_file()), None)
    if test is None:
        raise DatasetError(
            f"there is no published split of {name!r}: expected {file} in {_places(folders)}, or in splits/ "
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


def data_folders(data_dir: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """The folders in which data files are looked for, first to last; downloads go to the first."""
    variable = os.environ.get(DATA_VARIABLE)
    given = [os.fspath(folder) for folder in (data_dir, variable or None) if folder is not None]
    folders = [Path(os.path.expanduser(folder)) for folder in given]
    try:
        folders.append(cache_dir())
    except RuntimeError:  # a user without a home, as in some containers
        if not folders:
            raise DatasetError(
                f"this user has no home directory for a cache; pass data_dir or set {DATA_VARIABLE}"
            ) from None
    return tuple(folders)


def cache_dir() -> Path:
    """The user's cache for data files: `predgap` in `XDG_CACHE_HOME`, else where the system has caches."""
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the specification wants relative ones ignored
        return Path(xdg) / "predgap"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        folder = (Path(local) if local else Path.home() / "AppData" / "Local") / "predgap" / "Cache"
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "predgap"
    else:
        folder = Path.home() / ".cache" / "predgap"
    return folder


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
        from sklearn.datasets import load_diabetes  # type: ignore[import-untyped,unused-ignore]
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


def _clean(name: str, source: Source, table: _Csv) -> Dataset:
    """The used columns of a raw file, without incomplete rows."""
    if table.header != source.columns:
        raise DatasetError(_wrong_header(table, source.columns))
    X = _numbers(table, source.features)
    y = _numbers(table, [source.target])[:, 0]
    complete = ~(np.isnan(X).any(axis=1) | np.isnan(y))
    return Dataset(
        name=name,
        X=X[complete],
        y=y[complete],
        feature_names=source.features,
        target_name=source.target,
        source=f"{source.title}, {source.page}",
        sha256=source.sha256,
        n_incomplete=int((~complete).sum()),
    )


def _published_part(path: Path, name: str, source: Source | None) -> Dataset:
    table = _parse_csv(_read_bytes(path), str(path))
    target = source.target if source else _HELOC_TARGET
    if source and table.header != (*map(model_name, source.features), target):
        raise DatasetError(_wrong_header(table, (*map(model_name, source.features), target)))
    if table.header[-1] != target or len(set(table.header)) < len(table.header):
        raise DatasetError(_wrong_header(table, ("one name per feature", target)))
    values = _complete(table, table.header)
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
    table = _parse_csv(_read_bytes(path), str(path))
    wanted = tuple(map(model_name, source.features))
    if tuple(map(model_name, table.header)) != ("", *wanted):
        raise DatasetError(_wrong_header(table, ("", *wanted)))
    labels = [cells[0] for _, cells in table.rows]
    if labels != ["mean", "variance"]:
        raise DatasetError(f"{table.where} has rows {listing(labels)}; expected 'mean', 'variance'")
    mean, variance = _complete(table, table.header[1:])
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
    close = difflib.get_close_matches(str(name), names, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return DatasetError(f"there is no data set {name!r}; {meant}Known are {listing(names)}")


# ---- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Csv:
    where: str  # for messages
    header: tuple[str, ...]
    rows: list[tuple[int, list[str]]]  # line number, and as many cells as the header has


def _find(source: Source, folders: Sequence[Path]) -> Path | None:
    for base in folders:
        for folder in (base / "raw", base):
            for file in (source.file, *source.also):
                if (folder / file).is_file():
                    return folder / file
    return None


def _absent(name: str, source: Source, folders: Sequence[Path], why: str) -> DatasetError:
    names = " or ".join((source.file, *source.also))
    return DatasetError(
        f"the data set {name!r} {why}. Put {source.file} (SHA-256 {source.sha256}) from {source.page} into "
        f"{str(folders[0])!r}, or set {DATA_VARIABLE} to a folder that has it. "
        f"Looked for {names} in {_places(folders)}, and in raw/ there"
    )


def _places(folders: Sequence[Path]) -> str:
    return listing(map(str, folders))


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_LIMITS.max_bytes + 1)
    except OSError as error:
        raise DatasetError(f"{str(path)!r} cannot be read ({error.strerror or error})") from None
    if len(content) > _LIMITS.max_bytes:
        raise _too_long(repr(str(path)))
    return content


def _parse_csv(content: bytes, where: str, delimiter: str = ",") -> _Csv:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{where} is not text in UTF-8 ({error.reason} at byte {error.start})") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = []
    try:
        header = tuple(next(reader, ()))
        for cells in reader:
            if not cells:  # an empty line
                continue
            if len(cells) != len(header):
                raise DatasetError(
                    f"{where}, line {reader.line_num}: {len(cells)} cells, expected {len(header)} as in the "
                    f"header, separated by {delimiter!r}"
                )
            rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise DatasetError(f"{where}, line {reader.line_num}: not CSV ({error})") from None
    if not rows:
        raise DatasetError(f"{where} has no rows; expected a header and rows of numbers")
    return _Csv(where, header, rows)


def _numbers(table: _Csv, columns: Sequence[str]) -> FloatArray:
    """Columns by name, (n, len(columns)); NaN where a cell is empty."""
    places = [table.header.index(name) for name in columns]
    out = np.empty((len(table.rows), len(columns)))
    for row, (line, cells) in enumerate(table.rows):
        for j, place in enumerate(places):
            out[row, j] = number = _number(cells[place])
            if math.isinf(number):
                raise DatasetError(
                    f"{table.where}, line {line}, column {columns[j]!r}: {cells[place][:40]!r}; "
                    "expected a finite number"
                )
    return out


def _number(cell: str) -> float:
    """A cell's number, NaN if it is empty, infinity if it has none."""
    if not cell.strip():
        return math.nan
    try:
        number = float(cell) if "_" not in cell else math.inf  # Python would read 1_0 as 10
    except ValueError:
        return math.inf
    return number if math.isfinite(number) else math.inf


def _complete(table: _Csv, columns: Sequence[str]) -> FloatArray:
    values = _numbers(table, columns)
    empty = np.argwhere(np.isnan(values))
    if len(empty):
        row, j = empty[0]
        raise DatasetError(
            f"{table.where}, line {table.rows[row][0]}, column {columns[j]!r}: an empty cell; "
            "expected a number"
        )
    return values


def _wrong_header(table: _Csv, expected: Sequence[str]) -> str:
    return f"{table.where} has the header {listing(table.header)}; expected {listing(expected, 30)}"


# ---- download ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limits:
    timeout: float = 30.0  # seconds to wait for the next bytes
    deadline: float = 600.0  # seconds for one file
    attempts: int = 4  # when a transfer breaks off
    pause: float = 1.0  # seconds before the second attempt; doubled for each further one
    max_bytes: int = 32 << 20  # of a file, and of an archive; the largest known file has 1.4 MB


_LIMITS = _Limits()
_CHUNK: Final = 1 << 16
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_TRY_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504)
_UNSOUND_ZIP: Final = (  # all that zipfile raises for damaged, encrypted or oddly compressed archives
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError),
    *(NotImplementedError, RuntimeError),
)


class _BrokenOffError(Exception):
    """A transfer that may succeed when it is tried again."""


def _fetch_into(folders: Sequence[Path], name: str, source: Source, progress: Progress | None) -> Path:
    """Download the file of a data set into the first folder; other processes may be at it too."""
    target = folders[0] / source.file
    failures = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f".{target.name}.lock")):
            for download in source.downloads:
                if target.is_file():  # another process has fetched it meanwhile
                    return target
                try:
                    return _fetch(download, target, source.sha256, progress)
                except DatasetError as error:
                    failures.append(str(error))
    except OSError as error:
        failures.append(f"{str(target)!r} cannot be written ({error.strerror or error})")
    raise _absent(name, source, folders, f"is not at hand and could not be downloaded: {'; '.join(failures)}")


def _fetch(download: Download, target: Path, sha256: str, progress: Progress | None) -> Path:
    """One file from one address; `target` appears complete and checked, or not at all."""
    _check_url(download.url)
    part = target.with_name(f"{target.name}.part" if download.member is None else f"{target.name}.zip.part")
    resumed = part.exists()
    _transfer(download.url, part, progress)
    try:
        _install(download, part, target, sha256)
    except DatasetError:
        part.unlink(missing_ok=True)
        if not resumed:
            raise
        # The part that was on disk may have been of another version of the file: once more, from nothing.
        return _fetch(download, target, sha256, progress)
    part.unlink(missing_ok=True)
    return target


def _install(download: Download, part: Path, target: Path, sha256: str) -> None:
    """Check what has arrived, and give it its name."""
    content = part.read_bytes() if download.member is None else _member(part, download)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DatasetError(
            f"{download.url} served a file with SHA-256 {found}, expected {sha256}; it was deleted"
        )
    ready = part
    if download.member is not None:
        ready = target.with_name(f"{target.name}.tmp")
        ready.write_bytes(content)
    ready.replace(target)


def _member(archive: Path, download: Download) -> bytes:
    """The file in a zip archive; the archive's own names are only compared, never written to."""
    member = str(download.member)
    content = None
    try:
        with zipfile.ZipFile(archive) as zipped:
            held = zipped.namelist()
            if member in held:
                with zipped.open(member) as file:
                    content = file.read(_LIMITS.max_bytes + 1)
    except _UNSOUND_ZIP as error:
        raise DatasetError(f"{download.url} did not serve a sound zip archive ({error})") from None
    if content is None:
        raise DatasetError(f"the archive {download.url} has no file {member!r}; it has {listing(held)}")
    if len(content) > _LIMITS.max_bytes:
        raise _too_long(f"{member!r} in {download.url}")
    return content


def _transfer(url: str, part: Path, progress: Progress | None) -> None:
    """Bring the part up to the whole, in several attempts if need be."""
    deadline = time.monotonic() + _LIMITS.deadline
    for attempt in range(_LIMITS.attempts):
        if attempt:
            time.sleep(_LIMITS.pause * 2 ** (attempt - 1))
        try:
            _attempt(url, part, deadline, progress)
            return
        except _BrokenOffError as error:
            reason = str(error)
    raise DatasetError(
        f"{url} {reason}, at the last of {_LIMITS.attempts} attempts; what has arrived is kept to be resumed"
    )


def _attempt(url: str, part: Path, deadline: float, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "predgap"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(_SecureRedirects)
    try:
        response = opener.open(request, timeout=_LIMITS.timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:  # the part is as long as the whole, or longer
                part.unlink(missing_ok=True)
            if error.code in (416, *_TRY_AGAIN):
                raise _BrokenOffError(f"answered {error.code} {error.reason}") from None
            raise DatasetError(f"{url} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DatasetError(f"{url} cannot be reached ({error.reason})") from None
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(f"did not answer ({error!r})") from None
    with response:
        start, total = _extent(response, have, part)
        _copy(response, part, start, total, deadline, progress)


def _extent(response: Any, have: int, part: Path) -> tuple[int, int | None]:
    """Where in the file the response starts, and how long the whole file is, if that is known."""
    length = response.headers.get("Content-Length", "")
    start, total = 0, int(length) if length.isdecimal() else None
    if response.status == 206:
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if span is None or int(span[1]) != have:
            part.unlink(missing_ok=True)
            raise _BrokenOffError(f"sent another range than the one from byte {have}")
        start = have
        total = int(span[2]) if span[2] != "*" else None if total is None else have + total
    elif response.status != 200:
        raise DatasetError(f"{response.url} answered {response.status} {response.reason}; expected 200")
    if total is not None and total > _LIMITS.max_bytes:
        raise _too_long(response.url)
    return start, total


def _copy(
    response: Any, part: Path, start: int, total: int | None, deadline: float, progress: Progress | None
) -> None:
    done = start
    with part.open("ab" if start else "wb") as file:
        while chunk := _next_bytes(response):
            done += len(chunk)
            if done > _LIMITS.max_bytes:
                break
            file.write(chunk)
            if progress is not None:
                progress(done, total)
            if time.monotonic() > deadline:
                raise DatasetError(
                    f"{response.url} sent {done} bytes in {_LIMITS.deadline:g} s, too slowly; they are kept "
                    "to be resumed"
                )
        file.flush()
        os.fsync(file.fileno())
    if done > _LIMITS.max_bytes:
        part.unlink()
        raise _too_long(response.url)
    if total is not None and done < total:
        raise _BrokenOffError(f"broke off after {done} of {total} bytes")


def _next_bytes(response: Any) -> bytes:
    try:
        return bytes(response.read1(_CHUNK))  # read would wait for all of them, however slowly they come
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(f"broke off ({error!r})") from None


def _too_long(what: str) -> DatasetError:
    return DatasetError(f"{what} has more than {_LIMITS.max_bytes} bytes; expected a smaller file")


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but not to an address that would have been refused itself."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        try:
            _check_url(newurl)
        except DatasetError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise DatasetError(f"{url} is not an https address; nothing is downloaded from it")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes respect; the system releases it when a process dies.

    The empty lock file stays: to delete it could take away the one that another process waits for.
    """
    give_up = time.monotonic() + _LIMITS.deadline
    with path.open("ab") as file:
        while not _try_lock(file):
            if time.monotonic() > give_up:
                raise DatasetError(
                    f"another process has been downloading into {str(path.parent)!r} for "
                    f"{_LIMITS.deadline:g} s; wait for it or end it"
                )
            time.sleep(0.05)
        yield


def _try_lock(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
