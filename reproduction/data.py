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
import io
import logging
import lzma
import math
import operator
import os
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from predgap import DependencyError
from reproduction.helpers import (
    HEADER_IS,
    BoolArray,
    DatasetError,
    FloatArray,
    IndexArray,
    did_you_mean,
    format_items,
    header,
    read_csv,
)

# ---- the files of the data sets ------------------------------------------------------------------

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


def find(source: Source, folders: Sequence[Path]) -> Path | None:
    """The file of a data set, where one of the folders has it."""
    return find_file(folders, "raw", source.file, *source.also)


def find_file(folders: Sequence[Path], within: str, *names: str) -> Path | None:
    """The first file of these names, in the folder `within` of a data folder or in that itself."""
    paths = (place / name for base in folders for place in (base / within, base) for name in names)
    return next((path for path in paths if path.is_file()), None)


def fetch_into(folders: Sequence[Path], name: str, source: Source) -> Path:
    """Download the file of a data set into the first folder."""
    try:
        return fetch(source.downloads, folders[0] / source.file, source.sha256)
    except DownloadError as error:
        why = f"is not at hand and could not be downloaded: {error}"
        raise absent(name, source, folders, why) from None


def absent(name: str, source: Source, folders: Sequence[Path], why: str) -> DatasetError:
    names = " or ".join((source.file, *source.also))
    return DatasetError(
        f"the data set {name!r} {why}. Put {source.file} (SHA-256 {source.sha256}) from {source.page} into "
        f"{str(folders[0])!r}, or set {DATA_VARIABLE} to a folder that has it. "
        f"Looked for {names} in {places(folders)}, and in raw/ there"
    )


def places(folders: Sequence[Path]) -> str:
    return format_items(map(str, folders))


# ---- data sets and splits ------------------------------------------------------------------------

NAMES: Final = (*SOURCES, "diabetes")
"""The data sets that `load_dataset` knows; all but the last have a published split."""

_MODEL_NAME: Final = str.maketrans(" ():%", "____8")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dataset:
    """Rows with a target; all values are finite, the arrays read-only.

    Examples
    --------
    >>> diabetes = load_dataset("diabetes")
    >>> diabetes.X.shape, diabetes.feature_names[:3]
    ((442, 10), ('age', 'sex', 'bmi'))
    """

    name: str
    X: FloatArray = field(repr=False)  # (n, d)
    y: FloatArray = field(repr=False)  # (n,)
    feature_names: tuple[str, ...]  # d
    sha256: str | None = None  # of the file it was read from, if that is known

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
    train_rows: IndexArray  # (n_train,) row numbers in the data set that was split
    test_rows: IndexArray  # (n_test,)
    mean: FloatArray  # (d,) of the training part
    scale: FloatArray  # (d,) population standard deviation of the training part; 1 where that is 0


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
    reproduction.helpers.DatasetError: there is no data set 'vine'; did you mean 'wine'? Known are 'wine', ...
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
        train_rows=train_rows,
        test_rows=test_rows,
        mean=mean,
        scale=scale,
    )


def load_published_split(name: str, data_dir: str | os.PathLike[str] | None = None) -> PublishedSplit:
    """The split of the paper's authors, if a data folder has it; it cannot be downloaded.

    Looked for, in `splits/` of each data folder and in the folder itself, are
    `test_<stem>_scaled.csv`, and beside it `train_<stem>_scaled.csv` and `<stem>_scaling_params.csv`,
    which may be absent. `<stem>` is `winequality_red` for wine, else the name.

    Parameters
    ----------
    name : str
        One of `SOURCES`.
    data_dir : path, optional
        As in `load_dataset`.
    """
    if name not in SOURCES:
        raise _unknown(name, tuple(SOURCES))
    source, folders = SOURCES[name], data_folders(data_dir)
    file = f"test_{source.stem}_scaled.csv"
    test = find_file(folders, "splits", file)
    if test is None:
        raise DatasetError(
            f"there is no published split of {name!r}: expected {file} in {places(folders)}, or in splits/ "
            f"there; pass data_dir or set {DATA_VARIABLE} to the folder that has it"
        )
    train = test.with_name(f"train_{source.stem}_scaled.csv")
    params = test.with_name(f"{source.stem}_scaling_params.csv")
    mean, scale = _scaling(params, source) if params.is_file() else (None, None)
    return PublishedSplit(
        train=_published_part(train, name, source) if train.is_file() else None,
        test=_published_part(test, name, source),
        mean=mean,
        scale=scale,
    )


def model_name(feature: str) -> str:
    """The name that the saved models of the paper give a feature of the raw header.

    Space, parentheses and colon are underscores there, and a per cent sign is an 8.

    Examples
    --------
    >>> [model_name(name) for name in ("fixed acidity", "Jitter(%)", "Jitter:RAP", "pH")]
    ['fixed_acidity', 'Jitter_8_', 'Jitter_RAP', 'pH']
    """
    return feature.translate(_MODEL_NAME)


# ---- cleaning and reading ------------------------------------------------------------------------


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
        sha256=source.sha256,
    )


