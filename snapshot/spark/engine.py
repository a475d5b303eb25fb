"""Tasks on Spark executors: one plan row a Spark task, Arrow in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import SparkContext

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SparkEngine:
    """Runs tasks on the context of the session it is given."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self.parallelism = context.defaultParallelism

    def map(self, name: str, plan: pa.Table, task: Task, schema: pa.Schema) -> pa.Table:
        """Result rows of all plan rows, in no particular order."""
        rows = [_to_ipc(plan.schema, plan.slice(row, 1).to_batches()) for row in range(plan.num_rows)]
        if not rows:
            return schema.empty_table()
        self._context.setJobDescription(f"tiersnap: {name}")
        try:
            results = self._context.parallelize(rows, len(rows)).mapPartitions(_OverIpc(task, schema)).collect()
        finally:
            self._context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
        return pa.Table.from_batches([batch for result in results for batch in _from_ipc(result)], schema=schema)


class _OverIpc:
    """The task on plan rows as Arrow IPC streams, of which an RDD has the bytes."""

    def __init__(self, task: Task, schema: pa.Schema) -> None:
        self._task, self._schema = task, schema

    def __call__(self, streams: Iterable[bytes]) -> Iterator[bytes]:
        for stream in streams:
            yield _to_ipc(self._schema, self._task(_from_ipc(stream)))


def _to_ipc(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _from_ipc(stream: bytes) -> Iterator[pa.RecordBatch]:
    return iter(pa.ipc.open_stream(stream))
