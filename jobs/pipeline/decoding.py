"""Stage 3, decode: reads the new and changed segments that a replay needs, and returns rows of the table `segments`.

Damage has the same FindingKind as in `tiersnap scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import of_batches
from tiersnap.snapshot.collected.source import read_decodes
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.segment_walk import SegmentWalk
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.decodes import Decoded, SegmentFile, StoredDecode, decode_batches, with_files
from tiersnap.snapshot.tables.deltas import NO_DELTAS
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

# Opening a file and writing a row cost about as much as reading this many bytes.
SEGMENT_OVERHEAD_BYTES = 1 << 18
LEAST_TASK_BYTES = 32 << 20
# A task reads this many bytes in one or two seconds. Short tasks can be repeated cheaply, and keep every core busy.
MOST_TASK_BYTES = 256 << 20
_FEW_TASKS = 8
# Spark assigns packs to tasks by hash. Several packs per task make the tasks about equally large.
_PACKS_PER_TASK = 8


@dataclass(frozen=True, slots=True)
class WantedSegment:
    """A segment to decode.

    Attributes:
        file: the segment's file.
        cuts: offsets inside the segment at which a replay needs a state.
        decode: name of the object with the segment's decode; None if the source is no collected folder.
        not_read: error of the earlier run that could not read this unchanged segment; None for other segments.
    """

    file: SegmentFile
    cuts: tuple[int, ...] = ()
    decode: str | None = None
    not_read: str | None = None


WANTED_ROWS = Rows(WantedSegment)
WANTED = WANTED_ROWS.schema


@dataclass(frozen=True)
class DecodeSegments:
    """The task that decodes segments: rows of WANTED to rows of SEGMENTS.

    Attributes:
        check_crc: check the CRC of each batch.
        run: number of the current run, for the column `run`.
    """

    check_crc: bool
    run: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the decode of each segment, from its file or from the collected folder.

        For an unreadable segment, yield a row with a finding. Yield nothing if an earlier decode has the same error.
        """
        for is_collected, rows in groupby(WANTED_ROWS.read(batches), key=lambda wanted: wanted.decode is not None):
            if not is_collected:
                yield from decode_batches(filter(None, map(self._decode, rows)))
                continue
            for (_, name), group in groupby(rows, key=_place):
                yield from self._take(name or "", list(group))

    def _take(self, name: str, wanted: Sequence[WantedSegment]) -> Iterator[pa.RecordBatch]:
        """Yield the decodes of segments that one object of a collected folder contains.

        If the object cannot be read completely, yield findings instead, because a partial decode is not used.
        """
        filesystem, folder = wanted[0].file.folder
        path = f"{folder}/{name}"
        files = {each.file.base_offset: each.file for each in wanted}
        try:
            read = list(read_decodes(filesystem, path, files.keys()))
        except OSError as error:
            finding = Finding(FindingKind.UNREADABLE_FILE, path, -1, error.strerror or str(error))
            yield from decode_batches(
                self._unread(each.file, finding) for each in wanted if each.not_read != finding.message
            )
            return
        for rows in read:
            yield with_files(rows, files, run=self.run)

    def _unread(self, file: SegmentFile, finding: Finding) -> Decoded:
        base, following = file.base_offset, file.next_base_offset
        walk = SegmentWalk("", base_offset=base, next_base_offset=following, check_crc=False, keep_rows=False)
        return StoredDecode(file, walk.end(0, finding), self.run), [Run(base, NO_DELTAS, -1)]

    def _decode(self, wanted: WantedSegment) -> Decoded | None:
        """Return the decode; None if reading fails with the same error as before."""
        file = wanted.file
        filesystem, _ = file.folder
        runs, end = fold_segment(filesystem, file.segment, cuts=wanted.cuts, check_crc=self.check_crc)
        if wanted.not_read is not None and end.finding is not None and end.finding.message == wanted.not_read:
            return None
        return StoredDecode(file, end, self.run), runs


def _place(wanted: WantedSegment) -> tuple[tuple[str, str, int], str | None]:
    file = wanted.file
    return (file.log_dir, file.topic, file.partition), wanted.decode


def wanted_segments(changes: DataFrame) -> DataFrame:
    """Return the segments to decode (schema WANTED), one row each. They are in the arrays `wanted` of `changes`."""
    one = F.explode("wanted").alias("segment")
    rows = changes.where("decode_count > 0").select(*PARTITION_KEY, one).select(*PARTITION_KEY, "segment.*")
    return rows.select(*WANTED.names)


@dataclass(frozen=True)
class Work:
    """The number and bytes of the segments to read. The number of tasks depends on both."""

    segments: int
    bytes: int

    @property
    def _weight(self) -> int:
        return self.bytes + self.segments * SEGMENT_OVERHEAD_BYTES

    @property
    def task_bytes(self) -> int:
        """Return the bytes that one task should read."""
        return min(max(self._weight // _FEW_TASKS, LEAST_TASK_BYTES), MOST_TASK_BYTES)

    @property
    def tasks(self) -> int:
        """Return the number of tasks."""
        return max(1, -(-self._weight // self.task_bytes))


def bytes_to_read() -> Column:
    """Return the number of bytes to read from a segment file; 0 if a collected folder contains the decode."""
    return F.when(F.isnull("decode"), F.col("size_bytes")).otherwise(0)


def decode(
    wanted: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    work: Work,
    *,
    schema: StructType = schemas.SEGMENTS,
) -> DataFrame:
    """Run `task` over the segments to decode, and return the rows that the task yields.

    Each task gets packs of neighbouring segments of a partition, in offset order.

    Args:
        wanted: the segments to decode (schema WANTED).
        task: takes batches of segments to decode (schema WANTED), and yields batches of `schema`.
        work: the amount to read, which determines the number of tasks.
        schema: schema of the result.
    """
    before = Window.partitionBy(*PARTITION_KEY).orderBy("base_offset")
    weight = F.sum(bytes_to_read() + SEGMENT_OVERHEAD_BYTES).over(before)
    packed = wanted.withColumn("_pack", (weight * _PACKS_PER_TASK / work.task_bytes).cast("long"))
    return (
        packed.repartition(work.tasks, *PARTITION_KEY, "_pack")
        .sortWithinPartitions(*PARTITION_KEY, "base_offset")
        .select(*WANTED.names)
        .mapInArrow(of_batches(task), schema)
    )


def work_of(wanted: DataFrame) -> Work:
    """Return the number and bytes of the segments to decode. The call runs a Spark job."""
    totals = wanted.agg(F.count("*").alias("segments"), F.sum("size_bytes").alias("bytes")).collect()[0]
    return Work(totals.segments, totals.bytes or 0)
