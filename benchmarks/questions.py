"""What is asked of each model, one row at a time, and the aim that each question has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from explainers import Explainers

import predgap

SUBSET = 5
REFUSAL_MS = 2_000.0


@dataclass(frozen=True)
class Question:
    name: str
    kind: Literal["gap", "pgi2", "rank"]
    rtol: float = 1e-6
    top: int | None = None
    approximate: bool = False
    aim: float | None = None  # at most this many TreeSHAP rows
    aim_ms: float | None = None  # at most this many milliseconds
    may_refuse: bool = False  # but no later than after REFUSAL_MS

    def ask(self, explainers: Explainers, x: np.ndarray, order: np.ndarray) -> Any:
        """The answer for one row, (1, d), whose TreeSHAP ranking is `order`, (1, d)."""
        return self.ask_of(self.explainer(explainers), x, order)

    def explainer(self, explainers: Explainers) -> Any:
        return explainers.about(self.rtol) if self.approximate else explainers.within(self.rtol)

    def ask_of(self, explainer: Any, x: np.ndarray, order: np.ndarray) -> Any:
        if self.kind == "gap":
            return explainer.gap(x, first(order))
        if self.kind == "pgi2":
            return explainer.pgi2(x, order)
        return explainer.rank(x) if self.top is None else explainer.rank(x, top=self.top)

    def priced(self, order: np.ndarray) -> Any:
        """What `Explainer.cost` is to be asked about."""
        return {"gap": first(order), "pgi2": predgap.Ranking(order), "rank": "rank"}[self.kind]


def first(order: np.ndarray) -> np.ndarray:
    """The mask of the features that TreeSHAP puts first."""
    mask = np.zeros(order.shape[1], dtype=bool)
    mask[order[0, :SUBSET]] = True
    return mask


def guaranteed(
    gap: float | None,
    fine: float | None,
    coarse: float | None,
    greedy: float | None,
    top: float | None = None,
) -> list[Question]:
    """Five questions with these aims; the last one only where it has an aim."""
    asked = [
        Question("gap of 5", "gap", aim=gap),
        Question("PGI², 1e-6", "pgi2", aim=fine),
        Question("PGI², 1e-3", "pgi2", 1e-3, aim=coarse),
        Question("greedy, 1e-6", "rank", aim=greedy),
    ]
    return asked if top is None else [*asked, Question("top 10, 1e-6", "rank", top=10, aim=top)]


FOREST = [
    Question("gap of 5", "gap", aim=2),
    Question("gap of 5, about 1e-3", "gap", 1e-3, approximate=True, aim=2),
    Question("PGI², about 1e-3", "pgi2", 1e-3, approximate=True, aim=2.5),
    Question("greedy, about 1e-3", "rank", 1e-3, approximate=True, aim=4),
    Question("top 10, about 1e-3", "rank", 1e-3, top=10, approximate=True, aim=1.5),
    Question("PGI², 1e-6", "pgi2", may_refuse=True),
]
DIGITS = [
    Question("gap of 5", "gap", may_refuse=True),
    Question("gap of 5, about 1e-2", "gap", 1e-2, approximate=True),
    Question("PGI², about 1e-2", "pgi2", 1e-2, approximate=True),
    Question("top 5, about 1e-2", "rank", 1e-2, top=5, approximate=True, aim_ms=1_000),
    Question("greedy, about 1e-2", "rank", 1e-2, approximate=True, aim_ms=10_000),
]
STUMP = [
    Question("gap of 5", "gap", aim_ms=0.06),
    Question("PGI², 1e-6", "pgi2", aim_ms=0.06),
    Question("greedy, 1e-6", "rank", aim_ms=0.06),
]
ASKED = {
    "lightgbm-30": guaranteed(1, 10, 4, 14, 4),
    "xgboost-30": guaranteed(1, 4, 2, 5, 2.5),
    "lightgbm-housing": guaranteed(2, 15, 8, 25),
    "xgboost-8": guaranteed(2, 15, 8, 25),
    "categories": guaranteed(None, 10, None, None),
    "forest": FOREST,
    "digits": DIGITS,
    "stump": STUMP,
}
ALONE = guaranteed(1, 1, None, 1)
