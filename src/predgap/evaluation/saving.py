"""Writes an evaluation to a file: the table as CSV or Parquet, everything as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from predgap._files import atomic_write
from predgap._inputs.tables import to_native
from predgap._text import no_formula
from predgap.errors import DependencyError, PredgapError

if TYPE_CHECKING:  # it imports this module
    from predgap.evaluation.result import Evaluation


def save(evaluation: Evaluation, path: Any) -> None:
    """Writes to `path`, by its suffix; the file appears complete or not at all."""
    target = Path(os.fspath(path))
    kind = target.suffix.lower()
    if kind == ".csv":
        content = _csv(evaluation)
    elif kind == ".parquet":
        content = _parquet(evaluation)
    elif kind == ".json":
        content = json.dumps(as_document(evaluation), ensure_ascii=False, allow_nan=False, indent=1).encode()
    else:
        raise PredgapError(
            f"cannot save an evaluation as {str(path)!r}; expected a name that ends in .csv or .parquet (the "
            "table) or .json (everything)"
        )
    atomic_write(Path(os.path.realpath(target)), content)


def as_document(evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation as texts, numbers, lists and dicts; NaN becomes None."""
    e = evaluation
    fields = {
        "names": e.names,
        "description": e.description,
        "notes": e.notes,
        "obtained": e.obtained,
        "verdict": e.verdict(),
        "summary": e.summary,
        "pairs": e.pairs,
        "agreement": e.agreement,
        "correlation": e.correlation,
        "feature_names": e.feature_names,
        "rows": e.rows,
        "index": None if e.index is None else [str(label) for label in e.index],
        "table": e.table,
        "predictions": e.predictions,
        "scores": e.scores,
        "normalized": e.normalized,
        "curves": e.curves,
        "orders": {name: ranking.order for name, ranking in e.rankings.items()},
        "random": e.random,
        "random_curve": e.random_curve,
        "best": e.best,
        "best_order": e.best_ranking.order,
        "best_curve": e.best_curve,
        "best_is_proven": e.best_is_proven,
        "single": e.single,
        "sweep": None if e.sweep is None else {"strengths": e.sweep.strengths, "scores": e.sweep.scores},
    }
    return {key: _plain(value) for key, value in fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _csv(evaluation: Evaluation) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(evaluation.summary[0])
    for row in evaluation.summary:
        writer.writerow([no_formula(value) if isinstance(value, str) else value for value in row.values()])
    return text.getvalue().encode()


def _parquet(evaluation: Evaluation) -> bytes:
    columns = {key: [row[key] for row in evaluation.summary] for key in evaluation.summary[0]}
    file = io.BytesIO()
    try:
        nw.from_native(to_native(columns, "pyarrow"), eager_only=True).write_parquet(file)
    except (ImportError, DependencyError):
        raise DependencyError(
            "a Parquet file needs pyarrow, not installed; try: pip install pyarrow"
        ) from None
    return file.getvalue()
