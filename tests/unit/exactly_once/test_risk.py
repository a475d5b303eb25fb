"""Numbers of `risk`: empty snapshots against simulated replicas, and the arithmetic against hand-made logs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.reference import log_builder as lb
from tests.reference.command import assert_said, tiersnap
from tests.reference.kip952_log import NOW as KIP_NOW
from tests.reference.kip952_log import write_kip952_log
from tests.reference.random_log import NOW, write_random_partition
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS
from tiersnap.snapshot.exactly_once.simulate.exposure import ProducersAtRisk
from tiersnap.snapshot.exactly_once.simulate.kinds import SnapshotOrigin
from tiersnap.snapshot.exactly_once.simulate.outcomes import Tally
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings, partition_risk
from tiersnap.snapshot.exactly_once.simulate.replay_cost import Mismatch, mismatches, replay_cost
from tiersnap.snapshot.exactly_once.simulate.replica import Replicas, ReplicaSnapshot, replicas
from tiersnap.snapshot.exactly_once.simulate.replica_state import cached_by_broker
from tiersnap.snapshot.exactly_once.simulate.retention_wait import TopicRetention, waiting, write_rate
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import RiskedBoundary, SnapshotCause, Wait
from tiersnap.snapshot.exactly_once.simulate.risk_log_dirs import (
    disagreement,
    log_start_goes_back,
    newest_disagreement,
)
from tiersnap.snapshot.exactly_once.simulate.sightings import CrossingTransactions
from tiersnap.snapshot.exactly_once.simulate.survey import SnapshotFound, survey_log
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.record_batch import ABORT, COMMIT, CONTROL_MASK, TRANSACTIONAL_MASK
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE, HEADER_LENGTH
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.facts import SegmentFacts
from tiersnap.snapshot.replay.segment_runs import fold_segment

pytestmark = pytest.mark.unit

DAY = 86_400_000
EMPTY = bytes.fromhex("000148674bc700000000")


def simulated(folder: Path, at: int, expiration: int | None) -> Replicas:
    """A broker that starts from an empty snapshot at `at`."""
    log_dir = open_log_dir(str(folder))
    (partition,) = selected(log_dir, str(folder), None)
    snapshot = ReplicaSnapshot(SnapshotOrigin.EMPTY, at=at)
    return replicas(log_dir.filesystem, partition, snapshot, Expiry(None, NOW), producer_expiration=expiration)


def known_less(found: Replicas) -> int:
    """Producers that both know, the replica with other values or fewer cached batches."""
    leader, replica = found.leader, found.replica
    both = np.intersect1d(leader.entries["producer_id"], replica.entries["producer_id"])
    fields = ("producer_epoch", "last_sequence", "current_txn_first_offset", "coordinator_epoch")
    count = 0
    for producer_id in both.tolist():
        mine, theirs = (state.entries[state.entries["producer_id"] == producer_id][0] for state in (leader, replica))
        depth = [
            int((state.batches[cached_by_broker(state)]["producer_id"] == producer_id).sum())
            for state in (leader, replica)
        ]
        count += any(mine[name] != theirs[name] for name in fields) or depth[0] != depth[1]
    return count


def test_an_empty_snapshot_exposes_what_a_broker_that_starts_from_it_would_not_know(tmp_path: Path) -> None:
    seen = {"lost": 0, "degraded": 0, "doubled": 0}
    for seed in range(18):
        expiration = (None, DAY, 3_000)[seed % 3]
        era = BROKER_ERAS[seed % len(BROKER_ERAS)]
        folder = tmp_path / str(seed)
        write_random_partition(folder, "random", seed)
        log_dir = open_log_dir(str(folder))
        (partition,) = selected(log_dir, str(folder), None)
        survey, _ = survey_log(log_dir.filesystem, str(folder), partition)
        risk = partition_risk(survey, RiskSettings(NOW, expiration, era=era))
        for boundary in risk.boundaries:
            found = simulated(folder, boundary.offset, expiration)
            tally = Tally()
            tally.add(what_if(found.leader, found.replica, (era,), Circumstances(partition.log_start_offset)), era)
            exposure = boundary.exposure
            assert (seed, boundary.offset, exposure.lost) == (seed, boundary.offset, tally.unknown)
            assert (seed, boundary.offset, exposure.doubled) == (seed, boundary.offset, tally.doubled)
            assert (seed, boundary.offset, exposure.degraded) == (seed, boundary.offset, known_less(found))
            for name in seen:
                seen[name] += getattr(exposure, name)
    assert all(seen.values()), seen


@dataclass
class Open:
    """A transaction while a log is read, batch by batch."""

    records: int = 0
    bytes: int = 0


def crossings(rows: list[dict[str, Any]], bases: list[int]) -> dict[int, Counter]:
    """What comes of the transactions that are open at each base offset, one batch after the other."""
    found = {}
    for base in bases:
        opened: dict[int, Open] = {}
        for row in (row for row in rows if row["base_offset"] < base and row["producer_id"] >= 0):
            if row["control_type"] in (ABORT, COMMIT):
                opened.pop(row["producer_id"], None)
            elif row["attributes"] & TRANSACTIONAL_MASK and not row["attributes"] & CONTROL_MASK:
                each = opened.setdefault(row["producer_id"], Open())
                each.records += row["record_count"]
                each.bytes += row["batch_length"] + 12
        found[base] = Counter(undecided=len(opened))
        late = set()
        for row in (row for row in rows if row["base_offset"] >= base and row["producer_id"] in opened):
            if row["control_type"] in (ABORT, COMMIT):
                each = opened.pop(row["producer_id"])
                found[base]["undecided"] -= 1
                if row["control_type"] == ABORT:
                    found[base].update(aborted=1, aborted_records=each.records, aborted_bytes=each.bytes)
            elif row["attributes"] & TRANSACTIONAL_MASK and not row["attributes"] & CONTROL_MASK:
                late.add(row["producer_id"])
        found[base]["beginning_late"] = len(late)
    return found


def test_transactions_that_cross_a_segments_end_are_those_of_a_reading_batch_by_batch(tmp_path: Path) -> None:
    total: Counter = Counter()
    for seed in range(60):
        folder = tmp_path / str(seed)
        write_random_partition(folder, "random", seed)
        log_dir = open_log_dir(str(folder))
        (partition,) = selected(log_dir, str(folder), None)
        rows: list[dict[str, Any]] = []
        found = CrossingTransactions()
        for segment in partition.segments:
            if segment is not partition.segments[0]:
                found.boundary(segment.base_offset)

            def add(batches: np.ndarray, to: CrossingTransactions = found, read: list[dict[str, Any]] = rows) -> None:
                half = batches.size // 2  # a segment may come in several arrays
                for each in (batches[:half], batches[half:]):
                    to.add(each)
                read.extend(dict(zip(batches.dtype.names, row, strict=True)) for row in batches.tolist())

            fold_segment(log_dir.filesystem, segment, on_rows=add)
        wanted = crossings(rows, [segment.base_offset for segment in partition.segments[1:]])
        told = {offset: Counter(asdict(each)) for offset, each in found.found.items()}
        assert (seed, told) == (seed, wanted)
        for each in wanted.values():
            total.update(each)
    counted = ("aborted", "aborted_records", "aborted_bytes", "beginning_late", "undecided")
    assert all(total[name] for name in counted)


def segment(base: int, following: int | None, size: int, largest_timestamp: int) -> SegmentFacts:
    missing = Comparison(SnapshotVerdict.MISSING, "none")
    about = (0, "", True, largest_timestamp, None, "", False, (), ())
    return SegmentFacts(base, following, size, *about, missing)


# Four closed segments of 100 bytes, one a day, and an active one.
SEGMENTS = [
    *(segment(base, base + 10, 100, number * DAY) for number, base in enumerate((0, 10, 20, 30))),
    segment(40, None, 50, 4 * DAY),
]


@pytest.mark.parametrize(
    ("retention", "now", "state", "wait_ms"),
    [
        (TopicRetention(7 * DAY), 4 * DAY, Wait.WAITING, 5 * DAY),  # the third is two days old
        (TopicRetention(DAY), 4 * DAY, Wait.WAITING, 0),
        (TopicRetention(None), 4 * DAY, Wait.FOR_EVER, None),
        (TopicRetention(7 * DAY, is_compacted=True), 4 * DAY, Wait.FOR_EVER, None),
        # 150 bytes lie behind it, 250 are kept, and 350 were written in four days.
        (TopicRetention(None, 250), 4 * DAY, Wait.WAITING, round(100 / (350 / (4 * DAY)))),
        (TopicRetention(None, 150), 4 * DAY, Wait.WAITING, 0),
        (TopicRetention(7 * DAY, 150), 4 * DAY, Wait.WAITING, 0),  # whichever comes first
    ],
)
def test_waiting_ends_when_retention_has_removed_the_last_segment_without_a_snapshot(
    retention: TopicRetention, now: int, state: Wait, wait_ms: int | None
) -> None:
    found = waiting(SEGMENTS, {10, 20}, retention, now=now, rate=write_rate(SEGMENTS, now=now))

    assert (found.wait, found.wait_ms, found.waiting_segments, found.first_waiting_offset) == (state, wait_ms, 2, 10)
    assert found.untiered_bytes == 300  # of the closed ones from the first on
    if wait_ms is not None:
        assert found.grows_by_bytes == round(350 / (4 * DAY) * wait_ms)


def test_an_older_segment_with_a_younger_record_holds_up_those_behind_it() -> None:
    held = [replace(SEGMENTS[0], largest_timestamp=6 * DAY), *SEGMENTS[1:]]

    found = waiting(held, {10}, TopicRetention(7 * DAY), now=6 * DAY, rate=None)

    assert (found.ready_at, found.grows_by_bytes) == (13 * DAY, None)


def test_write_rate_is_known_of_two_segments() -> None:
    assert write_rate(SEGMENTS[:2], now=DAY) == 100 / DAY


def test_a_log_in_which_no_time_passes_has_no_rate() -> None:
    assert write_rate(SEGMENTS[:1], now=9 * DAY) is None
    assert write_rate([replace(each, largest_timestamp=5) for each in SEGMENTS], now=5) is None


@pytest.mark.parametrize(
    ("now", "first_open", "starts", "sizes", "offsets"),
    [
        (4 * DAY, None, (), (400, 0, 400), (40, 0)),
        (4 * DAY, None, (20, 50), (400, 0, 200), (40, 20)),
        (3 * DAY + 1, None, (40,), (400, 100, 0), (30, 40)),
        (3 * DAY + 1, 15, (), (400, 300, 400), (10, 0)),  # back to where the transaction began
    ],
)
def test_a_replay_reads_everything_or_the_window_or_what_is_new(now, first_open, starts, sizes, offsets) -> None:
    found = replay_cost(SEGMENTS, 40, now=now, expiration=DAY, first_open_offset=first_open, starts=starts)

    assert (found.full_bytes, found.bounded_bytes, found.incremental_bytes) == sizes
    assert (found.window_offset, found.nearest_offset) == offsets


def test_reading_takes_as_long_as_the_rate_says_and_a_segment_without_a_time_is_in_the_window() -> None:
    undated = [*SEGMENTS[:2], replace(SEGMENTS[2], largest_timestamp=-1), *SEGMENTS[3:]]

    found = replay_cost(undated, 40, now=9 * DAY, expiration=DAY, read_rate=1000)

    assert (found.bounded_bytes, found.full_ms) == (200, 400)


def test_an_empty_log_has_no_boundary_and_no_cost(tmp_path: Path) -> None:
    lb.write_partition(tmp_path, "bare", 0, {0: []}, high_watermark=0)

    ran = tiersnap("simulate", "--risk", tmp_path, "--now", str(NOW))

    (row,) = ran.rows
    assert (row["alive"], row["at"], row["wait"], row["full_bytes"]) == (0, None, "NOTHING_TO_WAIT_FOR", None)
    assert_said(ran, 0)


def test_a_damaged_log_says_what_can_be_said_and_no_more(tmp_path: Path) -> None:
    folder = write_kip952_log(tmp_path)
    path = folder / f"{200:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    ran = tiersnap("simulate", "--risk", tmp_path, "--now", str(KIP_NOW))

    assert_said(ran, 5, "BAD_CRC")
    (row,) = ran.rows
    assert (row["alive"], row["lost"], row["waiting_segments"]) == (None, None, 4)


def test_another_replica_is_held_against_this_one(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for log_dir in (here, there):
        write_kip952_log(log_dir)
        assert tiersnap("repair", log_dir, "--expiration", "none", "--apply").exit_code == 0
    (there / "kip952-0" / snapshot_file.file_name(300)).write_bytes(EMPTY)
    (there / "kip952-0" / snapshot_file.file_name(400)).write_bytes(b"no snapshot")
    (here / "log-start-offset-checkpoint").write_text(lb.offsets_text({("kip952", 0): 50}))

    ran = tiersnap("simulate", "--risk", here, "--replica", str(there), "--now", str(KIP_NOW))

    (row,) = json.loads(ran.out)["result"]["replicas"]
    assert (row["compared"], row["offset"]) == (3, 300)
    assert (row["only_here"], row["only_there"], row["differing"]) == (3, 0, 0)
    assert row["log_start_goes_back"]
    lines = tiersnap("simulate", "--risk", here, "--replica", str(there), "--now", str(KIP_NOW), output="table")
    assert_said(
        lines,
        0,
        "3 snapshots compared; the replica's snapshot at offset 300 lacks 3 producers",
        "the replica's log starts at offset 0, below 50 in LOGDIR",
    )


def test_replicas_that_agree_differ_nowhere(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for log_dir in (here, there):
        write_kip952_log(log_dir)
        assert tiersnap("repair", log_dir, "--expiration", "none", "--apply").exit_code == 0
    (here / "log-start-offset-checkpoint").write_text(lb.offsets_text({("kip952", 0): 50}))
    (there / "log-start-offset-checkpoint").write_text(lb.offsets_text({("kip952", 0): 60}))

    ran = tiersnap("simulate", "--risk", here, "--replica", str(there), "--now", str(KIP_NOW))

    (row,) = json.loads(ran.out)["result"]["replicas"]
    assert {name: row[name] for name in row if name not in ("log_dir", "replica", "partition")} == {
        "compared": 4,
        "offset": None,
        "only_here": 0,
        "only_there": 0,
        "differing": 0,
        "log_start_offset": 50,
        "log_start_offset_there": 60,
        "log_start_goes_back": False,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "neither LOGDIR nor --warehouse"),
        (("LOGS", "--warehouse", "w"), "both name an input"),
        (("LOGS", "--partition", "kip952-9"), "no partition kip952-9"),
        (("LOGS", "--replica", "nowhere"), "nowhere"),
        (("--warehouse", "w", "--replica", "nowhere"), "--replica needs a LOGDIR"),
        (("LOGS", "--from", "empty"), "--from and --risk exclude each other"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    write_kip952_log(tmp_path)

    assert_said(tiersnap("simulate", "--risk", *(str(tmp_path) if word == "LOGS" else word for word in words)), 2, said)


def test_boundaries_need_risk(tmp_path: Path) -> None:
    assert_said(tiersnap("simulate", tmp_path, "--boundaries"), 2, "--boundaries needs --risk")


def test_the_command_line_wins_over_a_warehouse_in_the_environment(tmp_path: Path, monkeypatch) -> None:
    write_kip952_log(tmp_path)
    monkeypatch.setenv("TIERSNAP_WAREHOUSE", str(tmp_path / "warehouse"))

    assert tiersnap("simulate", "--risk", tmp_path, "--now", str(KIP_NOW)).row()["lost"] == 4


def test_partitions_come_worst_first_and_those_that_are_never_tiered_not_at_all(tmp_path: Path) -> None:
    write_kip952_log(tmp_path)
    lb.write_partition(tmp_path, "calm", 0, {0: [lb.data_batch(0, 1)], 1: []}, high_watermark=1)
    lb.write_partition(tmp_path, "__consumer_offsets", 0, {0: [lb.data_batch(0, 1)], 1: []}, high_watermark=1)

    ran = tiersnap("simulate", "--risk", tmp_path, "--now", str(KIP_NOW), output="jsonl")

    *rows, summary = map(json.loads, ran.out.splitlines())
    assert [(row["topic"], row["partition"]) for row in rows] == [("kip952", 0), ("calm", 0)]
    assert set(summary) == {"summary"}
    assert_said(ran, 0, "left out: 1 partition of topics", "would lack 4 producers", "a replay reads")


def test_a_producer_whose_records_retention_removed_outlives_the_log(tmp_path: Path) -> None:
    write_kip952_log(tmp_path)
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    for path in (tmp_path / "kip952-0").glob(f"{0:020d}.*"):
        path.unlink()
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nkip952 0 100\n")

    row = tiersnap("simulate", "--risk", tmp_path, "--now", str(KIP_NOW)).row()

    # The snapshots that are left know all four; producer 1 wrote into the first segment alone.
    assert (row["alive"], row["outlived"], row["causes"]) == (4, 1, {})


def test_the_kips_arithmetic_is_done_for_the_log_that_is_there(tmp_path: Path) -> None:
    second = 1000
    segments = {
        base: [lb.data_batch(base, 10, timestamp=lb.TIMESTAMP + number * 100 * second)]
        for number, base in enumerate((0, 10, 20, 30))
    }
    lb.write_partition(tmp_path, "steady", 0, segments, high_watermark=40)
    size = len(segments[0][0])

    row = tiersnap("simulate", "--risk", tmp_path, "--now", str(lb.TIMESTAMP + 9 + 300 * second)).row()

    # Three segments in 300 s, between the newest records of the first and of the last one.
    assert (row["bytes_per_second"], row["segment_ms"]) == (round(size / 100), 100 * second)
    assert (row["segments_per_expiration"], row["automatic_retry_bytes_per_second"]) == (864.0, round(size / 120))


@pytest.mark.parametrize(
    ("facts", "reasons"),
    [
        ({"last_seen": 100}, set()),
        ({"last_seen": 99}, {"TIMESTAMP_SKEW"}),
        ({"opened": 99}, {"OPEN_TXN_OLDER"}),
        ({"opened": 100}, set()),
        ({"opened": 0}, {"OPEN_TXN_OLDER"}),
        ({"opened": 50, "last_seen": 60}, {"OPEN_TXN_OLDER"}),
        ({"has_coordinator_epoch": True, "last_marker": 99}, {"COORD_EPOCH_MISSING"}),
        ({"has_coordinator_epoch": True, "last_marker": 100}, set()),
        ({"has_coordinator_epoch": True, "last_marker": 98, "last_seen": 99}, {"TIMESTAMP_SKEW"}),
        ({"last_marker": 99}, set()),
        ({"has_batch": True, "last_offset": 99}, {"EPOCH_ONLY_MARKER"}),
        ({"has_batch": True, "last_offset": 100}, set()),
        ({"has_batch": True, "last_offset": 98, "last_seen": 99}, {"TIMESTAMP_SKEW"}),
        ({"last_offset": 99}, set()),
    ],
)
def test_a_replay_from_offset_100_misses_of_a_producer_what_lies_below(
    facts: dict[str, Any], reasons: set[str]
) -> None:
    """Facts of one producer that is named at 150 as well, by default; its replay begins at 100."""
    known = {"last_seen": 150, "opened": -1, "last_marker": -1, "last_offset": -1}
    known |= {"has_coordinator_epoch": False, "has_batch": False} | facts
    producers = SimpleNamespace(**{name: np.array([value]) for name, value in known.items()})
    assert mismatches(cast("ProducersAtRisk", producers), 100) == dict.fromkeys(map(Mismatch, reasons), 1)


def entries(*known: tuple[int, int]) -> np.ndarray:
    """ENTRY_DTYPE: producers, each with its last sequence."""
    return np.array([(each, 0, last, last, 0, NOW, -1, -1) for each, last in known], ENTRY_DTYPE)


BOTH = entries((1, 5), (2, 5))


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (BOTH, (0, 0, 0)),
        (entries((1, 5)), (1, 0, 0)),
        (entries((1, 5), (2, 5), (3, 5), (4, 5)), (0, 2, 0)),
        (entries((1, 6), (2, 5)), (0, 0, 1)),
        (entries((2, 6), (7, 5)), (1, 1, 1)),
    ],
)
def test_replicas_disagree_where_one_knows_a_producer_alone_or_otherwise(second: np.ndarray, told: tuple) -> None:
    assert disagreement(BOTH, second) == told


def test_of_several_disagreements_the_newest_is_told_and_offsets_of_one_replica_are_none() -> None:
    other = entries((1, 5))
    first = dict.fromkeys((100, 200, 300, 400), BOTH)
    found = newest_disagreement(first, {100: other, 200: other, 300: BOTH, 500: other})
    assert found == (3, 200, (1, 0, 0))
    assert newest_disagreement(first, {300: BOTH, 500: other}) == (1, None, (0, 0, 0))


@pytest.mark.parametrize(("there", "goes_back"), [(49, True), (50, False), (51, False)])
def test_a_log_start_goes_back_where_the_next_leader_has_a_lower_one(there: int, goes_back: bool) -> None:
    assert log_start_goes_back(50, there) == goes_back


@pytest.mark.parametrize(
    ("verdict", "size", "is_empty"),
    [
        (SnapshotVerdict.MISSING, HEADER_LENGTH, False),
        (SnapshotVerdict.CORRUPT, HEADER_LENGTH, False),
        (SnapshotVerdict.MATCHES, HEADER_LENGTH, True),
        (SnapshotVerdict.MATCHES, HEADER_LENGTH + 54, False),
        (SnapshotVerdict.MATCHES, None, False),
    ],
)
def test_only_a_file_that_was_read_and_has_no_entry_is_empty(verdict, size: int | None, is_empty: bool) -> None:
    assert SnapshotFound(Comparison(verdict, ""), size).is_empty == is_empty


def test_boundary_behind_which_nothing_was_read_is_no_worse_than_one_that_exposes_nobody() -> None:
    cost = replay_cost(SEGMENTS, 40, now=4 * DAY, expiration=DAY)
    unread = RiskedBoundary(10, SnapshotVerdict.MISSING, SnapshotCause.PRE_2_8, None, None, None, cost)
    assert unread.severity == (0, 0, 0)


def test_cost_is_of_the_newest_boundary_where_all_snapshots_are_right(tmp_path: Path) -> None:
    write_kip952_log(tmp_path)
    missing = tiersnap("simulate", "--risk", tmp_path, "--now", str(KIP_NOW)).row()
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    row = tiersnap("simulate", "--risk", tmp_path, "--now", str(KIP_NOW)).row()
    assert (row["causes"], row["full_bytes"]) == ({}, missing["full_bytes"])


def test_time_of_a_producer_that_never_goes_is_not_added_up(tmp_path: Path) -> None:
    segments = {
        0: [lb.data_batch(0, 1, 1, 0, 0), lb.data_batch(1, 1, 2, 0, 0, transactional=True)],
        2: [lb.data_batch(2, 1)],
    }
    lb.write_partition(tmp_path, "open", 0, segments, high_watermark=3)
    row = tiersnap("simulate", "--risk", tmp_path, "--now", str(lb.TIMESTAMP + DAY - 5)).row()
    assert (row["lost"], row["producer_ms"]) == (2, 5)


def test_damage_of_a_log_directory_is_said_beside_its_partitions(tmp_path: Path) -> None:
    write_kip952_log(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("no checkpoint")
    assert_said(tiersnap("simulate", "--risk", tmp_path, "--now", str(KIP_NOW)), 5, "log-start-offset-checkpoint")
