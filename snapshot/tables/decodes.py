"""Decodes of segments as rows of the table `segments`. Each row has at most PART_DELTAS deltas of a decode."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.columns import (
    BaseOffset,
    LogDir,
    ModifiedNs,
    NextBaseOffset,
    PartitionNumber,
    RunNumber,
    SizeBytes,
    Topic,
    TopicId,
)
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.log.segment_walk import SegmentEnd
from tiersnap.snapshot.replay.segment_runs import Run
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.deltas import from_lists, parts, to_lists
from tiersnap.snapshot.tables.listed import ListedPartition, ListedSegment, partition_folder
from tiersnap.snapshot.tables.schema_parts import DELTA, field_of, schema_of


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's log file, with its size and modification time at the time of the listing."""

    log_dir: LogDir
    topic: Topic
    partition: PartitionNumber
    topic_id: TopicId | None
    base_offset: BaseOffset
    next_base_offset: NextBaseOffset
    size_bytes: SizeBytes
    modified_ns: ModifiedNs

    @classmethod
    def of(cls, listed: ListedPartition, segment: ListedSegment) -> SegmentFile:
        """Return the log file of a listed segment."""
        return cls(
            *(listed.log_dir, listed.topic, listed.partition, listed.topic_id),
            *(segment.base_offset, segment.next_base_offset, segment.size_bytes, segment.modified_ns),
        )

    @property
    def folder(self) -> tuple[FileSystem, str]:
        """Return the file system and the path of the partition's folder."""
        return partition_folder(self.log_dir, self.topic, self.partition)

    @property
    def segment(self) -> Segment:
        """Return the segment with its log file, without indexes."""
        path = f"{self.folder[1]}/{self.base_offset:020d}.log"
        return Segment(self.base_offset, self.next_base_offset, FileRef(path, self.size_bytes, self.modified_ns))


FILE_ROWS = Rows(SegmentFile)


@dataclass(frozen=True, slots=True)
class StoredDecode:
    """The result of a segment's decode without its deltas, with the number of the run that decoded the segment."""

    file: SegmentFile
    end: SegmentEnd
    run: RunNumber


DECODE_ROWS = Rows(StoredDecode)
# A row has a part of one range of batches (Run).
SEGMENTS = schema_of(
    *DECODE_ROWS.schema,
    field_of("part", pa.int32(), "number of the part of the decode, ascending from 0"),
    field_of("run_start_offset", pa.int64(), "offset at which the part's range of batches begins"),
    field_of("run_max_timestamp", pa.int64(), "ms, largest timestamp of the range; -1 if no batch has one"),
    field_of("deltas", pa.list_(DELTA), "producer deltas of the range, at most 2,000 per row"),
)
# About a megabyte per batch. Spark needs as much time for a batch as for a thousand deltas.
_BATCH_DELTAS = 1 << 14
_MOST_DELTAS = 1 << 15


Decoded = tuple[StoredDecode, Sequence[Run]]
_Row = tuple[StoredDecode, int, Run, np.ndarray]  # the int is the part, counted through the whole decode


def decode_batches(decodes: Iterable[Decoded]) -> Iterator[pa.RecordBatch]:
    """Yield batches of SEGMENTS. A batch contains many small decodes, or a part of a large one.

    The rows of a large decode are released before the next decode is made.
    """
    waiting: deque[_Row] = deque()
    weight = 0
    for rows in map(_rows_of, decodes):
        weight += _weight(rows)
        waiting.extend(rows)
        rows.clear()  # else `rows` keeps this decode in memory while the next one is made
        if weight >= _BATCH_DELTAS:
            while waiting:
                yield _batch(_first(waiting))
            weight = 0
    if waiting:
        yield _batch(waiting)


def decode_batch(decodes: Sequence[Decoded]) -> pa.RecordBatch:
    """Return the rows of SEGMENTS of several decodes as one batch."""
    return _batch(list(chain.from_iterable(map(_rows_of, decodes))))


def _rows_of(decoded: Decoded) -> list[_Row]:
    decode, runs = decoded
    pieces = ((run, piece) for run in runs for piece in parts(run.deltas))
    return [(decode, part, run, piece) for part, (run, piece) in enumerate(pieces)]


def _weight(rows: Iterable[_Row]) -> int:
    return sum(1 + piece.size for *_, piece in rows)


def _first(waiting: deque[_Row]) -> list[_Row]:
    """Remove the rows of one batch from `waiting` and return them."""
    taken = [waiting.popleft()]
    weight = _weight(taken)
    while waiting and weight < _MOST_DELTAS:
        taken.append(waiting.popleft())
        weight += _weight(taken[-1:])
    return taken


def _batch(rows: Collection[_Row]) -> pa.RecordBatch:
    stored = DECODE_ROWS.batch(decode for decode, *_ in rows)
    columns = dict(zip(stored.schema.names, stored.columns, strict=True))
    columns["part"] = pa.array([part for _, part, _, _ in rows], pa.int32())
    columns["run_start_offset"] = pa.array([run.start_offset for _, _, run, _ in rows], pa.int64())
    columns["run_max_timestamp"] = pa.array([run.max_timestamp for _, _, run, _ in rows], pa.int64())
    columns["deltas"] = to_lists([piece for *_, piece in rows])
    return pa.RecordBatch.from_arrays([columns[name] for name in SEGMENTS.names], schema=SEGMENTS)


def read_decodes(rows: pa.RecordBatch) -> Iterator[tuple[StoredDecode, Run]]:
    """Yield (decode, run) for each row of SEGMENTS. The run contains only the deltas in this row."""
    starts, largest = (rows[name].to_numpy().tolist() for name in ("run_start_offset", "run_max_timestamp"))
    without = rows.select([name for name in rows.schema.names if name != "deltas"])
    of_parts = zip(DECODE_ROWS.read([without]), starts, from_lists(rows["deltas"]), largest, strict=True)
    for decode, start, deltas, timestamp in of_parts:
        yield decode, Run(start, deltas, timestamp)


def with_files(rows: pa.RecordBatch, files: Mapping[int, SegmentFile], *, run: int) -> pa.RecordBatch:
    """Return rows of SEGMENTS with the log files of a new listing.

    Args:
        files: listed log files by base offset.
        run: number of the run that listed them.
    """
    listed = FILE_ROWS.batch(files[each.base_offset] for each in FILE_ROWS.read([rows.select(FILE_ROWS.names)]))
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns.update(zip(listed.schema.names, listed.columns, strict=True))
    columns["run"] = pa.repeat(pa.scalar(run, pa.int64()), rows.num_rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in SEGMENTS.names], schema=SEGMENTS)
