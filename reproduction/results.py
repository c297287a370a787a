"""The result of an experiment, a tidy table and how it was made; and what experiments need to get there.

`Result.save` writes `<experiment>.csv`, `<experiment>.parquet`, and last `<experiment>.json`, the manifest::

    experiment, table (columns with their types, number of rows, SHA-256 of the CSV file),
    config, seed, versions, files (SHA-256 of models and data, by name), timings (seconds)

The same run gives the same bytes, but for `timings`. Each file appears complete or not at all, and a table
that does not belong to its manifest is refused by `Result.load`.

Finished pieces of work are kept in a folder (`remembered`), so that a run that was stopped can go on. A piece
is kept under a key, everything that its value depends on. A file that is damaged, or belongs to another key,
is as good as none.

How sure is a mean over rows? By bootstrap, the rows are drawn anew, with replacement. The same seed draws the
same rows, so what is computed from the same rows can be compared draw by draw. Intervals go from percentile
to percentile.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

import predgap
from predgap import PredgapError
from reproduction.helpers import FloatArray, Progress, atomic_write, format_items, n_threads, read_csv

Value = str | int | float | bool | None

_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {  # and the names under which they are distributed
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "xgboost": ("xgboost", "xgboost-cpu"),
}
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
}
_KEPT: Final = ("config", "seed", "versions", "files", "timings")  # as they are, in a manifest


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Result:
    """A table of named columns, and how it was made.

    A column holds values of one type, str, int, float or bool, or None where there is none.

    Examples
    --------
    >>> result = Result(experiment="sizes", columns=("name", "n"), rows=[("a", 1), ("b", None)])
    >>> result.column("n"), result.where(name="a")
    ((1, None), ({'name': 'a', 'n': 1},))
    """

    experiment: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...] = field(repr=False)
    config: Mapping[str, Any] = field(default_factory=dict)  # what JSON can hold
    seed: int | None = None
    files: Mapping[str, str] = field(default_factory=dict, repr=False)  # SHA-256 by name
    versions: Mapping[str, str | None] = field(default_factory=lambda: versions(), repr=False)
    timings: Mapping[str, float] = field(default_factory=dict, repr=False)  # seconds

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(map(_plain, row)) for row in self.rows))
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise PredgapError(
                f"a row has {len(wrong[0])} values for {len(self.columns)} columns: {wrong[0]}"
            )
        _types(self)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> tuple[Value, ...]:
        """The values of a column."""
        if name not in self.columns:
            raise PredgapError(f"there is no column {name!r}; the columns are {format_items(self.columns)}")
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def records(self) -> tuple[dict[str, Any], ...]:
        """The rows, as dictionaries."""
        return tuple(dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def where(self, **wanted: Value) -> tuple[dict[str, Any], ...]:
        """The rows that have these values, as dictionaries."""
        for name in wanted:
            self.column(name)  # an unknown one is an error
        return tuple(
            row for row in self.records() if all(row[name] == value for name, value in wanted.items())
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the table and the manifest into `folder`; the manifest's path is returned."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        table = _to_csv(self)
        atomic_write(target / f"{self.experiment}.csv", table)
        atomic_write(target / f"{self.experiment}.parquet", _to_parquet(self))
        manifest = target / f"{self.experiment}.json"
        atomic_write(manifest, _to_json(_manifest(self, hashlib.sha256(table).hexdigest())))
        return manifest

    @classmethod
    def load(cls, folder: str | os.PathLike[str], experiment: str) -> Result:
        """The result that `save` wrote."""
        path = Path(folder) / f"{experiment}.json"
        manifest, table = _read(path)
        sha256, types = _described(path, manifest)
        if hashlib.sha256(table).hexdigest() != sha256:
            raise PredgapError(
                f"{experiment}.csv in {str(folder)!r} is not the table that its manifest describes; "
                "run the experiment again"
            )
        kept = {name: manifest[name] for name in _KEPT}
        rows = _from_csv(table, types, str(path.with_suffix(".csv")))
        return cls(experiment=experiment, columns=tuple(types), rows=rows, **kept)


class Steps:
    """Counts the steps that are done, and tells them to `progress`, if any.

    Examples
    --------
    >>> steps = Steps(print, 3)
    >>> steps.add()
    1 3
    >>> steps.add(2)
    3 3
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def add(self, n: int = 1) -> None:
        self.done += n
        if self.progress is not None:
            self.progress(self.done, self.total)


