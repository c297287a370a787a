"""Answers for Spark DataFrames, classic or Connect: `rank`, `gap`, `curve`, `pgi2` and `scores`.

Needs `pip install 'predgap[spark]'`, and predgap on the workers. `import predgap` does not import it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from predgap._clusters import ColumnPlaces, FrameFunctions
from predgap.explainer import BatchFunction

if TYPE_CHECKING:  # optional
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

__all__ = ["curve", "gap", "pgi2", "rank", "scores"]


class _SparkFunctions(FrameFunctions["DataFrame"]):
    engine = "spark"

    def reads(self, df: Any) -> bool:
        from pyspark.sql import DataFrame

        return isinstance(df, DataFrame)

    def names(self, df: DataFrame) -> list[str]:
        return list(df.columns)

    def mapped(self, df: DataFrame, function: BatchFunction, columns: ColumnPlaces) -> DataFrame:
        from pyspark import cloudpickle
        from pyspark.sql.types import StructField, StructType

        names = df.columns
        keys = [df.schema[j] for j in columns.keys]
        answers = [StructField(each.name, _spark_type(each.type)) for each in function.schema]
        payload = cloudpickle.dumps(function)
        explain = _explaining(
            df.sparkSession.sparkContext.broadcast(payload) if _is_classic(df) else payload,
            [names[j] for j in columns.features],
            [names[j] for j in columns.keys],
        )
        numbered = df.toDF(*(f"c{j}" for j in range(len(names))))  # mapInArrow does not take dots in names
        used = [f"c{j}" for j in (*columns.features, *columns.keys)]  # the others need not travel to Python
        return numbered.select(used).mapInArrow(explain, StructType([*keys, *answers]))


def _is_classic(df: DataFrame) -> bool:
    """True if the session runs in this process: only then are there broadcasts."""
    return type(df).__module__.startswith("pyspark.sql.classic")


def _spark_type(kind: pa.DataType) -> Any:
    """The type of a column of answers."""
    import pyarrow as pa
    from pyspark.sql import types

    if pa.types.is_list(kind):
        return types.ArrayType(_spark_type(kind.value_type))
    known = {"int32": types.IntegerType, "double": types.DoubleType, "bool": types.BooleanType}
    return known.get(str(kind), types.StringType)()


def _explaining(
    carried: bytes | Broadcast[bytes], features: list[str], keys: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark calls with the batches of a partition: features, then keys."""

    def explain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        function = _unpacked(carried if isinstance(carried, bytes) else carried.value)
        names = [*keys, *function.schema.names]
        for batch in batches:
            answers = function(pa.RecordBatch.from_arrays(batch.columns[: len(features)], names=features))
            yield pa.RecordBatch.from_arrays([*batch.columns[len(features) :], *answers.columns], names=names)

    return explain


@lru_cache(maxsize=4)
def _unpacked(payload: bytes) -> BatchFunction:
    """The function; its kernels are built once in a process, which does many tasks."""
    function: BatchFunction = pickle.loads(payload)
    return function


_functions = _SparkFunctions()
rank = _functions.rank
gap = _functions.gap
curve = _functions.curve
pgi2 = _functions.pgi2
scores = _functions.scores
