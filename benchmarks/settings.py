"""How much is measured; the same for every model of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    rows: int = 9
    rounds: int = 30  # repeats of each call at most, the least of which counts
    patience: float = 0.5  # seconds after which a call is not repeated
    checked: int = 3  # rows whose answers are compared with tighter ones
    affordable_ms: float = 5_000.0  # what a tighter answer may cost per row
    part: float = 1.0  # of each model's trees; less than 1 is for trying out
    baseline: bool = False  # TreeSHAP only


QUICK = Settings(rows=3, rounds=10, patience=0.1, checked=1, affordable_ms=1_000.0)
