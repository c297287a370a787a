"""The rankings of the model's own library, for batch functions: by the words "shap" and "gain"."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from predgap._typing import IntArray
from predgap.errors import RankingError
from predgap.evaluation.importances import gains
from predgap.evaluation.own_model import own_model
from predgap.evaluation.shap_values import ShapValues
from predgap.explainer import Explainer
from predgap.explainer._arguments import Rows
from predgap.explainer._batch_answers import WORDS


@dataclass(frozen=True, slots=True, eq=False)
class ShapOrders:
    """Orders by absolute SHAP values."""

    model: Any  # an object of the library that computes them

    def order(self, explainer: Explainer, X: Any, rows: Rows) -> IntArray:
        """The units of each row, (n, d), largest first, ties to the lower index."""
        asked = copy.copy(explainer)
        asked.model = self.model
        sizes = ShapValues(asked, X).sizes(np.arange(len(rows)), rows)
        return np.argsort(-sizes, axis=1, kind="stable").astype(np.int32)


def _shap(explainer: Explainer) -> ShapOrders:
    own = own_model(explainer, "shap")  # raises if the model does not tell them
    is_file = isinstance(explainer.model, str | os.PathLike)  # a worker may not see it
    return ShapOrders(own.model if is_file else explainer.model)


def _gain(explainer: Explainer) -> IntArray:
    return np.argsort(-gains(explainer), kind="stable").astype(np.int32)


def _permutation(explainer: Explainer) -> IntArray:
    raise RankingError(
        "the ranking 'permutation' needs outcomes, which batches do not have; compute it before, and pass "
        "its order"
    )


WORDS.update({"shap": _shap, "gain": _gain, "permutation": _permutation})
