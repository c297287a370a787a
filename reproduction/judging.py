"""From cases to verdicts, and words for the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from predgap._text import count

Verdict = Literal["holds", "holds in part", "does not hold", "undecided"]
Finding = tuple[Verdict, str]  # and the evidence
Row = Mapping[str, Any]

USUALLY: Final = 0.75  # of the cases
MODEL: Final = ("kind", "dataset")


# ---- from cases to verdicts ----------------------------------------------------------------------


class NothingToJudgeError(Exception):
    """No case of a sentence is in the results."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cases speak for a sentence, how many against it, and how many for neither.

    Examples
    --------
    >>> tally = Tally.of([True, True, True, False, None])
    >>> print(tally, "cases:", tally.verdict())
    3 of 5 cases: holds in part
    >>> tally.verdict(needed=0.75), Tally.of([True, False, False]).verdict()
    ('holds', 'does not hold')

    Cases for neither do not count, but a sentence does not hold on a minority:

    >>> Tally.of([True, None]).verdict(), Tally.of([True, None, None]).verdict(), Tally.of([None]).verdict()
    ('holds', 'holds in part', 'undecided')
    """

    favour: int
    against: int
    neither: int

    @classmethod
    def of(cls, cases: Iterable[bool | None]) -> Tally:
        counts = Counter(cases)
        return cls(counts[True], counts[False], counts[None])

    @property
    def total(self) -> int:
        return self.favour + self.against + self.neither

    def __str__(self) -> str:
        return f"{self.favour} of {self.total}"

    def verdict(self, needed: float = 1.0) -> Verdict:
        """`needed` is the share, of cases for and against the sentence, with which it holds."""
        if self.total == 0:
            raise NothingToJudgeError
        decided = self.favour + self.against
        if decided == 0:
            return "undecided"
        if self.favour >= needed * decided and 2 * self.favour >= self.total:
            return "holds"
        return "holds in part" if self.favour >= max(self.against, 1) else "does not hold"


def joined(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for several ways to judge a sentence; those that leave it undecided do not count.

    Examples
    --------
    >>> joined(["holds", "holds"]), joined(["holds", "does not hold"])
    ('holds', 'holds in part')
    >>> joined(["undecided", "does not hold"]), joined(["undecided"])
    ('does not hold', 'undecided')
    """
    found = set(verdicts)
    if not found:
        raise NothingToJudgeError
    if len(found) > 1:
        found.discard("undecided")
    return found.pop() if len(found) == 1 else "holds in part"


# ---- rows, and words for them --------------------------------------------------------------------


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that have the same values in some columns."""
    out: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        out.setdefault(tuple(row[key] for key in keys), []).append(row)
    return out


def in_order(rows: Iterable[Row], by: str, *keys: str) -> list[list[Row]]:
    """Groups of at least two rows that have the same values of `keys`, in the order of `by`."""
    groups = grouped(rows, *keys).values()
    return [sorted(group, key=lambda row: row[by]) for group in groups if len(group) > 1]


def on_models(rows: Iterable[Row]) -> str:
    """On how many models."""
    return f"on {count(len(grouped(rows, *MODEL)), 'model')}"


def spanned(values: Iterable[float]) -> str:
    """From the smallest to the largest.

    Examples
    --------
    >>> spanned([0.2, 0.1234, 0.15]), spanned([0.5])
    ('0.123 to 0.2', '0.5')
    """
    found = list(values)
    if not found:
        raise NothingToJudgeError
    low, high = (f"{value:.3g}" for value in (min(found), max(found)))
    return low if low == high else f"{low} to {high}"


def percent(share: float) -> str:
    """As in 12.3 %."""
    return f"{100 * share:.3g} %"
