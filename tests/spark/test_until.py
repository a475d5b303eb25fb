"""`tiersnap run --until`: day by day, and never a hole."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.log_builder import data_batch, write_partition
from tiersnap.jobs.pipeline.run import run as run_job
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.gate.verdict import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

DAY = 86_400_000
# The third segment is older than the second: a client stamped it so.
TIMESTAMPS = {0: 10 * DAY, 5: 12 * DAY, 10: 11 * DAY, 15: 13 * DAY}


def test_each_day_tiers_what_ended_by_then_and_nothing_behind_a_younger_segment(
    spark: SparkSession, tmp_path: Path
) -> None:
    segments = {base: [data_batch(base, 5, 1, 0, base, timestamp=time)] for base, time in TIMESTAMPS.items()}
    segments[20] = [data_batch(20, 5, 1, 0, 20, timestamp=14 * DAY)]
    write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=25, indexes=True)

    def run_until(until: int | None) -> tuple[int, int, int]:
        places = (str(tmp_path / "logs"),), str(tmp_path / "remote"), str(tmp_path / "warehouse")
        outcome = run_job(spark, RunSettings(*places, until=until, apply=True))
        assert outcome.error_count == 0
        counts = outcome.counts
        return counts.segments_uploaded, outcome.verdicts.get(Verdict.READY, 0), counts.delta_commits

    assert run_until(10 * DAY)[:2] == (0, 4)
    assert run_until(10 * DAY) == (0, 4, 0)  # nothing is done twice
    assert run_until(12 * DAY)[:2] == (1, 3)
    assert run_until(12 * DAY + DAY // 2)[:2] == (2, 1)
    assert run_until(None)[:2] == (1, 0)