class Stopwatch:
    """Seconds per named piece of work.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> with watch("adding"):
    ...     total = 1 + 1
    >>> list(watch.seconds)
    ['adding']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


def collected(
    experiment: str,
    columns: tuple[str, ...],
    config: Any,
    parts: Iterable[tuple[str, Iterable[tuple[Value, ...]]]],
    files: Mapping[str, str],
    progress: Progress | None = None,
) -> Result:
    """The result of an experiment whose rows come part by part, lazily: each part is named and timed.

    `progress`, if any, is told how many parts are done, of how many.
    """
    watch, rows, every = Stopwatch(), list[tuple[Value, ...]](), list(parts)
    steps = Steps(progress, len(every))
    for name, part in every:
        with watch(name):
            rows += part
        steps.add()
    return Result(
        experiment=experiment,
        columns=columns,
        rows=tuple(rows),
        config=as_config(config),
        seed=getattr(config, "seed", None),
        files=files,
        timings=watch.seconds,
    )


def merged(results: Sequence[Result], config: Any) -> Result:
    """One result of several that hold the parts of an experiment; `config` is the whole one's."""
    if not results:
        raise PredgapError("there are no parts to put together; expected one result or more")
    first, seed = results[0], getattr(config, "seed", None)
    expected = (first.experiment, first.columns, first.versions, seed)
    for other in results:
        if (other.experiment, other.columns, other.versions, other.seed) != expected:
            raise PredgapError(
                f"parts of {first.experiment!r} do not fit together: {other.experiment!r} has columns "
                f"{format_items(other.columns)}, versions {dict(other.versions)} and seed {other.seed}, "
                f"expected {format_items(first.columns)}, {dict(first.versions)} and {seed}"
            )
    timings: dict[str, float] = {}
    for name, seconds in (entry for result in results for entry in result.timings.items()):
        timings[name] = timings.get(name, 0.0) + seconds
    return Result(
        experiment=first.experiment,
        columns=first.columns,
        rows=tuple(row for result in results for row in result.rows),
        config=as_config(config),
        seed=seed,
        files=joined_files(results),
        versions=first.versions,
        timings=timings,
    )


def joined_files(results: Iterable[Result]) -> dict[str, str]:
    """The files of several results, which must not differ where they have the same name."""
    files: dict[str, str] = {}
    for name, sha256 in sorted(entry for result in results for entry in result.files.items()):
        if files.setdefault(name, sha256) != sha256:
            raise PredgapError(
                f"{name!r} is two files, with SHA-256 {files[name]} and {sha256}; "
                "results can be put together if they come from the same files"
            )
    return files


def versions() -> dict[str, str | None]:
    """Versions of what the numbers depend on; None for a package that is not installed."""
    found: dict[str, str | None] = {"predgap": predgap.__version__, "python": platform.python_version()}
    return found | {package: _version(names) for package, names in _PACKAGES.items()}


def as_config(config: Any) -> dict[str, Any]:
    """A config dataclass as JSON would give it back, without its seed."""
    if not is_dataclass(config) or isinstance(config, type):
        raise PredgapError(f"the config is {config!r}, expected a dataclass")
    plain: dict[str, Any] = json.loads(json.dumps(asdict(config), allow_nan=False))
    plain.pop("seed", None)
    return plain


# ---- values --------------------------------------------------------------------------------------


