"""Functions for the table `record_batches`: find segments that it lacks, decode them, and find stale rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline.decoding import WANTED, WANTED_ROWS
from tiersnap.jobs.pipeline.listing import listed_segments
from tiersnap.jobs.pipeline.newest import newest_row
from tiersnap.snapshot.formats.record_batch import LOG_OVERHEAD
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.tables.decodes import SegmentFile
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tables.spark_made_tables import RECORD_BATCHES_TABLE, to_batch

SEGMENT_OF_BATCH = (*PARTITION_KEY, "segment_base_offset")
_IDENTITY = ("topic_id", "segment_size_bytes", "segment_modified_ns")


def known_segments(record_batches: DataFrame) -> DataFrame:
    """Return one row per segment about its last decode in the table `record_batches`.

    Returns:
        SEGMENT_KEY; `known`: topic id, size and time of the decoded file; `known_run`: the run that decoded it;
        `known_end`: the position in the file (bytes) where the last decoded batch ends.
    """
    end = F.col("position") + F.lit(LOG_OVERHEAD) + F.col("batch_length")
    rows = record_batches.select(*SEGMENT_OF_BATCH, *_IDENTITY, "run", end.alias("end"))
    last = newest_row(rows, SEGMENT_OF_BATCH, F.struct("run", "end"))
    return last.select(
        *PARTITION_KEY,
        F.col("segment_base_offset").alias("base_offset"),
        F.struct(*_IDENTITY).alias("known"),
        F.col("run").alias("known_run"),
        F.col("end").alias("known_end"),
    )


def wanted_segments(listed: DataFrame, known: DataFrame) -> DataFrame:
    """Return the listed segments that are new, have changed, or have no rows in the table (schema WANTED).

    Args:
        listed: the listed partitions (schema LISTED).
        known: rows of `known_segments`.
    """
    is_known = (
        (F.col("size_bytes") == F.col("known.segment_size_bytes"))
        & (F.col("modified_ns") == F.col("known.segment_modified_ns"))
        & F.col("topic_id").eqNullSafe(F.col("known.topic_id"))
    )
    rows = every_segment(listed).join(known, on=list(SEGMENT_KEY), how="left")
    return rows.where(~F.coalesce(is_known, F.lit(False))).select(*WANTED.names)


def stale_segments(listed: DataFrame, known: DataFrame) -> DataFrame:
    """Return SEGMENT_KEY of decoded segments whose batches are no longer in the log.

    A segment becomes stale if the broker truncates the log, if the log cleaner merges segments, or if the topic is
    created again. Segments below the first listed segment are not returned, because retention deleted them.
    Partitions are skipped if the listing has findings about their folder, such as an unreadable file.

    Args:
        listed: the listed partitions (schema LISTED).
        known: rows of `known_segments`.
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
    """Return all listed segments as segments to decode (schema WANTED). Leave out empty files."""
    segments = listed_segments(listed).where("size_bytes > 0").withColumn("not_read", F.lit(None).cast("string"))
    return segments.select(*WANTED.names)


def cut_segments(known: DataFrame) -> DataFrame:
    """Return the rows of `known_segments` whose last decoded batch ends before the end of the file.

    The last segment of each partition is skipped: the broker may have been writing to it.
    """
    last = F.max("base_offset").over(Window.partitionBy(*PARTITION_KEY))
    closed = known.withColumn("_last", last).where("base_offset < _last").drop("_last")
    return closed.where("known_end < known.segment_size_bytes")


def unread_segments(segments: DataFrame, known: DataFrame) -> DataFrame:
    """Return the rows of `segments` whose last decoded batch ends before the end of the file.

    The rest of the file is damaged, has entries of magic 0 or 1, or is an incomplete batch of the active segment.

    Args:
        segments: the segments to decode (schema WANTED).
        known: rows of `known_segments`.
    """
    rows = segments.join(known.select(*SEGMENT_KEY, "known_end"), on=list(SEGMENT_KEY), how="left")
    return rows.where(F.coalesce("known_end", F.lit(0)) < F.col("size_bytes")).select(*WANTED.names)


@dataclass(frozen=True)
class DecodeBatches:
    """The task that decodes batch headers: rows of WANTED to rows of RECORD_BATCHES_TABLE.

    The rows of a damaged segment end at the damage.

    Attributes:
        check_crc: check the CRC of each batch.
        run: number of the current run, for the column `run`.
    """

    check_crc: bool
    run: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batch headers of each segment."""
        for wanted in WANTED_ROWS.read(batches):
            yield from self._decode(wanted.file)

    def _decode(self, file: SegmentFile) -> Iterator[pa.RecordBatch]:
        filesystem, _ = file.folder
        scan = SegmentScan.of(filesystem, file.segment, check_crc=self.check_crc)
        identity = {
            "log_dir": file.log_dir,
            "topic": file.topic,
            "partition": file.partition,
            "topic_id": file.topic_id,
            "segment_base_offset": file.base_offset,
            "segment_size_bytes": file.size_bytes,
            "segment_modified_ns": file.modified_ns,
            "run": self.run,
        }
        for rows in scan:
            yield to_batch(rows, identity, RECORD_BATCHES_TABLE)
