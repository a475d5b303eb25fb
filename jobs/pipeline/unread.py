"""Stage 2, changed, where snapshot files could not be read: one that gives another answer now changes its partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.judging import newest_facts
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.look_again import look_again


def unread_snapshots(changes: DataFrame, listed: DataFrame, partitions: DataFrame) -> DataFrame:
    """UNREAD rows of the partitions that are as they were replayed.

    Args:
        changes: rows of changes.partition_changes.
        listed: LISTED rows.
        partitions: the table.
    """
    key = list(PARTITION_KEY)
    among = changes.where("unread_count > 0").select(*key)
    boundaries = newest_facts(partitions, among, [FactKind.BOUNDARY]).where("boundary.not_read is not null")
    files = listed.select(*key, F.explode("snapshots").alias("file")).select(*key, "file.end_offset", "file.object")
    unread = boundaries.select(*key, F.col("offset").alias("end_offset"), "boundary.not_read")
    return files.join(unread, on=[*key, "end_offset"]).select(*schemas.UNREAD.names)


def look(unread: DataFrame) -> DataFrame:
    """UNREAD -> ANSWERED rows: the partitions of which a file gives another answer now."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return look_again(iter(batches))

    return unread.mapInArrow(run, schemas.ANSWERED).distinct()


def answered(changes: DataFrame, answers: DataFrame) -> DataFrame:
    """`changes`, where partitions with ANSWERED rows have changed."""
    found = answers.withColumn("_answered", F.lit(True))
    joined = changes.join(found, on=list(PARTITION_KEY), how="left")
    return joined.withColumn("is_changed", F.expr("is_changed or coalesce(_answered, false)")).drop("_answered")