def _plain(value: Any) -> Value:
    """The value as plain Python has it."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None:
        return None
    if isinstance(plain, str | int | float) and type(plain).__name__ in _TYPES and plain != "":
        return plain
    raise PredgapError(
        f"{value!r} cannot stand in a table; expected a number, a text that is not empty, or None"
    )


def _types(result: Result) -> dict[str, str]:
    """The type of each column, by name; that of a column of None is str."""
    if len(set(result.columns)) < len(result.columns):
        raise PredgapError(f"the columns have repeated names: {format_items(result.columns)}")
    types = {}
    for name in result.columns:
        kinds = {type(value).__name__ for value in result.column(name) if value is not None}
        if len(kinds) > 1:
            raise PredgapError(f"the column {name!r} mixes {format_items(sorted(kinds))}; expected one type")
        types[name] = kinds.pop() if kinds else "str"
    return types


# ---- files ---------------------------------------------------------------------------------------


def _to_csv(result: Result) -> bytes:
    """Floats with all their digits, nothing for None."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([result.columns, *result.rows])
    return text.getvalue().encode()


def _from_csv(table: bytes, types: Mapping[str, str], where: str) -> tuple[tuple[Value, ...], ...]:
    read = read_csv(table, where, _arrow_types(types))
    if read.column_names != list(types):
        raise PredgapError(
            f"{where} has columns {format_items(read.column_names)}, its manifest {format_items(types)}"
        )
    return tuple(zip(*(column.to_pylist() for column in read.columns), strict=True))


def _to_parquet(result: Result) -> bytes:
    schema = pa.schema(_arrow_types(_types(result)))
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pylist(list(result.records()), schema=schema), file)
    return file.getvalue()


def _arrow_types(types: Mapping[str, str]) -> dict[str, pa.DataType]:
    return {name: _TYPES[kind] for name, kind in types.items()}


def _manifest(result: Result, sha256: str) -> dict[str, Any]:
    columns = [{"name": name, "type": kind} for name, kind in _types(result).items()]
    table = {"columns": columns, "rows": len(result), "sha256": sha256}
    kept = {name: getattr(result, name) for name in _KEPT}
    return {"experiment": result.experiment, "table": table, **kept}


def _to_json(manifest: Mapping[str, Any]) -> bytes:
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False, default=dict)
    return f"{text}\n".encode()


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """A manifest, and the bytes of its table."""
    try:
        manifest = json.loads(path.read_bytes())
        table = path.with_suffix(".csv").read_bytes()
    except FileNotFoundError as error:
        raise PredgapError(f"{error.filename!r} is absent; expected a saved result there") from None
    except ValueError as error:
        raise PredgapError(f"{str(path)!r} is not a manifest: {error}") from None
    if not isinstance(manifest, dict) or not {"table", *_KEPT} <= manifest.keys():
        raise PredgapError(
            f"{str(path)!r} is not a manifest: expected {format_items(('table', *_KEPT))} in it"
        )
    return manifest, table


