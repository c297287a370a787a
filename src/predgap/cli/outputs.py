"""Which output of a model `--output` means."""

from __future__ import annotations

import re
from typing import Final

from predgap import Ensemble, OutputError
from predgap._model.ensemble import has_other_class
from predgap._text import count, did_you_mean, format_items, shown

_PREDICTED: Final = "predicted"
_POSITION: Final = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)


def chosen_output(text: str | None, ensemble: Ensemble) -> int | str | None:
    """The label of a class, "predicted", or else a position, as `Explainer` takes them; OutputError, in words
    of the command line, if there is no such output."""
    labels, n = ensemble.class_names or (), ensemble.n_outputs
    if text is None:
        return None
    if text in labels:
        if text not in labels[-n:] and not has_other_class(ensemble):
            raise OutputError(
                f"--output {text}: of its two classes the model has one output, that of {labels[1]!r}; its "
                "gaps are the same for both: leave --output out"
            )
        return text
    if text == _PREDICTED:
        _check_predicts(ensemble)
        return text
    if _POSITION.fullmatch(text) and int(text) < n:
        return int(text)
    where = f"a position from 0 to {n - 1}" if n > 1 else "the position 0"
    if not labels:
        raise OutputError(
            f"--output {shown(text)}: the model has {count(n, 'output')} and does not tell the labels of "
            f"classes; expected {where}"
        )
    raise OutputError(
        f"--output: the model has no class {shown(text)}; {did_you_mean(text, labels)}its classes are "
        f"{format_items(labels)}; expected one of them, or {_PREDICTED}{'' if n == 1 else f', or {where}'}"
    )


def _check_predicts(ensemble: Ensemble) -> None:
    """OutputError if it is not known which class the model predicts."""
    labels, n = ensemble.class_names, ensemble.n_outputs
    if n > 1 and labels is None:
        raise OutputError(
            f"--output {_PREDICTED}: the {n} outputs of the model are not known to be classes; choose one by "
            f"its position, from 0 to {n - 1}"
        )
    if n == 1 and not (has_other_class(ensemble) or (labels is None and ensemble.link is None)):
        raise OutputError(
            f"--output {_PREDICTED}: it is not known which class a model of {ensemble.source} predicts; if "
            "it has two, gaps are the same for both: leave --output out"
        )
