"""A verdict on every number that the paper printed.

A row per printed cell: what was recomputed with the protocol of the table, and an outcome:

- "matches": the same digits;
- "explained": other digits, for a reason that is measured: ties that may be broken either way, or sampling;
- "differs": other digits, and `why`, as far as it is known;
- "not recomputed": the run left it out, or something that it needs is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from reproduction.experiments.clocks import ALGORITHM_1_FLOAT32
from reproduction.published import DESCRIBED, PUBLISHED, SAMPLERS, Cell, cells
from reproduction.results import Result, Value, collected, joined_files

Outcome = Literal["matches", "explained", "differs", "not recomputed"]
Judged = tuple[float | None, Outcome, str]  # recomputed, outcome, why

COLUMNS: Final = (
    *("table", "kind", "dataset", "quantity", "method", "scale", "evaluation_scale", "k"),
    *("printed", "recomputed", "outcome", "why"),
)

SAME: Final = "the same digits"
_LEFT_OUT: Final[Judged] = (None, "not recomputed", "left out of this run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """True if the models are the authors' own."""

    authors_models: bool = True


def run(config: Config, results: Mapping[str, Result]) -> Result:
    """A row for each of the paper's cells, from the results of the experiments by name."""
    files = joined_files(results.values())
    return collected("cells", COLUMNS, config, [("all", _rows(config, results))], files)


def _rows(config: Config, results: Mapping[str, Result]) -> Iterator[tuple[Value, ...]]:
    index = {name: _index(name, result) for name, result in results.items() if name in _KEYS}
    for cell in cells():
        value, outcome, why = _judged(cell, index)
        if outcome in ("explained", "differs") and not config.authors_models:
            outcome, why = "differs", "the model was trained anew"
        yield (
            *(cell.table, cell.kind, cell.dataset, cell.quantity, cell.method, cell.scale),
            *(cell.evaluation_scale, cell.k, cell.printed, value, outcome, why),
        )


Row = Mapping[str, Any]
_Index = Mapping[tuple[Value, ...], Row]

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "precision": ("kind", "dataset", "method", "scale"),
    "equal-time": ("kind", "dataset", "method", "scale", "clock"),
    "agreement": ("kind", "dataset", "scale", "k"),
    "pgi": ("protocol", "kind", "dataset", "scale", "evaluation_scale"),
    "randomising": ("protocol", "kind", "dataset", "scale", "k"),
    "retraining": ("protocol", "kind", "dataset", "scale", "k"),
}


def _index(name: str, result: Result) -> _Index:
    rows = result.records()
    if name == "precision":  # at the one number of iterations that is printed
        rows = tuple(row for row in rows if row["published"] is not None)
    return {tuple(row[key] for key in _KEYS[name]): row for row in rows}


def _judged(cell: Cell, index: Mapping[str, _Index]) -> Judged:
    where = (cell.kind, cell.dataset)
    key: tuple[Value, ...]
    match cell.table, cell.quantity:
        case "precision", "nmae":
            key = (*where, SAMPLERS[cell.method], cell.scale)
            return _found(index, "precision", key, _precision)
        case "precision", _:
            key = (*where, SAMPLERS[cell.method], cell.scale, ALGORITHM_1_FLOAT32)
            return _found(index, "equal-time", key, _iterations)
        case "agreement", _:
            return _found(index, "agreement", (*where, cell.scale, cell.k), _agreement)
        case (("pgi" | "pgi-single"), _):
            return _found(index, "pgi", (PUBLISHED, *where, cell.scale, cell.evaluation_scale), _pgi)
        case name, _:
            judge = _randomising if name == "randomising" else _retraining
            key = (PUBLISHED, *where, cell.scale, cell.k)
            if name in index and key not in index[name] and (DESCRIBED, *key[1:]) in index[name]:
                return None, "not recomputed", "the authors' training rows are not known in their order"
            return _found(index, name, key, judge)


def _found(
    index: Mapping[str, _Index], name: str, key: tuple[Value, ...], judge: Callable[[Row], Judged]
) -> Judged:
    row = index.get(name, {}).get(key)
    return _LEFT_OUT if row is None else judge(row)


# ---- one table each ------------------------------------------------------------------------------


def _precision(row: Row) -> Judged:
    if row["verdict"] == "matches":
        return row["nmae"], "matches", SAME
    if (row["kind"], row["dataset"]) == ("Single", "telemetry"):
        return row["nmae"], "differs", "the printed rows are those of a model that was not published"
    if row["within_jointly"] == "inside":
        return row["nmae"], "explained", "within sampling error: other pairs, other draws"
    return row["nmae"], "differs", "outside the sampling error of both"


def _iterations(row: Row) -> Judged:
    if row["verdict"] == "matches":
        return float(row["first_slower"]), "matches", SAME
    return float(row["first_slower"]), "differs", "a matter of two clocks, on another machine"


def _agreement(row: Row) -> Judged:
    return (row["agreement"], *_over_ties(row))


def _pgi(row: Row) -> Judged:
    return (row["pgi2"], *_over_ties(row))


def _over_ties(row: Row) -> tuple[Outcome, str]:
    if row["verdict"] == "matches":
        return "matches", SAME
    if row["in_range"] is None:  # SHAP has no ties to speak of
        return "differs", "other digits"
    if row["in_range"] == "inside":
        return "explained", "inside the range over ties"
    if row["in_float32_range"] == "inside":
        return "explained", "inside the range over gaps that float32 cannot tell apart"
    return "differs", "outside the range over ties"


def _randomising(row: Row) -> Judged:
    if row["verdict"] == "matches":
        return row["expected"], "matches", SAME
    if row["within_jointly"] == "inside":
        return row["expected"], "explained", "within the error of the published sampling"
    return row["expected"], "differs", "outside the error of the published sampling"


def _retraining(row: Row) -> Judged:
    if row["verdict"] == "matches":
        return row["rmse"], "matches", SAME
    if row["n_trainings"] == 1:
        return (row["rmse"], *_over_ties(row))
    if row["within_jointly"] == "inside":
        return row["rmse"], "explained", "within what other orders of the training rows give"
    return row["rmse"], "differs", "outside what other orders of the training rows give"
