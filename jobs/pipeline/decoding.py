"""Stage 3, decode: the segments that are new, have changed and are needed -> rows of `segments`.

Damage is named as `scan` names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.changes import Keep
from tiersnap.jobs.pipeline.grouping import of_batches
from tiersnap.snapshot.log.findings import NOT_DAMAGED, Finding, FindingKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tasks.decode_segments import DecodeSegments

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
    """WANTED -> rows of `schema`: neighbouring segments of a partition go together, several such packs to a task."""
    before = Window.partitionBy(*PARTITION_KEY).orderBy("base_offset")
    bytes_to_read = F.when(F.isnull("decode"), F.col("size_bytes")).otherwise(0)
    weight = F.sum(bytes_to_read + SEGMENT_OVERHEAD_BYTES).over(before)
    packed = wanted.withColumn("_pack", (weight * _PACKS_PER_TASK / work.task_bytes).cast("long"))

    return (
        packed.repartition(work.tasks, *PARTITION_KEY, "_pack")
        .sortWithinPartitions(*PARTITION_KEY, "base_offset")
        .select(*schemas.WANTED.names)
        .mapInArrow(of_batches(task), schema)
    )


# `run` and `decode` number their rows; nobody keeps these.
_NO_RUN = 0
_MOST_SHOWN = 1_000


@dataclass(frozen=True)
class Damage:
    """The damage that was found: the first findings, in the order of the log, and counts of all by kind.

    `legacy_count` is of sound segments that end with entries of magic 0 or 1, which have no rows.
    """

    findings: Sequence[Finding] = ()
    counts: Mapping[FindingKind, int] = field(default_factory=dict)
    legacy_count: int = 0

    @property
    def kinds(self) -> list[FindingKind]:
        """Return the kinds of all findings."""
        return [kind for kind, count in self.counts.items() if count]

    @property
    def more(self) -> int:
        """Return how many are not among `findings`."""
        return sum(self.counts.values()) - len(self.findings)

    @property
    def damaged(self) -> int:
        """Return the number of findings of damage: neither a missing checkpoint nor a file that may not be read."""
        return sum(count for kind, count in self.counts.items() if kind not in NOT_DAMAGED)

    def behind(self, findings: Sequence[Finding]) -> Damage:
        """The same with findings before it, all of them."""
        counts = Counter(self.counts)
        counts.update(finding.finding_kind for finding in findings)
        return replace(self, findings=[*findings, *self.findings], counts=counts)


def work_of(wanted: DataFrame) -> Work:
    """Return the cost of reading some WANTED rows."""
    totals = wanted.agg(F.count("*").alias("segments"), F.sum("size_bytes").alias("bytes")).collect()[0]
    return Work(totals.segments, totals.bytes or 0)


def damage(listed: DataFrame, unread: DataFrame, keep: Keep, *, check_crc: bool) -> tuple[Damage, DataFrame]:
    """Return findings of a listing, and of segments whose rows end before the file does: those are read again.

    Gives also the rows of all findings, with PARTITION_KEY; they are cached. `unread` are rows of
    batches.unread_segments; in the active segment a tail that was being written is none.
    """
    work, rows, legacy_count = work_of(unread), _of_folders(listed), 0
    if work.segments:
        ends = keep(decode(unread, DecodeSegments(check_crc, _NO_RUN), work).where("part = 0"))
        legacy_count = ends.where("finding_kind is null and legacy_count > 0").count()
        rows = rows.unionByName(_of_segments(ends))
    rows = keep(rows)
    counts = {FindingKind(row.finding_kind): row["count"] for row in rows.groupBy("finding_kind").count().collect()}
    first = rows.orderBy(*SEGMENT_KEY, "path", "position").limit(_MOST_SHOWN).collect() if counts else []
    findings = [Finding(FindingKind(row.finding_kind), row.path, row.position, row.message) for row in first]
    return Damage(findings, counts, legacy_count), rows


def _of_folders(listed: DataFrame) -> DataFrame:
    rows = listed.select(*PARTITION_KEY, F.explode("findings").alias("finding"))
    return rows.select(*PARTITION_KEY, F.lit(-1).cast("long").alias("base_offset"), "finding.*")


def _of_segments(ends: DataFrame) -> DataFrame:
    return ends.where("finding_kind is not null").select(
        *SEGMENT_KEY,
        "finding_kind",
        F.format_string("%s/%s-%d/%020d.log", "log_dir", "topic", "partition", "base_offset").alias("path"),
        "position",
        "message",
    )
