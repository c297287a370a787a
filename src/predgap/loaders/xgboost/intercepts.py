"""Computes XGBoost's intercepts: `base_score` as a margin."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray
from predgap.errors import LoaderError, UnsupportedModelError

# The link function of each objective: files store `base_score` as a prediction, and the link turns it into a
# margin. All objectives of XGBoost 1.3 to 3.4 are here. Others are refused, since a wrong link shifts all
# margins.
_LINK_OF: Final = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logit"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"), "log"),
    **dict.fromkeys(
        (
            "binary:hinge",
            "binary:logitraw",
            "multi:softmax",
            "multi:softprob",
            "rank:map",
            "rank:ndcg",
            "rank:pairwise",
            "reg:absoluteerror",
            "reg:expectileerror",
            "reg:linear",
            "reg:pseudohubererror",
            "reg:quantileerror",
            "reg:squarederror",
            "reg:squaredlogerror",
        ),
        "identity",
    ),
}
_CLIPS_LOGIT: Final = (3, 2)  # the first version that clips the probability before taking its logit


def read_bias(text: str, objective: str, version: tuple[int, ...], n_outputs: int) -> FloatArray:
    """The intercepts as margins, computed in single precision as XGBoost does."""
    link = _LINK_OF.get(objective)
    if link is None or (objective == "reg:expectileerror" and n_outputs > 1):
        raise UnsupportedModelError(
            f"the objective {objective[:60]!r}{' with several alphas' if link else ''} is not known to "
            f"predgap, nor how it turns base_score into a margin; known are {', '.join(sorted(_LINK_OF))}"
        )
    score = _base_score(text, n_outputs)
    one = np.float32(1)
    with np.errstate(all="ignore"):
        if link == "log":
            score = np.log(score)
        elif link == "logit":
            if version >= _CLIPS_LOGIT and ((score >= 0) & (score <= 1)).all():
                score = np.clip(score, np.float32(1e-6), one - np.float32(1e-6))
            score = -np.log(one / score - one)
    if not np.isfinite(score).all():
        raise LoaderError(
            f"base_score {text[:60]} gives no finite margin for {objective}; set it and train again"
        )
    return np.broadcast_to(score, n_outputs) + np.float64(0)  # turns -0.0 into 0.0


def predicts_exponentials(objective: str) -> bool:
    """Is the prediction of this objective the exponential of the margin?"""
    return _LINK_OF.get(objective) == "log"


def _base_score(text: str, n_outputs: int) -> NDArray[np.float32]:
    """The number in the text, or (since XGBoost 3.1) the list of numbers."""
    try:
        score = np.array([float(part) for part in text.strip("[]").split(",")])
    except ValueError:
        score = np.empty(0)
    if score.size not in (1, n_outputs):
        raise LoaderError(f"base_score is {text[:60]!r}, expected one number or {n_outputs}")
    with np.errstate(over="ignore"):  # an overflow to infinity is refused later
        return score.astype(np.float32)
