"""What was found out about one question to one model: a line of its table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Found:
    """One line of a model's table."""

    question: str
    milliseconds: float
    unit: str  # what the ratio is to
    ratio: float
    aim: float | None = None  # of the ratio
    aim_ms: float | None = None
    obtained: str = ""  # method, or share of proven places
    refused: str | None = None
    refusal_ms: float | None = None  # what a refusal may take, where one is allowed
    error: float | None = None
    aim_error: float | None = None
    against: str | None = None
    predicted: dict[str, float] = field(default_factory=dict)  # milliseconds said / measured
    wrong: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool | None:
        """None where there is no aim; a refusal reaches none but that of being quick."""
        if self.refused is not None:
            return self.refusal_ms is not None and self.milliseconds <= self.refusal_ms
        met = [
            found <= aim
            for found, aim in (
                (self.ratio, self.aim),
                (self.milliseconds, self.aim_ms),
                (self.error, self.aim_error),
            )
            if aim is not None and found is not None
        ]
        return all(met) if met else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"reached": self.reached}
