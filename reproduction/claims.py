"""The paper's sentences, each with a verdict that is computed from the results of the experiments.

A sentence, in our words, is broken into cases, such as one for each model and σ. A case speaks for it,
against it, or for neither, as a difference does whose interval has 0 inside. Then the sentence

- is "undecided" if every case speaks for neither;
- "holds" if none speaks against it; for one that says "usually", "almost always", "on average" or "in
  general", it is enough that of those for it and against it three quarters are for it. But it does not hold
  on a minority: at least half of all cases must speak for it;
- "holds in part" if at least as many speak for it as against it, and some do;
- "does not hold" otherwise.

Where it can be read in two ways, both readings are cases. Where there are two protocols, as published and as
described, or several clocks, it is judged by each, and holds in part if those that decide do not agree. What
follows from clocks differs from run to run. A sentence is left out if its results are not there, or nothing
in them bears on it.

Greedy or SHAP is "significantly" ahead if the experiment's interval for the difference has no 0 inside. These
are intervals over test rows. For retraining, where a protocol has several trainings, they are widened for the
verdict, so that they are over trainings too; a protocol with a single training is judged with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from reproduction import judging
from reproduction.judging import Finding, NothingToJudgeError
from reproduction.results import Result, Value, collected, joined_files

Topic = Literal["precision", "agreement", "pgi", "randomising", "retraining", "rankings"]

COLUMNS: Final = ("claim", "topic", "sentence", "where", "verdict", "evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """True if the results are about the models that the paper's authors saved."""

    authors_models: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Claim:
    """A sentence of the paper in our words, and how it is judged.

    `judge` takes the results named in `needs`, in this order. What is said about printed numbers, `printed`,
    is only judged on the models that they are about.
    """

    name: str
    topic: Topic
    sentence: str
    where: str  # in the paper
    needs: tuple[str, ...]
    judge: Callable[..., Finding]
    printed: bool = False


def run(config: Config, results: Mapping[str, Result]) -> Result:
    """A row per sentence that the results, given by the name of their experiment, can decide."""
    used = {name for claim in CLAIMS for name in claim.needs} & results.keys()
    files = joined_files(results[name] for name in used)
    return collected("claims", COLUMNS, config, [("all", _rows(config, results))], files)


def _rows(config: Config, results: Mapping[str, Result]) -> Iterator[tuple[Value, ...]]:
    for claim in CLAIMS:
        if results.keys() >= set(claim.needs) and (config.authors_models or not claim.printed):
            try:
                verdict, evidence = claim.judge(*(results[name] for name in claim.needs))
            except NothingToJudgeError:
                continue
            yield (claim.name, claim.topic, claim.sentence, claim.where, verdict, evidence)


# ---- the sentences -------------------------------------------------------------------------------

_ACCURACY: Final = "Experiments: exact vs Monte Carlo, Accuracy"
_EFFICIENCY: Final = "Experiments: exact vs Monte Carlo, Efficiency; Table 1"
_RANKING: Final = "Feature ranking using PG²; Table 2"
_PGI: Final = "Comparison with SHAP by PGI²"
_REMOVING: Final = "Comparison with SHAP by feature removing"

