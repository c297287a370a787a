"""A ranking for people and other libraries: its first rows as a table, its scores as a shap.Explanation."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap._inputs.tables import feature_values
from predgap._text import count
from predgap.errors import DependencyError, RankingError

if TYPE_CHECKING:  # it imports this module
    from predgap.ranking._ranking import Ranking

_ROWS: Final = 5
_PLACES: Final = 5


def shown_ranking(ranking: Ranking) -> tuple[list[str], list[list[Any]], str]:
    """The head, the rows and the caption of a table with the first rows and places."""
    n, k = ranking.order.shape
    n_rows, n_places = min(n, _ROWS), min(k, _PLACES)
    labels = range(n) if ranking.index is None else ranking.index
    names = ranking.names
    more = ["…"] if k > n_places else []
    head = ["row", *(f"place {place}" for place in range(1, n_places + 1)), *more]
    rows = [[labels[r], *(names[j] for j in ranking.order[r, :n_places]), *more] for r in range(n_rows)]
    features = f"{k}" if k == ranking.n_features else f"the first {k} of {ranking.n_features}"
    notes = ", ".join(note for note in (ranking.method, ranking.estimator, ranking.feature_space) if note)
    caption = f"Ranking of {features} features for {count(n, 'row')}" + (f" ({notes})" if notes else "")
    if n > n_rows:
        caption += f"; the first {n_rows} rows"
    return (head, rows, caption) if rows and k else ([], [], caption)


def to_explanation(ranking: Ranking, X: Any) -> Any:
    """The answer of `Ranking.to_shap`."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of shap about other libraries, as it is imported
            from shap import Explanation
    except ImportError:
        raise DependencyError("to_shap needs shap; try: pip install shap") from None
    if ranking.scores is None:
        raise RankingError("the ranking has no scores to show; pass Ranking(order, scores=...)")
    n, d = ranking.scores.shape
    data = None
    if X is not None:
        columns = feature_values(X, n, d, ranking.feature_names, ranking.index)
        objects = any(column.dtype == object for column in columns)
        data = np.empty((n, d), dtype=object if objects else np.float64)
        for j, column in enumerate(columns):
            data[:, j] = column
    return Explanation(
        values=np.nan_to_num(ranking.scores, nan=0.0),
        base_values=np.zeros(n),
        data=data,
        feature_names=list(ranking.names),
    )
