"""Snapshot files that an earlier run could not read. Each run tries again to read them.

If a file can be read now, or fails with another error, its partition is replayed. Only an attempt to read shows this,
because the size and time of the file may be unchanged.
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
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY


@dataclass(frozen=True, slots=True)
class UnreadSnapshot:
    """A snapshot file that an earlier run could not read.

    Attributes:
        end_offset: offset in the file's name.
        object: name of the object in a collected folder; None in a log directory.
        not_read: the earlier read error.
    """

    log_dir: str
    topic: str
    partition: Int32
    end_offset: int
    object: str | None
    not_read: str | None

    def is_answered(self) -> bool:
        """Return whether the file can be read now, or fails with another error."""
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
    """Read the files again. Yield the partitions of the files for which `is_answered` is true (schema ANSWERED)."""
    for batch in batches:
        found = filter(UnreadSnapshot.is_answered, _UNREAD_ROWS.read([batch]))
        yield _UNREAD_ROWS.batch(found).select(PARTITION_KEY)


def unread_snapshots(changes: DataFrame, listed: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return the unread snapshot files (schema UNREAD) of the partitions that `partition_changes` found unchanged.

    Args:
        changes: rows of `partition_changes`.
        listed: the listed partitions (schema LISTED).
        partitions: the table.
    """
    key = list(PARTITION_KEY)
    among = changes.where("unread_count > 0").select(*key)
    boundaries = newest_facts(partitions, among, [FactKind.BOUNDARY]).where("not_read is not null")
    files = listed.select(*key, F.explode("snapshots").alias("file")).select(*key, "file.end_offset", "file.object")
    unread = boundaries.select(*key, F.col("snapshot_offset").alias("end_offset"), "not_read")
    return files.join(unread, on=[*key, "end_offset"]).select(*UNREAD.names)


def look(unread: DataFrame) -> DataFrame:
    """Read the files again, and return the partitions of files for which `is_answered` is true (schema ANSWERED)."""
    return unread.mapInArrow(of_batches(look_again), of_arrow(ANSWERED)).distinct()


def answered(changes: DataFrame, answers: DataFrame) -> DataFrame:
    """Return `changes`, with `is_changed` true for the partitions in `answers`."""
    found = answers.withColumn("_answered", F.lit(True))
    joined = changes.join(found, on=list(PARTITION_KEY), how="left")
    return joined.withColumn("is_changed", F.expr("is_changed or coalesce(_answered, false)")).drop("_answered")
