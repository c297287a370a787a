"""Threads for work that may be interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from predgap.algorithm1 import resolve_n_jobs


@contextmanager
def pool(n_jobs: int) -> Iterator[ThreadPoolExecutor]:
    """That many threads, -1 for all cores; on an error or an interruption they finish what they have begun,
    and drop the rest."""
    executor = ThreadPoolExecutor(resolve_n_jobs(n_jobs))
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)