def _described(path: Path, manifest: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The SHA-256 of a table, and the types of its columns by name, as a manifest has them."""
    try:
        table = manifest["table"]
        types = {column["name"]: column["type"] for column in table["columns"]}
        if set(types.values()) <= _TYPES.keys():
            return table["sha256"], types
    except (KeyError, TypeError):
        pass
    raise PredgapError(
        f"{str(path)!r} is not a manifest: expected a table with sha256, and columns with name and a type "
        f"of {format_items(_TYPES)}"
    )


def _version(names: Iterable[str]) -> str | None:
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


# ---- finished pieces of work ---------------------------------------------------------------------

Folder = str | os.PathLike[str] | None


def remembered(
    folder: Folder, key: Mapping[str, Any], compute: Callable[[], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """The array under the key (what JSON can hold); computed, and kept, if the folder does not have it.

    Examples
    --------
    >>> remembered(None, {"what": "ones"}, lambda: np.ones(2))
    array([1., 1.])
    """
    if folder is None:
        return compute()
    path = Path(folder) / f"{digest(key)}.npy"
    kept = _read_kept(path)
    if kept is None:
        kept = compute()
        file = io.BytesIO()
        np.save(file, kept, allow_pickle=False)
        content = file.getvalue()
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, content + _checksum(path, content))
    return kept


def digest(key: Mapping[str, Any]) -> str:
    """A name for a key: the same for equal keys, in any order."""
    return hashlib.sha256(json.dumps(key, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _read_kept(path: Path) -> NDArray[np.float64] | None:
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return None
    content, checksum = whole[:-32], whole[-32:]
    if _checksum(path, content) != checksum:
        return None
    return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))


def _checksum(path: Path, content: bytes) -> bytes:
    """The hashes of the content and of the key, after which the file is named."""
    return hashlib.sha256(path.stem.encode() + content).digest()


# ---- threads -------------------------------------------------------------------------------------


@contextmanager
def pool(n_jobs: int) -> Iterator[ThreadPoolExecutor]:
    """That many threads, -1 for all cores; on an error or an interruption they finish what they have begun,
    and drop the rest."""
    executor = ThreadPoolExecutor(n_threads(n_jobs))
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


# ---- bootstrap -----------------------------------------------------------------------------------

_RESAMPLED_AT_ONCE: Final = 1 << 20  # row numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """How often rows are drawn, and which intervals are asked for; configs of experiments have it."""

    n_resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_resamples < 1 or not 0 < self.confidence < 1 or self.seed < 0:
            raise PredgapError(
                f"{self!r} is impossible; expected n_resamples from 1, confidence in (0, 1), seed from 0"
            )


def resampled_means(values: FloatArray, n_resamples: int, seed: int) -> FloatArray:
    """Means (..., n_resamples) of values (..., n) over n rows drawn with replacement.

    Examples
    --------
    >>> resampled_means(np.ones((2, 5)), 3, seed=0).shape
    (2, 3)
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    n = values.shape[-1]
    flat = np.ascontiguousarray(values.reshape(-1, n))
    out = np.empty((len(flat), n_resamples))
    step = max(1, _RESAMPLED_AT_ONCE // n)
    for start in range(0, n_resamples, step):
        drawn = rng.integers(n, size=(min(step, n_resamples - start), n))
        for i, row in enumerate(flat):
            out[i, start : start + step] = row[drawn].mean(axis=1)
    return out.reshape(*values.shape[:-1], n_resamples)


def interval(resampled: FloatArray, confidence: float) -> FloatArray:
    """Low and high percentile (2, ...) of means (..., n_resamples).

    Examples
    --------
    >>> interval(np.arange(101.0), 0.9)
    array([ 5., 95.])
    """
    tail = (1 - confidence) / 2
    return np.asarray(np.quantile(resampled, (tail, 1 - tail), axis=-1))


class Spread(NamedTuple):
    """A ranking's score, and its advantage over SHAP's, with their intervals; SHAP has no advantage."""

    score: float
    low: float
    high: float
    advantage: float | None = None
    advantage_low: float | None = None
    advantage_high: float | None = None


def spreads(
    values: FloatArray,
    config: Resampled,
    *,
    score: Callable[[FloatArray], FloatArray] = lambda means: means,
    lower_is_better: bool = False,
) -> list[Spread]:
    """The score of each ranking, its advantage, and how sure they are.

    Parameters
    ----------
    values : (m, ..., n) array
        Of m rankings, SHAP's first, and n rows.
    config : Resampled
    score : function from (m, ..., *rest) to (m, *rest)
        What is made of the means over rows; the means themselves if it is not given.
    lower_is_better : bool
        Whether an advantage is a score below SHAP's.

    Examples
    --------
    >>> config = Resampled(n_resamples=10, confidence=0.9)
    >>> spreads(np.array([[1.0, 1.0], [3.0, 3.0]]), config)[1]
    Spread(score=3.0, low=3.0, high=3.0, advantage=2.0, advantage_low=2.0, advantage_high=2.0)
    """

    def ahead(scores: FloatArray) -> FloatArray:
        return np.asarray(scores[0] - scores if lower_is_better else scores - scores[0])

    found = score(values.mean(axis=-1))
    resampled = score(resampled_means(values, config.n_resamples, config.seed))
    own = np.stack([found, *interval(resampled, config.confidence)])  # (3, m)
    over = np.stack([ahead(found), *interval(ahead(resampled), config.confidence)])
    shap, *greedy = (Spread(*one) for one in np.concatenate([own, over]).T.tolist())
    return [Spread(*shap[:3]), *greedy]
