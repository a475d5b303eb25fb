"""The table `record_batches`: which segments are not in it yet, and which of its rows count."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.listing import listed_segments
from tiersnap.snapshot.formats.record_batch import LOG_OVERHEAD
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY

SEGMENT_OF_BATCH = (*PARTITION_KEY, "segment_base_offset")
_IDENTITY = ("topic_id", "segment_size_bytes", "segment_modified_ns")


def known_segments(record_batches: DataFrame) -> DataFrame:
    """`record_batches` -> SEGMENT_KEY, and of its last decode the `known` identity of the file and `known_run`.

    `known_end` is the position in the file where its rows end, in bytes.
    """
    end = F.col("position") + F.lit(LOG_OVERHEAD) + F.col("batch_length")
    newest = record_batches.groupBy(*SEGMENT_OF_BATCH).agg(
        F.max_by(F.struct(*_IDENTITY), "run").alias("known"),
        F.max(F.struct("run", end.alias("end"))).alias("last"),
    )
    last = F.col("last.run").alias("known_run"), F.col("last.end").alias("known_end")
    return newest.select(*PARTITION_KEY, F.col("segment_base_offset").alias("base_offset"), "known", *last)


def wanted_segments(listed: DataFrame, known: DataFrame) -> DataFrame:
    """LISTED and rows of `known_segments` -> WANTED rows of the segments that are new, have changed, or left no row."""
    is_known = (
        (F.col("size_bytes") == F.col("known.segment_size_bytes"))
        & (F.col("modified_ns") == F.col("known.segment_modified_ns"))
        & F.col("topic_id").eqNullSafe(F.col("known.topic_id"))
    )
    rows = every_segment(listed).join(known, on=list(SEGMENT_KEY), how="left")
    return rows.where(~F.coalesce(is_known, F.lit(False))).select(*schemas.WANTED.names)


def stale_segments(listed: DataFrame, known: DataFrame) -> DataFrame:
    """LISTED and rows of `known_segments` -> SEGMENT_KEY of segments whose batches are not in their log any more.

    A truncation took them, a cleaner merged them into the one before, or they are of an earlier topic of the name.
    What lies below the first segment is kept: retention took that, and it was in this log. Of a partition in whose
    folder something is wrong nothing is told.
    """
    sound = listed.where("size(findings) = 0 and size(segments) > 0").select(
        *PARTITION_KEY, F.col("topic_id").alias("_id"), F.array_min("segments.base_offset").alias("_first")
    )
    is_of_other_topic = ~F.col("known.topic_id").eqNullSafe(F.col("_id"))
    return (
        known.join(every_segment(listed).select(*SEGMENT_KEY), on=list(SEGMENT_KEY), how="left_anti")
        .join(sound, on=list(PARTITION_KEY))
        .where(is_of_other_topic | (F.col("base_offset") >= F.col("_first")))
        .select(*SEGMENT_KEY)
    )


def every_segment(listed: DataFrame) -> DataFrame:
    """LISTED -> WANTED rows of all segments that have bytes; one of 0 bytes has no batches."""
    segments = listed_segments(listed).where("size_bytes > 0").withColumn("not_read", F.lit(None).cast("string"))
    return segments.select(*schemas.WANTED.names)


def cut_segments(known: DataFrame) -> DataFrame:
    """Rows of `known_segments` whose rows end before the file did; the last of a partition may have been written to."""
    last = F.max("base_offset").over(Window.partitionBy(*PARTITION_KEY))
    closed = known.withColumn("_last", last).where("base_offset < _last").drop("_last")
    return closed.where("known_end < known.segment_size_bytes")


def unread_segments(segments: DataFrame, known: DataFrame) -> DataFrame:
    """WANTED rows and rows of `known_segments` -> WANTED rows of segments whose rows end before the file does.

    Entries before magic 2 lie there, damage, or in the active segment what was being written.
    """
    rows = segments.join(known.select(*SEGMENT_KEY, "known_end"), on=list(SEGMENT_KEY), how="left")
    return rows.where(F.coalesce("known_end", F.lit(0)) < F.col("size_bytes")).select(*schemas.WANTED.names)


_log = logging.getLogger(__name__)

_TASKS = "spark.sql.shuffle.partitions"
# Each task of a shuffle builds its projections anew, which costs more than the keys of so many folders.
_FOLDERS_PER_TASK = 64
_FEW_FOLDERS = 50
# Of a few rows, compiling a plan and choosing its joins anew take longer than running it.
_START_SOON = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@contextmanager
def sized_for(spark: SparkSession, folders: int) -> Iterator[int]:
    """Plan for that many partition folders, whatever the session's defaults are; give the tasks that it would make.

    Tasks that read segments or send bytes may be as many as the session makes; what is only compared and counted needs
    few.
    """
    most = shuffle_tasks(spark)
    settings = {_TASKS: str(max(1, min(most, -(-folders // _FOLDERS_PER_TASK))))}
    with with_settings(spark, settings | (_START_SOON if folders <= _FEW_FOLDERS else {})):
        yield most


def shuffle_tasks(spark: SparkSession) -> int:
    """Tasks that a shuffle has in this session; if it decides by itself (`auto`), Spark's default."""
    said = spark.conf.get(_TASKS) or ""
    return int(said) if said.isdecimal() else 200


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set what the session lets be set, and set it back in the end."""
    before: dict[str, str | None] = {}
    for name, value in settings.items():
        try:
            before[name] = spark.conf.get(name, None)
            spark.conf.set(name, value)
        except PySparkException:
            # A serverless session fixes most of them.
            before.pop(name, None)
            _log.debug("the session keeps its %s", name)
    try:
        yield
    finally:
        for name, kept in before.items():
            try:
                spark.conf.unset(name) if kept is None else spark.conf.set(name, kept)
            except Exception:
                # The session is gone. What the block itself raised says more.
                _log.debug("%s could not be set back", name, exc_info=True)
