"""Batches with the same records under other numbers: candidates by their headers, certainty by a CRC.

Most batches have no other of the same length, count and timestamps. Of those that have one, the CRC of the records
follows from the header (formats.records_crc), so that no record is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.audit.batches import PRODUCER, is_data
from tiersnap.jobs.pipeline.kept import Keep
from tiersnap.snapshot.formats.record_batch import TIMESTAMP_TYPE_MASK
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.records_crc import ALIKE, WITH_RECORDS_CRC, AddRecordsCrc

_SCHEMA = schemas.of_arrow(WITH_RECORDS_CRC)
_LIKE = ("batch_length", "record_count", "last_offset_delta", "base_timestamp")
_SEVERAL = "first_writer < last_writer"
_FEW = 1_000_000  # numbers of eight bytes that every executor gets


def copies(record_batches: DataFrame, keep: Keep) -> DataFrame:
    """Rows of `record_batches` -> data batches whose records another producer or epoch wrote in the partition as well.

    Runs a job: most logs have no candidates, and nothing more is to be done with those.

    Returns:
        PRODUCER, `producer_epoch`, `base_offset`, and `content` (long), which batches with the same records share.
    """
    is_created = F.col("attributes").cast("int").bitwiseAND(TIMESTAMP_TYPE_MASK) == 0
    # Where the broker stamps records, it stamps anew what is sent again.
    created_at = F.when(is_created, F.col("max_timestamp"))
    content = F.xxhash64(*PARTITION_KEY, *_LIKE, created_at).alias("content")
    data = record_batches.where(is_data() & (F.col("record_count") > 0))
    data = data.select(*(name for name in ALIKE.names if name != "content"), content)
    writers = (each.alias(name) for name, each in _writers().items())
    alike = keep(data.groupBy("content").agg(*writers).where(_SEVERAL).select("content"))
    count = alike.count()
    if not count:
        data = data.where("false")
    alike = F.broadcast(alike) if count <= _FEW else alike
    found = data.join(alike, on="content", how="left_semi").select(*ALIKE.names).mapInArrow(_with_crc, _SCHEMA)
    same = Window.partitionBy("content", "records_crc")
    marked = found.select("*", *(each.over(same).alias(name) for name, each in _writers().items()))
    of_records = F.xxhash64("content", "records_crc").alias("content")
    return marked.where(_SEVERAL).select(*PRODUCER, "producer_epoch", "base_offset", of_records)


def _writers() -> dict[str, Column]:
    """Several producers or epochs have one that is the smallest and one that is not."""
    writer = F.xxhash64("producer_id", "producer_epoch")
    return {"first_writer": F.min(writer), "last_writer": F.max(writer)}


def _with_crc(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return AddRecordsCrc()(iter(batches))
