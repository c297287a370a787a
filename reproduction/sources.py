"""The files of the paper's data sets: what they are, where they are looked for, where they come from."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from predgap._text import format_items
from predgap.errors import DatasetError
from reproduction.data.download import Download, DownloadError, fetch

DATA_VARIABLE: Final = "PREDGAP_DATA"
"""Environment variable that names a folder with data files."""


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
    for base in folders:
        for folder in (base / "raw", base):
            for file in (source.file, *source.also):
                if (folder / file).is_file():
                    return folder / file
    return None


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
