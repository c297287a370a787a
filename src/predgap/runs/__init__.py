"""Long runs: a batch function over Parquet files, part by part, which can be killed and continued."""

from predgap.runs.dataset import DataSet, open_dataset
from predgap.runs.run import Report, Run, RunOptions

__all__ = ["DataSet", "Report", "Run", "RunOptions", "open_dataset"]
