"""The numbers that the paper printed, as text: what a reproduction is set beside.

===============  ===========================  =====  ==================================================
table            label in the paper           cells  what
===============  ===========================  =====  ==================================================
``precision``    ``tab:iteration_nmae``          72  iterations as slow as the exact method, their NMAE
``agreement``    ``tab:ranking_comparision``     54  share of rows with the same k features as SHAP
``pgi``          ``tab:rankings_pgi``            36  average PGI², Bigger models
``pgi-single``   ``tab:``                        36  the same, Single trees
``randomising``  ``tab:randomizing``             36  RMSE with the k first features randomised
``retraining``   ``tab:retraining``              36  RMSE of models trained without the k first features
===============  ===========================  =====  ==================================================

Only the first three have a number in the text of the paper, Tables 1 to 3.

The paper rounds to three decimals, or to four significant digits where it writes an exponent, and then
drops trailing zeros: its 0.3 is 0.300 and its 1.3e+05 is 1.300e+05. `judge` takes this into account.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final, Literal

from predgap import PredgapError

Kind = Literal["Bigger", "Single"]
Method = Literal["shap", "greedy", "mc", "qmc"]
Verdict = Literal["matches", "differs"]
Position = Literal["inside", "outside"]

KINDS: Final[tuple[Kind, ...]] = ("Bigger", "Single")
DATASETS: Final = ("wine", "housing", "telemetry")
SCALES: Final = (0.1, 0.3, 1.0)
"""The standard deviations σ of the noise."""

PLACES: Final = (1, 2, 3)
"""The numbers k of most important features."""

PUBLISHED: Final = "as published"
DESCRIBED: Final = "as described"
"""The protocols: what the printed numbers really are, slips included; and what the text says, done right."""

SAMPLERS: Final[Mapping[Method, str]] = MappingProxyType({"mc": "mc", "qmc": "halton"})
"""The names of the paper's sampling methods here; its quasi-random points are Halton's."""

_DECIMALS: Final = 3
_SLACK: Final = Decimal("1e-12")  # relative; a value that is half-way may be printed either way


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One printed number, and where it stands; what does not apply is None."""

    table: str
    kind: Kind
    dataset: str
    quantity: str  # "iterations", "nmae", "agreement", "pgi2" or "rmse"
    method: Method  # of a ranking, or of sampling
    scale: float | None = None  # σ: noise of the gaps that are estimated, or of the greedy ranking
    evaluation_scale: float | None = None  # σ': noise of the PGI² that a ranking is scored by
    k: int | None = None
    printed: str


# Lines of a block: a model, then its rows as in the paper.
_PRECISION: Final = """
Single wine
0.1 100 0.132 100 0.04
0.3 100 0.136 100 0.049
1.0 100 0.122 100 0.054
Bigger wine
0.1 4000 0.019 4000 0.003
0.3 8000 0.014 8000 0.002
1.0 15000 0.009 15000 0.001
Single housing
0.1 100 0.158 100 0.051
0.3 100 0.14 100 0.043
1.0 100 0.129 100 0.049
Bigger housing
0.1 4000 0.018 4000 0.002
0.3 10000 0.011 10000 0.001
1.0 15000 0.01 15000 0.001
Single telemetry
0.1 500 0.071 100 0.037
0.3 500 0.064 500 0.011
1.0 500 0.085 100 0.092
Bigger telemetry
0.1 6000 0.015 4000 0.004
0.3 15000 0.009 15000 0.002
1.0 20000 0.008 20000 0.002
"""

_AGREEMENT: Final = """
Single wine
0.1 0.328 0.259 0.031
0.3 0.412 0.591 0.428
1.0 0.419 0.613 0.506
Bigger wine
0.1 0.131 0.041 0.022
0.3 0.212 0.094 0.056
1.0 0.391 0.181 0.103
Single housing
0.1 0.501 0.263 0.031
0.3 0.599 0.569 0.349
1.0 0.712 0.471 0.504
Bigger housing
0.1 0.194 0.08 0.052
0.3 0.3 0.122 0.056
1.0 0.569 0.243 0.08
Single telemetry
0.1 0.402 0.143 0.066
0.3 0.569 0.32 0.237
1.0 0.759 0.414 0.22
Bigger telemetry
0.1 0.137 0.028 0.007
0.3 0.225 0.061 0.009
1.0 0.368 0.114 0.031
"""

_PGI: Final = """
Bigger wine
0.1 0.013 0.024 0.022 0.018
0.3 0.051 0.068 0.078 0.067
1.0 0.221 0.192 0.266 0.302
Bigger housing
0.1 3.346e+08 4.205e+08 3.841e+08 3.065e+08
0.3 1.209e+09 1.297e+09 1.374e+09 1.259e+09
1.0 7.807e+09 6.963e+09 8.266e+09 8.728e+09
Bigger telemetry
0.1 2.743 4.425 4.015 3.199
0.3 6.341 9.458 11.878 10.143
1.0 16.298 19.56 30.188 34.013
"""

