"""Rankings for batch functions: the model's own, by the words "shap" and "gain", and those in a column."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from predgap._typing import IntArray
from predgap.errors import RankingError
from predgap.evaluation.importances import gains
from predgap.evaluation.own_model import own_model
from predgap.evaluation.requests import Request, given_order
from predgap.evaluation.shap_values import ShapValues
from predgap.explainer import Explainer
from predgap.explainer._batch_answers import WORDS, Asked, OrderMaker

if TYPE_CHECKING:  # PyArrow is optional
    import pyarrow as pa


@dataclass(frozen=True, slots=True, eq=False)
class ShapOrders(OrderMaker):
    """Orders by absolute SHAP values."""

    model: Any  # an object of the library that computes them

    def order(self, asked: Asked) -> IntArray:
        """The units of each row, (n, d), largest first, ties to the lower index."""
        explainer = copy.copy(asked.explainer)
        explainer.model = self.model
        sizes = ShapValues(explainer, asked.X).sizes(np.arange(len(asked.rows)), asked.rows)
        return np.argsort(-sizes, axis=1, kind="stable").astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnOrders(OrderMaker):
    """Rankings in a column of the batches, a list for each row: whole numbers are the numbers of features,
    most important first; others are attributions, one for each feature, and perhaps the bias."""

    column: str

    @staticmethod
    def can_read(kind: pa.DataType) -> bool:
        """Whether a column of this type has such lists."""
        import pyarrow.types as of

        is_list = of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind)
        return bool(is_list and (of.is_integer(kind.value_type) or of.is_floating(kind.value_type)))

    def order(self, asked: Asked) -> IntArray:
        """The units of each row, (n, k), most important first."""
        request = Request(self.column, self._lists(asked.batch.column(self.column)))
        return given_order(request, asked.explainer.explained, asked.rows)

    def _lists(self, lists: pa.Array) -> NDArray[Any]:
        """The lists as an array, (n, k)."""
        import pyarrow.compute as pc

        lengths = pc.list_value_length(lists)
        if lists.null_count or len(lengths.unique()) != 1:
            sizes = " and ".join(map(str, lengths.unique().to_pylist()))
            raise RankingError(f"column {self.column!r} has lists of {sizes} entries, expected one length")
        values = lists.flatten().to_numpy(zero_copy_only=False)
        return np.asarray(values).reshape(len(lists), -1)


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
