"""The gate: one verdict a segment, the first that applies, in the documented order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reference.command import tiersnap
from tests.reference.log_builder import TIMESTAMP, data_batch, legacy_entry, marker, write_partition
from tiersnap.snapshot.gate.copy_task import BrokerAtWork
from tiersnap.snapshot.gate.judge import Readiness, judge
from tiersnap.snapshot.gate.printed_steps import NEXT_STEP
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE, RemoteCoverage
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.examine import Examination, examine
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.snapshot_comparison import ExaminedSegment, computed

pytestmark = pytest.mark.unit

NOW = TIMESTAMP + 1000
DAY = 86_400_000
RIGHT = Comparison(SnapshotVerdict.MATCHES, "equals the log")
PARTITION = PartitionFacts("id", "", "", 0, "", "", 0, 100, 100, 100, "")
SEGMENT = ExaminedSegment(SegmentFacts(0, 10, 100, 0, "", True, TIMESTAMP, None, "", False, (), ()), RIGHT)


def changed(segment: ExaminedSegment, *, snapshot: Comparison | None = None, **facts: object) -> ExaminedSegment:
    """The segment with other facts, or another snapshot."""
    return ExaminedSegment(replace(segment.facts, **facts), snapshot or segment.snapshot)  # type: ignore[arg-type]


# In order of precedence: each makes a sound segment, partition or remote storage fail at one rule.
Spoil = Callable[
    [ExaminedSegment, PartitionFacts, RemoteCoverage], tuple[ExaminedSegment, PartitionFacts, RemoteCoverage]
]
SPOILERS: list[tuple[Verdict, Spoil]] = [
    (Verdict.IN_REMOTE, lambda s, p, r: (s, p, replace(r, covered=((0, 10),), highest=10))),
    (Verdict.COPY_IN_FLIGHT, lambda s, p, r: (s, p, replace(r, in_flight=frozenset({0})))),
    (Verdict.GAP_IN_REMOTE, lambda s, p, r: (s, p, replace(r, highest=10))),
    (Verdict.ACTIVE_SEGMENT, lambda s, p, r: (changed(s, next_base_offset=None), p, r)),
    (Verdict.INTERNAL_TOPIC, lambda s, p, r: (s, replace(p, internal="internal topic"), r)),
    (Verdict.COMPACTED_TOPIC, lambda s, p, r: (s, replace(p, compacted="cleaned"), r)),
    (Verdict.TOPIC_ID_UNKNOWN, lambda s, p, r: (s, replace(p, topic_id=None), r)),
    (
        Verdict.UNREADABLE_SEGMENT,
        lambda s, p, r: (changed(s, damage="denied", damage_kind=FindingKind.PERMISSION_DENIED), p, r),
    ),
    (Verdict.CORRUPT_SEGMENT, lambda s, p, r: (changed(s, damage="BAD_CRC"), p, r)),
    (Verdict.UNKNOWN_LOG_START, lambda s, p, r: (s, replace(p, log_start_unknown="nothing tells it"), r)),
    (Verdict.UNKNOWN_TRANSACTIONS, lambda s, p, r: (s, replace(p, transactions_unknown="nothing proves it"), r)),
    (Verdict.ABOVE_LSO, lambda s, p, r: (s, replace(p, last_stable_offset=9), r)),
    (Verdict.MISSING_INDEX, lambda s, p, r: (changed(s, missing_parts=("leader epochs",)), p, r)),
    (Verdict.ENCRYPTED_REMOTE, lambda s, p, r: (s, p, replace(r, encrypted_by="x.rsm-manifest"))),
    (Verdict.MISSING_SNAPSHOT, lambda s, p, r: (changed(s, snapshot=Comparison(SnapshotVerdict.MISSING, "no")), p, r)),
    (Verdict.INDEX_DAMAGED, lambda s, p, r: (changed(s, index_faults=("time index: it is wrong",)), p, r)),
]


def verdicts(
    partition: PartitionFacts, *segments: ExaminedSegment, coverage: RemoteCoverage = NOTHING_REMOTE, now: int = NOW
) -> list[Verdict]:
    found = judge(partition, segments, expiry=BrokerExpiry(now, DAY), coverage=coverage)
    return [readiness.verdict for readiness in found]


@pytest.mark.parametrize("first", range(len(SPOILERS)))
def test_the_first_rule_that_applies_decides(first: int) -> None:
    segment, partition, coverage = SEGMENT, PARTITION, NOTHING_REMOTE
    for verdict, spoil in reversed(SPOILERS[first:]):
        spoilt = spoil(segment, partition, coverage)
        assert verdicts(spoilt[1], spoilt[0], coverage=spoilt[2]) == [verdict]
        if verdict is not Verdict.ACTIVE_SEGMENT:  # which has no end, and the rules before it ask for one
            segment, partition, coverage = spoilt


SUSPECT = Comparison(SnapshotVerdict.SUSPECT, "lacks one", lacking=1, harmful_until=NOW - DAY + 1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (RIGHT, Verdict.READY),
        (Comparison(SnapshotVerdict.EXTENDS, ""), Verdict.READY),
        (Comparison(SnapshotVerdict.MISSING, ""), Verdict.MISSING_SNAPSHOT),
        (Comparison(SnapshotVerdict.UNVERIFIED, ""), Verdict.UNVERIFIED_SNAPSHOT),
        (Comparison(SnapshotVerdict.NOT_COMPARED, ""), Verdict.UNVERIFIED_SNAPSHOT),
        (Comparison(SnapshotVerdict.NOT_COMPARED, "", lacking=1, harmful_until=NOW - DAY), Verdict.UNVERIFIED_SNAPSHOT),
        (Comparison(SnapshotVerdict.NOT_COMPARED, "", lacking=1, harmful_until=NOW), Verdict.SUSPECT_SNAPSHOT),
        (Comparison(SnapshotVerdict.CORRUPT, ""), Verdict.CORRUPT_SNAPSHOT),
        (SUSPECT, Verdict.SUSPECT_SNAPSHOT),
        (computed(Provenance.COMPUTED), Verdict.READY),
    ],
)
def test_only_a_trusted_snapshot_lets_a_segment_through(found: Comparison, expected: Verdict) -> None:
    assert verdicts(PARTITION, changed(SEGMENT, snapshot=found)) == [expected]


@pytest.mark.parametrize("found", list(SnapshotVerdict))
def test_a_scan_window_lets_through_what_nobody_compared_and_nothing_that_is_wrong(found: SnapshotVerdict) -> None:
    differs = {"lacking": 1, "harmful_until": NOW} if found is SnapshotVerdict.SUSPECT else {}
    segment = changed(SEGMENT, snapshot=Comparison(found, "", **differs))

    def judged(partition: PartitionFacts, segment: SegmentFacts, *unread: int) -> Verdict:
        (one,) = judge(partition, [segment], expiry=BrokerExpiry(NOW, DAY), unread=dict.fromkeys(unread, ""))
        return one.verdict

    alone = judged(PARTITION, segment)
    assert judged(PARTITION, segment, 5) is alone, "another segment"
    within = judged(PARTITION, segment, 0)
    assert within is (Verdict.BEFORE_WINDOW if alone in (Verdict.READY, Verdict.UNVERIFIED_SNAPSHOT) else alone)
    damaged = changed(segment, damage="BAD_CRC")
    assert judged(PARTITION, damaged, 0) is Verdict.CORRUPT_SEGMENT
    assert judged(replace(PARTITION, last_stable_offset=9), segment, 0) is Verdict.ABOVE_LSO


def test_every_segment_behind_a_gap_names_the_first_that_blocks() -> None:
    blocked = changed(SEGMENT, snapshot=Comparison(SnapshotVerdict.MISSING, "no"))
    behind = [changed(SEGMENT, base_offset=base, next_base_offset=base + 10) for base in (10, 20, 30)]
    _, *found = judge(PARTITION, [blocked, *behind], expiry=BrokerExpiry(NOW, DAY))
    said = "the earlier segment 0 is MISSING_SNAPSHOT"
    assert [(each.verdict, each.reason) for each in found] == [(Verdict.GAP_BEFORE, said)] * 3


@pytest.mark.parametrize(("stable", "word"), [(None, "unknown"), (9, "9")])
def test_what_is_above_the_last_stable_offset_says_where_that_is(stable: int | None, word: str) -> None:
    (found,) = judge(replace(PARTITION, last_stable_offset=stable), [SEGMENT], expiry=BrokerExpiry(NOW, DAY))
    assert found.reason == (
        f"the segment ends at offset 10, but the last stable offset is {word}: the high watermark is below the end of "
        "the segment"
    )


def test_the_verdict_ages_and_the_facts_stay() -> None:
    waits = changed(SEGMENT, snapshot=SUSPECT)
    assert verdicts(PARTITION, waits, now=NOW) == [Verdict.SUSPECT_SNAPSHOT]
    assert verdicts(PARTITION, waits, now=NOW + 1) == [Verdict.READY]


def test_a_segment_behind_one_that_waits_is_a_gap_until_that_is_cleared() -> None:
    waiting = changed(SEGMENT, missing_parts=("leader epochs",))
    behind = changed(SEGMENT, base_offset=10, next_base_offset=20)
    damaged = changed(behind, base_offset=20, next_base_offset=30, damage="BAD_CRC")
    last = changed(behind, base_offset=30, next_base_offset=40)
    assert verdicts(PARTITION, waiting, behind, damaged, last) == [
        Verdict.MISSING_INDEX,
        Verdict.GAP_BEFORE,
        Verdict.CORRUPT_SEGMENT,
        Verdict.GAP_BEFORE,
    ]
    assert verdicts(PARTITION, SEGMENT, behind) == [Verdict.READY, Verdict.READY]
    in_flight = RemoteCoverage(in_flight=frozenset({0}))
    assert verdicts(PARTITION, SEGMENT, behind, coverage=in_flight) == [Verdict.COPY_IN_FLIGHT, Verdict.GAP_BEFORE]


SEGMENTS = [changed(SEGMENT, base_offset=base, next_base_offset=base + 10) for base in (0, 10, 20, 30)]


@pytest.mark.parametrize(
    ("coverage", "expected"),
    [
        # Copies of another replica's segments, which begin elsewhere, count by their offsets.
        (RemoteCoverage(((0, 25),), 25), "IN_REMOTE IN_REMOTE READY READY"),
        (RemoteCoverage(((0, 20),), 20), "IN_REMOTE IN_REMOTE READY READY"),
        # A broker passes by what lies below the highest remote offset, and goes on above it.
        (RemoteCoverage(((10, 30),), 30), "GAP_IN_REMOTE IN_REMOTE IN_REMOTE READY"),
        (RemoteCoverage(((0, 5), (10, 30)), 30), "GAP_IN_REMOTE IN_REMOTE IN_REMOTE READY"),
        (RemoteCoverage(((0, 5), (8, 12)), 12), "GAP_IN_REMOTE READY READY READY"),
        # Unless a copy of ours lies there that counts once it is tiered again.
        (RemoteCoverage(((10, 30),), 30, unfinished=((5, 15),)), "READY IN_REMOTE IN_REMOTE READY"),
        (RemoteCoverage(((10, 30),), 30, unfinished=((10, 20),)), "GAP_IN_REMOTE IN_REMOTE IN_REMOTE READY"),
        # Covered, but above the highest offset of the newest epoch that is there: the broker copies it again.
        (RemoteCoverage(((0, 40),), 0), "READY READY READY READY"),
        (RemoteCoverage(((0, 10),), 10, frozenset({10})), "IN_REMOTE COPY_IN_FLIGHT GAP_BEFORE GAP_BEFORE"),
    ],
)
def test_candidates_are_the_brokers_own(coverage: RemoteCoverage, expected: str) -> None:
    assert " ".join(verdicts(PARTITION, *SEGMENTS, coverage=coverage)) == expected


def test_judge_says_of_a_ready_segment_that_its_copy_does_not_count() -> None:
    coverage = RemoteCoverage(((10, 30),), 30, unfinished=((0, 10),))
    judged = list(judge(PARTITION, SEGMENTS, expiry=BrokerExpiry(NOW, DAY), coverage=coverage))
    assert "did not finish; the next upload finishes or replaces it" in judged[0].reason
    assert "does not count" not in judged[3].reason


def test_judge_says_of_a_gap_that_records_name_a_remote_segment_whose_objects_are_lost() -> None:
    coverage = RemoteCoverage(((10, 30),), 30, lost=((0, 10),))
    found = next(iter(judge(PARTITION, SEGMENTS, expiry=BrokerExpiry(NOW, DAY), coverage=coverage)))
    assert found.verdict is Verdict.GAP_IN_REMOTE
    assert found.reason == (
        "records of __remote_log_metadata name the remote segment, but some of its objects are missing"
    )


def test_judge_leaves_segments_to_a_broker_that_passes_by_one_without_a_snapshot_below() -> None:
    coverage, broker = RemoteCoverage(((10, 20),), 20, unfinished=((0, 10),)), BrokerAtWork("its copy task works")
    found = judge(PARTITION, SEGMENTS, BrokerExpiry(NOW, DAY), coverage=coverage, broker=broker, beyond_broker={0})
    assert [str(each.verdict) for each in found] == ["READY", "IN_REMOTE", "LEFT_TO_BROKER", "LEFT_TO_BROKER"]


def test_what_cannot_be_tiered_again_below_what_is_there_holds_up_nothing_behind_it() -> None:
    damaged = [changed(SEGMENTS[0], damage="BAD_CRC"), *SEGMENTS[1:]]
    coverage = RemoteCoverage(((10, 30),), 30, unfinished=((0, 10),))
    expected = [Verdict.CORRUPT_SEGMENT, Verdict.IN_REMOTE, Verdict.IN_REMOTE, Verdict.READY]
    assert verdicts(PARTITION, *damaged, coverage=coverage) == expected


def test_records_below_the_log_start_need_no_copy() -> None:
    partition = replace(PARTITION, log_start_offset=7)
    assert verdicts(partition, SEGMENT, coverage=RemoteCoverage(((7, 10),), 10)) == [Verdict.IN_REMOTE]
    assert verdicts(partition, SEGMENT, coverage=RemoteCoverage(((8, 10),), 10)) == [Verdict.GAP_IN_REMOTE]


def test_the_next_base_offset_may_equal_the_last_stable_offset() -> None:
    assert verdicts(replace(PARTITION, last_stable_offset=10), SEGMENT) == [Verdict.READY]
    assert verdicts(replace(PARTITION, last_stable_offset=9), SEGMENT) == [Verdict.ABOVE_LSO]
    assert verdicts(replace(PARTITION, last_stable_offset=None), SEGMENT) == [Verdict.ABOVE_LSO]


def test_every_verdict_has_a_next_step_or_needs_none_and_names_only_commands_that_exist() -> None:
    assert set(NEXT_STEP) == set(Verdict)
    for step in NEXT_STEP.values():
        for command, words in re.findall(r"tiersnap ((?:transactions )?[a-z-]+)((?: --[a-z-]+| [A-Z]+)*)", step):
            told = tiersnap(*command.split(), "--help")
            assert told.exit_code == 0, command
            assert set(re.findall(r"--[a-z-]+", words)) <= set(re.findall(r"--[a-z-]+", told.out)), command


TXN: dict[str, Any] = {"producer_id": 7, "epoch": 0, "transactional": True}
OPEN = {
    0: [data_batch(0, 10, 1, 0, 0)],
    10: [data_batch(10, 5, 1, 0, 10), data_batch(15, 5, base_sequence=0, **TXN)],
    20: [data_batch(20, 10, 1, 0, 15)],
    30: [data_batch(30, 2, base_sequence=5, **TXN), marker(32, 7, 0, 0, commit=True), data_batch(33, 7, 1, 0, 25)],
}


def look(log_dir: Path, segments: dict[int, list[bytes]] = OPEN, **more: Any) -> Examination:
    write_partition(log_dir, "orders", 0, segments, **{"indexes": True, **more})
    (partition,) = open_log_dir(str(log_dir)).partitions()
    return examine(LOCAL, partition)


def readiness(found: Examination) -> tuple[Readiness, ...]:
    return tuple(judge(found.facts, found.examined, BrokerExpiry(NOW, DAY)))


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
    assert look(tmp_path, high_watermark=high_watermark).facts.last_stable_offset == stable


def test_without_a_high_watermark_nothing_is_stable(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert found.facts.last_stable_offset is None
    assert readiness(found)[0].verdict is Verdict.ABOVE_LSO
    assert "does not name the partition" in readiness(found)[0].reason


def test_a_high_watermark_below_the_log_start_is_the_log_start(tmp_path: Path) -> None:
    found = look(tmp_path, high_watermark=3, log_start_offset=12)
    assert (found.facts.high_watermark, found.facts.last_stable_offset) == (12, 12)


def test_a_transaction_from_before_the_log_start_holds_the_log_start(tmp_path: Path) -> None:
    found = look(tmp_path, high_watermark=25, log_start_offset=17)
    assert found.facts.last_stable_offset == 17


def test_a_hanging_transaction_holds_its_segment_and_all_behind_it(tmp_path: Path) -> None:
    segments = {**OPEN, 30: [data_batch(30, 10, 1, 0, 25)]}
    found = look(tmp_path, segments, high_watermark=40)
    assert [each.verdict for each in readiness(found)] == [
        Verdict.MISSING_SNAPSHOT,
        Verdict.GAP_BEFORE,
        Verdict.GAP_BEFORE,
        Verdict.ACTIVE_SEGMENT,
    ]
    assert found.facts.last_stable_offset == 15


@pytest.mark.parametrize(("suffix", "size", "name"), [("index", 3, "offset index"), ("timeindex", 13, "time index"),
                                                      ("txnindex", 33, "transaction index")])  # fmt: skip
@pytest.mark.parametrize("is_old", [False, True])
def test_an_index_of_no_whole_entries_is_a_fault_also_beside_old_entries(
    suffix: str, size: int, name: str, is_old: bool, tmp_path: Path
) -> None:
    old = legacy_entry(0) if is_old else data_batch(0, 1)
    segments = {**OPEN, 0: [old, data_batch(1, 9, 1, 0, 0)]}
    write_partition(tmp_path, "orders", 0, segments, high_watermark=40, indexes=True)
    (tmp_path / "orders-0" / f"{0:020d}.{suffix}").write_bytes(bytes(size))
    (partition,) = open_log_dir(str(tmp_path)).partitions()
    found = examine(LOCAL, partition)
    assert readiness(found)[0].verdict is Verdict.MISSING_SNAPSHOT
    assert [name in part for part in found.segments[0].index_faults] == [True]


NO_PRODUCERS = {10: bytes.fromhex("000148674bc700000000")}
PLAIN = {0: [data_batch(0, 10)], 10: [data_batch(10, 10)]}


def test_a_segment_without_indexes_is_ready_and_says_that_they_are_rebuilt(tmp_path: Path) -> None:
    first = readiness(look(tmp_path, PLAIN, high_watermark=20, indexes=False, snapshots=NO_PRODUCERS))[0]
    assert (first.verdict, "no offset index and no time index: the upload rebuilds" in first.reason) == (
        Verdict.READY,
        True,
    )


def test_segment_of_old_entries_before_every_leader_epoch_has_none(tmp_path: Path) -> None:
    first = readiness(look(tmp_path, {**OPEN, 0: [legacy_entry(0)]}, high_watermark=40, leader_epochs=[(3, 12)]))[0]
    assert (first.verdict, "leader epochs" in first.reason) == (Verdict.MISSING_INDEX, True)


GAPS = {0: [data_batch(0, 2), data_batch(5, 5)], 10: [data_batch(10, 10)]}


def test_a_gap_inside_a_segment_is_a_note_and_no_proof_of_compaction(tmp_path: Path) -> None:
    first = readiness(look(tmp_path, GAPS, high_watermark=20, snapshots=NO_PRODUCERS))[0]
    assert (first.verdict, "records are missing" in first.reason) == (Verdict.READY, True)


@pytest.mark.parametrize(("is_cleaned", "expected"), [(True, Verdict.COMPACTED_TOPIC), (False, Verdict.READY)])
def test_the_cleaners_checkpoint_names_compacted_topics(is_cleaned: bool, expected: Verdict, tmp_path: Path) -> None:
    if is_cleaned:
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    found = look(tmp_path, GAPS, high_watermark=20, snapshots=NO_PRODUCERS)
    assert readiness(found)[0].verdict is expected


@pytest.mark.parametrize("topic", ["__remote_log_metadata", "__cluster_metadata", "__consumer_offsets",
                                   "__transaction_state", "__share_group_state"])  # fmt: skip
def test_what_unified_log_excludes_is_never_ready(topic: str, tmp_path: Path) -> None:
    # Number 1, because the log directory's listing leaves __cluster_metadata-0 out, as brokers do.
    write_partition(tmp_path, topic, 1, PLAIN, high_watermark=20, indexes=True, snapshots=NO_PRODUCERS)
    (partition,) = open_log_dir(str(tmp_path)).partitions()
    assert readiness(examine(LOCAL, partition))[0].verdict is Verdict.INTERNAL_TOPIC


def test_segment_facts_carry_the_brokers_largest_timestamp_and_the_digest(tmp_path: Path) -> None:
    segments = {0: [data_batch(0, 1, timestamp=-1)], 1: [legacy_entry(1, timestamp=TIMESTAMP + 7)]}
    found = look(tmp_path, segments, high_watermark=2)
    first, second = found.segments
    assert first.largest_timestamp == first.modified_ns // 1_000_000 > TIMESTAMP
    assert second.largest_timestamp == TIMESTAMP + 7
    assert all(len(each.digest) == 16 and each.crc_checked for each in found.segments)