_PGI_SINGLE: Final = """
Single wine
0.1 0.021 0.023 0.023 0.023
0.3 0.077 0.095 0.096 0.096
1.0 0.151 0.174 0.185 0.185
Single housing
0.1 3.267e+08 3.987e+08 3.987e+08 3.987e+08
0.3 1.421e+09 1.582e+09 1.597e+09 1.597e+09
1.0 5.921e+09 6.276e+09 6.451e+09 6.459e+09
Single telemetry
0.1 1.084 1.084 1.084 1.084
0.3 3.438 3.573 3.823 3.823
1.0 6.143 7.322 8.444 8.449
"""

_RANDOMISING: Final = """
Bigger wine
1 0.944 0.922 0.923 0.919
2 0.893 0.902 0.881 0.891
3 0.858 0.89 0.87 0.868
Bigger housing
1 1.32e+05 1.412e+05 1.379e+05 1.264e+05
2 1.3e+05 1.354e+05 1.321e+05 1.263e+05
3 1.282e+05 1.318e+05 1.287e+05 1.27e+05
Bigger telemetry
1 8.87 8.96 8.99 8.945
2 8.748 8.882 8.882 8.906
3 8.585 8.777 8.809 8.784
"""

_RETRAINING: Final = """
Bigger wine
1 0.67 0.621 0.637 0.667
2 0.72 0.638 0.66 0.672
3 0.722 0.652 0.665 0.711
Bigger housing
1 8.092e+04 7.187e+04 7.206e+04 7.485e+04
2 8.913e+04 7.693e+04 8.062e+04 8.707e+04
3 9.136e+04 8.267e+04 8.965e+04 9.665e+04
Bigger telemetry
1 7.216 6.745 6.863 7.02
2 7.388 6.951 7.138 7.292
3 7.55 7.021 7.282 7.45
"""

HYPERPARAMETERS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = MappingProxyType(
    {
        ("Single", "wine"): {"eta": "0.9", "subsample": "0.9", "max_depth": "4"},
        ("Bigger", "wine"): {"eta": "0.2", "subsample": "0.9", "max_depth": "4", "trees": "40"},
        ("Single", "housing"): {"eta": "0.9", "subsample": "0.9", "max_depth": "3"},
        ("Bigger", "housing"): {"eta": "0.2", "subsample": "0.9", "max_depth": "4", "trees": "40"},
        ("Single", "telemetry"): {"eta": "0.9", "subsample": "0.9", "max_depth": "3"},
        ("Bigger", "telemetry"): {"eta": "0.3", "subsample": "0.8", "max_depth": "4"},
    }
)
"""What the appendix says the grid search chose; it names no number of trees for the last one."""


def judge(printed: str, value: float) -> Verdict:
    """Whether a value, rounded as the paper rounds, is the printed one.

    A value that lies half-way between two roundings matches both.

    Examples
    --------
    >>> judge("0.131", 0.13125), judge("0.131", 0.1316), judge("0.3", 0.304)
    ('matches', 'differs', 'differs')
    >>> judge("3.346e+08", 334_643_000.0), judge("1.3e+05", 130_049.0), judge("100", 100)
    ('matches', 'matches', 'matches')
    """
    return "matches" if judge_range(printed, value, value) == "inside" else "differs"


def judge_range(printed: str, lowest: float, highest: float) -> Position:
    """Whether some value from `lowest` to `highest` is the printed one when rounded.

    Examples
    --------
    >>> judge_range("0.428", 0.33, 0.63), judge_range("0.428", 0.43, 0.63)
    ('inside', 'outside')
    """
    number, half = _rounding(printed)
    half *= 1 + _SLACK
    if math.isnan(lowest) or math.isnan(highest):
        return "outside"
    return "inside" if Decimal(lowest) - half <= number <= Decimal(highest) + half else "outside"


def _rounding(printed: str) -> tuple[Decimal, Decimal]:
    """The printed number, and half a unit of the last digit that the paper rounds to."""
    try:
        number = Decimal(printed)
    except ArithmeticError:
        raise PredgapError(f"{printed!r} is not a printed number such as '0.131' or '3.346e+08'") from None
    if printed.isdigit():
        return number, Decimal("0.5")
    leading = number.adjusted() if "e" in printed.lower() else 0
    return number, Decimal(5).scaleb(leading - _DECIMALS - 1)


