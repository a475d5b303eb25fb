"""Decodes as rows of the table `segments`, in parts of at most PART_DELTAS, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.codecs import RowCodec
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.segment_walk import SegmentEnd
from tiersnap.snapshot.replay.segment_runs import Run
from tiersnap.snapshot.tables.deltas import from_lists, parts, to_lists
from tiersnap.snapshot.tables.listed import ListedPartition, ListedSegment, partition_folder
from tiersnap.snapshot.tables.schemas import SEGMENTS


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's log file as it was listed."""

    log_dir: str
    topic: str
    partition: int
    topic_id: str | None
    base_offset: int
    next_base_offset: int | None
    size_bytes: int
    modified_ns: int

    @classmethod
    def of(cls, listed: ListedPartition, segment: ListedSegment) -> SegmentFile:
        """Return that of a segment of a listed partition."""
        return cls(
            *(listed.log_dir, listed.topic, listed.partition, listed.topic_id),
            *(segment.base_offset, segment.next_base_offset, segment.size_bytes, segment.modified_ns),
        )

    @property
    def folder(self) -> tuple[FileSystem, str]:
        """Return file system and folder of its partition."""
        return partition_folder(self.log_dir, self.topic, self.partition)


FILE_ROWS = RowCodec(SegmentFile)


@dataclass(frozen=True, slots=True)
class StoredDecode:
    """The end of a segment's decode, by the number of the run that decoded it; read, a finding has no path."""

    end: SegmentEnd
    file: SegmentFile
    run: int


_FINDING = {"kind": "finding_kind", "position": "finding_position", "message": "finding_message"}
_END_ROWS = RowCodec(
    SegmentEnd,
    columns={"size": "size_bytes", "last_offset": "log_end_offset"},
    shifted={"last_offset": 1},
    parts={"finding": RowCodec(Finding, columns=_FINDING, given={"path": ""})},
)
DECODE_ROWS = RowCodec(StoredDecode, parts={"end": _END_ROWS, "file": FILE_ROWS})
_OF_PART = ("part", "run_start_offset", "run_max_timestamp", "deltas")
# Of a batch, about a megabyte: Spark spends as much on a batch as on a thousand deltas.
_BATCH_DELTAS = 1 << 14
_OF_DECODE = pa.schema([field for field in SEGMENTS if field.name not in _OF_PART])


Decoded = tuple[StoredDecode, Sequence[Run]]


def decode_batches(decodes: Iterable[Decoded]) -> Iterator[pa.RecordBatch]:
    """Yield rows of SEGMENTS: many small decodes a batch, a large one alone or at the end of it."""
    waiting: list[Decoded] = []
    weight = 0
    for each in decodes:
        waiting.append(each)
        weight += sum(1 + run.deltas.size for run in each[1])
        if weight >= _BATCH_DELTAS:
            yield decode_batch(waiting)
            waiting, weight = [], 0
    if waiting:
        yield decode_batch(waiting)


def decode_batch(decodes: Sequence[Decoded]) -> pa.RecordBatch:
    """Return the rows of SEGMENTS of some decodes."""
    pieces = [[(run, piece) for run in runs for piece in parts(run.deltas)] for _, runs in decodes]
    numbers = pa.array([number for number, each in enumerate(pieces) for _ in each], pa.int32())
    repeated = DECODE_ROWS.batch((decode for decode, _ in decodes), _OF_DECODE).take(numbers)
    columns = dict(zip(repeated.schema.names, repeated.columns, strict=True))
    flat = [each for of_one in pieces for each in of_one]
    columns["part"] = pa.array([part for each in pieces for part in range(len(each))], pa.int32())
    columns["run_start_offset"] = pa.array([run.start_offset for run, _ in flat], pa.int64())
    columns["run_max_timestamp"] = pa.array([run.max_timestamp for run, _ in flat], pa.int64())
    columns["deltas"] = to_lists([piece for _, piece in flat])
    return pa.RecordBatch.from_arrays([columns[name] for name in SEGMENTS.names], schema=SEGMENTS)


def read_decodes(rows: pa.RecordBatch) -> Iterator[tuple[StoredDecode, Run]]:
    """Yield each row of SEGMENTS, with its part of a run."""
    starts, largest = (rows[name].to_numpy().tolist() for name in ("run_start_offset", "run_max_timestamp"))
    without = rows.select([name for name in rows.schema.names if name != "deltas"])
    of_parts = zip(DECODE_ROWS.read([without]), starts, from_lists(rows["deltas"]), largest, strict=True)
    for decode, start, deltas, timestamp in of_parts:
        yield decode, Run(start, deltas, timestamp)


def with_files(rows: pa.RecordBatch, files: Mapping[int, SegmentFile], *, run: int) -> pa.RecordBatch:
    """Return rows of SEGMENTS under the files that a run lists, by base offset."""
    listed = FILE_ROWS.batch(files[each.base_offset] for each in FILE_ROWS.read([rows.select(FILE_ROWS.names)]))
    columns = {name: (listed if name in listed.schema.names else rows)[name] for name in SEGMENTS.names}
    columns["run"] = pa.repeat(pa.scalar(run, pa.int64()), rows.num_rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in SEGMENTS.names], schema=SEGMENTS)
