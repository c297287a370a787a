"""A model and rows for the tests of engines, and their answers in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import xgboost

from predgap import Explainer, Relative

NAMES = ["age", "a.b", "in`come", "d"]
QUESTIONS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "rank": ((), {"top": 3}),
    "gap": ((["age", "d"],), {}),
    "curve": (("greedy",), {}),
    "pgi2": ((["d", "age", "a.b", "in`come"],), {}),
    "scores": ((["greedy", "shap", "gain", "random"],), {}),
}


def table(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Rows with missing values, a key of text and one of time, among the features."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(np.round(rng.normal(size=(n, 4)), 2), columns=NAMES)
    df.loc[df.index % 17 == 3, "d"] = np.nan
    df.insert(1, "id", [f"row {i}" for i in range(n)])
    df["at"] = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(np.arange(n), unit="h")
    return df


def explainer(n_estimators: int = 12) -> Explainer:
    X = table(400, seed=1)[NAMES]
    y = X["age"] * X["a.b"].abs() + X["in`come"] + 0.3 * X["d"].fillna(1.0)
    model = xgboost.XGBRegressor(n_estimators=n_estimators, max_depth=3, n_jobs=1).fit(X, y)
    return Explainer(model, Relative(X, 0.3))


def batch_of(df: pd.DataFrame) -> pa.RecordBatch:
    return pa.RecordBatch.from_pandas(df, preserve_index=False)


def asked(given: Explainer, what: str, schema: pa.Schema, keys: list[str] | None = None) -> Any:
    """The batch function of a question."""
    positional, named = QUESTIONS[what]
    name = {"gap": "subset", "scores": "rankings"}.get(what, "ranking")
    return given.batch_function(
        what, schema, keys=keys, **dict(zip([name], positional, strict=False)), **named
    )


def bits(rows: list[dict[str, Any]]) -> str:
    """All values; NaN is equal to NaN here, and 0 is not -0."""
    return repr([{name: _plain(value) for name, value in row.items()} for row in rows])


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, pd.Timestamp):
        return value.timestamp()
    return value.timestamp() if hasattr(value, "timestamp") else value


def expected(given: Explainer, df: pd.DataFrame, what: str, keys: list[str] | None = None) -> str:
    """The answers of one process, to the last bit."""
    batch = batch_of(df)
    return bits(asked(given, what, batch.schema, keys)(batch).to_pylist())
