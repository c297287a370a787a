"""The output that each row is explained for: all together, one, or each row's own.

Each output has a kernel of its own: so every row has the answer of an explainer of that output alone, to the
last bit.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from predgap._inputs.outputs import OTHER_CLASS, Output, Outputs, OutputsOfRows, read_output
from predgap._inputs.row_labels import matching_rows
from predgap._model.ensemble import Ensemble
from predgap._model.other_class import has_other_class, of_other_class, other_margin
from predgap._text import count
from predgap._typing import FloatArray, IndexArray
from predgap.errors import OutputError

PREDICTED: Final = "predicted"
"""The class that is predicted in each row: of several outputs, the one with the largest margin."""


class OutputChoice:
    """What an explainer explains, `output` of `Explainer`: None for all outputs together, one of them for all
    rows, or one for each row.
    """

    def __init__(self, model: Ensemble, output: Any) -> None:
        self._model = model
        self._outputs = Outputs(model.n_outputs, model.class_names, has_other_class(model))
        self._index = getattr(output, "index", None) if hasattr(output, "to_list") else None
        self._given: Output | None = None if output is None else read_output(output)
        self._chosen: int | IndexArray | None = None
        if isinstance(self._given, str) and self._given == PREDICTED:
            self._check_classes()
            self._chosen = 0 if model.n_outputs == 1 and not has_other_class(model) else None
        elif self._given is not None:
            self._chosen = self._outputs.positions(self._given)
            self._outputs.warn_of_numbers(self._given)
        # Do rows have outputs of their own?
        self.vary = self._given is not None and not isinstance(self._chosen, int)

    @property
    def model(self) -> Ensemble:
        """The model with all its outputs."""
        return self._model

    def explained(self) -> Ensemble:
        """The model with the outputs that are explained: one of them, or all."""
        return self.one(self._chosen) if isinstance(self._chosen, int) else self._model

    def of_rows(self, rows: FloatArray, index: Any = None) -> IndexArray | None:
        """The output of each of the rows (n, d) of a call, with these labels; None if all have the same."""
        if self._predicts():
            margin = margins(self._model, rows)
            if self._model.n_outputs == 1:
                return np.where(margin > other_margin(self._model, margin), 0, OTHER_CLASS)
            largest: IndexArray = margin.argmax(axis=1)
            return largest
        if not isinstance(self._chosen, np.ndarray):
            return None
        if len(self._chosen) != len(rows):
            raise OutputError(
                f"output is given for {count(len(self._chosen), 'row')}, X has {len(rows)}; pass one per row"
            )
        own = matching_rows(self._index, index, "output", OutputError)
        return self._chosen if own is None else self._chosen[own]

    def of_made_up_rows(self, rows: FloatArray) -> IndexArray | None:
        """The output of each of some rows that are not of a table; outputs that were given are repeated."""
        if not isinstance(self._chosen, np.ndarray):
            return self.of_rows(rows)
        if len(self._chosen) == 0:
            raise OutputError("output has no entries; pass at least one")
        return np.resize(self._chosen, len(rows))

    def positions(self, outputs: IndexArray | None, n_rows: int) -> IndexArray | None:
        """The output that is explained in each row, (n,); None if all are explained together."""
        chosen = self._chosen if outputs is None else outputs
        return None if chosen is None else np.broadcast_to(chosen, n_rows)

    def own_margins(self, all_margins: FloatArray, positions: IndexArray) -> FloatArray:
        """The margin of the output that is explained in each row, (n, 1), from all of them (n, n_outputs)."""
        if self._outputs.has_other_class:
            other = other_margin(self._model, all_margins)
            return np.where(positions[:, None] == OTHER_CLASS, other, all_margins)
        return np.take_along_axis(all_margins, positions[:, None], axis=1)

    def in_rows(self, outputs: IndexArray | None) -> OutputsOfRows:
        """What is explained in rows with these outputs, to compare rankings with."""
        return OutputsOfRows(self._outputs, self._chosen if outputs is None else outputs)

    def of_ranking(self, outputs: IndexArray | None) -> Output | None:
        """What a ranking of rows with these outputs remembers; None if the model has one output."""
        if self._outputs.n == 1:
            return None
        return self._given if outputs is None else outputs

    def one(self, output: int) -> Ensemble:
        """The model of one output."""
        other = self._outputs.has_other_class and output == OTHER_CLASS
        return of_other_class(self._model) if other else self._model.select(output)

    def _predicts(self) -> bool:
        return self._chosen is None and self._given is not None

    def _check_classes(self) -> None:
        if self._model.n_outputs > 1 and self._model.class_names is None:
            raise OutputError(
                f"output={PREDICTED!r}: the {self._model.n_outputs} outputs of this model are not known to "
                "be classes. If they are, pass the output of each row, e.g. "
                "output=predgap.load(model).predict(X).argmax(axis=1)"
            )
        is_plain = self._model.link is None and self._model.class_names is None
        if self._model.n_outputs == 1 and not is_plain and not self._outputs.has_other_class:
            raise OutputError(
                f"output={PREDICTED!r}: predgap does not know which class a model of {self._model.source} "
                "predicts; if it has two, gaps are the same for both: leave output out"
            )


def margins(ensemble: Ensemble, rows: FloatArray) -> FloatArray:
    """The raw margins of rows that are cast already, (n,) or (n, n_outputs)."""
    return ensemble.predict(np.where(np.isnan(rows), ensemble.missing, rows))
