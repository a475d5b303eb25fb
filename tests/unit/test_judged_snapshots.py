"""The snapshot that a segment is uploaded with: the broker's file, the computed object in its place, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.test_readiness_gate import DAY, NOW, PARTITION, SEGMENT
from tiersnap.snapshot.gate.judge_partition import JudgedSnapshot, Policy, SegmentReadiness, open_at
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.partition_state import SnapshotAt, StoredAt
from tiersnap.snapshot.replay.snapshot_comparison import NO_FILE, SnapshotFile

pytestmark = pytest.mark.unit

READ = SnapshotFile(file_bytes=56, file_crc32c=7)
OBJECT = StoredAt("snapshots/x", 1, 1)
EXPIRY = BrokerExpiry(NOW, DAY)
PLAIN, REPLACING = Policy(replace=False, expiry=EXPIRY), Policy(replace=True, expiry=EXPIRY)
BOUNDED = Policy(replace=False, expiry=EXPIRY, is_bounded=True)


def snapshot_at(
    verdict: SnapshotVerdict,
    *,
    stored: StoredAt | None = OBJECT,
    file: SnapshotFile = READ,
    provenance: Provenance = Provenance.COMPUTED,
) -> SnapshotAt:
    lacking = int(verdict is SnapshotVerdict.SUSPECT)
    found = Comparison(verdict, "compared", lacking=lacking, harmful_until=NOW if lacking else -1)
    return SnapshotAt(10, found, provenance, 0, file, stored=stored)


def judged(policy: Policy, found: SnapshotAt | None) -> SegmentReadiness:
    """The one segment of a partition whose snapshot is `found`."""
    (only,) = policy.judge(PARTITION, 0, [SEGMENT.facts], {} if found is None else {10: found}, NOTHING_REMOTE)
    return only


def uploaded_with(policy: Policy, found: SnapshotAt | None) -> tuple[str, str, bool]:
    """The verdict of the segment, the provenance of its snapshot, and whether that is the computed object."""
    only = judged(policy, found)
    return str(only.readiness.verdict), str(only.snapshot.provenance or ""), only.snapshot.is_object


FILE, COMPUTED = ("READY", "BROKER", False), ("READY", "COMPUTED", True)


@pytest.mark.parametrize(
    ("verdict", "plain", "replacing"),
    [
        (SnapshotVerdict.MATCHES, FILE, FILE),
        (SnapshotVerdict.EXTENDS, FILE, FILE),
        (SnapshotVerdict.MISSING, COMPUTED, COMPUTED),
        (SnapshotVerdict.SUSPECT, ("SUSPECT_SNAPSHOT", "", False), COMPUTED),
        (SnapshotVerdict.CORRUPT, ("CORRUPT_SNAPSHOT", "", False), COMPUTED),
    ],
)
def test_computed_object_takes_the_place_of_no_file_and_with_replace_of_a_wrong_one(
    verdict: SnapshotVerdict, plain: tuple[str, str, bool], replacing: tuple[str, str, bool]
) -> None:
    found = snapshot_at(verdict)
    assert (uploaded_with(PLAIN, found), uploaded_with(REPLACING, found)) == (plain, replacing)


@pytest.mark.parametrize("verdict", ["MISSING", "SUSPECT", "CORRUPT"])
def test_segment_waits_if_no_computed_object_is_stored(verdict: str) -> None:
    found = snapshot_at(SnapshotVerdict(verdict), stored=None)
    assert uploaded_with(REPLACING, found) == (f"{verdict}_SNAPSHOT", "", False)


def test_segment_at_an_offset_that_no_replay_reached_is_unverified() -> None:
    assert uploaded_with(REPLACING, None) == ("UNVERIFIED_SNAPSHOT", "", False)


def test_file_before_the_scan_window_is_taken_if_it_was_read_and_its_log_is_known() -> None:
    unverified = SnapshotVerdict.UNVERIFIED
    taken = snapshot_at(unverified, stored=None)
    assert uploaded_with(BOUNDED, taken) == ("BEFORE_WINDOW", "BROKER_UNVERIFIED", False)
    waits = ("UNVERIFIED_SNAPSHOT", "", False)
    assert uploaded_with(PLAIN, taken) == waits
    assert uploaded_with(BOUNDED, replace(taken, file=NO_FILE)) == waits
    assert uploaded_with(BOUNDED, replace(taken, provenance=Provenance.COMPUTED_FROM_LOCAL_START)) == waits


@pytest.mark.parametrize(("begin", "expected"), [(11, "BEFORE_WINDOW"), (10, "READY"), (0, "READY")])
def test_segment_is_unread_if_it_ends_before_the_scan_window_begins(begin: int, expected: str) -> None:
    found = snapshot_at(SnapshotVerdict.MISSING, provenance=Provenance.COMPUTED_WITHIN_WINDOW)
    found = replace(found, folded_from=begin)
    assert uploaded_with(BOUNDED, found) == (expected, "COMPUTED_WITHIN_WINDOW", True)
    assert judged(PLAIN, found).readiness.verdict is Verdict.READY


@pytest.mark.parametrize("stored", [OBJECT, None], ids=["applied", "plan"])
def test_refused_segment_before_the_scan_window_is_not_ready(stored: StoredAt | None) -> None:
    found = snapshot_at(SnapshotVerdict.MISSING, stored=stored, provenance=Provenance.COMPUTED_WITHIN_WINDOW)

    def judged_at(begin: int) -> SegmentReadiness:
        ends = {10: replace(found, folded_from=begin)}
        (only,) = BOUNDED.judge(PARTITION, 0, [SEGMENT.facts], ends, NOTHING_REMOTE, {0: "it lacks one"})
        return only

    assert (judged_at(11).readiness.verdict, judged_at(11).readiness.reason) == ("UNKNOWN_TRANSACTIONS", "it lacks one")
    assert judged_at(10).readiness.verdict == ("READY" if stored else "MISSING_SNAPSHOT")


@pytest.mark.parametrize("verdict", ["NOT_COMPARED", "SUSPECT", "CORRUPT", "MISSING"])
def test_scan_window_takes_no_file_that_was_compared_or_cannot_be(verdict: str) -> None:
    found = snapshot_at(SnapshotVerdict(verdict), stored=None)
    assert uploaded_with(BOUNDED, found) == uploaded_with(PLAIN, found)
    assert judged(BOUNDED, found).readiness.verdict is not Verdict.READY


@pytest.mark.parametrize("verdict", SnapshotVerdict)
def test_a_strict_comparison_is_told_only_of_a_file_that_was_compared(verdict: SnapshotVerdict) -> None:
    told = JudgedSnapshot(snapshot_at(verdict), verdict).compared
    assert told == (verdict if verdict in ("MATCHES", "EXTENDS", "SUSPECT", "CORRUPT") else None)
    assert JudgedSnapshot(None, verdict).compared is None


def test_open_transactions_are_none_at_the_first_offset_and_else_those_of_the_replay() -> None:
    found = snapshot_at(SnapshotVerdict.MATCHES)
    assert open_at(0, None) == ()
    assert open_at(1, None) is None
    assert open_at(10, found) is None
    assert open_at(10, replace(found, open_transactions=((7, 3),))) == ((7, 3),)
