"""Add transactional ids to findings: producer ids are numbers, and people know the transactional ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.listing import folders
from tiersnap.snapshot.tasks.transactional_ids import TRANSACTIONAL_IDS, ListTransactionalIds

_SCHEMA = schemas.of_arrow(TRANSACTIONAL_IDS)
_OWNER = ("cluster_id", "producer_id")


def transactional_ids(spark: SparkSession, found: Sequence[tuple[str, str]], *, check_crc: bool) -> DataFrame:
    """(Log directory, folder of `__transaction_state`) pairs -> cluster_id, producer_id, transactional_id.

    A producer id has one row, by the newest record of all replicas.
    """
    if not found:
        return spark.createDataFrame([], _SCHEMA).select(*_OWNER, "transactional_id")
    task = ListTransactionalIds(check_crc)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(iter(batches))

    rows = folders(spark, found, per_task=1).mapInArrow(run, _SCHEMA)
    return rows.groupBy(*_OWNER).agg(F.max_by("transactional_id", "offset").alias("transactional_id"))


def with_transactional_ids(findings: DataFrame, ids: DataFrame) -> DataFrame:
    """Rows with cluster_id and producer_id -> the same rows with `transactional_id`, null where nobody knows it."""
    theirs = ids.select(*(F.col(name).alias(f"its_{name}") for name in _OWNER), "transactional_id")
    owns = F.col("cluster_id").eqNullSafe(F.col("its_cluster_id")) & (F.col("producer_id") == F.col("its_producer_id"))
    return findings.join(theirs, on=owns, how="left").drop(*(f"its_{name}" for name in _OWNER))