def cells(table: str | None = None) -> tuple[Cell, ...]:
    """All cells of a table, or of all of them, in the order of the paper.

    Examples
    --------
    >>> len(cells()), cells("agreement")[0].printed
    (270, '0.328')
    """
    if table is None:
        return tuple(cell for every in TABLES.values() for cell in every)
    if table not in TABLES:
        raise PredgapError(f"there is no table {table!r}; the paper's are {', '.join(TABLES)}")
    return TABLES[table]


def printed(
    table: str,
    *,
    kind: str,
    dataset: str,
    method: str,
    quantity: str | None = None,
    scale: float | None = None,
    evaluation_scale: float | None = None,
    k: int | None = None,
) -> str | None:
    """The printed text of one cell; None if the paper has no such cell.

    `quantity` is only needed for the table `precision`, which has two.

    Examples
    --------
    >>> printed("agreement", kind="Bigger", dataset="wine", method="greedy", scale=0.3, k=1)
    '0.212'
    >>> printed("agreement", kind="Bigger", dataset="diabetes", method="greedy", scale=0.3, k=1)
    """
    wanted = (kind, dataset, method, scale, evaluation_scale, k)
    found = [
        cell.printed
        for cell in cells(table)
        if (cell.kind, cell.dataset, cell.method, cell.scale, cell.evaluation_scale, cell.k) == wanted
        and quantity in (None, cell.quantity)
    ]
    if len(found) > 1:
        raise PredgapError(f"{len(found)} cells of {table!r} are meant; say which quantity")
    return found[0] if found else None


def printed_sampling(kind: str, dataset: str, scale: float, method: str) -> tuple[str, str] | None:
    """The number of iterations in Table 1, and the NMAE beside it; None if the table has no such row.

    `method` is the name used here, see `SAMPLERS`.

    Examples
    --------
    >>> printed_sampling("Bigger", "wine", 0.3, "halton")
    ('8000', '0.002')
    >>> printed_sampling("Bigger", "wine", 0.3, "sobol")
    """
    where = (kind, dataset, scale, method)
    found = {
        cell.quantity: cell.printed
        for cell in cells("precision")
        if (cell.kind, cell.dataset, cell.scale, SAMPLERS[cell.method]) == where
    }
    return (found["iterations"], found["nmae"]) if found else None


# ---- from lines to cells -------------------------------------------------------------------------


def _lines(block: str) -> Iterator[tuple[Kind, str, str, list[str]]]:
    """Kind, data set, first entry and the other entries of each row."""
    kind: Kind = "Bigger"
    dataset = ""
    for line in block.split("\n"):
        match line.split():
            case ["Bigger" | "Single" as kind, dataset]:
                pass
            case [first, *rest]:
                yield kind, dataset, first, rest


def _precision_cells() -> Iterator[Cell]:
    columns: tuple[tuple[Method, str], ...] = (
        ("mc", "iterations"),
        ("mc", "nmae"),
        ("qmc", "iterations"),
        ("qmc", "nmae"),
    )
    for kind, dataset, scale, entries in _lines(_PRECISION):
        for (method, quantity), text in zip(columns, entries, strict=True):
            yield Cell(
                table="precision",
                kind=kind,
                dataset=dataset,
                quantity=quantity,
                method=method,
                scale=float(scale),
                printed=text,
            )


def _agreement_cells() -> Iterator[Cell]:
    for kind, dataset, scale, entries in _lines(_AGREEMENT):
        for k, text in zip(PLACES, entries, strict=True):
            yield Cell(
                table="agreement",
                kind=kind,
                dataset=dataset,
                quantity="agreement",
                method="greedy",
                scale=float(scale),
                k=k,
                printed=text,
            )


def _ranking_cells(table: str, quantity: str, block: str) -> Iterator[Cell]:
    """A column for SHAP and one for greedy at each σ; a row for each σ' (for PGI²) or each k."""
    by_place = quantity == "rmse"
    columns: list[tuple[Method, float | None]] = [("shap", None), *(("greedy", scale) for scale in SCALES)]
    for kind, dataset, first, entries in _lines(block):
        for (method, scale), text in zip(columns, entries, strict=True):
            yield Cell(
                table=table,
                kind=kind,
                dataset=dataset,
                quantity=quantity,
                method=method,
                scale=scale,
                evaluation_scale=None if by_place else float(first),
                k=int(first) if by_place else None,
                printed=text,
            )


def _tables(*parts: Iterable[Cell]) -> Mapping[str, tuple[Cell, ...]]:
    tables = [tuple(part) for part in parts]
    return MappingProxyType({table[0].table: table for table in tables})


TABLES: Final = _tables(
    _precision_cells(),
    _agreement_cells(),
    _ranking_cells("pgi", "pgi2", _PGI),
    _ranking_cells("pgi-single", "pgi2", _PGI_SINGLE),
    _ranking_cells("randomising", "rmse", _RANDOMISING),
    _ranking_cells("retraining", "rmse", _RETRAINING),
)
"""The cells of each table."""
