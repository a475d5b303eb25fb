"""What Spark tasks do with their rows, and the tables read without a JVM."""

from __future__ import annotations

import gc
import pickle
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.reference import fleet_joins
from tests.reference.all_logs import assemble
from tests.reference.fleet_joins import Row, input_batches, key_of
from tests.reference.fleet_run import DAY, Runner, arrow_table
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.recovered import DATA
from tiersnap.jobs.cli.delta_tables import read_table, readiness
from tiersnap.jobs.pipeline.decoding import WANTED, DecodeSegments
from tiersnap.jobs.pipeline.partition_input import PartitionInput
from tiersnap.jobs.pipeline.replaying import ReplayPartition
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.snapshot.errors import CorruptDataError, SourceNotFoundError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.segment_walk import SegmentEnd
from tiersnap.snapshot.members import plain_members
from tiersnap.snapshot.producer_fold import DELTA_DTYPE
from tiersnap.snapshot.replay.expiry import BrokerExpiry, ReplayOptions
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment
from tiersnap.snapshot.tables.decodes import DECODE_ROWS, SEGMENTS, SegmentFile, StoredDecode, decode_batches
from tiersnap.snapshot.tables.deltas import from_lists
from tiersnap.snapshot.tables.listed import ListedPartition
from tiersnap.snapshot.tables.schema_parts import PART_DELTAS

pytestmark = pytest.mark.unit


def partition_rows(tmp_path: Path, *, producers: int = 3) -> list[Row]:
    """Rows of INPUT of a partition of two segments, the first with more producers than fit in a part."""
    entries = [data_batch(producer, 1, producer, 0, 0) for producer in range(producers)]
    segments = {0: entries, producers: [data_batch(producers, 5, 1, 0, 1)]}
    write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=producers + 5, indexes=True)
    runner = Runner(tmp_path, tmp_path / "logs")
    (listed,) = runner(apply=False).listed
    # As it is replayed again from its beginning, of tables whose facts were lost.
    tables = fleet_joins.Tables(segments=runner.tables.segments)
    return fleet_joins.replay_input(listed, {"start_offset": None}, tables)


def test_rows_out_of_order_are_an_error_and_no_wrong_state(tmp_path: Path) -> None:
    """Spark keeps the order of a sort within a group today and promises it nowhere."""
    rows = partition_rows(tmp_path, producers=2 * PART_DELTAS + 1)
    parts = [row["part"] for row in rows if "decode" in row and row["offset"] == 0]
    assert parts == [0, 1, 2]
    task = ReplayPartition(ReplayOptions(), None, run=2, now=1)
    expected = list(task(input_batches(rows, size=100)))
    assert expected
    for first, second in ((0, 1), (1, 2), (2, 4)):
        swapped = list(rows)
        swapped[first], swapped[second] = swapped[second], swapped[first]
        with pytest.raises(ValueError, match="did not keep the order of the sort"):
            list(task(input_batches(swapped)))
    with pytest.raises(ValueError, match="did not keep the order of the sort"):
        list(task(input_batches([*rows, rows[-1]])))


def test_how_spark_cuts_rows_into_batches_changes_nothing(tmp_path: Path) -> None:
    rows = partition_rows(tmp_path, producers=PART_DELTAS + 1)
    task = ReplayPartition(ReplayOptions(), None, run=2, now=1)
    found = [pa.Table.from_batches(task(input_batches(rows, size=size))).to_pylist() for size in (1, 2, 100)]
    assert found[0] == found[1] == found[2]
    assert [row["part"] for row in found[0] if row["kind"] == "STATE"] == [0, 1]


def test_a_segment_without_a_decode_is_skipped_and_the_next_one_found(tmp_path: Path) -> None:
    rows = [row for row in partition_rows(tmp_path) if row["offset"] != 0 or "decode" not in row]
    found = PartitionInput(input_batches(rows))
    assert found.decode(0) is None
    ended, runs = found.decode(3) or pytest.fail("not found")
    assert ended.file.base_offset == 3
    assert [run.start_offset for run in runs] == [3, 8]


