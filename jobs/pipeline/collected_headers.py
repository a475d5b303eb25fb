"""Batch headers that `tiersnap collect --headers` shipped, as a DataFrame: what producer_state takes."""

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
    """Return RECORD_BATCHES of a collected folder, one row a batch of the segments that its listings name now.

    Tasks read the objects themselves, so rows of segments that were collected again are not read twice. `topic` is a
    regular expression for whole topic names; None for all.

    Raises:
        SourceNotFoundError, NotALogDirError: `uri` is no collected folder, or no topic is selected.
    """
    found = discover([uri], None if topic is None else re.compile(topic))
    if not found.collected:
        raise NotALogDirError(
            f"{uri}: a log directory, and not what was collected of one",
            hint="spark.read.format('kafkasegment') reads the headers of a log directory",
        )

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = open_collected(uri)
        assert source is not None
        for batch in batches:
            for folder in batch.column("folder").to_pylist():
                yield from source.batches(str(folder))

    return listing.folders(spark, found.folders).mapInArrow(read, schemas.RECORD_BATCHES)
