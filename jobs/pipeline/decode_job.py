"""The job of `tiersnap decode`: it fills the table `record_batches` with batch headers, for analysis."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import batches, decoding, listing, schemas
from tiersnap.jobs.pipeline.batches import DecodeBatches
from tiersnap.jobs.pipeline.before_spark import Session, discover, started
from tiersnap.jobs.pipeline.cached import kept
from tiersnap.jobs.pipeline.damage import Damage, damage
from tiersnap.jobs.pipeline.decoding import work_of
from tiersnap.jobs.pipeline.listing import ListPartitions
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.jobs.pipeline.session import spoken
from tiersnap.jobs.pipeline.settings import JobSettings
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.gate.next_steps import decode_into
from tiersnap.snapshot.tables.schema_parts import SEGMENT_KEY

TABLE = "record_batches"


@dataclass(frozen=True)
class DecodeSettings(JobSettings):
    """The settings of `tiersnap decode`."""

    sources: tuple[str, ...]
    warehouse: str
    topic: re.Pattern[str] | None = None  # matches complete topic names; None for all topics
    apply: bool = False  # if False, the job counts the segments, and changes nothing


@dataclass
class DecodeOutcome:
    """The counts of one decode. If `apply` is False, they are the counts of a plan."""

    segments: int = 0  # new and changed segments
    bytes: int = 0  # size of the files of these segments
    batches: int = 0  # appended rows; 0 without `apply`
    stale: int = 0  # segments whose batches are no longer in the log; their rows are deleted
    damage: Damage = field(default_factory=Damage)  # of the log directories, and of the segments in the table


@spoken("decode")
def decode(spark: SparkSession | Session, settings: DecodeSettings) -> DecodeOutcome:
    """Append the batch headers of new and changed segments, and delete the rows of stale segments.

    `spark` is a session, or a function that starts one. The function is called after the sources were found.

    Raises:
        TransientError: another run writes to the warehouse.
        SourceNotFoundError, NotALogDirError: a source does not exist, or is no log directory.
        UsageError: a source is a collected folder, which has no segments.
    """
    found = discover(settings.sources, settings.topic)
    for uri in found.collected:
        raise UsageError(
            f"{uri}: tiersnap collect wrote this folder without segments, but decode reads segments",
            hint=f"run decode on the broker's host: {decode_into()}",
        )
    outcome = DecodeOutcome()
    of_one = only_run(settings.warehouse, settings.run_id, settings.stores, writes=settings.apply)
    with of_one as check, kept() as keep:
        spark = started(spark)
        warehouse = Warehouse(spark, settings.warehouse, check)
        listed = keep(listing.list_partitions(listing.folders(spark, found.folders), ListPartitions()))
        known = keep(batches.known_segments(warehouse.read(TABLE)))
        wanted = keep(batches.wanted_segments(listed, known))
        work = work_of(wanted)
        outcome.segments, outcome.bytes = work.segments, work.bytes
        stale = keep(batches.stale_segments(listed, known))
        outcome.stale = stale.count()
        listed_at, decoded = batches.every_segment(listed), known
        if not settings.apply:
            listed_at = listed_at.join(wanted.select(*SEGMENT_KEY), on=list(SEGMENT_KEY), how="left_anti")
        elif outcome.segments:
            last = known.agg(F.max("known_run").alias("run")).collect()[0].run or 0
            mine = _append(warehouse, wanted, work, settings, outcome, 1 + last)
            before = known.join(wanted.select(*SEGMENT_KEY), on=list(SEGMENT_KEY), how="left_anti")
            decoded = before.unionByName(batches.known_segments(mine))
        if settings.apply and outcome.stale:
            gone = stale.withColumnRenamed("base_offset", "segment_base_offset")
            warehouse.delete(TABLE, batches.SEGMENT_OF_BATCH, gone)
        unread = batches.unread_segments(listed_at, decoded)
        of_logs, _ = damage(listed, unread, keep, check_crc=settings.check_crc)
        outcome.damage = of_logs.behind(found.findings)
    return outcome


def _append(
    warehouse: Warehouse,
    wanted: DataFrame,
    work: decoding.Work,
    settings: DecodeSettings,
    outcome: DecodeOutcome,
    run: int,
) -> DataFrame:
    """Append the batch headers of the segments `wanted`, and return the appended rows."""
    rows = decoding.decode(wanted, DecodeBatches(settings.check_crc, run), work, schema=schemas.TABLES[TABLE])
    warehouse.append(TABLE, rows, run_id=settings.run_id)
    mine = warehouse.read(TABLE).where(F.col("run") == run)
    outcome.batches = mine.count()
    return mine
