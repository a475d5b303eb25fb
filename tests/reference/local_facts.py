"""Rows of the tables `partitions` and `readiness` of a log directory, replayed and judged in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from tiersnap.jobs.pipeline.replaying import facts_of
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.replay.expiry import BrokerExpiry, ReplayOptions
from tiersnap.snapshot.replay.partition_listing import PartitionListing
from tiersnap.snapshot.replay.replay_listing import ListingReplay
from tiersnap.snapshot.replay.segment_runs import LocalDecodes
from tiersnap.snapshot.tables.facts import fact_batches, newest_results
from tiersnap.snapshot.tables.listed import ListedPartition
from tiersnap.snapshot.tables.readiness import STORED, StoredVerdict

DAY = 86_400_000


def local_facts(source: Path, *, run: int, now: int) -> Iterator[pa.RecordBatch]:
    """Rows of PARTITIONS of each partition."""
    log_dir, task = open_log_dir(str(source)), ListingReplay(ReplayOptions(), None, run=run, now=now)
    for partition in log_dir.partitions():
        listing = PartitionListing(log_dir.filesystem, partition)
        replayed = task.replay(listing, LocalDecodes(log_dir.filesystem))
        yield from fact_batches(facts_of(replayed, ListedPartition.of(str(source), partition, None), listing, run, ""))


def write_tables(warehouse: Path, source: Path, *, run: int, now: int) -> None:
    """Append what one run over a log directory leaves in the tables that a report reads."""
    batches = list(local_facts(source, run=run, now=now))
    if not batches:
        return
    facts = pa.Table.from_batches(batches)
    write_deltalake(warehouse / "partitions", facts, mode="append")
    task = JudgePartition(replace=False, expiry=BrokerExpiry(now, DAY))
    verdicts = [
        StoredVerdict(
            log_dir=each.verdict.log_dir,
            topic=each.verdict.topic,
            partition=each.verdict.partition,
            topic_id=each.verdict.facts.topic_id,
            segment=each.verdict.segment,
            judgement=each.verdict.judgement,
            run=run,
            judged_at=now,
            judged_on="1970-01-01",
        )
        for found in newest_results(facts)
        for each in task.judged(found, ())
    ]
    write_deltalake(warehouse / "readiness", pa.Table.from_batches([STORED.batch(verdicts)]), mode="append")
