"""The class `Evaluation`: the scores of rankings, how certain they are, and what they say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.tables import to_native
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.evaluation.requests import BY_ROW
from predgap.evaluation.scoring import METRICS
from predgap.evaluation.statistics import (
    Difference,
    differences,
    highest,
    interval,
    interval_of_share,
    share_of_way,
)
from predgap.explainer import Sweep
from predgap.explainer.explained import check_choice
from predgap.explainer.sweep import agreement
from predgap.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Scores of m rankings of n rows, and the scale from random to best; `predgap.evaluate` returns it.

    d is the number of ranked features (or groups), k the number of places that count.

    Attributes
    ----------
    names : tuple of m strings
        The rankings, in the order in which they were given.
    rankings : dict of name and Ranking
        As they were scored, one row for each examined row.
    scores : dict of metric and (m, n) array
        "pgi2" and those that were asked for; `better` says which way is better.
    curves : (m, n, k) array
        The gaps of the first 1, ..., k features.
    random : (n,) array
        The expected PGI² of a random ranking.
    random_curve : (n, k) array
        The gaps of the first 1, ..., k features of random rankings: an estimate, the mean of two in each row.
    best : (n,) array
        The highest PGI² that was found, by the search for the best ranking or by one of the rankings.
    best_ranking : Ranking
        The ranking that has it; its scores are the gains at each place.
    best_curve : (n, k) array
    best_is_proven : (n,) bool array
        Where no ranking at all can have a higher PGI².
    single : (n, d) array
        The gap of each feature alone.
    table : (n, d) array of objects
        The examined rows as people read them: numbers, and labels of categories.
    values : (n, d) array
        The same as numbers: codes of categories, NaN where missing and for groups.
    feature_names : tuple of d strings
    index : n row labels, or None
    rows : (n,) integers
        The positions of the examined rows in X.
    predictions : (n,) array
        The raw margins; if several outputs are explained together, the largest of them.
    sweep : Sweep or None
        Scores at other strengths of the noise.
    description : dict
        What was examined: model, trees, features, rows, noise, output, seed, budget, version.
    notes : tuple of strings
        What was done to keep within the budget, and what is estimated.
    obtained : dict of quantity and str
        How each number was obtained: "exact", "bounded (1e-06)", "estimated".
    words : dict of name and word
        The word that a ranking was asked for by; None for one that was given.
    shap : tuple of strings
        The names of the rankings by SHAP values.
    seed : int
    tolerance : float
        Scores count as equal up to this relative difference.
    backend : "pandas", "polars", "pyarrow" or None
        The library whose frame `to_frame` returns.
    """

    names: tuple[str, ...]
    rankings: dict[str, Ranking]
    scores: dict[str, FloatArray]
    curves: FloatArray
    random: FloatArray
    random_curve: FloatArray
    best: FloatArray
    best_ranking: Ranking
    best_curve: FloatArray
    best_is_proven: BoolArray
    single: FloatArray
    table: NDArray[Any]
    values: FloatArray
    feature_names: tuple[str, ...]
    index: Any
    rows: IndexArray
    predictions: FloatArray
    sweep: Sweep | None
    description: dict[str, Any]
    notes: tuple[str, ...]
    obtained: dict[str, str]
    words: dict[str, str | None] = field(default_factory=dict)
    shap: tuple[str, ...] = ()
    seed: int = 0
    tolerance: float = 1e-12
    backend: str | None = None

    @property
    def normalized(self) -> FloatArray:
        """How far each score is from random (0) to best (1), (m, n); NaN where these are equal."""
        way = self.best - self.random
        known = way > self.tolerance * self.best
        share = (self.scores["pgi2"] - self.random) / np.where(known, way, 1.0)
        return np.where(known, share, np.nan)

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """A row of the table for each ranking, in the order given.

        `ranking`; `mean`, `low`, `high`: mean PGI² over the rows with its 95 % bootstrap interval;
        `normalized`, `normalized_low`, `normalized_high`: how far the mean is from random (0) to best (1);
        `pgu2`: the mean, NaN if it was not asked for; `share_won`: the share of rows where no other ranking
        has a higher PGI²; `first_moves_most`: the share of rows where its first feature is the one with the
        largest gap alone; `obtained`: how the scores were obtained. For each other metric, its name: the mean
        over the rows where it is defined; and with `_better` behind it: "higher", "lower" or "closer to 0".
        """
        score, won, first = (
            self.scores["pgi2"],
            highest(self.scores["pgi2"], self.tolerance),
            self.first_moves_most,
        )
        pgu2 = self.scores.get("pgu2")
        random, best = self.random, self.best
        moving, obtained = best > 0, self.obtained["pgi2"]
        if obtained != "estimated" and self.obtained["random"].startswith("estimated"):
            obtained = f"{obtained}; normalized: estimated"
        rows = []
        for i, name in enumerate(self.names):
            low, high = interval(score[i], self.seed)
            share_low, share_high = interval_of_share(score[i], random, best, self.seed)
            rows.append(
                {
                    "ranking": name,
                    "mean": float(score[i].mean()),
                    "low": low,
                    "high": high,
                    "normalized": float(share_of_way(score[i], random, best)),
                    "normalized_low": share_low,
                    "normalized_high": share_high,
                    "pgu2": float("nan") if pgu2 is None else float(pgu2[i].mean()),
                    "share_won": _mean(won[i, moving]),
                    "first_moves_most": _mean(first[i, moving]),
                    "obtained": obtained,
                    **self._others(i),
                }
            )
        return rows

    @property
    def better(self) -> dict[str, str]:
        """Which way each metric is better: "higher", "lower" or "closer to 0"."""
        return {metric: METRICS[metric].better for metric in self.scores}

    def _others(self, ranking: int) -> dict[str, Any]:
        """The columns of the metrics other than PGI² and PGU²."""
        columns: dict[str, Any] = {}
        for metric, better in self.better.items():
            if metric not in ("pgi2", "pgu2"):
                of_rows = self.scores[metric][ranking]
                columns[metric] = _mean(of_rows[~np.isnan(of_rows)])
                columns[f"{metric}_better"] = better
        return columns

    @cached_property
    def first_moves_most(self) -> BoolArray:
        """Whether the first feature of each ranking has the largest gap alone, (m, n)."""
        most = self.single.max(axis=1, initial=0.0)
        at = np.arange(len(most))
        return np.stack(
            [
                self.single[at, self.rankings[name].order[:, 0]] >= most * (1.0 - max(self.tolerance, 1e-12))
                for name in self.names
            ]
        )

    @cached_property
    def agreement(self) -> FloatArray:
        """Of each two rankings the share of rows with the same first feature, (m, m)."""
        return self._pairs[..., 0]

    @cached_property
    def correlation(self) -> FloatArray:
        """Of each two rankings the mean of Spearman's correlation of places, (m, m); NaN if partial."""
        return self._pairs[..., 1]

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Each two rankings a and b: the mean difference of their PGI², and the p-value of Wilcoxon's test,
        corrected by Holm for the number of pairs."""
        return differences(self.names, self.scores["pgi2"], self.tolerance)

    def difference(self, a: str, b: str) -> Difference:
        """The comparison of two rankings, a minus b."""
        for found in self.differences:
            if (found.a, found.b) == (a, b):
                return found
            if (found.b, found.a) == (a, b):
                return replace(found, a=a, b=b, mean=-found.mean)
        raise KeyError((a, b))

    def is_fixed(self, name: str) -> bool:
        """Does a ranking have one order for all rows?"""
        if self.words.get(name) in BY_ROW:
            return False
        order = self.rankings[name].order
        return len(order) > 1 and bool((order == order[0]).all())

    @cached_property
    def _pairs(self) -> FloatArray:
        full = self.curves.shape[2] == self.single.shape[1]
        orders = [self.rankings[name].order for name in self.names]
        return np.array([[agreement(a, b, full) for b in orders] for a in orders])

    def verdict(self) -> str:
        """What the evaluation says, in a few plain sentences, and what it does not say."""
        from predgap.evaluation.verdict import verdict

        return verdict(self)

    @cached_property
    def pairs(self) -> list[dict[str, Any]]:
        """How each two rankings compare: `a`, `b`, the mean `difference` of their PGI² (a minus b), `p` (of
        Wilcoxon's test, corrected by Holm), `same_first` (the share of rows with the same first feature) and
        `correlation` (the mean of Spearman's correlation of places)."""
        at = {name: i for i, name in enumerate(self.names)}
        return [
            {
                "a": found.a,
                "b": found.b,
                "difference": found.mean,
                "p": found.p,
                "same_first": float(self.agreement[at[found.a], at[found.b]]),
                "correlation": float(self.correlation[at[found.a], at[found.b]]),
            }
            for found in self.differences
        ]

    def to_frame(self, what: Literal["rankings", "pairs"] = "rankings") -> Any:
        """The table as a frame.

        Parameters
        ----------
        what : {"rankings", "pairs"}, default="rankings"
            One row per ranking, with the columns of `summary`; or one for each two rankings, with those of
            `pairs`.
        """
        check_choice("what", what, ("rankings", "pairs"))
        rows = self.summary if what == "rankings" else self.pairs
        names = rows[0] if rows else ("a", "b", "difference", "p", "same_first", "correlation")
        return to_native({key: [row[key] for row in rows] for key in names}, self.backend)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the evaluation: .csv or .parquet has the table of `to_frame`, .json everything.

        Parameters
        ----------
        path : str or os.PathLike
            A file that is there is replaced.
        """
        from predgap.evaluation.saving import save

        save(self, path)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the mean PGI² of each ranking with its interval, between random and best.

        See `predgap.plots` for other pictures.
        """
        from predgap import plots

        rows, noise = self.summary, str(self.description["noise"])
        return plots.leaderboard(
            self.names,
            [row["mean"] for row in rows],
            [row["low"] for row in rows],
            [row["high"] for row in rows],
            random=float(self.random.mean()),
            best=float(self.best.mean()),
            noise=noise,
            marks=[row["obtained"] for row in rows],
            ax=ax,
        )

    def __repr__(self) -> str:
        from predgap.evaluation.showing import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from predgap.evaluation.showing import as_html

        return as_html(self)


def _mean(of_rows: BoolArray | FloatArray) -> float:
    return float(of_rows.mean()) if len(of_rows) else float("nan")
