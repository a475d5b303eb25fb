"""Batch headers from `tiersnap collect --headers` as a DataFrame, the input of `jobs.producer_state`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tiersnap.jobs.pipeline import listing, schemas
from tiersnap.jobs.pipeline.before_spark import discover
from tiersnap.snapshot.collected.source import open_collected
from tiersnap.snapshot.errors import NotALogDirError


def collected_batches(spark: SparkSession, uri: str, *, topic: str | None = None) -> DataFrame:
    """Return one row per batch of the listed segments in a collected folder (schema RECORD_BATCHES).

    If a segment was collected several times, only the rows of its newest decode are returned.

    Args:
        spark: session.
        uri: the folder that `tiersnap collect` wrote.
        topic: regular expression for complete topic names; None for all topics.

    Raises:
        SourceNotFoundError: `uri` does not exist.
        NotALogDirError: `uri` is no collected folder, or no topic matches.
    """
    found = discover([uri], None if topic is None else re.compile(topic))
    if not found.collected:
        raise NotALogDirError(
            f"{uri}: this is a log directory, but a folder that tiersnap collect wrote is needed",
            hint=f"spark.read.format('kafkasegment').load({uri!r})",
        )

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = open_collected(uri)
        assert source is not None
        for batch in batches:
            for folder in batch.column("folder").to_pylist():
                yield from source.batches(str(folder))

    return listing.folders(spark, found.folders).mapInArrow(read, schemas.RECORD_BATCHES)
