"""Reads rankings from CSV and Parquet files, with whichever of PyArrow, pandas and Polars is installed."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np

from predgap._inputs.tables import WrittenLabels
from predgap._text import format_items, shown
from predgap.errors import DependencyError, RankingError
from predgap.ranking import Ranking

SUFFIXES: Final = (".csv", ".parquet")
"""Endings of the files that can be read."""

_LONG: Final = {"row", "place", "feature"}
_UNNAMED: Final = ("", "Unnamed: 0")  # the first column of a CSV file, where pandas wrote an index
_MISSING: Final = ("", "NA", "NaN", "nan", "null")  # in columns of numbers
_INDEX: Final = "__index_level_0__"  # the same in a Parquet file


def read_ranking_file(path: Path) -> Any:
    """The ranking in a file, as a Ranking.

    In the long form, which `Ranking.to_frame` and `predgap rank` write, each line has a `row`, a `place` and
    a `feature`. In the wide form, each line is a row and each column a feature: attributions such as SHAP
    values. A first column without a name, as pandas writes its index, has the labels of the rows.
    """
    frame = _read(path)
    try:
        return _long(frame) if {*frame.columns} >= _LONG else _wide(frame)
    except RankingError as error:
        raise RankingError(f"{str(path)!r}: {error}") from None


def _read(path: Path) -> nw.DataFrame[Any]:
    for library in ("pyarrow", "pandas", "polars"):
        try:
            if path.suffix.lower() == ".parquet":
                return nw.read_parquet(str(path), backend=library)
            return nw.read_csv(str(path), backend=library, **_texts_in(path, library))
        except ImportError:  # also of pandas, for Parquet without PyArrow
            continue
        except FileNotFoundError:
            raise RankingError(f"there is no file {str(path)!r}; check the path of the ranking") from None
        except Exception as error:  # each library has errors of its own
            reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise RankingError(
                f"{str(path)!r} cannot be read as {path.suffix[1:]} ({reason.strip()[:200]}); expected the "
                "columns row, place, feature, or one column of attributions per feature"
            ) from None
    raise DependencyError("a ranking in a file needs pyarrow, pandas or polars; try: pip install pyarrow")


def _texts_in(path: Path, library: str) -> dict[str, Any]:
    """The options by which a library reads names and row labels in a CSV file as they are written."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file), [])
    texts = ["row", "feature"] if {*names} >= _LONG else [name for name in names[:1] if name in _UNNAMED]
    if library == "pyarrow":
        import pyarrow as pa
        import pyarrow.csv

        return {
            "parse_options": pa.csv.ParseOptions(newlines_in_values=True),
            "convert_options": pa.csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string())),
        }
    if library == "pandas":
        kinds: dict[str, Any] = {name or _UNNAMED[1]: str for name in texts}  # as pandas calls it
        missing = {name: list(_MISSING) for name in names if name not in texts}
        return {"dtype": kinds, "keep_default_na": False, "na_values": missing}
    import polars as pl

    return {"schema_overrides": dict.fromkeys(texts, pl.String)}


def _long(frame: nw.DataFrame[Any]) -> Ranking:
    row, place, feature = (frame[name].to_list() for name in ("row", "place", "feature"))
    for name, column in (("row", row), ("place", place), ("feature", feature)):
        if any(value is None for value in column):
            raise RankingError(f"the column {name!r} has missing values")
    if not all(isinstance(p, int) for p in place):
        raise RankingError(f"the column 'place' holds {shown(place[0])}, expected 1, 2, ...")
    lines: dict[Any, dict[int, str]] = {}
    for given, at, name in zip(row, place, feature, strict=True):
        label = _without_apostrophe(given) if isinstance(given, str) else given
        if lines.setdefault(label, {}).setdefault(at, str(name)) != str(name):
            raise RankingError(f"row {shown(label)} has two features at place {at}")
    if not lines:
        raise RankingError("it has no rows")
    k = len(next(iter(lines.values())))
    for label, places in lines.items():
        if {*places} != {*range(1, k + 1)}:
            raise RankingError(
                f"row {shown(label)} has the places {format_items(sorted(places))}, expected 1 to {k}, as "
                "many in each row"
            )
    names = tuple(dict.fromkeys(_without_apostrophe(str(name)) for name in feature))
    number = {name: j for j, name in enumerate(names)}
    order = [[number[_without_apostrophe(places[p])] for p in range(1, k + 1)] for places in lines.values()]
    return Ranking(np.array(order), feature_names=names, index=_labels(list(lines)))


def _wide(frame: nw.DataFrame[Any]) -> Ranking:
    index = None
    if len(frame) == 0 or not frame.columns:
        raise RankingError("it has no rows")
    unnamed = _INDEX if _INDEX in frame.columns else frame.columns[0]
    if unnamed in (_INDEX, *_UNNAMED):
        index = _labels(frame[unnamed].to_list())
        frame = frame.drop(unnamed)
    texts = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
    if texts:
        raise RankingError(
            f"these columns are empty, or not numbers: {format_items(texts)}; expected attributions, or the "
            "columns row, place and feature"
        )
    features = [
        name for name in frame.columns if name.lower() not in ("bias", "base_value", "expected_value")
    ]
    values = frame.select(features).to_numpy().astype(np.float64)
    found = Ranking.from_attributions(values, feature_names=features)
    return Ranking(found.order, scores=found.scores, feature_names=found.feature_names, index=index)


def _labels(labels: list[Any]) -> Any:
    """Row labels: text, and numbers, which may be those of rows without labels, as they are written."""
    if all(type(label) is int for label in labels):
        return WrittenLabels(map(str, labels))
    return WrittenLabels(labels) if all(isinstance(label, str) for label in labels) else labels


def _without_apostrophe(text: str) -> str:
    """A text as it is; `predgap rank` puts an apostrophe before what looks like a formula."""
    return text[1:] if text[:1] == "'" and text[1:2] in ("=", "+", "-", "@", "\t", "\r") else text