def _published_part(path: Path, name: str, source: Source) -> Dataset:
    table = read_numbers(read_bytes(path), path)
    table.check_header((*map(model_name, source.features), source.target))
    values = table.complete(table.header)
    return Dataset(
        name=name,
        X=values[:, :-1],
        y=values[:, -1],
        feature_names=table.header[:-1],
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


# ---- numbers in CSV files ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table whose columns hold numbers, but for some that hold text."""

    where: str  # for messages
    table: pa.Table

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    def check_header(self, expected: Sequence[str]) -> None:
        if self.header != tuple(expected):
            raise self.wrong_header(expected)

    def wrong_header(self, expected: Sequence[str]) -> DatasetError:
        return DatasetError(
            f"{self.where} has the header {format_items(self.header)}; expected {format_items(expected, 30)}"
        )

    def columns(self, names: Sequence[str]) -> FloatArray:
        """Columns by name, (n, len(names)); NaN where a cell is empty."""
        columns = [self.table[name] for name in names]
        values: FloatArray = np.column_stack([column.to_numpy() for column in columns])
        empty = np.column_stack([column.is_null().to_numpy() for column in columns])
        self._refuse(~(np.isfinite(values) | empty), names, "not a finite number")
        return values

    def complete(self, names: Sequence[str]) -> FloatArray:
        """Columns by name, (n, len(names)), none of whose cells may be empty."""
        values = self.columns(names)
        self._refuse(np.isnan(values), names, "an empty cell; expected a number")
        return values

    def _refuse(self, wrong: BoolArray, names: Sequence[str], why: str) -> None:
        for row, j in np.argwhere(wrong)[:1]:
            raise DatasetError(f"{self.where}: column {names[j]!r}, row {row + 2} ({HEADER_IS}): {why}")


def read_numbers(content: bytes, path: Path, delimiter: str = ",", text: Collection[str] = ()) -> Numbers:
    """The table in the content of a CSV file; columns named in `text` hold text, all others numbers."""
    types = {n: pa.string() if n in text else pa.float64() for n in header(content, delimiter)}
    table = read_csv(content, repr(str(path)), types, delimiter)
    if not len(table):
        raise DatasetError(f"{str(path)!r} has no rows; expected a header and rows of numbers")
    return Numbers(repr(str(path)), table)


def read_bytes(path: Path) -> bytes:
    """The content of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{str(path)!r} cannot be read ({error.strerror or error})") from None


# ---- files from the web --------------------------------------------------------------------------

_TIMEOUT: Final = 30.0  # seconds to wait for the next bytes
_MAX_BYTES: Final = 32 << 20  # of a file, and of an archive
_UNSOUND_ZIP: Final = (  # all that zipfile raises for damaged, encrypted or oddly compressed archives
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError),
)


class DownloadError(DatasetError):
    """No address served the file; the message is what came of each of them."""


def fetch(downloads: Sequence[Download], target: Path, sha256: str) -> Path:
    """Download a file from the first address that serves it.

    On a terminal, a line says so.
    """
    try:
        import pooch
        from requests.exceptions import RequestException
    except ImportError:
        raise DependencyError("a download needs pooch, not installed; try: pip install pooch") from None
    failures = []
    for download in downloads:
        url = download.url
        if sys.stderr.isatty():
            print(f"downloading {url}", file=sys.stderr)
        try:
            with _quiet(pooch.get_logger()):
                pooch.retrieve(url, sha256, target.name, target.parent, downloader=_downloader(download))
            return target
        except DatasetError as error:
            failures.append(f"{url} {error}")
        except RequestException as error:
            failures.append(f"{url} {_reason(error)}")
        except OSError as error:
            raise DownloadError(f"{str(target)!r} cannot be written ({error.strerror or error})") from None
        except ValueError:  # pooch has compared the hashes
            failures.append(f"{url} served another file than the one with SHA-256 {sha256}")
    raise DownloadError("; ".join(failures))


def _downloader(download: Download) -> Callable[[str, str, Any], None]:
    """The function that pooch calls to bring the file, out of its archive if any, to a temporary path."""
    import pooch

    def bring(url: str, path: str, caller: Any) -> None:
        served = _Limited()
        pooch.HTTPDownloader(timeout=_TIMEOUT)(url, served, caller)
        content = served.getvalue() if download.member is None else _member(served, download.member)
        Path(path).write_bytes(content)

    return bring


class _Limited(io.BytesIO):
    """Bytes in memory, not too many."""

    def write(self, some: Any) -> int:
        if self.tell() + len(some) > _MAX_BYTES:
            raise DatasetError(f"served more than {_MAX_BYTES} bytes; expected a smaller file")
        return super().write(some)


def _member(archive: io.BytesIO, name: str) -> bytes:
    """The file in a zip archive; the archive's own names are only compared, never written to."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            held = zipped.namelist()
            if name not in held:
                raise DatasetError(f"served an archive without {name!r}; it has {format_items(held)}")
            with zipped.open(name) as file:
                content = file.read(_MAX_BYTES + 1)
    except _UNSOUND_ZIP as error:
        raise DatasetError(f"did not serve a sound zip archive ({error})") from None
    if len(content) > _MAX_BYTES:
        raise DatasetError(f"served an archive with more than {_MAX_BYTES} bytes of {name!r}")
    return content


def _reason(error: Any) -> str:
    """Why an address served nothing, from an exception of requests."""
    from requests.exceptions import ChunkedEncodingError, Timeout

    if error.response is not None:
        return f"answered {error.response.status_code} {error.response.reason}"
    if isinstance(error, Timeout):
        return f"did not answer for {_TIMEOUT:g} s"
    if isinstance(error, ChunkedEncodingError):
        return "broke off before the end of the file"
    return f"cannot be reached ({type(error).__name__})"


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """pooch tells the standard error of each download; we do, where someone reads it."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
