"""The transactional id of each producer id, from the newest records in folders of `__transaction_state`."""

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
    """The transactional id of a producer id in one record of `__transaction_state`."""

    cluster_id: str | None  # None if meta.properties has none
    producer_id: int  # producerId, previousProducerId or nextProducerId of the record
    transactional_id: str
    offset: int  # offset of the record


_ROWS = Rows(IdOfProducer)
TRANSACTIONAL_IDS = _ROWS.schema


@dataclass(frozen=True)
class ListTransactionalIds:
    """The task that reads transactional ids: rows of FOLDERS to rows of TRANSACTIONAL_IDS.

    An unreadable partition gets no rows here, because the listing reports it.
    """

    check_crc: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each folder."""
        for batch in batches:
            named = (batch.column(name).to_pylist() for name in ("log_dir", "folder"))
            for log_dir, folder in zip(*named, strict=True):
                yield _ROWS.batch(self._ids(log_dir, folder))

    def _ids(self, uri: str, folder: str) -> Iterator[IdOfProducer]:
        source = open_source(uri)
        if not isinstance(source, LogDirSource):
            return
        log_dir = source.log_dir
        cluster_id = source.properties.cluster_id if source.properties else None
        partition = log_dir.partition(folder)
        for record in read_states(log_dir.filesystem, partition, check_crc=self.check_crc).records:
            value = record.value
            if value is None:
                continue
            for producer_id in {value.producer_id, value.previous_producer_id, value.next_producer_id}:
                if producer_id >= 0:
                    yield IdOfProducer(cluster_id, producer_id, record.transactional_id, record.place.offset)


_SCHEMA = of_arrow(TRANSACTIONAL_IDS)
_OWNER = ("cluster_id", "producer_id")


def transactional_ids(spark: SparkSession, found: Sequence[tuple[str, str]], *, check_crc: bool) -> DataFrame:
    """Return `cluster_id`, `producer_id` and `transactional_id`, one row per producer id.

    If several records name a producer id, use the record with the largest offset among all replicas.

    Args:
        spark: session.
        found: pairs of a log directory's URI and the name of a `__transaction_state` folder in it.
        check_crc: check the CRC of each batch.
    """
    if not found:
        return spark.createDataFrame([], _SCHEMA).select(*_OWNER, "transactional_id")
    task = ListTransactionalIds(check_crc)
    rows = folders(spark, found, per_task=1).mapInArrow(of_batches(task), _SCHEMA)
    return rows.groupBy(*_OWNER).agg(F.max_by("transactional_id", "offset").alias("transactional_id"))


def with_transactional_ids(findings: DataFrame, ids: DataFrame) -> DataFrame:
    """Add the column `transactional_id` to `findings`. It is null if `ids` lacks the cluster id and producer id."""
    theirs = ids.select(*(F.col(name).alias(f"its_{name}") for name in _OWNER), "transactional_id")
    owns = F.col("cluster_id").eqNullSafe(F.col("its_cluster_id")) & (F.col("producer_id") == F.col("its_producer_id"))
    return findings.join(theirs, on=owns, how="left").drop(*(f"its_{name}" for name in _OWNER))
