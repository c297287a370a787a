"""The class `SubsetEngine`: the calls of the core that questions about many subsets of a row's units make."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from predgap import _core
from predgap._engine.accuracy import Accuracy
from predgap._engine.context import Context
from predgap._engine.kernels import ByteArray, Kernel, any_member, as_bytes
from predgap._typing import BoolArray, FloatArray, IntArray

Answer = tuple[FloatArray, FloatArray, ByteArray]
"""Gaps, (n,) or (n, k); the error bound of each row's gaps, (n,); codes of `_core.METHODS`, (n,)."""

BEAM_WIDTH: Final = 8
"""How many orders of each length a search keeps."""

_MOST_OF_A_ROW: Final = 1e3 * _core.MOST_SECONDS  # milliseconds


class SubsetEngine:
    """The kernel of a call, with its context. In all methods `rows` are (n, d) as the model casts them."""

    def __init__(self, kernel: Kernel, context: Context) -> None:
        self.kernel, self.context = kernel, context
        self.ensemble, self.used, self.members = kernel.ensemble, kernel.used, kernel.members
        self.n_units, self.features_of = kernel.n_units, kernel.features_of

    def gap(
        self, rows: FloatArray, masks: BoolArray, accuracy: Accuracy, context: Context | None = None
    ) -> Answer:
        """The gap of each row, (n,)."""
        asked = self._asked(rows, masks)
        return self.kernel.core.gap(asked, as_bytes(masks), *self._how(accuracy, context))

    def curve(self, rows: FloatArray, order: IntArray, accuracy: Accuracy) -> Answer:
        """The gaps (n, k) of the first unit of an order, the first two, and so on."""
        asked = self._asked(rows, self.features_of(order))
        return self.kernel.core.curve(asked, order, *self._how(accuracy, None), self.kernel.units)

    def greedy(self, rows: FloatArray, top: int, accuracy: Accuracy) -> IntArray:
        """The greedy order of the first `top` places, (n, top)."""
        asked = self._asked(rows, self.kernel.every)
        return self.kernel.core.rank(asked, "greedy", top, *self._how(accuracy, None), self.kernel.units)[0]

    def moving_units(self, rows: FloatArray) -> BoolArray:
        """Which units can change the prediction of each row, (n, n_units); all others never do."""
        kernel = self.kernel
        if kernel.background is None:
            core = kernel.independent("this")
            moving: ByteArray = core.moving_units(
                self._asked(rows, kernel.every), self.context.quiet(), kernel.units
            )[0]
            return moving.view(np.bool_)
        changes = np.zeros(rows.shape, dtype=np.bool_)
        for q in np.flatnonzero(self.used).tolist():
            values, x = kernel.background[:, q], rows[:, q]
            differ = (values[None] != x[:, None]) & ~(np.isnan(values)[None] & np.isnan(x)[:, None])
            changes[:, q] = differ.any(axis=1)
        return changes if self.members is None else any_member(changes, self.members)

    def subset_gaps(
        self, rows: FloatArray, chosen: IntArray, share: FloatArray, accuracy: Accuracy, context: Context
    ) -> Answer:
        """The gaps (n, 2^m) of all subsets of some units (n, m) of each row; bit i of a subset's number says
        whether it has the row's unit i.

        A tolerance is relative to the sum over sizes of `share` (m + 1,) times the mean gap of that size.
        """
        if self.kernel.moves_together:
            self._refuse_if_slow(self.box_milliseconds(rows, chosen.shape[1])[:, 2])
        asked = self._asked(rows, self.kernel.every)
        return self.kernel.core.subset_gaps(
            asked, chosen, share, *self._how(accuracy, context), self.kernel.units
        )

    def search(
        self, rows: FloatArray, chosen: IntArray, n_places: int, accuracy: Accuracy, context: Context
    ) -> tuple[IntArray, FloatArray]:
        """Orders of some of the units (n, m) with large gaps, by a beam search: orders and gaps of their
        prefixes, (n, n_places) each."""
        asked = self._asked(rows, self.kernel.every)
        return self.kernel.core.search(
            asked, chosen, n_places, BEAM_WIDTH, *self._how(accuracy, context), self.kernel.units
        )[:2]

    def milliseconds(
        self, rows: FloatArray, question: str, masks: BoolArray, n: int, accuracy: Accuracy
    ) -> FloatArray:
        """What a question would take, (n,); see `Kernel.prices`."""
        return self.kernel.prices(rows, question, masks, n, accuracy).milliseconds

    def tossing(self, t: float, features: BoolArray) -> SubsetEngine:
        """The same, with each of some features (d,) moving with probability t and else staying."""
        return SubsetEngine(self.kernel.tossing(t, features), self.context)

    # ---- of a background ----

    @property
    def most_of_a_pair(self) -> int:
        """How large p + n can be in the weights of `mean_gap` and `shapley`."""
        core: Any = self.kernel.core
        return int(core.most_of_a_pair)

    def mean_gap(self, rows: FloatArray, weights: FloatArray, context: Context) -> FloatArray:
        """The mean gap (n,) of a random subset, which has p given units and lacks n others with probability
        weights[p, n]."""
        self._refuse_if_slow(self.box_milliseconds(rows)[:, 0])
        core: Any = self.kernel.core
        found: FloatArray = core.mean_gap(
            self._asked(rows, self.kernel.every), weights, context, self.kernel.units
        )[0]
        return found

    def shapley(self, rows: FloatArray, gained: FloatArray, lost: FloatArray, context: Context) -> FloatArray:
        """The Shapley values (n, n_units) of the gap, from what each of p units that a subset must have
        gains, and each of n others loses."""
        self._refuse_if_slow(self.box_milliseconds(rows)[:, 1])
        core: Any = self.kernel.core
        found: FloatArray = core.shapley(
            self._asked(rows, self.kernel.every), gained, lost, context, self.kernel.units
        )[0]
        return found

    def box_milliseconds(self, rows: FloatArray, n_chosen: int = 0) -> FloatArray:
        """What `mean_gap`, `shapley` and `subset_gaps` of so many units would take, (n, 3)."""
        core: Any = self.kernel.core
        asked = self._asked(rows, self.kernel.every)
        found: FloatArray = core.box_costs(asked, n_chosen, self.context.quiet(), self.kernel.units)[0]
        return found

    def _asked(self, rows: FloatArray, masks: BoolArray) -> Any:
        self.context.look(0)
        return self.kernel.rows(rows, masks)

    def _how(self, accuracy: Accuracy, context: Context | None) -> tuple[Any, Context]:
        return self.kernel.accuracy(accuracy), self.context.quiet() if context is None else context

    def _refuse_if_slow(self, milliseconds: FloatArray) -> None:
        """CostError if one of the rows would take longer than it may."""
        if milliseconds.max(initial=0.0) > _MOST_OF_A_ROW:
            row, core = int(milliseconds.argmax()), cast(_core.Joint, self.kernel.core)
            raise self.kernel.refusal(
                self.context.call, row, float(milliseconds[row]), core.cost("gap", 0, 0)[1]
            ) from None
