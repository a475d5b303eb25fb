"""READY segments beside a copy task that works are left to it, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_readiness_gate import DAY, NOW, PARTITION, SEGMENTS, SUSPECT, changed
from tiersnap.snapshot.gate.copy_task import (
    BesideBrokers,
    BrokerAtWork,
    CopyLag,
    CopyTask,
    CopyTasks,
    Due,
)
from tiersnap.snapshot.gate.judge import Readiness, judge
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.coverage import RemoteCoverage
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.snapshot_comparison import ExaminedSegment

pytestmark = pytest.mark.unit

BROKER = BrokerAtWork("a broker is at work")
HOUR = 3_600_000


def judged(*segments: ExaminedSegment, broker: BrokerAtWork | None = BROKER, **more: object) -> list[Readiness]:
    return list(judge(PARTITION, segments, expiry=BrokerExpiry(NOW, DAY), broker=broker, **more))  # type: ignore[arg-type]


def verdicts(*segments: ExaminedSegment, **more: object) -> str:
    return " ".join(str(each.verdict) for each in judged(*segments, **more))


def test_judge_leaves_ready_segments_to_the_broker_and_says_so() -> None:
    assert verdicts(*SEGMENTS[:2]) == "LEFT_TO_BROKER LEFT_TO_BROKER"
    assert judged(SEGMENTS[0])[0].reason == "a broker is at work"
    assert verdicts(*SEGMENTS[:2], broker=None) == "READY READY"


def test_judge_leaves_nothing_to_the_broker_that_somebody_must_clear() -> None:
    damaged = changed(SEGMENTS[0], damage="BAD_CRC")
    waits = changed(SEGMENTS[0], snapshot=SUSPECT)
    assert verdicts(damaged, SEGMENTS[1]) == "CORRUPT_SEGMENT GAP_BEFORE"
    assert verdicts(waits, SEGMENTS[1]) == "SUSPECT_SNAPSHOT GAP_BEFORE"
    missing = changed(SEGMENTS[0], snapshot=Comparison(SnapshotVerdict.MISSING, "no"))
    assert verdicts(missing) == "MISSING_SNAPSHOT"


def test_judge_takes_what_no_broker_can_copy_from_it_on_only_when_nothing_before_is_left() -> None:
    """A copy task fails where there is no snapshot file, and tiers nothing more."""
    assert verdicts(*SEGMENTS[:3], beyond_broker={0}) == "READY READY READY"
    assert verdicts(*SEGMENTS[:3], beyond_broker={10}) == "LEFT_TO_BROKER LEFT_TO_BROKER LEFT_TO_BROKER"


def test_judge_takes_what_the_broker_passes_by() -> None:
    coverage = RemoteCoverage(((10, 20),), 20, unfinished=((0, 10),))
    assert verdicts(*SEGMENTS[:3], coverage=coverage) == "READY IN_REMOTE LEFT_TO_BROKER"


def test_judge_refuses_plain_text_among_encrypted_segments_by_the_manifests_key() -> None:
    coverage = RemoteCoverage(encrypted_by="x.rsm-manifest")
    found = judged(*SEGMENTS[:2], broker=None, coverage=coverage)
    assert [each.verdict for each in found] == [Verdict.ENCRYPTED_REMOTE] * 2
    assert "as the manifest x.rsm-manifest shows, but tiersnap would upload plain text" in found[0].reason
    assert "--allow-plaintext" in found[0].next_step
    assert verdicts(*SEGMENTS[:2], coverage=coverage) == "LEFT_TO_BROKER LEFT_TO_BROKER"


def test_judge_says_when_the_broker_copies_a_segment() -> None:
    """The bytes behind a segment, the active one's included, are what is measured."""
    lag = CopyLag(milliseconds=None, size=350)
    found = judged(*SEGMENTS, broker=BrokerAtWork("it works", lag))
    assert [each.reason.removeprefix("it works, and will upload the segment ") for each in found] == [
        "after 50 B more",
        "after 150 B more",
        "after 250 B more",
        "after 350 B more",
    ]


