"""The table that a noise takes its scales and values from: all rows, or a sample of very many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from predgap import TableError

MOST_ROWS: Final = 100_000
"""Rows of DATA that a noise is taken from; of more rows, so many are drawn."""

_SEED: Final = 0


def sampled(blocks: Iterable[pa.Table], most: int = MOST_ROWS) -> tuple[pa.Table | None, int]:
    """Up to `most` rows of a table that comes in blocks (None if there are no blocks), and how many it has.

    Each row gets a random number, always the same, and those with the smallest ones are kept, in the order of
    the table. The sample does not depend on how the table is cut into blocks.

    Examples
    --------
    >>> table, n_rows = sampled([pa.table({"a": [1, 2]}), pa.table({"a": [3]})])
    >>> table["a"].to_pylist(), n_rows
    ([1, 2, 3], 3)
    """
    random = np.random.default_rng(_SEED)
    kept: pa.Table | None = None
    numbers, n_rows = np.empty(0), 0
    for block in blocks:
        n_rows += block.num_rows
        numbers = np.concatenate([numbers, random.random(block.num_rows)])
        kept = block if kept is None else pa.concat_tables([kept, block])
        if len(numbers) > most:
            chosen = np.sort(np.argpartition(numbers, most)[:most])
            kept, numbers = kept.take(pa.array(chosen)).combine_chunks(), numbers[chosen]
    return kept, n_rows


def check_rows(name: str, table: pa.Table | None) -> pa.Table:
    """The table; TableError if it has fewer than two rows, of which no noise can be taken."""
    n_rows = 0 if table is None else table.num_rows
    if n_rows < 2:
        raise TableError(
            f"{name}: the table has {'1 row' if n_rows else 'no rows'}, so its columns have no spread to "
            "scale the noise by; give the training table, --reference train.csv, or an absolute scale, such "
            "as --noise normal:0.3"
        )
    return table
