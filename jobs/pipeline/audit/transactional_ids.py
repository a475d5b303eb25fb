"""Folders of `__transaction_state` -> which transactional id has which producer id, by their newest records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.grouping import of_batches
from tiersnap.jobs.pipeline.listing import folders
from tiersnap.jobs.pipeline.partition_sources import LogDirSource, open_source
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.snapshot.exactly_once.transactions.transaction_log import read_states
from tiersnap.snapshot.rows import Rows


@dataclass(frozen=True, slots=True)
class IdOfProducer:
    """The transactional id of a producer id, by a record of `__transaction_state`."""

    cluster_id: str | None  # None where the disk does not say
    producer_id: int  # the current one, the one before a rotation, or the one after it
    transactional_id: str
    offset: int  # of the record


_ROWS = Rows(IdOfProducer)
TRANSACTIONAL_IDS = _ROWS.schema


@dataclass(frozen=True)
class ListTransactionalIds:
    """FOLDERS rows -> TRANSACTIONAL_IDS rows; what cannot be read has none, and a finding of the listing says so."""

    check_crc: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read each folder."""
        for batch in batches:
            named = (batch.column(name).to_pylist() for name in ("log_dir", "folder"))
            for log_dir, folder in zip(*named, strict=True):
                yield _ROWS.batch(self._ids(log_dir, folder))

    def _ids(self, uri: str, folder: str) -> Iterator[IdOfProducer]:
        source = open_source(uri)
        if not isinstance(source, LogDirSource):
            return
        log_dir = source.log_dir
        cluster_id = None if source.properties is None else source.properties.cluster_id
        partition = log_dir.partition(folder)
        for record in read_states(log_dir.filesystem, partition, check_crc=self.check_crc).records:
            value = record.value
            ids = () if value is None else (value.producer_id, value.previous_producer_id, value.next_producer_id)
            for producer_id in {each for each in ids if each >= 0}:
                yield IdOfProducer(cluster_id, producer_id, record.transactional_id, record.place.offset)


_SCHEMA = of_arrow(TRANSACTIONAL_IDS)
_OWNER = ("cluster_id", "producer_id")


def transactional_ids(spark: SparkSession, found: Sequence[tuple[str, str]], *, check_crc: bool) -> DataFrame:
    """(Log directory, folder of `__transaction_state`) pairs -> cluster_id, producer_id, transactional_id.

    A producer id has one row, by the newest record of all replicas.
    """
    if not found:
        return spark.createDataFrame([], _SCHEMA).select(*_OWNER, "transactional_id")
    task = ListTransactionalIds(check_crc)

    rows = folders(spark, found, per_task=1).mapInArrow(of_batches(task), _SCHEMA)
    return rows.groupBy(*_OWNER).agg(F.max_by("transactional_id", "offset").alias("transactional_id"))


def with_transactional_ids(findings: DataFrame, ids: DataFrame) -> DataFrame:
    """Rows with cluster_id and producer_id -> the same rows with `transactional_id`, null where nobody knows it."""
    theirs = ids.select(*(F.col(name).alias(f"its_{name}") for name in _OWNER), "transactional_id")
    owns = F.col("cluster_id").eqNullSafe(F.col("its_cluster_id")) & (F.col("producer_id") == F.col("its_producer_id"))
    return findings.join(theirs, on=owns, how="left").drop(*(f"its_{name}" for name in _OWNER))
