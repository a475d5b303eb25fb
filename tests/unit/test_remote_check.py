"""The check of a remote segment that need not be repeated: as strict, as deep, sound, and of the same objects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest, ComparedWith, RemoteCheck, RemoteVerdict

pytestmark = pytest.mark.unit

NOW, DAY = 1_795_265_100_000, 86_400_000
CHECK = RemoteCheck(
    *("orders", "lZ6vvmajTWKDBUTV6SQAtQ", 0, "PxAJkfo2TMinbC8NnN3mvg", 0, 10, 3, True, 1, 0, 500, NOW - DAY),
    depth=CheckDepth.SNAPSHOTS,
    verdict=RemoteVerdict.MATCHES,
    compared_with=ComparedWith.REMOTE_LOG,
    reason="",
    checked_at=NOW - DAY,
    producer_expiration=DAY,
    remote="s3://bucket/",
)
"""Counts producers that are younger than two days by now."""


def holds(check: RemoteCheck, depth: CheckDepth = CheckDepth.SNAPSHOTS, expiration: int | None = DAY) -> bool:
    return check.still_holds(CheckRequest(depth, NOW, expiration), NOW - DAY, 500)


@pytest.mark.parametrize(
    ("own", "asked", "is_strict"),
    [
        (DAY, DAY, True),
        (DAY, 2 * DAY, True),
        (DAY, 2 * DAY + 1, False),
        (DAY, None, False),
        (None, DAY, True),
        (None, None, True),
    ],
)
def test_a_check_holds_if_it_counted_each_producer_that_counts_now(own, asked, is_strict) -> None:
    assert holds(replace(CHECK, producer_expiration=own), expiration=asked) is is_strict


@pytest.mark.parametrize("own", CheckDepth)
@pytest.mark.parametrize("asked", CheckDepth)
def test_a_check_holds_for_its_depth_and_for_those_that_read_less(own: CheckDepth, asked: CheckDepth) -> None:
    order = ["metadata", "snapshots", "full"]
    assert holds(replace(CHECK, depth=own), asked) is (order.index(own) >= order.index(asked))


@pytest.mark.parametrize("verdict", RemoteVerdict)
def test_only_a_sound_segment_of_the_log_is_not_read_again(verdict: RemoteVerdict) -> None:
    assert holds(replace(CHECK, verdict=verdict)) is verdict.is_sound
    assert not holds(replace(CHECK, verdict=verdict, is_of_log=False))


def test_other_objects_are_read_again() -> None:
    asked = CheckRequest(CheckDepth.METADATA, NOW, DAY)
    assert CHECK.still_holds(asked, CHECK.written_at, CHECK.bytes)
    assert not CHECK.still_holds(asked, CHECK.written_at + 1, CHECK.bytes)
    assert not CHECK.still_holds(asked, CHECK.written_at, CHECK.bytes + 1)
