"""Spark tasks that read listings of topics ahead return the rows of tasks that list each partition alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.log_builder import data_batch, write_partition
from tests.spark.conftest import Remote
from tiersnap.jobs.pipeline import listing
from tiersnap.jobs.pipeline.listing import ListPartitions
from tiersnap.jobs.pipeline.run import run
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.remote_log.listing_ahead import ListingAhead
from tiersnap.remote_storage.remote_log.observe import Observe

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

# Names that begin like other names. The folders of `a` and `a-1` alternate in order.
TOPIC_IDS = {
    "a": "lZ6vvmajTWKDBUTV6SQAtQ",
    "a-1": "MWJ6FHTfRYy67jzwZdeqSQ",
    "a-1-2": "EArE95XTQEqfBLWnpGnLIQ",
    "a.1": "AAAAAAAAAAAAAAAAAAAAAg",
}
PARTITIONS = 8


def test_listed_rows_are_equal_ahead_and_alone(spark: SparkSession, remote: Remote, tmp_path: Path) -> None:
    """Partitions of four topics are tiered; then each tenth remote object is deleted."""
    logs, found = tmp_path / "logs", []
    segments = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10, 20)}
    for topic, topic_id in TOPIC_IDS.items():
        for number in range(PARTITIONS):
            write_partition(logs, topic, number, segments, topic_id=topic_id, high_watermark=30, indexes=True)
            found.append((str(logs), f"{topic}-{number}"))
    settings = RunSettings((str(logs),), remote.uri, str(tmp_path / "warehouse"), left_for=None, apply=True)
    assert run(spark, settings, store=remote.store).verdicts == {"UPLOADED": 64, "ACTIVE_SEGMENT": 32}
    look = Observe(open_location(remote.store, settings.layout))

    def rows(used: Observe) -> list[object]:
        folders = listing.folders(spark, found, per_task=20)
        listed = listing.list_partitions(folders, ListPartitions(look=used, wants_start=True))
        return sorted(listed.collect(), key=lambda row: (row["topic"], row["partition"]))

    ahead = replace(look, ahead=ListingAhead())
    assert rows(ahead) == rows(look)
    remote.store.delete(sorted(remote.objects())[::10])
    alone = rows(look)
    assert rows(ahead) == alone
    closed = [[segment["is_tiered"] for segment in row["segments"][:-1]] for row in alone]
    assert any(map(all, closed)) and not all(map(all, closed))