@pytest.mark.parametrize("broker", ["kafka-2.7.2", "kafka-4.1.1"])
def test_a_decode_says_in_rows_what_the_fold_of_the_segment_says(broker: str) -> None:
    logs = DATA / broker / "logs"
    choice = random.Random(3)
    for partition in open_log_dir(str(logs)).partitions():
        listed = plain_members(ListedPartition.of(str(logs), partition, None))
        for segment, row in zip(partition.segments, listed["segments"], strict=True):
            last = segment.next_base_offset or segment.base_offset + 50
            cuts = sorted({choice.randint(segment.base_offset + 1, last) for _ in range(2)})
            wanted = {**listed, **row, "cuts": cuts}
            batch = pa.RecordBatch.from_pylist([wanted], schema=WANTED)
            (found,) = DecodeSegments(check_crc=True, run=7)(iter([batch]))
            runs, end = fold_segment(LOCAL, segment, cuts=cuts)
            assert found.schema == SEGMENTS
            rows = found.to_pylist()
            assert [row["part"] for row in rows] == list(range(len(rows)))
            assert next(DECODE_ROWS.read([found])).end == end
            observed = zip(rows, from_lists(found.column("deltas")), strict=True)
            for run in runs:
                parts = [deltas for row, deltas in observed_of(observed, run.start_offset, len(run.deltas))]
                assert np.concatenate(parts).tolist() == run.deltas.tolist()
            assert {row["run_start_offset"]: row["run_max_timestamp"] for row in rows} == {
                run.start_offset: run.max_timestamp for run in runs
            }


def observed_of(rows, start: int, size: int):
    """The next parts, which are those of the run at `start`."""
    for row, deltas in rows:
        assert row["run_start_offset"] == start
        yield row, deltas
        size -= len(deltas)
        if size <= 0:
            return


def test_decode_segments_gives_small_decodes_as_one_batch() -> None:
    logs = DATA / "kafka-4.1.1" / "logs"
    found = [ListedPartition.of(str(logs), partition, None) for partition in open_log_dir(str(logs)).partitions()]
    rows = [{**row, **each} for row in map(plain_members, found) for each in row["segments"]]
    task = DecodeSegments(check_crc=True, run=7)
    alone = [batch for row in rows for batch in task(iter([pa.RecordBatch.from_pylist([row], schema=WANTED)]))]
    (together,) = task(iter([pa.RecordBatch.from_pylist(rows, schema=WANTED)]))
    assert len(alone) == len(rows) > 20
    assert together.to_pylist() == pa.Table.from_batches(alone).to_pylist()


def test_decode_batches_flushes_when_it_holds_enough_deltas() -> None:
    end = SegmentEnd(1, 1, 1, 0, 0, 0, 0, False, "", True, None)
    decode = StoredDecode(SegmentFile("/logs", "orders", 0, None, 0, None, 1, 1), end, run=1)
    deltas = np.zeros(5 * PART_DELTAS, DELTA_DTYPE)
    found = list(decode_batches((decode, [Run(0, deltas, -1)]) for _ in range(4)))
    assert [batch.num_rows for batch in found] == [10, 10]
    assert [part.as_py() for part in found[0]["part"]] == [*range(5), *range(5)]


def live_decodes() -> int:
    """Return how many decodes and runs this process holds."""
    gc.collect()
    return sum(type(each) in {StoredDecode, Run} for each in gc.get_objects())


def test_decode_holds_no_large_decode_while_it_makes_the_next(tmp_path: Path) -> None:
    many = 40_000
    segments = {base: [data_batch(base + n, 1, 1 + n, 0, 0) for n in range(many)] for base in range(0, 3 * many, many)}
    write_partition(tmp_path, "orders", 0, segments, high_watermark=3 * many)
    held: list[int] = []

    def wanted() -> Iterator[pa.RecordBatch]:
        for base in segments:
            held.append(live_decodes())
            row = {"log_dir": str(tmp_path), "topic": "orders", "partition": 0, "base_offset": base, "cuts": []}
            size = (tmp_path / "orders-0" / f"{base:020d}.log").stat().st_size
            yield pa.RecordBatch.from_pylist([{**row, "size_bytes": size, "modified_ns": 1}], schema=WANTED)

    found = [batch.num_rows for batch in DecodeSegments(check_crc=False, run=1)(wanted())]
    assert max(held) == held[0]
    assert found == [17, 3] * 3, "in batches of some megabytes"


