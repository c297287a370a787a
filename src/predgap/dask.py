"""Answers for Dask DataFrames: `rank`, `gap`, `curve`, `pgi2` and `scores`.

Needs `pip install 'predgap[dask]'`, and predgap on the scheduler and the workers. `import predgap` does not
import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from predgap._clusters import ColumnPlaces, FrameFunctions
from predgap.explainer import BatchFunction

if TYPE_CHECKING:  # optional
    import pandas as pd
    import pyarrow as pa
    from dask.dataframe import DataFrame

__all__ = ["curve", "gap", "pgi2", "rank", "scores"]


class _DaskFunctions(FrameFunctions["DataFrame"]):
    engine = "dask"

    def reads(self, df: Any) -> bool:
        from dask.dataframe import DataFrame

        return isinstance(df, DataFrame)

    def names(self, df: DataFrame) -> list[str]:
        return [str(name) for name in df.columns]

    def mapped(self, df: DataFrame, function: BatchFunction, columns: ColumnPlaces) -> DataFrame:
        import dask

        meta = _joined(df._meta.iloc[:, list(columns.keys)], function.schema.empty_table())
        # a task of its own: a worker gets the function once, and again if it was lost
        carried = dask.delayed(function, pure=True)
        return df.map_partitions(_explained, carried, columns, meta=meta, enforce_metadata=False)


def _explained(part: pd.DataFrame, function: BatchFunction, columns: ColumnPlaces) -> pd.DataFrame:
    """The answers for one partition."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_pandas(part.iloc[:, list(columns.features)], preserve_index=False)
    return _joined(part.iloc[:, list(columns.keys)], pa.Table.from_batches([function(batch)]))


def _joined(keys: pd.DataFrame, answers: pa.Table) -> pd.DataFrame:
    """The keys and the answers of the same rows."""
    import pandas as pd

    columns: pd.DataFrame = answers.to_pandas(types_mapper=_pandas_type)
    columns.index = keys.index
    return pd.concat([keys, columns], axis=1)


def _pandas_type(kind: pa.DataType) -> Any:
    """The type of a column in pandas; one that does not depend on its values, as that of objects would."""
    import pandas as pd
    import pyarrow as pa

    if pa.types.is_list(kind):
        return pd.ArrowDtype(kind)
    return pd.StringDtype("pyarrow") if pa.types.is_string(kind) else None


_functions = _DaskFunctions()
rank = _functions.rank
gap = _functions.gap
curve = _functions.curve
pgi2 = _functions.pgi2
scores = _functions.scores
