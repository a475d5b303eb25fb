"""Batch headers into the table `record_batches`, for analysis: list, what is new, decode, append."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.counted import MOST_TOLD
from tiersnap.jobs.pipeline.one_run import only_run
from tiersnap.jobs.pipeline.settings import new_run_id
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.spark import batches, decoding, listing, schemas
from tiersnap.snapshot.spark.discover import discover
from tiersnap.snapshot.spark.warehouse import Warehouse
from tiersnap.snapshot.tables.schemas import SEGMENT_KEY
from tiersnap.snapshot.tasks.decode_batches import DecodeBatches
from tiersnap.snapshot.tasks.list_partitions import ListPartitions

TABLE = "record_batches"


@dataclass(frozen=True)
class DecodeSettings:
    """What `tiersnap decode` was asked to do.

    Attributes:
        sources: log directories.
        warehouse: URI of the folder with the Delta tables.
        topic: for whole topic names; None for all.
        apply: append to the table; without it the segments are counted.
        s3: of the server of a warehouse on S3.
    """

    sources: tuple[str, ...]
    warehouse: str
    topic: re.Pattern[str] | None = None
    check_crc: bool = True
    apply: bool = False
    s3: S3Settings = field(default_factory=S3Settings)
    run_id: str = field(default_factory=new_run_id)


@dataclass
class DecodeOutcome:
    """What was decoded, or would be.

    Attributes:
        segments: that are new or have changed; `bytes` of their files.
        batches: rows that were appended.
        unread: closed segments whose rows end before the file does, and `unread_count` of them all.
        findings: what is wrong with the log directories.
    """

    segments: int = 0
    bytes: int = 0
    batches: int = 0
    unread_count: int = 0
    unread: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def decode(spark: SparkSession, settings: DecodeSettings) -> DecodeOutcome:
    """Append the batch headers of the segments that the table does not have as they are now.

    Raises:
        TransientError: another run is at work on the warehouse.
        SourceNotFoundError, NotALogDirError: a source is none.
        UsageError: a source is a collected folder, which has no segments.
    """
    found = discover(settings.sources, settings.topic)
    for uri in found.collected:
        raise UsageError(
            f"{uri}: a collected folder has no segments to decode",
            hint="tiersnap collect --headers ships headers, and snapshot.spark.collected.collected_batches reads them",
        )
    outcome = DecodeOutcome(findings=list(found.findings))
    with only_run(settings.warehouse, settings.run_id, settings.s3) as check:
        warehouse = Warehouse(spark, settings.warehouse, check)
        listed = listing.list_partitions(listing.folders(spark, found.folders), ListPartitions())
        known = batches.known_segments(warehouse.read(TABLE)).persist()
        wanted = batches.wanted_segments(listed, known).persist()
        totals = wanted.agg(F.count("*").alias("segments"), F.sum("size_bytes").alias("bytes")).collect()[0]
        outcome.segments, outcome.bytes = totals.segments, totals.bytes or 0
        if settings.apply and outcome.segments:
            run = (known.agg(F.max("known_run").alias("run")).collect()[0].run or 0) + 1
            _append(warehouse, wanted, settings, outcome, run)
        wanted.unpersist()
        known.unpersist()
    return outcome


def _append(
    warehouse: Warehouse, wanted: DataFrame, settings: DecodeSettings, outcome: DecodeOutcome, run: int
) -> None:
    weight = outcome.bytes + outcome.segments * decoding.SEGMENT_OVERHEAD_BYTES
    bytes_each = decoding.task_bytes(weight)
    rows = decoding.decode(
        wanted,
        DecodeBatches(settings.check_crc, run),
        tasks=max(1, -(-weight // bytes_each)),
        bytes_each=bytes_each,
        schema=schemas.TABLES[TABLE],
    )
    warehouse.append(TABLE, rows, run_id=settings.run_id)
    mine = warehouse.read(TABLE).where(F.col("run") == run)
    outcome.batches = mine.count()
    unread = batches.unread_ends(wanted, mine).persist()
    outcome.unread_count = unread.count()
    outcome.unread = [
        f"{row.log_dir}/{row.topic}-{row.partition}/{row.base_offset:020d}.log: rows end at byte {row.read_bytes} of "
        f"{row.size_bytes}"
        for row in unread.orderBy(*SEGMENT_KEY).limit(MOST_TOLD).collect()
    ]
    unread.unpersist()
