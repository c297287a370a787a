"""Worker processes that die: their batches are tried again, three times at most, and no other is lost."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deadly import Deadly
from predgap.runs.dataset import Part
from predgap.runs.workers import ATTEMPTS, PartTask, Workers


def tasks(*batches):
    for number, rows in enumerate(batches):
        sink = pa.BufferOutputStream()
        batch = pa.RecordBatch.from_pydict({"row": np.array(rows, dtype=np.int64)})
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield PartTask(Part(0, number, rows[0], len(rows)), sink.getvalue().to_pybytes())


@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_batch_that_kills_is_given_up_and_the_others_are_done(n_processes, tmp_path):
    once = tmp_path / "once"
    once.write_text("5")  # a worker that is killed once is not the fault of its batch
    with Workers(Deadly(once), n_processes, sets_aside=False) as workers:
        found = {
            task.part.number: (task, answer)
            for task, answer in workers.compute(tasks([1, 2], [13], [5, 6], [17, 18], [7]))
        }
        processes = [worker.process for worker in workers._workers]
    assert all(not process.is_alive() for process in processes)
    rows = {
        number: pq.read_table(io.BytesIO(answer.content))["row"].to_pylist()
        for number, (_, answer) in found.items()
        if answer is not None
    }
    assert rows == {0: [1, 2], 2: [5, 6], 4: [7]}
    assert not once.exists()
    killed, failed = found[1][0], found[3][0]
    assert (killed.attempts, failed.attempts) == (ATTEMPTS, ATTEMPTS)
    assert killed.error == "its worker process ended with exit code -9"
    assert failed.error == "ValueError: seventeen"
