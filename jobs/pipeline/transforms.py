"""DataFrame -> DataFrame: the fold and the replay over tables, for whoever has the tables and not the log.

`run` folds inside the decode and never moves a batch through the JVM; these are for analysis on Spark, and say the
same. No session, no action and no input or output in here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.batches import SEGMENT_OF_BATCH
from tiersnap.jobs.pipeline.grouping import Key, by_key
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.producer_fold import DELTA_DTYPE, ProducerFold
from tiersnap.snapshot.tables import schemas as tables

ENTRIES = pa.schema(
    [
        *(tables.PRODUCER_DELTAS.field(name) for name in tables.PARTITION_KEY),
        pa.field("end_offset", pa.int64(), nullable=False),
        *(pa.field(name, pa.from_numpy_dtype(ENTRY_DTYPE[name]), nullable=False) for name in ENTRY_DTYPE.names or ()),
    ]
)


def fold(batches: DataFrame) -> DataFrame:
    """`record_batches` -> `producer_deltas`: one run a segment, folded in offset order."""
    return by_key(batches, SEGMENT_OF_BATCH, ["base_offset"], _fold_segment, schemas.PRODUCER_DELTAS)


def replay(deltas: DataFrame) -> DataFrame:
    """`producer_deltas` -> the snapshot entries at the end of each segment, nothing expired.

    `end_offset` is the base offset of the next segment that holds producers; the last one of a partition has none after
    it and gives no rows.
    """
    order = ["run_offset", "producer_id"]
    return by_key(deltas, tables.PARTITION_KEY, order, _replay_partition, schemas.of_arrow(ENTRIES))


def _fold_segment(key: Key, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    producers = ProducerFold()
    last = -1
    for batch in batches:
        rows = np.zeros(batch.num_rows, RECORD_BATCH_DTYPE)
        for name in RECORD_BATCH_DTYPE.names or ():
            rows[name] = batch.column(name).to_numpy(zero_copy_only=False)
        _require_order(rows["base_offset"], last, "base_offset")
        last = int(rows["base_offset"][-1]) if rows.size else last
        producers.add_batches(rows)
    deltas = producers.deltas()
    constants = [pa.repeat(value, deltas.size) for value in (*key, key[-1])]
    columns = [pa.array(np.ascontiguousarray(deltas[name])).cast(kind) for name, kind in tables.DELTA_FIELDS]
    yield pa.RecordBatch.from_arrays([*constants, *columns], schema=tables.PRODUCER_DELTAS)


def _replay_partition(key: Key, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    state = ProducerFold()
    current: int | None = None
    for batch in batches:
        offsets = batch.column("run_offset").to_numpy()
        _require_order(offsets, -1 if current is None else current - 1, "run_offset", strictly=False)
        deltas = _to_deltas(batch)
        bases = batch.column("segment_base_offset").to_numpy()
        for run_offset in np.unique(offsets):
            mine = offsets == run_offset
            starts_segment = bool((bases[mine] == run_offset).all())
            if current is not None and starts_segment and run_offset != current:
                yield _entries(key, int(run_offset), state)
            state.combine(deltas[mine])
            current = int(run_offset)


def _to_deltas(batch: pa.RecordBatch) -> np.ndarray:
    deltas = np.empty(batch.num_rows, DELTA_DTYPE)
    for name, _ in tables.DELTA_FIELDS:
        deltas[name] = batch.column(name).to_numpy(zero_copy_only=False)
    return deltas


def _entries(key: Key, end_offset: int, state: ProducerFold) -> pa.RecordBatch:
    entries = state.entries()
    constants = [pa.repeat(value, entries.size) for value in (*key, pa.scalar(end_offset, pa.int64()))]
    columns = [pa.array(np.ascontiguousarray(entries[name])) for name in ENTRY_DTYPE.names or ()]
    return pa.RecordBatch.from_arrays([*constants, *columns], schema=ENTRIES)


def _require_order(values: np.ndarray, last: int, name: str, *, strictly: bool = True) -> None:
    """A fold in another order is another fold, so the order is checked."""
    steps = np.diff(values, prepend=last)
    if (steps < (1 if strictly else 0)).any():
        raise ValueError(f"{name} does not ascend within a group: Spark did not keep the order of the sort")
