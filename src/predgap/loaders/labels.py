"""Classes: their labels as text, and how their probabilities follow from margins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from predgap._model.links import Link

__all__ = ["class_names", "estimator_link", "numbered"]


def class_names(labels: Iterable[Any], n_outputs: int) -> tuple[str, ...] | None:
    """The labels of a classifier's classes as text; None if they do not fit its outputs.

    They fit if there is one per output; if there are two for one output, which then belongs to the second
    class; and if all differ as text. Labels only name outputs, so a model without fitting ones still loads.

    Examples
    --------
    >>> class_names([False, True], 1)
    ('False', 'True')
    >>> class_names(["low", "mid", "high"], 1)
    """
    names = tuple(map(str, labels))
    fits = len(names) == n_outputs or (len(names) == 2 and n_outputs == 1)
    return names if fits and len(set(names)) == len(names) else None


def numbered(n_outputs: int, *, binary: bool) -> tuple[str, ...] | None:
    """The labels 0, 1, ... of libraries that number classes; None for a binary objective of several outputs,
    each of which is a model of its own."""
    if binary:
        return ("0", "1") if n_outputs == 1 else None
    return class_names(range(n_outputs), n_outputs)


def estimator_link(model: Any, n_outputs: int) -> Link | None:
    """How the probabilities of a scikit-learn model follow from its margins; None if it predicts these."""
    if not isinstance(getattr(model, "classes_", None), np.ndarray):
        is_other = getattr(model, "loss", None) in ("poisson", "gamma") or hasattr(model, "score_samples")
        return Link("other") if is_other else None  # a log link, or the score of an isolation forest
    if hasattr(model, "estimator_weights_"):  # AdaBoost
        return Link("logistic") if n_outputs == 1 else Link("softmax", 1.0 / (n_outputs - 1))
    if "GradientBoosting" not in type(model).__name__:
        return Link("identity")
    if model.loss == "exponential":
        return Link("logistic", 2.0)
    return Link("logistic" if n_outputs == 1 else "softmax")
