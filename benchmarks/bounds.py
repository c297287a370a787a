"""Do the bounds of `flip`, `absolute_gap` and `probability_gap` hold, and how tight are they?

Each random case is a small ensemble of two classes and one of three, a row, a subset and a noise, whose
outcomes can all be listed. The exact value is compared with the bounds that would be given if they could not.
Prints a table; ends with 1 if any bound is broken.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from predgap import Bracket, Ensemble, Explainer, Link, Normal
from predgap._engine import questions

ROUNDING = 1e-12


def random_model(rng: np.random.Generator, n_features: int, n_outputs: int) -> Ensemble:
    """A few full trees of depth 1 to 3 with random leaves; three outputs are three classes."""
    root, feature, threshold, left, right, value = [], [], [], [], [], []

    def grow(depth: int) -> int:
        node = len(feature)
        feature.append(int(rng.integers(n_features)) if depth else -1)
        threshold.append(float(rng.normal()) if depth else 0.0)
        value.append([0.0 if depth else float(rng.normal())])
        left.append(-1)
        right.append(-1)
        if depth:
            left[node], right[node] = grow(depth - 1), grow(depth - 1)
        return node

    for _ in range(int(rng.integers(n_outputs, 7))):
        root.append(grow(int(rng.integers(1, 4))))
    return Ensemble(
        root=root,
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        default_left=np.zeros(len(feature), dtype=bool),
        value=value,
        target=np.arange(len(root)) % n_outputs,
        bias=rng.normal(size=n_outputs),
        n_features=n_features,
        class_names=("a", "b", "c")[: max(n_outputs, 2)],
        link=Link("softmax" if n_outputs > 1 else "logistic"),
    )


@dataclass
class Case:
    """A row, a subset, a model of two classes and one of three, and a threshold of their probabilities."""

    x: np.ndarray
    mask: np.ndarray
    two: Explainer
    one_of_three: Explainer
    three: Explainer
    threshold: float

    @staticmethod
    def drawn(rng: np.random.Generator) -> Case:
        noise = Normal(float(rng.uniform(0.1, 1.5)))
        two, three = random_model(rng, 4, 1), random_model(rng, 4, 3)
        return Case(
            rng.normal(size=(1, 4)),
            rng.random(4) < 0.7,
            Explainer(two, noise),
            Explainer(three, noise, output="b"),
            Explainer(three, noise),
            float(rng.uniform(0.05, 0.95)),
        )

    def answers(self) -> dict[str, Bracket]:
        asked = (self.x, self.mask)
        margin = float(np.log(self.threshold / (1.0 - self.threshold)))
        few, probability = {"n_samples": 64}, {"n_samples": 64, "space": "probability"}
        one = self.one_of_three
        return {
            "flip, margin": self.two.flip(self.x, margin, self.mask, space="margin", **few),
            "flip, two classes": self.two.flip(self.x, self.threshold, self.mask, **few),
            "flip, one of three classes": one.flip(self.x, self.threshold, self.mask, **few),
            "absolute_gap, margin": self.two.absolute_gap(*asked, **few),
            "absolute_gap, two classes": self.two.absolute_gap(*asked, **probability),
            "absolute_gap, one of three": one.absolute_gap(*asked, **probability),
            "absolute_gap, all three": self.three.absolute_gap(*asked, **probability),
            "probability_gap, two classes": self.two.probability_gap(*asked, **few),
            "probability_gap, one of three": one.probability_gap(*asked, **few),
            "probability_gap, all three": self.three.probability_gap(*asked, **few),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    listed, broken = questions.listed_outcomes, 0
    tight: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(options.cases):
        case = Case.drawn(rng)
        exact = case.answers()
        questions.listed_outcomes = lambda *arguments: None
        bounded = case.answers()
        questions.listed_outcomes = listed
        for name, found in bounded.items():
            value, slack = float(exact[name].value[0]), ROUNDING * (1.0 + float(exact[name].value[0]))
            low, high = float(found.lower[0]), float(found.upper[0])
            broken += not low - slack <= value <= high + slack
            if value > 1e-6:
                tight[name].append((low / value, high / value))
    print(f"{options.cases} cases, {broken} bounds broken. Quartiles of bound / value:\n")
    print("| question | lower: 25 % | 50 % | 75 % | upper: 25 % | 50 % | 75 % |")
    print("|---|---|---|---|---|---|---|")
    for name, ratios in sorted(tight.items()):
        parts = [np.quantile(column, [0.25, 0.5, 0.75]) for column in np.array(ratios).T]
        print(f"| {name} | " + " | ".join(f"{q:.3g}" for q in np.concatenate(parts)) + " |")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
