"""The first of two classes that share one output, which belongs to the second."""

from __future__ import annotations

from dataclasses import replace

from predgap._model.ensemble import Ensemble
from predgap._typing import FloatArray


def has_other_class(model: Ensemble) -> bool:
    """Does the only output belong to one of two classes, so that the margin of the other one follows?"""
    known = model.link is not None and model.link.kind in ("identity", "logistic")
    return known and model.n_outputs == 1 and len(model.class_names or ()) == 2


def other_margin(model: Ensemble, margin: FloatArray) -> FloatArray:
    """The margins of the other class: 1 minus the probability, or the log-odds with the other sign."""
    is_probability = model.link is not None and model.link.kind == "identity"
    return (1.0 if is_probability else 0.0) - margin


def of_other_class(model: Ensemble) -> Ensemble:
    """The model whose output is that of the other class."""
    names = None if model.class_names is None else model.class_names[::-1]
    return replace(model, value=-model.value, bias=other_margin(model, model.bias), class_names=names)
