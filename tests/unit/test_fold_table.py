"""The fold of record_batches files says what the fold of the rows says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tiersnap.snapshot import tables
from tiersnap.snapshot.delta_rows import BatchColumns, batches_to_table, table_to_deltas, writable
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE, RECORD_BATCH_FIELDS
from tiersnap.snapshot.stages.fold_table import FILES, FoldTable, fold_file
from tiersnap.snapshot.state.producer_state import fold
from tiersnap.snapshot.table_file import TableFile


def rows_from(base_offset: int, count: int, seed: int) -> np.ndarray:
    """Batches of a few producers, some without an id, some markers."""
    random = np.random.default_rng(seed)
    rows = np.zeros(count, RECORD_BATCH_DTYPE)
    rows["base_offset"] = base_offset + np.arange(count)
    rows["crc"] = random.integers(0, 1 << 32, count)
    rows["producer_id"] = random.integers(-1, 9, count)
    rows["producer_epoch"] = random.integers(0, 2, count)
    rows["base_sequence"] = random.integers(-1, 100, count)
    rows["record_count"] = 1
    rows["max_timestamp"] = random.integers(0, 1 << 40, count)
    rows["attributes"] = random.choice([0, 0x10, 0x30], count)
    is_marker = rows["attributes"] == 0x30
    rows["control_type"] = np.where(is_marker, random.integers(0, 2, count), -1)
    rows["coordinator_epoch"] = np.where(is_marker, 3, -1)
    rows["control_timestamp"] = np.where(is_marker, 5, -1)
    return rows


def segment(base_offset: int) -> dict[str, object]:
    return {"log_dir": "/logs", "topic": "t", "partition": 1, "segment_base_offset": base_offset}


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, dict[int, np.ndarray]]:
    """A file of three segments, the second in two row groups."""
    segments = {base: rows_from(base, count, base) for base, count in ((0, 50), (50, 300), (350, 1))}
    file = TableFile(fs.LocalFileSystem(), str(tmp_path), "record_batches", writable(tables.RECORD_BATCHES))
    columns = BatchColumns(200)
    for base, rows in segments.items():
        left = rows
        while left.size:
            left = left[columns.add(left) :]
            file.write(columns.take(segment(base), tables.RECORD_BATCHES))
    written = file.close()
    assert written is not None
    return tmp_path / "record_batches" / str(written["path"]), segments


def test_a_file_folds_as_its_rows_do(made: tuple[Path, dict[int, np.ndarray]]) -> None:
    path, segments = made
    folded = {
        identity["segment_base_offset"]: deltas for identity, deltas in fold_file(fs.LocalFileSystem(), str(path))
    }
    assert list(folded) == list(segments)
    for base, rows in segments.items():
        assert folded[base].tolist() == fold(rows).tolist()


def test_the_task_gives_rows_of_the_deltas_table(made: tuple[Path, dict[int, np.ndarray]]) -> None:
    path, segments = made
    plan = pa.record_batch([[path.name]], schema=FILES)
    table = pa.Table.from_batches(FoldTable(str(path.parent))(iter([plan])), schema=tables.PRODUCER_DELTAS)
    assert table["run_offset"].equals(table["segment_base_offset"])
    assert table_to_deltas(table).tolist() == np.concatenate([fold(rows) for rows in segments.values()]).tolist()


def test_headers_are_written_as_they_were_decoded(made: tuple[Path, dict[int, np.ndarray]]) -> None:
    path, segments = made
    found = pq.read_table(path)
    for name, _ in RECORD_BATCH_FIELDS:
        assert found[name].to_pylist() == np.concatenate([rows[name] for rows in segments.values()]).tolist()


def test_a_row_group_of_two_segments_is_refused(tmp_path: Path) -> None:
    parts = [batches_to_table(rows_from(base, 5, 1), segment(base), tables.RECORD_BATCHES) for base in (0, 5)]
    pq.write_table(pa.concat_tables(parts).cast(tables.RECORD_BATCHES), tmp_path / "mixed.parquet")
    with pytest.raises(UsageError, match="not of one segment"):
        list(fold_file(fs.LocalFileSystem(), str(tmp_path / "mixed.parquet")))
