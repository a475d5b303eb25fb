"""The gate: one verdict a segment, the first that applies, in the documented order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from tests.reference.log_builder import data_batch, marker, write_partition
from tiersnap.snapshot.gate.examine import Examination, examine
from tiersnap.snapshot.gate.readiness import NEXT_STEP, PartitionFacts, SegmentFacts, Verdict, judge
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.state.trust import SnapshotVerdict

pytestmark = pytest.mark.unit

PARTITION = PartitionFacts("id", "", 100, "")
SEGMENT = SegmentFacts(0, 10, 100, False, (), "", SnapshotVerdict.MATCHES, "equals the log")

# In order of precedence: each makes a sound segment or partition fail at one rule.
SPOILERS: list[tuple[Verdict, Callable[[SegmentFacts], SegmentFacts], Callable[[PartitionFacts], PartitionFacts]]] = [
    (Verdict.ALREADY_TIERED, lambda s: replace(s, is_tiered=True), lambda p: p),
    (Verdict.ACTIVE_SEGMENT, lambda s: replace(s, next_base_offset=None), lambda p: p),
    (Verdict.COMPACTED_TOPIC, lambda s: s, lambda p: replace(p, compacted="cleaned")),
    (Verdict.TOPIC_ID_UNKNOWN, lambda s: s, lambda p: replace(p, topic_id=None)),
    (Verdict.CORRUPT_SEGMENT, lambda s: replace(s, damage="BAD_CRC"), lambda p: p),
    (Verdict.ABOVE_LSO, lambda s: s, lambda p: replace(p, last_stable_offset=9)),
    (Verdict.MISSING_INDEX, lambda s: replace(s, missing_parts=("time index",)), lambda p: p),
    (Verdict.MISSING_SNAPSHOT, lambda s: replace(s, snapshot=SnapshotVerdict.MISSING), lambda p: p),
]


def verdicts(partition: PartitionFacts, *segments: SegmentFacts) -> list[Verdict]:
    return [readiness.verdict for readiness in judge(partition, segments)]


@pytest.mark.parametrize("first", range(len(SPOILERS)))
def test_the_first_rule_that_applies_decides(first: int) -> None:
    segment, partition = SEGMENT, PARTITION
    for verdict, spoil_segment, spoil_partition in reversed(SPOILERS[first:]):
        segment, partition = spoil_segment(segment), spoil_partition(partition)
        if verdict is not Verdict.ACTIVE_SEGMENT and segment.next_base_offset is None:
            continue
        assert verdicts(partition, segment) == [verdict]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SnapshotVerdict.MATCHES, Verdict.READY),
        (SnapshotVerdict.EXTENDS, Verdict.READY),
        (SnapshotVerdict.MISSING, Verdict.MISSING_SNAPSHOT),
        (SnapshotVerdict.UNKNOWN, Verdict.MISSING_SNAPSHOT),
        (SnapshotVerdict.CORRUPT, Verdict.CORRUPT_SNAPSHOT),
        (SnapshotVerdict.SUSPECT, Verdict.SUSPECT_SNAPSHOT),
    ],
)
def test_only_a_trusted_snapshot_lets_a_segment_through(found: SnapshotVerdict, expected: Verdict) -> None:
    assert verdicts(PARTITION, replace(SEGMENT, snapshot=found)) == [expected]


def test_a_segment_behind_one_that_waits_is_a_gap_until_that_is_cleared() -> None:
    waiting = replace(SEGMENT, missing_parts=("offset index",))
    behind = replace(SEGMENT, base_offset=10, next_base_offset=20)
    damaged = replace(behind, base_offset=20, next_base_offset=30, damage="BAD_CRC")
    tiered = replace(behind, base_offset=30, next_base_offset=40, is_tiered=True)
    assert verdicts(PARTITION, waiting, behind, damaged, tiered) == [
        Verdict.MISSING_INDEX,
        Verdict.GAP_BEFORE,
        Verdict.CORRUPT_SEGMENT,
        Verdict.ALREADY_TIERED,
    ]
    assert verdicts(PARTITION, SEGMENT, behind) == [Verdict.READY, Verdict.READY]


def test_the_next_base_offset_may_equal_the_last_stable_offset() -> None:
    assert verdicts(replace(PARTITION, last_stable_offset=10), SEGMENT) == [Verdict.READY]
    assert verdicts(replace(PARTITION, last_stable_offset=9), SEGMENT) == [Verdict.ABOVE_LSO]
    assert verdicts(replace(PARTITION, last_stable_offset=None), SEGMENT) == [Verdict.ABOVE_LSO]


def test_every_verdict_has_a_next_step_or_needs_none() -> None:
    assert set(NEXT_STEP) == set(Verdict)


TXN: dict[str, Any] = {"producer_id": 7, "epoch": 0, "transactional": True}
OPEN = {
    0: [data_batch(0, 10, 1, 0, 0)],
    10: [data_batch(10, 5, 1, 0, 10), data_batch(15, 5, base_sequence=0, **TXN)],
    20: [data_batch(20, 10, 1, 0, 15)],
    30: [data_batch(30, 2, base_sequence=5, **TXN), marker(32, 7, 0, 0, commit=True), data_batch(33, 7, 1, 0, 25)],
}


def look(log_dir: Path, segments: dict[int, list[bytes]] = OPEN, **more: Any) -> Examination:
    write_partition(log_dir, "orders", 0, segments, indexes=True, **more)
    (partition,) = open_log_dir(str(log_dir)).partitions()
    return examine(fs.LocalFileSystem(), partition)


@pytest.mark.parametrize(
    ("high_watermark", "stable"),
    [
        (40, 40),  # the transaction is complete and replicated
        (33, 33),  # so it is when the marker is the last that is
        (32, 15),  # the marker is not replicated: the transaction still counts
        (25, 15),
        (15, 15),
        (16, 15),
        (14, 14),
        (5, 5),
        (0, 0),
        (99, 40),  # above the log end
    ],
)
def test_the_last_stable_offset_is_the_brokers(high_watermark: int, stable: int, tmp_path: Path) -> None:
    assert look(tmp_path, high_watermark=high_watermark).replay.last_stable_offset == stable


def test_without_a_high_watermark_nothing_is_stable(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert found.replay.last_stable_offset is None
    assert found.readiness[0].verdict is Verdict.ABOVE_LSO
    assert "does not name this partition" in found.readiness[0].reason


def test_a_high_watermark_below_the_log_start_is_the_log_start(tmp_path: Path) -> None:
    found = look(tmp_path, high_watermark=3, log_start_offset=12)
    assert (found.replay.high_watermark, found.replay.last_stable_offset) == (12, 12)


def test_a_transaction_from_before_the_log_start_holds_the_log_start(tmp_path: Path) -> None:
    found = look(tmp_path, high_watermark=25, log_start_offset=17)
    assert found.replay.last_stable_offset == 17


def test_a_hanging_transaction_holds_its_segment_and_all_behind_it(tmp_path: Path) -> None:
    segments = {**OPEN, 30: [data_batch(30, 10, 1, 0, 25)]}
    found = look(tmp_path, segments, high_watermark=40)
    assert [each.verdict for each in found.readiness] == [
        Verdict.MISSING_SNAPSHOT,
        Verdict.GAP_BEFORE,
        Verdict.GAP_BEFORE,
        Verdict.ACTIVE_SEGMENT,
    ]
    assert found.replay.last_stable_offset == 15


@pytest.mark.parametrize(("suffix", "size", "name"), [("index", 3, "offset index"), ("timeindex", 13, "time index"),
                                                      ("txnindex", 33, "transaction index")])  # fmt: skip
def test_an_index_of_no_whole_entries_is_a_missing_index(suffix: str, size: int, name: str, tmp_path: Path) -> None:
    """The bundle would refuse it at every attempt, after a start was recorded."""
    write_partition(tmp_path, "orders", 0, OPEN, high_watermark=40, indexes=True)
    (tmp_path / "orders-0" / f"{0:020d}.{suffix}").write_bytes(bytes(size))
    (partition,) = open_log_dir(str(tmp_path)).partitions()
    first = examine(fs.LocalFileSystem(), partition).readiness[0]
    assert first.verdict is Verdict.MISSING_INDEX
    assert name in first.reason


def test_a_segment_older_than_every_leader_epoch_has_none(tmp_path: Path) -> None:
    found = look(tmp_path, high_watermark=40, leader_epochs=[(3, 12)])
    assert (found.readiness[0].verdict, "leader epochs" in found.readiness[0].reason) == (Verdict.MISSING_INDEX, True)
