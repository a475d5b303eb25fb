"""The table `record_batches`: which segments it lacks, how they are decoded, and which rows are valid."""

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
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY, RECORD_BATCHES_TABLE, SEGMENT_KEY, to_batch

SEGMENT_OF_BATCH = (*PARTITION_KEY, "segment_base_offset")
_IDENTITY = ("topic_id", "segment_size_bytes", "segment_modified_ns")


def known_segments(record_batches: DataFrame) -> DataFrame:
    """`record_batches` -> SEGMENT_KEY, and of its last decode the `known` identity of the file and `known_run`.

    `known_end` is the position in the file where its rows end, in bytes.
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
    """LISTED and rows of `known_segments` -> WANTED rows of the segments that are new, have changed, or left no row."""
    is_known = (
        (F.col("size_bytes") == F.col("known.segment_size_bytes"))
        & (F.col("modified_ns") == F.col("known.segment_modified_ns"))
        & F.col("topic_id").eqNullSafe(F.col("known.topic_id"))
    )
    rows = every_segment(listed).join(known, on=list(SEGMENT_KEY), how="left")
    return rows.where(~F.coalesce(is_known, F.lit(False))).select(*WANTED.names)


def stale_segments(listed: DataFrame, known: DataFrame) -> DataFrame:
    """LISTED and rows of `known_segments` -> SEGMENT_KEY of segments whose batches are not in their log any more.

    A truncation took them, a cleaner merged them into the one before, or they are of an earlier topic of the name.
    Segments below the first one are kept: retention took them from this log. A partition whose folder has findings is
    left out.
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
    return segments.select(*WANTED.names)


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
    return rows.where(F.coalesce("known_end", F.lit(0)) < F.col("size_bytes")).select(*WANTED.names)


@dataclass(frozen=True)
class DecodeBatches:
    """WANTED rows -> rows of RECORD_BATCHES_TABLE; of a damaged or unreadable segment those before the damage.

    Attributes:
        run: number of the run that decodes.
    """

    check_crc: bool
    run: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each segment."""
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
