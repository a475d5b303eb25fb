"""The SQL of docs/producer-state.md in DuckDB: Kafka's own entries, and those of the compiled fold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.reference import log_builder as lb
from tests.reference import snapshot_entries as reference
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.tables.spark_made_tables import to_batch

pytestmark = pytest.mark.unit

duckdb = pytest.importorskip("duckdb")
PAGE = (Path(__file__).parents[2] / "docs/producer-state.md").read_text(encoding="utf-8")
(SQL,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def headers(log_dir: str) -> Iterator[pa.RecordBatch]:
    for partition in open_log_dir(log_dir).partitions():
        for segment in partition.segments:
            bounds = {"base_offset": segment.base_offset, "next_base_offset": segment.next_base_offset}
            identity = {"log_dir": log_dir, "topic": partition.topic, "partition": partition.partition}
            for rows in SegmentScan(LOCAL, segment.log.path, **bounds, check_crc=True):
                yield to_batch(rows, identity | {"segment_base_offset": segment.base_offset})


def entries_by_sql(*log_dirs: str) -> reference.Entries:
    record_batches = pa.Table.from_batches([rows for log_dir in log_dirs for rows in headers(log_dir)])
    entries: reference.Entries = {}
    with duckdb.connect() as connection:
        connection.register("record_batches", record_batches)
        for row in sorted(connection.execute(SQL).fetchall()):
            entries.setdefault(row[:4], []).append(row[4:])
    return entries


def test_entries_of_the_bundled_logs_are_kafkas_own() -> None:
    assert entries_by_sql(*reference.BUNDLED) == reference.kafkas_entries(reference.BUNDLED)


def test_entries_of_200_generated_logs_are_those_of_the_compiled_fold(tmp_path: Path) -> None:
    log_dir = reference.write_random_logs(tmp_path / "logs", 200)
    assert entries_by_sql(log_dir) == reference.kernels_entries(log_dir)


def test_a_log_that_kafka_refuses_is_refused_with_its_offset(tmp_path: Path) -> None:
    opening, plain = lb.data_batch(0, 3, 7, 0, 0, transactional=True), lb.data_batch(3, 2, 7, 0, 3)
    lb.write_partition(tmp_path, "refused", 0, {0: [opening], 3: [plain]}, indexes=True, high_watermark=5)
    with pytest.raises(duckdb.Error, match="offset 3 is not in the open transaction"):
        entries_by_sql(str(tmp_path))
