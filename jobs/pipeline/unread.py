"""Stage 2, changed, where snapshot files could not be read: one that gives another answer now changes its partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.warehouse import newest
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.look_again import look_again


def unread_snapshots(changes: DataFrame, listed: DataFrame, partitions: DataFrame) -> DataFrame:
    """UNREAD rows of the partitions that are as they were carried.

    Args:
        changes: rows of changes.partition_changes.
        listed: LISTED rows.
        partitions: the table.
    """
    key = list(PARTITION_KEY)
    of_it = partitions.join(changes.where("unread_count > 0").select(*key), on=key, how="left_semi")
    boundaries = newest(of_it, key).where((F.col("kind") == str(FactKind.BOUNDARY)) & F.isnotnull("not_read"))
    files = listed.select(*key, F.explode("snapshots").alias("file")).select(*key, "file.end_offset", "file.object")
    unread = boundaries.select(*key, F.col("offset").alias("end_offset"), "not_read")
    return files.join(unread, on=[*key, "end_offset"]).select(*schemas.UNREAD.names)


def answered(changes: DataFrame, unread: DataFrame) -> DataFrame:
    """`changes`, where partitions whose UNREAD rows give another answer now have changed."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return look_again(iter(batches))

    found = unread.mapInArrow(run, schemas.ANSWERED).distinct().withColumn("_answered", F.lit(True))
    joined = changes.join(found, on=list(PARTITION_KEY), how="left")
    is_changed = F.col("is_changed") | F.coalesce("_answered", F.lit(False))
    return joined.withColumn("is_changed", is_changed).drop("_answered")
