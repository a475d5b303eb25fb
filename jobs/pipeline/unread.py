"""Snapshot files that an earlier run could not read: a partition is changed if one gives another answer now.

Neither the size nor the time of a snapshot file says when it can be read, so each run tries those that it could not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.grouping import of_batches
from tiersnap.jobs.pipeline.known import newest_facts
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.log.file_system import read_bounded
from tiersnap.snapshot.replay.snapshot_comparison import why_not_read
from tiersnap.snapshot.rows import Int32, Rows
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.listed import partition_folder
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY


@dataclass(frozen=True, slots=True)
class UnreadSnapshot:
    """A snapshot file that an earlier run could not read.

    Attributes:
        object: of a collected folder; None where the file lies.
        not_read: why it could not be read.
    """

    log_dir: str
    topic: str
    partition: Int32
    end_offset: int
    object: str | None
    not_read: str | None

    def is_answered(self) -> bool:
        """Return whether it gives another answer now."""
        filesystem, folder = partition_folder(self.log_dir, self.topic, self.partition)
        try:
            read_bounded(filesystem, f"{folder}/{self.object or file_name(self.end_offset)}")
        except OSError as error:
            return why_not_read(error) != self.not_read
        return self.not_read is not None


_UNREAD_ROWS = Rows(UnreadSnapshot)
UNREAD = _UNREAD_ROWS.schema
ANSWERED = pa.schema([UNREAD.field(name) for name in PARTITION_KEY])


def look_again(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """UNREAD rows -> ANSWERED rows, one for each file that gives another answer than before."""
    for batch in batches:
        yield _UNREAD_ROWS.batch(each for each in _UNREAD_ROWS.read([batch]) if each.is_answered()).select(
            PARTITION_KEY
        )


def unread_snapshots(changes: DataFrame, listed: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return UNREAD rows of the partitions that are as they were replayed, by rows of `partition_changes`."""
    key = list(PARTITION_KEY)
    among = changes.where("unread_count > 0").select(*key)
    boundaries = newest_facts(partitions, among, [FactKind.BOUNDARY]).where("not_read is not null")
    files = listed.select(*key, F.explode("snapshots").alias("file")).select(*key, "file.end_offset", "file.object")
    unread = boundaries.select(*key, F.col("snapshot_offset").alias("end_offset"), "not_read")
    return files.join(unread, on=[*key, "end_offset"]).select(*UNREAD.names)


def look(unread: DataFrame) -> DataFrame:
    """UNREAD -> ANSWERED rows: the partitions of which a file gives another answer now."""
    return unread.mapInArrow(of_batches(look_again), of_arrow(ANSWERED)).distinct()


def answered(changes: DataFrame, answers: DataFrame) -> DataFrame:
    """`changes`, where partitions with ANSWERED rows have changed."""
    found = answers.withColumn("_answered", F.lit(True))
    joined = changes.join(found, on=list(PARTITION_KEY), how="left")
    return joined.withColumn("is_changed", F.expr("is_changed or coalesce(_answered, false)")).drop("_answered")
