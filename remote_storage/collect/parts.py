"""The Parquet objects of a collection: decodes of neighbouring segments, and their batch headers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tiersnap.snapshot.collected.listing import CollectedDecode
from tiersnap.snapshot.collected.marker import Part, batches_of, new_name
from tiersnap.snapshot.log.segment_walk import SegmentEnd
from tiersnap.snapshot.replay.segment_runs import Run
from tiersnap.snapshot.tables.decodes import SEGMENTS, SegmentFile, StoredDecode, decode_batch
from tiersnap.snapshot.tables.spark_made_tables import RECORD_BATCHES, to_batch

MOST_DELTA_BYTES = 32 << 20
"""Uncompressed bytes of deltas in one object. A task of a run holds an object in memory."""
MOST_HEADER_BYTES = 32 << 20
"""Compressed bytes of headers in one object. They are in memory until the object is shipped."""
MOST_LOG_BYTES = 4 << 30
"""Bytes of segment files in one object. After a kill, these bytes must be read again."""
_ROW_GROUP_BYTES = 4 << 20


class DecodePart:
    """A Parquet object with SEGMENTS rows of neighbouring segments.

    If `with_batches` is True, a second object has their RECORD_BATCHES rows.
    """

    def __init__(self, base_offset: int, *, with_batches: bool) -> None:
        self.name = new_name(base_offset, Part.SEGMENTS)
        self.batches_name = batches_of(self.name) if with_batches else None
        self.decodes: dict[int, CollectedDecode] = {}
        self._rows = _ParquetBytes(SEGMENTS)
        self._batches = _ParquetBytes(RECORD_BATCHES) if with_batches else None
        self._log_bytes = 0
        self._delta_bytes = 0

    @property
    def is_full(self) -> bool:
        """Return whether the next segment must go to another object."""
        header_bytes = 0
        if self._batches is not None:
            header_bytes = self._batches.size
        return (
            self._log_bytes >= MOST_LOG_BYTES
            or self._delta_bytes >= MOST_DELTA_BYTES
            or header_bytes >= MOST_HEADER_BYTES
        )

    def add_batches(self, rows: np.ndarray, file: SegmentFile) -> None:
        """Add decoded batches (dtype RECORD_BATCH_DTYPE) of a segment."""
        if self._batches is not None:
            identity = {"log_dir": file.log_dir, "topic": file.topic, "partition": file.partition}
            self._batches.write(to_batch(rows, {**identity, "segment_base_offset": file.base_offset}))

    def add(self, file: SegmentFile, end: SegmentEnd, runs: list[Run]) -> None:
        """Add the decode of a segment."""
        rows = decode_batch([(StoredDecode(file, end, run=0), runs)])
        self._rows.write(rows)
        self._log_bytes += end.total_bytes
        self._delta_bytes += rows.nbytes
        self.decodes[file.base_offset] = CollectedDecode(
            file.base_offset,
            self.name,
            self.batches_name,
            file.next_base_offset,
            file.size_bytes,
            file.modified_ns,
            end.valid_bytes,
            end.last_offset + 1,
            tuple(run.start_offset for run in runs),
        )

    def objects(self) -> dict[str, bytes]:
        """Return the content of each object by name. After this call nothing can be added."""
        objects = {self.name: self._rows.finish()}
        if self.batches_name is not None and self._batches is not None:
            objects[self.batches_name] = self._batches.finish()
        return objects


class _ParquetBytes:
    """A Parquet file in memory, which is compressed while it grows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", write_page_checksum=True)
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self.size = 0  # compressed bytes of the finished row groups

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. A row group may contain several batches."""
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _ROW_GROUP_BYTES:
            self._end_row_group()

    def _end_row_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, schema=self._schema))
            self._waiting, self._bytes, self.size = [], 0, self._sink.tell()

    def finish(self) -> bytes:
        """Return the bytes of the file."""
        self._end_row_group()
        self._writer.close()
        return bytes(self._sink.getvalue())
