"""Rows of the table `partitions` of a log directory, replayed in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tiersnap.jobs.pipeline.replaying import facts_of
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.replay.expiry import ReplayOptions
from tiersnap.snapshot.replay.partition_listing import PartitionListing
from tiersnap.snapshot.replay.replay_listing import ListingReplay
from tiersnap.snapshot.replay.segment_runs import LocalDecodes
from tiersnap.snapshot.tables.facts import fact_batches
from tiersnap.snapshot.tables.listed import ListedPartition


def local_facts(source: Path, *, run: int, now: int) -> Iterator[pa.RecordBatch]:
    """Rows of PARTITIONS of each partition."""
    log_dir, task = open_log_dir(str(source)), ListingReplay(ReplayOptions(), None, run=run, now=now)
    for partition in log_dir.partitions():
        listing = PartitionListing(log_dir.filesystem, partition)
        replayed = task.replay(listing, LocalDecodes(log_dir.filesystem))
        yield from fact_batches(facts_of(replayed, ListedPartition.of(str(source), partition, None), listing, run, ""))
