"""The tables of a warehouse read without a JVM: verdicts of the newest carry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.reference.command import tiersnap
from tests.reference.recovered import DATA
from tiersnap.jobs.tables import readiness
from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.tables.facts import to_batches
from tiersnap.snapshot.tables.listed import to_row
from tiersnap.snapshot.tables.schemas import PARTITIONS
from tiersnap.snapshot.tasks.carry_options import CarryOptions
from tiersnap.snapshot.tasks.carry_partition import CarryPartition
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.local_input import LocalInput

pytestmark = pytest.mark.unit

LOGS = DATA / "kafka-3.9.1" / "logs"
NOW = 1_795_270_000_000


def facts(run: int) -> Iterator[pa.RecordBatch]:
    log_dir = open_log_dir(str(LOGS))
    for partition in log_dir.partitions():
        listed = to_row(str(LOGS), partition)
        rows = LocalInput(log_dir.filesystem, partition, {**listed, "remote_error": None, "copies": []})
        yield from to_batches(CarryPartition(CarryOptions(), None, run=run, now=NOW).facts(rows))


def warehouse_of(tmp_path: Path, runs: int) -> Path:
    for run in range(1, runs + 1):
        rows = pa.RecordBatchReader.from_batches(PARTITIONS, facts(run))
        write_deltalake(tmp_path / "partitions", rows, mode="append")
    return tmp_path


@pytest.mark.parametrize("runs", [1, 2])
def test_a_report_of_the_tables_counts_each_segment_once_and_says_what_scan_says(tmp_path: Path, runs: int) -> None:
    ran = tiersnap("report", "--warehouse", warehouse_of(tmp_path, runs), "--now", str(NOW), "--by", "segment")
    assert ran.exit_code == 0, ran.err
    scanned = tiersnap("scan", LOGS, "--segments", "--now", str(NOW))
    assert len(scanned.rows) == 37
    told = sorted((row["name"], row["base_offset"], row["verdict"]) for row in ran.rows)
    assert told == sorted((row["partition"], row["base_offset"], row["verdict"]) for row in scanned.rows)


def test_a_folder_without_facts_is_no_warehouse_to_report_of(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no partition was carried"):
        list(readiness(str(tmp_path), JudgePartition(replace=False, now=NOW, producer_expiration=None)))
