"""Stage 3, decode: the segments that are new, have changed and are needed -> rows of `segments`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.snapshot.tables.schemas import PARTITION_KEY

# A file system's seek and a row of the table cost about as much as reading this much.
SEGMENT_OVERHEAD_BYTES = 1 << 18
LEAST_TASK_BYTES = 32 << 20
# A second or two of work, seconds over a network: a lost task costs little, and there are tasks for every core.
MOST_TASK_BYTES = 256 << 20
_FEW_TASKS = 8
# Packs are spread by their hash: several to a task even out.
_PACKS_PER_TASK = 8


def wanted_segments(changes: DataFrame) -> DataFrame:
    """Rows of changes.partition_changes -> WANTED rows."""
    one = F.explode("wanted").alias("segment")
    rows = changes.where("decode_count > 0").select(*PARTITION_KEY, one).select(*PARTITION_KEY, "segment.*")
    return rows.select(*schemas.WANTED.names)


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


def decode(
    wanted: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    work: Work,
    *,
    schema: StructType = schemas.SEGMENTS,
) -> DataFrame:
    """WANTED -> rows of `schema`, by tasks.DecodeSegments or tasks.DecodeBatches.

    Neighbouring segments of a partition go together, several such packs to a task.
    """
    before = Window.partitionBy(*PARTITION_KEY).orderBy("base_offset")
    bytes_to_read = F.when(F.isnull("decode"), F.col("size_bytes")).otherwise(0)
    weight = F.sum(bytes_to_read + SEGMENT_OVERHEAD_BYTES).over(before)
    packed = wanted.withColumn("_pack", (weight * _PACKS_PER_TASK / work.task_bytes).cast("long"))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(iter(batches))

    return (
        packed.repartition(work.tasks, *PARTITION_KEY, "_pack")
        .sortWithinPartitions(*PARTITION_KEY, "base_offset")
        .select(*schemas.WANTED.names)
        .mapInArrow(run, schema)
    )
