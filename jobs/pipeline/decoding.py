"""Stage 3, decode: the segments that are new, have changed and are needed -> rows of `segments`.

Damage is named as `scan` names it.
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
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY

# A file system's seek and a row of the table cost about as much as reading this much.
SEGMENT_OVERHEAD_BYTES = 1 << 18
LEAST_TASK_BYTES = 32 << 20
# A second or two of work, seconds over a network: a lost task costs little, and there are tasks for every core.
MOST_TASK_BYTES = 256 << 20
_FEW_TASKS = 8
# Packs are spread by their hash: several to a task even out.
_PACKS_PER_TASK = 8


@dataclass(frozen=True, slots=True)
class WantedSegment:
    """A segment to decode.

    Attributes:
        cuts: offsets inside it at which a state is wanted.
        decode: of a collected folder: the object that holds the decode.
        not_read: why it could not be read before, where that alone is why it is wanted.
    """

    file: SegmentFile
    cuts: tuple[int, ...] = ()
    decode: str | None = None
    not_read: str | None = None


WANTED_ROWS = Rows(WantedSegment)
WANTED = WANTED_ROWS.schema


@dataclass(frozen=True)
class DecodeSegments:
    """WANTED rows -> SEGMENTS rows.

    Attributes:
        run: number of the run that decodes.
    """

    check_crc: bool
    run: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each segment, or take the decode that its host made.

        What cannot be read is a row with a finding, once for each reason.
        """
        for is_collected, rows in groupby(WANTED_ROWS.read(batches), key=lambda wanted: wanted.decode is not None):
            if not is_collected:
                yield from decode_batches(filter(None, map(self._decode, rows)))
                continue
            for (_, name), group in groupby(rows, key=_place):
                yield from self._take(name or "", list(group))

    def _take(self, name: str, wanted: Sequence[WantedSegment]) -> Iterator[pa.RecordBatch]:
        """Decodes out of one object of a collected folder: all of it or nothing, since a decode is never a part."""
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
        """Return the decode; None where it is as before: nothing has changed."""
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
    """Rows of changes.partition_changes -> WANTED rows."""
    one = F.explode("wanted").alias("segment")
    rows = changes.where("decode_count > 0").select(*PARTITION_KEY, one).select(*PARTITION_KEY, "segment.*")
    return rows.select(*WANTED.names)


@dataclass(frozen=True)
class Work:
    """The amount to read; its weight is spread evenly over tasks."""

    segments: int
    bytes: int

    @property
    def _weight(self) -> int:
        return self.bytes + self.segments * SEGMENT_OVERHEAD_BYTES

    @property
    def task_bytes(self) -> int:
        """Bytes that one task should read."""
        return min(max(self._weight // _FEW_TASKS, LEAST_TASK_BYTES), MOST_TASK_BYTES)

    @property
    def tasks(self) -> int:
        """Return the number of tasks."""
        return max(1, -(-self._weight // self.task_bytes))


def bytes_to_read() -> Column:
    """Return the bytes of a segment file; 0 of one that its host decoded."""
    return F.when(F.isnull("decode"), F.col("size_bytes")).otherwise(0)


def decode(
    wanted: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    work: Work,
    *,
    schema: StructType = schemas.SEGMENTS,
) -> DataFrame:
    """WANTED -> rows of `schema`: neighbouring segments of a partition go together, several such packs to a task."""
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
    """Return the cost of reading some WANTED rows."""
    totals = wanted.agg(F.count("*").alias("segments"), F.sum("size_bytes").alias("bytes")).collect()[0]
    return Work(totals.segments, totals.bytes or 0)