CLAIMS: Final = (
    Claim(
        name="mc-rate",
        topic="precision",
        sentence="The relative error of Monte Carlo falls as one over the root of the number of iterations.",
        where=_ACCURACY,
        needs=("precision",),
        judge=judging.mc_rate,
    ),
    Claim(
        name="error-falls",
        topic="precision",
        sentence="Overall, sampling comes closer to the exact gap the more iterations it has.",
        where=_ACCURACY,
        needs=("precision",),
        judge=judging.error_falls,
    ),
    Claim(
        name="qmc-lower",
        topic="precision",
        sentence="Quasi-Monte Carlo has a significantly smaller error than Monte Carlo.",
        where=_ACCURACY,
        needs=("precision",),
        judge=judging.qmc_lower,
    ),
    Claim(
        name="qmc-few",
        topic="precision",
        sentence="The advantage of quasi-Monte Carlo is largest when iterations are few.",
        where=_ACCURACY,
        needs=("precision",),
        judge=judging.qmc_few,
    ),
    Claim(
        name="summed-up",
        topic="precision",
        sentence=(
            "In the time of the exact method, MC has an NMAE of 0.13 for single trees and 0.01 for bigger "
            "models, QMC of about 0.05 and 0.002."
        ),
        where="Introduction",
        needs=("precision",),
        judge=judging.summed_up,
        printed=True,
    ),
    Claim(
        name="fall-shows-stability",
        topic="precision",
        sentence="The steady fall of sampling's error shows that the exact algorithm is numerically stable.",
        where=_ACCURACY,
        needs=("precision", "stability"),
        judge=judging.fall_shows_stability,
    ),
    Claim(
        name="stable",
        topic="precision",
        sentence="The exact algorithm, in float32 as in the paper, is numerically stable.",
        where="Conclusion",
        needs=("stability",),
        judge=judging.stable,
    ),
    Claim(
        name="zero-gaps",
        topic="precision",
        sentence="The true gap is often 0, for example when the noise is small.",
        where=_ACCURACY,
        needs=("stability",),
        judge=judging.zero_gaps,
    ),
    Claim(
        name="time-mc",
        topic="precision",
        sentence="In the time of an exact gap, plain Monte Carlo is noticeably less accurate.",
        where=_EFFICIENCY,
        needs=("equal-time",),
        judge=judging.time_mc,
    ),
    Claim(
        name="time-size",
        topic="precision",
        sentence="In equal time, the error of sampling is in general smaller for larger models.",
        where=_EFFICIENCY,
        needs=("equal-time",),
        judge=judging.time_size,
    ),
    Claim(
        name="time-scale",
        topic="precision",
        sentence="In equal time, Monte Carlo's error falls as σ grows.",
        where=_EFFICIENCY,
        needs=("equal-time",),
        judge=judging.time_scale,
    ),
    Claim(
        name="time-closest",
        topic="precision",
        sentence="Table 1 has the numbers of iterations closest in time to the exact algorithm.",
        where=_EFFICIENCY,
        needs=("equal-time",),
        judge=judging.time_closest,
        printed=True,
    ),
    Claim(
        name="exact-preferable",
        topic="precision",
        sentence="Those who want very accurate gaps, here to 1 %, are better off with the exact method.",
        where="Conclusion",
        needs=("equal-time",),
        judge=judging.exact_preferable,
    ),
    Claim(
        name="agreement-k",
        topic="agreement",
        sentence="Greedy's agreement with SHAP usually falls as k grows.",
        where=_RANKING,
        needs=("agreement",),
        judge=partial(judging.agreement_moves, "k", "scale", -1),
    ),
    Claim(
        name="agreement-scale",
        topic="agreement",
        sentence="Greedy's agreement with SHAP usually rises with σ: small noise brings out differences.",
        where=f"Introduction; {_RANKING}",
        needs=("agreement",),
        judge=partial(judging.agreement_moves, "scale", "k", 1),
    ),
    Claim(
        name="agreement-size",
        topic="agreement",
        sentence="Greedy's agreement with SHAP is usually lower for bigger models than for single trees.",
        where=_RANKING,
        needs=("agreement",),
        judge=judging.bigger_lower,
    ),
    Claim(
        name="agreement-first",
        topic="agreement",
        sentence="Greedy and SHAP name the same most important feature in less than 76 % of the rows.",
        where=_RANKING,
        needs=("agreement",),
        judge=judging.same_first,
    ),
    Claim(
        name="agreement-low",
        topic="agreement",
        sentence="In general, the rankings by greedy and by SHAP are quite different.",
        where=_RANKING,
        needs=("agreement",),
        judge=judging.mostly_different,
    ),
    Claim(
        name="pgi-average",
        topic="pgi",
        sentence="The printed scores are averages of PGI² over the data set.",
        where=f"{_PGI}; Table 3 and its twin for single trees",
        needs=("pgi",),
        judge=judging.pgi_average,
        printed=True,
    ),
    Claim(
        name="pgi-bigger",
        topic="pgi",
        sentence=(
            "For bigger models, greedy almost always has a higher average PGI² than SHAP, with a slight "
            "exception at σ' = 1, σ = 0.1."
        ),
        where=f"{_PGI}; Table 3",
        needs=("pgi",),
        judge=partial(judging.pgi_ahead, "Bigger"),
    ),
    Claim(
        name="pgi-single",
        topic="pgi",
        sentence=(
            "For single trees too, greedy has on average a higher PGI² than SHAP, except perhaps at σ' = 1, "
            "σ = 0.1."
        ),
        where="Introduction; Appendix, Table 3 for single trees",
        needs=("pgi",),
        judge=partial(judging.pgi_ahead, "Single"),
    ),
    Claim(
        name="pgi-own-scale",
        topic="pgi",
        sentence="Greedy does well: at each σ', none has a higher average PGI² than greedy with σ = σ'.",
        where=f"{_PGI}; Table 3 and its twin for single trees",
        needs=("pgi",),
        judge=judging.own_scale,
    ),
    Claim(
        name="randomising-draws",
        topic="randomising",
        sentence="The randomised features of test rows were drawn from the test set, 100 times.",
        where=f"{_REMOVING}; Appendix",
        needs=("randomising",),
        judge=judging.random_draws,
        printed=True,
    ),
    Claim(
        name="randomising-same",
        topic="randomising",
        sentence=(
            "With features randomised, greedy and SHAP do not differ significantly on wine, nor on Parkinson "
            "telemonitoring."
        ),
        where=f"{_REMOVING}; Appendix",
        needs=("randomising",),
        judge=judging.no_difference,
    ),
    Claim(
        name="randomising-housing",
        topic="randomising",
        sentence="With features randomised, greedy with σ of 0.1 or 0.3 is better than SHAP on housing.",
        where=f"{_REMOVING}; Appendix",
        needs=("randomising",),
        judge=judging.housing,
    ),
    Claim(
        name="randomising-not-worse",
        topic="randomising",
        sentence="With features randomised, greedy is better than SHAP or as good on every data set.",
        where="Introduction",
        needs=("randomising",),
        judge=judging.not_worse,
    ),
    Claim(
        name="retraining-settings",
        topic="retraining",
        sentence="Models were trained with the hyperparameters that the appendix lists.",
        where="Appendix, Models training",
        needs=("retraining",),
        judge=judging.settings,
        printed=True,
    ),
    Claim(
        name="retraining-shap",
        topic="retraining",
        sentence="By models trained without them, SHAP picks the most important features better than greedy.",
        where=f"Introduction; {_REMOVING}; Appendix",
        needs=("retraining",),
        judge=judging.shap_retrained,
    ),
    Claim(
        name="no-winner",
        topic="rankings",
        sentence="By removing features, greedy and SHAP can each be ahead, depending on data set and method.",
        where=_REMOVING,
        needs=("randomising", "retraining"),
        judge=judging.no_winner,
    ),
    Claim(
        name="other-first",
        topic="rankings",
        sentence="In general, greedy names another most important feature than SHAP.",
        where="Introduction; Conclusion",
        needs=("agreement",),
        judge=partial(judging.mostly_different, k=1),
    ),
    Claim(
        name="similar",
        topic="rankings",
        sentence="By several measures of faithfulness, greedy is about as good as SHAP.",
        where="Abstract; Conclusion",
        needs=("pgi", "randomising", "retraining"),
        judge=judging.similar,
    ),
)
"""In the order of the paper, by topic."""
