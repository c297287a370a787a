"""What an evaluation says, in plain sentences, and what it does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap._text import count, percent, printable

if TYPE_CHECKING:  # it imports this module
    from predgap.evaluation.result import Evaluation

_FEW_ROWS: Final = 30  # below which chance is named
_COARSE: Final = 1e-4  # a tolerance that is named
_FIXED: Final = {"gain": "by gain", "permutation": "by permutation importance"}


def verdict(evaluation: Evaluation) -> str:
    """The findings in a paragraph, and in a second one what the score does not say."""
    return "\n".join([" ".join(findings(evaluation)), limits(evaluation)])


def findings(evaluation: Evaluation) -> list[str]:
    """The sentences of the verdict: how good, compared with what, how certain."""
    if not evaluation.best.max(initial=0.0) > 0:
        return [_nothing_moves(evaluation)]
    focus = _focus(evaluation)
    if np.isnan(_row(evaluation, focus)["normalized"]):
        return [_no_scale(evaluation), *_cautions(evaluation)]
    return [_how_good(evaluation, focus), *_compared(evaluation, focus), *_cautions(evaluation)]


def limits(evaluation: Evaluation) -> str:
    """What the score does not say."""
    values = "that SHAP values are wrong as shares of a prediction, " if evaluation.shap else ""
    by_gaps = [name for name in evaluation.names if evaluation.words.get(name) in ("greedy", "optimal")]
    built = _listed([_title(evaluation, name) for name in by_gaps]) if by_gaps else ""
    to_be = "is" if len(by_gaps) == 1 else "are"
    raised = f" {built} {to_be} built to raise this score; that alone does not make a better explanation."
    return (
        "The score says how well a ranking puts those features first that move the model's prediction when "
        f"they are perturbed by {printable(str(evaluation.description['noise']))}. It does not say {values}"
        f"that the model is right, or what would happen in the world if a feature changed."
        + (raised if by_gaps else "")
    )


def _focus(evaluation: Evaluation) -> str:
    """The ranking that the verdict is about: SHAP if it is there, else the one with the highest score."""
    if evaluation.shap:
        return evaluation.shap[0]
    candidates = [name for name in evaluation.names if evaluation.words.get(name) != "optimal"]
    return max(candidates or evaluation.names, key=lambda name: _row(evaluation, name)["mean"])


def _nothing_moves(evaluation: Evaluation) -> str:
    return (
        f"No prediction changed in {_rows(evaluation)}: all gaps are 0, so that rankings cannot be compared. "
        "The noise may be too weak to cross a threshold of the model; try a stronger one, or other rows."
    )


def _no_scale(evaluation: Evaluation) -> str:
    """What to say if random is not below best."""
    if _is_estimated(evaluation, "random"):
        return (
            "No ranking that was found does better than random orders, so that scores cannot be placed "
            "between the two; with more time, more rankings are compared."
        )
    return (
        "All orders of the features have the same score in these rows, so that no ranking is better than "
        "another."
    )


def _how_good(evaluation: Evaluation, focus: str) -> str:
    row, title = _row(evaluation, focus), _title(evaluation, focus)
    best = "the best possible" if evaluation.best_is_proven.all() else "the best ranking that was found"
    low, high = row["normalized_low"], row["normalized_high"]
    between = (
        "" if np.isnan(low) or percent(low) == percent(high) else f" ({percent(low)} to {percent(high)} %)"
    )
    share = row["normalized"]
    if share < 0:
        scale = f"where random is 0 and {best} 100"
        worse = "is about as good as" if high >= 0 else "does worse than"
        how = f"{title} {worse} a random order: {percent(share)} %{between}, {scale}"
    else:
        how = f"{title} reaches {percent(share)} %{between} of the way from random to {best}"
    moving = evaluation.best > 0
    missed = int((~evaluation.first_moves_most[evaluation.names.index(focus), moving]).sum())
    n = int(moving.sum())
    if n == 1:
        is_first = "is not" if missed else "is"
        return f"In this row, {how}; its first feature {is_first} the one that moves the prediction most."
    if missed == 0:
        return f"{how}; in every row its first feature is the one that moves the prediction most."
    return f"{how}; in {_share(missed, n)} its first feature is not the one that moves the prediction most."


def _compared(evaluation: Evaluation, focus: str) -> list[str]:
    rivals = [n for n in evaluation.names if n != focus and evaluation.words.get(n) != "optimal"]
    n = len(evaluation.best)
    if not rivals:
        return ["It was compared with no other ranking."]
    if n == 1:
        return ["One row does not tell whether it is better than another ranking."]
    found = {name: evaluation.difference(name, focus) for name in rivals}
    better = [name for name, by in found.items() if by.differs and by.mean > 0]
    if better:
        return _better(evaluation, focus, better)
    if not any(by.differs for by in evaluation.differences):
        return [f"The differences between the rankings are no larger than chance makes them in {n} rows."]
    if not any(by.differs for by in found.values()):
        return [f"No other ranking differs from it by more than chance does in {n} rows."]
    alike = [_title(evaluation, name) for name, by in found.items() if not by.differs]
    others = (
        "The other ranking does not do better"
        if len(rivals) == 1
        else "None of the other rankings does better"
    )
    if not alike:
        return [f"{others}."]
    return [f"{others}; it cannot be told apart from {_listed(alike)} in {n} rows."]


def _better(evaluation: Evaluation, focus: str, better: list[str]) -> list[str]:
    """The ranking that does best, and a fixed order if one does better than the ranking in question."""

    def reached(name: str) -> str:
        return f"{percent(_row(evaluation, name)['normalized'])} %"

    title = _title(evaluation, focus)
    best = max(better, key=lambda name: _row(evaluation, name)["mean"])
    fixed = [name for name in better if evaluation.is_fixed(name)]
    if evaluation.is_fixed(focus) or not fixed:
        return [f"{_title(evaluation, best)} does better here: {reached(best)}."]
    first = max(fixed, key=lambda name: _row(evaluation, name)["mean"])
    by = _FIXED.get(evaluation.words.get(first) or "", f"called {_title(evaluation, first)}")
    sentences = [f"One fixed order for all rows, {by}, does better than {title} here: {reached(first)}."]
    if best != first:
        sentences.append(f"{_title(evaluation, best)} does best: {reached(best)}.")
    return sentences


def _cautions(evaluation: Evaluation) -> list[str]:
    said, n, rtol = [], len(evaluation.best), evaluation.description.get("rtol", 0.0)
    how = evaluation.obtained.get("pgi2", "exact")
    if how == "estimated":
        said.append("The scores are estimates, whose errors are not proven.")
    elif how.startswith("bounded") and rtol > _COARSE:
        said.append(f"The scores have a proven error of up to {100 * rtol:g} %.")
    if how != "estimated" and _is_estimated(evaluation, "random"):
        said.append("The score of random orders is an estimate, and so are the shares of the way.")
    still = int((evaluation.best == 0).sum())
    if still:
        where = _share(still, n)
        said.append(f"In {where} nothing moves the prediction; they are left out of shares of rows.")
    if not evaluation.best_is_proven.all():
        unproven = int((~evaluation.best_is_proven).sum())
        where = "" if unproven == n else f" in {_share(unproven, n)}"
        said.append(
            f"A better ranking than the best that was found may exist{where}; the shares would then be lower."
        )
    of = evaluation.description.get("of_rows", n)
    drawn = f", drawn at random from {of:,}" if of > n else ""
    if n < _FEW_ROWS:
        said.append(f"This is from {count(n, 'row')} only{drawn}: other rows may tell something else.")
    elif drawn:
        said.append(f"This is from {n} rows{drawn}.")
    return said


def _is_estimated(evaluation: Evaluation, what: str) -> bool:
    return evaluation.obtained.get(what, "exact").startswith("estimated")


def _row(evaluation: Evaluation, name: str) -> dict[str, Any]:
    return evaluation.summary[evaluation.names.index(name)]


def _title(evaluation: Evaluation, name: str) -> str:
    return "SHAP" if name == evaluation.words.get(name) == "shap" else printable(name)


def _rows(evaluation: Evaluation) -> str:
    n = len(evaluation.best)
    return "this row" if n == 1 else f"these {n} rows"


def _share(some: int, n: int) -> str:
    """How many of n rows: as a count if they are few, else in words of quarters or per cent.

    Examples
    --------
    >>> _share(3, 4), _share(75, 100), _share(31, 100), _share(400, 400)
    ('3 of 4 rows', '3 of 4 rows', '31 % of the rows', 'all rows')
    """
    if some == n:
        return "all rows"
    if n < 20:
        return f"{some} of {n} rows"
    for parts, whole in ((1, 2), (1, 3), (2, 3), (1, 4), (3, 4)):
        if abs(some / n - parts / whole) < 0.005:
            return f"{parts} of {whole} rows"
    whole = round(100 * some / n)
    return f"{whole} % of the rows" if 1 <= whole <= 99 else f"{some} of {n} rows"


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
