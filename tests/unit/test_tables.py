"""Rows of the tables and the core's values: each way and back nothing is lost."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.reference.recovered import DATA
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.producer_fold import DELTA_DTYPE
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.partition_state import SnapshotAt, StoredAt
from tiersnap.snapshot.replay.remote_listing import ListedCopy, RemoteListing, RemoteSegmentState
from tiersnap.snapshot.replay.snapshot_comparison import SnapshotFile
from tiersnap.snapshot.tables import listed
from tiersnap.snapshot.tables.all_tables import TABLES
from tiersnap.snapshot.tables.deltas import columns_of as fields_as_columns
from tiersnap.snapshot.tables.deltas import from_lists, parts, to_lists
from tiersnap.snapshot.tables.facts import (
    PARTITIONS,
    Fact,
    FactKind,
    StoredReplay,
    fact_batches,
    read_facts,
    state_batches,
)
from tiersnap.snapshot.tables.schema_parts import PART_DELTAS, comment_of

pytestmark = pytest.mark.unit


def fact(kind: FactKind, **more: object) -> Fact:
    return Fact(log_dir="/data", topic="orders", partition=3, kind=kind, **more)  # type: ignore[arg-type]


longs = st.integers(-1, 1 << 62)
maybe = st.none() | longs
texts = st.text(max_size=8)
pairs = st.lists(st.tuples(st.integers(0, 9), longs), max_size=3).map(tuple)

# Unsigned and narrow columns take what fits both NumPy's type and the table's.
deltas = hnp.arrays(
    DELTA_DTYPE,
    st.integers(0, 6),
    elements=st.tuples(
        *(
            st.integers(0, 1)
            if DELTA_DTYPE[name].kind in "ub"
            else st.integers(int(np.iinfo(DELTA_DTYPE[name]).min), int(np.iinfo(DELTA_DTYPE[name]).max))
            for name in DELTA_DTYPE.names
        )
    ),
)


def columns_of(schema: pa.Schema | pa.StructType, name: str) -> list[str]:
    """`table.column type`, one a line, the fields of a struct behind it."""
    found = []
    for field in schema:
        is_struct = pa.types.is_struct(field.type)
        kind = "struct" if is_struct else str(field.type)
        found.append(f"{name}.{field.name} {kind}{'' if field.nullable else ' not null'}")
        found += columns_of(field.type, f"{name}.{field.name}") if is_struct else []
    return found


def test_tables_have_the_columns_that_are_written_down() -> None:
    """Readers outside rely on them: a change is to be seen, and told in docs/warehouse.md."""
    lines = [line for name, schema in TABLES.items() for line in columns_of(schema, name)]
    assert lines == (Path(__file__).parents[1] / "golden/tables.txt").read_text(encoding="utf-8").splitlines()


def test_every_table_and_column_has_a_comment() -> None:
    for name, schema in TABLES.items():
        for described in (schema, *schema):
            assert len(comment_of(described)) > 8, (name, described)


@given(st.lists(deltas, max_size=5))
def test_deltas_come_back_from_their_lists(many: list[np.ndarray]) -> None:
    assert [back.tolist() for back in from_lists(to_lists(many))] == [each.tolist() for each in many]


@given(st.lists(deltas, min_size=2, max_size=5), st.data())
def test_deltas_come_back_from_a_slice_of_a_column_and_null_has_none(
    many: list[np.ndarray], data: st.DataObject
) -> None:
    """Spark hands out slices of what it read."""
    start = data.draw(st.integers(0, len(many) - 1))
    column = pa.concat_arrays([to_lists(many), pa.nulls(1, to_lists(many).type)]).slice(start)
    expected = [each.tolist() for each in many[start:]] + [[]]
    assert [back.tolist() for back in from_lists(column)] == expected


@pytest.mark.parametrize(("start", "count"), [(0, 1), (0, 2), (1, 1), (1, 2), (0, 3)])
@pytest.mark.parametrize("last", [{"at": 3, "of": [3]}, None])
def test_fields_of_a_slice_of_structs_are_no_longer_than_it(start: int, count: int, last: object) -> None:
    """In the oldest pyarrow that is allowed RecordBatch.from_struct_array gives whole columns from the first row on."""
    rows = [{"at": 1, "of": [1]}, {"at": 2, "of": None}, last]
    structs = pa.array(rows, pa.struct([("at", pa.int64()), ("of", pa.list_(pa.int64()))]))
    found = fields_as_columns(structs.slice(start, count))
    expected = [row or {"at": None, "of": None} for row in rows[start : start + count]]
    assert [found["at"].to_pylist(), found["of"].to_pylist()] == [
        [row[name] for row in expected] for name in ("at", "of")
    ]


@pytest.mark.parametrize("size", [0, 1, PART_DELTAS, PART_DELTAS + 1, 3 * PART_DELTAS])
def test_parts_are_all_of_it_in_order_and_none_is_too_large(size: int) -> None:
    whole = np.zeros(size, DELTA_DTYPE)
    whole["producer_id"] = np.arange(size)
    found = list(parts(whole))
    assert len(found) == max(1, -(-size // PART_DELTAS))
    assert max(part.size for part in found) <= PART_DELTAS
    assert np.concatenate(found).tolist() == whole.tolist()


comparisons = st.builds(
    Comparison,
    st.sampled_from(SnapshotVerdict),
    texts,
    **dict.fromkeys(
        ("lacking", "differing", "without_coordinator_epoch", "unexplained", "extending", "harmful_until"), longs
    ),
)
segment_facts = st.builds(
    SegmentFacts,
    base_offset=longs,
    next_base_offset=maybe,
    size_bytes=longs,
    modified_ns=longs,
    digest=texts,
    crc_checked=st.booleans(),
    largest_timestamp=longs,
    damage_kind=st.none() | st.sampled_from(FindingKind),
    damage=texts,
    has_gaps=st.booleans(),
    missing_parts=st.lists(texts, max_size=2).map(tuple),
    rebuilt_parts=st.lists(texts, max_size=2).map(tuple),
    index_faults=st.lists(texts, max_size=2).map(tuple),
)
partition_facts = st.builds(
    PartitionFacts,
    topic_id=st.none() | texts,
    internal=texts,
    compacted=texts,
    log_start=maybe,
    log_start_unknown=texts,
    transactions_unknown=texts,
    log_start_offset=longs,
    log_end_offset=longs,
    high_watermark=maybe,
    last_stable_offset=maybe,
    unstable_because=texts,
)


def through_the_table(fact: Fact) -> Fact:
    (batch,) = fact_batches([fact])
    assert batch.schema == PARTITIONS
    ((found, read),) = read_facts(batch)
    assert read.size == 0
    return found


@given(segment_facts)
def test_segment_facts_come_back_from_their_row(found: SegmentFacts) -> None:
    assert through_the_table(fact(FactKind.SEGMENT, segment=found)).segment == found


@given(st.builds(StoredReplay, facts=partition_facts, leader_epochs=st.none() | pairs))
def test_replay_comes_back_from_its_row(found: StoredReplay) -> None:
    assert through_the_table(fact(FactKind.REPLAYED, replay=found)).replay == found


def test_every_field_of_a_comparison_is_drawn_in_these_tests() -> None:
    """A new one that no column holds would come back as its default."""
    assert len(fields(Comparison)) == 8


@given(st.integers(0, 9), st.integers(1, 4))
def test_facts_come_in_batches_and_in_order(count: int, size: int) -> None:
    facts = [fact(FactKind.FINDING, part=number) for number in range(count)]
    batches = list(fact_batches(facts, size=size))
    assert [each for batch in batches for each, _ in read_facts(batch)] == facts
    assert all(batch.num_rows <= size for batch in batches)


@pytest.mark.parametrize("size", [0, 1, PART_DELTAS, PART_DELTAS + 1, 3 * PART_DELTAS])
def test_state_comes_back_from_its_parts_in_order(size: int) -> None:
    state = np.zeros(size, DELTA_DTYPE)
    state["producer_id"] = np.arange(size)
    replayed = fact(
        FactKind.REPLAYED, replay=StoredReplay(facts=PartitionFacts("id", "", "", 0, "", "", 0, 1, 1, 1, ""))
    )
    rows = [row for batch in state_batches(replayed, state) for row in read_facts(batch)]
    assert {each.kind for each, _ in rows} == {FactKind.STATE}
    assert [each.part for each, _ in rows] == list(range(len(rows)))
    assert np.concatenate([deltas for _, deltas in rows]).tolist() == state.tolist()


@pytest.mark.parametrize("broker", ["kafka-2.7.2", "kafka-3.9.1", "kafka-4.1.1", "ledger-2.7.2"])
def test_a_listed_partition_comes_back_from_its_row(broker: str) -> None:
    logs = DATA / broker / "logs"
    found = list(open_log_dir(str(logs)).partitions())
    rows = [listed.ListedPartition.of(str(logs), each, None) for each in found]
    for partition, row, read in zip(
        found, rows, listed.LISTED_ROWS.read([listed.LISTED_ROWS.batch(rows)]), strict=True
    ):
        assert read == row
        back = read.on_disk(str(logs))
        assert listed.ListedPartition.of(str(logs), back, None) == row
        assert [each.log for each in back.segments] == [each.log for each in partition.segments]
        assert (back.path, back.snapshots, back.findings) == (partition.path, partition.snapshots, partition.findings)


def chains(row: listed.ListedPartition) -> dict[int, str]:
    return {segment.base_offset: segment.chain for segment in row.segments}


def test_a_change_of_a_file_breaks_the_chain_above_it_and_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base in (0, 10, 20, 30):
        (folder / f"{base:020d}.log").write_bytes(bytes(base))
    (folder / f"{20:020d}.snapshot").write_bytes(b"1")

    def row() -> listed.ListedPartition:
        (partition,) = open_log_dir(str(tmp_path)).partitions()
        return listed.ListedPartition.of(str(tmp_path), partition, None)

    before = row()
    assert row() == before
    (folder / f"{10:020d}.log").write_bytes(b"another size")
    after = row()
    assert after.fingerprint != before.fingerprint
    same = [base for base, chain in chains(before).items() if chains(after)[base] == chain]
    assert same == [0, 10]
    # The snapshot at 20 may be what a replay goes on from there.
    (folder / f"{20:020d}.snapshot").write_bytes(b"22")
    assert [base for base, chain in chains(after).items() if chains(row())[base] == chain] == [0, 10]


def test_a_segment_is_tiered_when_copies_of_its_lineage_hold_all_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base in (0, 10, 20, 30):
        (folder / f"{base:020d}.log").touch()
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (partition,) = open_log_dir(str(tmp_path)).partitions()

    states = (RemoteSegmentState.COPY_SEGMENT_STARTED, RemoteSegmentState.COPY_SEGMENT_FINISHED)

    def tiered(*copies: tuple[int, int, int, bool]) -> list[int]:
        view = RemoteListing(
            tuple(
                ListedCopy("x", start, end, states[is_finished], leader_epochs=(LeaderEpoch(epoch, start),))
                for start, end, epoch, is_finished in copies
            )
        )
        return sorted(view.tiered_segments(partition))

    assert tiered((0, 15, 0, True), (15, 20, 0, True)) == [0, 10]
    assert tiered((0, 15, 0, True)) == [0]
    assert tiered((0, 20, 7, True)) == []
    assert tiered((0, 10, 0, True), (10, 20, 0, False)) == [0]
    assert tiered((0, 100, 0, True)) == [0, 10, 20]


snapshots = st.builds(
    SnapshotAt,
    snapshot_offset=longs,
    comparison=comparisons,
    provenance=st.sampled_from(Provenance),
    folded_from=longs,
    file=st.builds(SnapshotFile, file_bytes=maybe, file_crc32c=maybe, not_read=st.none() | texts),
    open_transactions=st.none() | st.lists(st.tuples(longs, longs), max_size=3).map(tuple),
    stored=st.none() | st.builds(StoredAt, texts, longs, longs, longs, st.booleans()),
)


@given(snapshots)
def test_snapshot_comes_back_from_its_row(found: SnapshotAt) -> None:
    assert through_the_table(fact(FactKind.BOUNDARY, snapshot=found)).snapshot == found
