"""Generated logs through the main job: each snapshot that it stores is what the readable decoder and fold say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.agreeing import folded_at, read_log
from tests.reference.random_log import write_random_partition
from tiersnap.jobs.command_line.cli import run as tiersnap
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.log_dir import open_log_dir

pytestmark = pytest.mark.spark

SEEDS = range(20_000, 20_300)


def test_what_the_main_job_stores_of_many_made_up_partitions_is_what_the_readable_fold_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir, remote = tmp_path / "logs", tmp_path / "remote"
    for seed in SEEDS:
        write_random_partition(log_dir, f"seed-{seed}", seed)
    places = ["--source", str(log_dir), "--remote", str(remote), "--warehouse", str(tmp_path / "warehouse")]
    tiersnap(["-q", "run", *places, "--report", str(tmp_path / "report"), "--all", "--expiration", "none", "--apply"])
    stored: dict[str, dict[int, list[tuple[int, ...]]]] = {}
    for path in remote.rglob("*.snapshot"):
        key = ObjectKeys().parse(str(path.relative_to(remote)))
        if key.kind is KeyKind.SNAPSHOT:
            stored.setdefault(key.partition.topic, {})[key.offset] = snapshot_file.decode(path.read_bytes()).tolist()
    compared = 0
    for partition in open_log_dir(str(log_dir)).partitions():
        read = read_log(Path(partition.path))
        log_end = read[-1][1].last_offset + 1
        stable = min(partition.high_watermark or 0, log_end)
        ends = sorted({base for base in (*(base for base, _ in read[1:]), log_end) if read[0][0] < base <= stable})
        batches = [batch for _, segment in read for batch in segment.batches]
        expected = {offset: rows for offset, rows, _ in folded_at(batches, ends)}
        assert stored.get(partition.topic, {}) == expected, partition.topic
        compared += len(expected)
    assert compared > 2 * len(SEEDS)