def test_a_file_that_is_gone_is_a_row_with_a_finding(tmp_path: Path) -> None:
    wanted = {"log_dir": str(tmp_path), "topic": "orders", "partition": 0, "base_offset": 5, "size_bytes": 9}
    batch = pa.RecordBatch.from_pylist([{**wanted, "modified_ns": 1, "cuts": []}], schema=WANTED)
    (found,) = DecodeSegments(check_crc=True, run=1)(iter([batch]))
    (row,) = found.to_pylist()
    assert (row["finding_kind"], row["base_offset"], row["deltas"]) == ("DELETED_FILE", 5, [])


@pytest.mark.parametrize(("before", "count"), [("deleted since it was listed", 0), ("Input/output error", 1)])
def test_what_cannot_be_read_for_the_same_reason_as_before_is_no_row(tmp_path: Path, before: str, count: int) -> None:
    wanted = {"log_dir": str(tmp_path), "topic": "orders", "partition": 0, "base_offset": 5, "size_bytes": 9}
    batch = pa.RecordBatch.from_pylist([{**wanted, "modified_ns": 1, "cuts": [], "not_read": before}], schema=WANTED)
    assert len(list(DecodeSegments(check_crc=True, run=1)(iter([batch])))) == count


def test_every_boundary_of_the_bundled_logs_is_what_kafkas_own_classes_fold(tmp_path: Path) -> None:
    expected = assemble(tmp_path / "logs")
    assert len(expected) == 119
    runner = Runner(tmp_path, tmp_path / "logs")
    assert runner(every_boundary=True).errors == []
    observed = {}
    for key, data in runner.objects().items():
        parsed = keys.parse(key)
        if parsed.kind is KeyKind.SNAPSHOT:
            observed[f"{parsed.partition.topic}-{parsed.partition.partition}", parsed.offset] = data
    assert expected.keys() <= observed.keys()
    for boundary, path in expected.items():
        entries = snapshot_file.decode(observed[boundary])
        assert entries.tolist() == snapshot_file.decode(path.read_bytes()).tolist(), boundary


def test_tasks_can_be_sent_to_executors() -> None:
    judge = JudgePartition(False, BrokerExpiry(1, DAY))
    for task in (DecodeSegments(True, 1), ReplayPartition(ReplayOptions(), None, 1, 2), judge):
        assert pickle.loads(pickle.dumps(task)) == task


@pytest.fixture
def warehouse(tmp_path: Path) -> tuple[str, Runner]:
    """The tables of three runs as Delta tables."""
    runner = Runner(tmp_path, tmp_path / "logs")
    for bases in ((0, 5, 10), (0, 5, 10, 15), (0, 5, 10, 15)):
        segments = {base: [data_batch(base, 5, 1, 0, base)] for base in bases}
        for topic, topic_id in (("orders", "lZ6vvmajTWKDBUTV6SQAtQ"), ("payments", "5GXaOJXiRzOuReKRIUWzvw")):
            high = bases[-1] + 5
            write_partition(runner.source, topic, 0, segments, topic_id=topic_id, high_watermark=high, indexes=True)
        runner(every_boundary=True)
    folder = tmp_path / "warehouse"
    for name in ("partitions", "readiness"):
        write_deltalake(str(folder / name), arrow_table(name, getattr(runner.tables, name)))
    return str(folder), runner


def test_verdicts_read_without_a_jvm_are_those_of_the_run(warehouse: tuple[str, Runner]) -> None:
    folder, runner = warehouse
    found = [row for batch in readiness(folder) for row in batch.to_pylist()]
    expected = runner(every_boundary=True).readiness
    assert [row["verdict"] for row in expected].count("UPLOADED") == 6
    assert found == sorted(expected, key=lambda row: (*key_of(row), row["base_offset"]))


def test_a_table_before_its_first_commit_has_no_rows_and_a_warehouse_without_facts_is_a_wrong_path(
    tmp_path: Path,
) -> None:
    assert read_table(str(tmp_path), "segments", ["topic", "run"]).num_rows == 0
    with pytest.raises(SourceNotFoundError, match="not a warehouse"):
        list(readiness(str(tmp_path)))


def test_a_table_that_is_none_is_named(warehouse: tuple[str, Runner]) -> None:
    folder, _ = warehouse
    (log,) = Path(folder, "partitions", "_delta_log").glob("*.json")
    log.write_text("{nonsense")
    with pytest.raises(CorruptDataError, match="partitions: the file is not readable as part of a Delta table"):
        list(readiness(folder))