@pytest.mark.parametrize(
    ("age", "left_for", "is_left"),
    [(0, HOUR, True), (HOUR, HOUR, True), (HOUR + 1, HOUR, False), (-5, HOUR, True), (0, None, False)],
)
def test_a_broker_is_at_work_for_so_long_after_its_upload(age: int, left_for: int | None, is_left: bool) -> None:
    beside = BesideBrokers(NOW, left_for)
    assert (beside.broker_at("orders", 0, NOW - age) is not None) == is_left
    assert beside.broker_at("orders", 0, None) is None


def test_what_the_cluster_says_counts_more_than_the_objects() -> None:
    tasks = CopyTasks({"orders": CopyLag(), "payments": CopyLag(), "off": None}, frozenset({("payments", 1)}))
    beside = BesideBrokers(NOW, HOUR, tasks)
    assert [tasks.of(*name) for name in (("orders", 1), ("payments", 1), ("off", 1))] == list(CopyTask)
    assert beside.broker_at("orders", 1, None) == BrokerAtWork(
        "the copy task of the partition's leader works", CopyLag()
    )
    assert beside.broker_at("payments", 1, NOW) is None
    assert beside.broker_at("off", 1, NOW) is None
    assert beside.broker_at("not shown", 1, NOW) == BrokerAtWork(
        "a broker uploaded a segment of this partition 0 ms ago"
    )
    assert beside.broker_at("not shown", 1, None) is None
    assert BesideBrokers(NOW, None, tasks).broker_at("orders", 1, NOW) is None


# --- KIP-1241, held against RemoteLogManager.RLMCopyTask.isEligibleForUpload of 4.4.0, as it is written there


def is_eligible(lag_ms: int, lag_bytes: int, age: int, newer_bytes: int) -> bool:
    """`lag_ms` and `lag_bytes` are what LogConfig resolves: -1 where the local retention is unlimited."""
    if lag_ms == 0 or lag_bytes == 0:
        return True
    if lag_ms > 0 and (age < 0 or age >= lag_ms):
        return True
    return lag_bytes > 0 and newer_bytes >= lag_bytes


LAGS = st.sampled_from([-1, 0, 1, 40, 1000])


@given(LAGS, LAGS, st.integers(-3, 1100), st.integers(0, 1100))
def test_a_segment_is_due_when_kafkas_rule_says_so(lag_ms: int, lag_bytes: int, age: int, newer: int) -> None:
    lag = CopyLag(*(None if each < 0 else each for each in (lag_ms, lag_bytes)))
    due = lag.due(NOW - age, newer, NOW)
    assert due.is_now(NOW) == is_eligible(lag_ms, lag_bytes, age, newer)
    if due.at is not None and not due.is_now(NOW):
        assert is_eligible(lag_ms, lag_bytes, age + due.at - NOW, newer)
        assert not is_eligible(lag_ms, lag_bytes, age + due.at - NOW - 1, newer)
    if due.more_bytes:
        assert is_eligible(lag_ms, lag_bytes, age, newer + due.more_bytes)


@pytest.mark.parametrize(
    ("due", "text"),
    [
        (Due(NOW), "now"),
        (Due(1_795_266_000_000), "at 2026-11-21T13:00:00.000Z"),
        (Due(None, 5 << 20), "after 5.0 MiB more"),
        (Due(1_795_266_000_000, 5 << 20), "at 2026-11-21T13:00:00.000Z or after 5.0 MiB more"),
        (Due(None), "never"),
        (CopyLag(2**63 - 1).due(NOW, 0, NOW), "at 292278994-08-17T07:12:55.807Z"),
    ],
)
def test_due_is_said_for_people(due: Due, text: str) -> None:
    assert due.text(NOW) == text
