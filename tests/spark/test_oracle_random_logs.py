"""Generated logs through the main job: each snapshot that it stores is what the readable decoder and fold say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.main_job import NO_TIERING, disagreements_of_run, snapshots_expected
from tests.reference.random_log import write_random_partition

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("seeds", "options"),
    [
        (range(20_000, 20_060), ()),
        pytest.param(range(20_060, 20_200), (), marks=pytest.mark.nightly),
        pytest.param(range(20_200, 22_000), NO_TIERING, marks=pytest.mark.nightly),
    ],
)
def test_what_the_main_job_stores_of_many_made_up_partitions_is_what_the_readable_fold_says(
    spark: SparkSession, tmp_path: Path, seeds: range, options: tuple[str, ...]
) -> None:
    log_dir = tmp_path / "logs"
    for seed in seeds:
        write_random_partition(log_dir, f"seed-{seed}", seed)
    assert list(disagreements_of_run(log_dir, tmp_path, *options)) == []
    assert sum(map(len, snapshots_expected(log_dir).values())) > 2 * len(seeds)
