"""The groups of verdicts, which one is the worst, and what a plan says that `--apply` clears."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tiersnap.snapshot.gate.verdict import (
    BLOCKED,
    DISPLAY_ORDER,
    LEVEL,
    NEVER_TIERED,
    SEVERITY,
    WAITING,
    Level,
    Verdict,
    cleared_by_apply,
    may_be_tiered,
    problems_of,
    worst,
)
from tiersnap.snapshot.replay.expiry import ReplayOptions

pytestmark = pytest.mark.unit

GROUPS = {
    "TIERED LEFT_TO_BROKER": Level.SETTLED,
    "UPLOADED IN_REMOTE": Level.IN_REMOTE,
    "ACTIVE_SEGMENT COMPACTED_TOPIC INTERNAL_TOPIC": Level.SETTLED,
    "READY BEFORE_WINDOW": Level.READY,
    "COPY_IN_FLIGHT ABOVE_LSO GAP_BEFORE": Level.PENDING,
}
"""The others are BLOCKED."""
EXACT, REPLACING = ReplayOptions(), ReplayOptions(replace=True)


def level_of(verdict: Verdict) -> Level:
    return next((level for names, level in GROUPS.items() if verdict in names.split()), Level.BLOCKED)


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_has_one_level_and_waits_if_it_is_blocked_or_pending(verdict: Verdict) -> None:
    level = level_of(verdict)
    assert LEVEL[verdict] is level
    assert (verdict in BLOCKED) is (level is Level.BLOCKED)
    assert (verdict in WAITING) is (level in (Level.BLOCKED, Level.PENDING))
    assert (verdict in NEVER_TIERED) is (verdict in ("ACTIVE_SEGMENT", "COMPACTED_TOPIC", "INTERNAL_TOPIC"))


def test_every_verdict_is_shown_and_ranked_once() -> None:
    assert sorted(DISPLAY_ORDER) == sorted(SEVERITY) == sorted(Verdict)


def test_shown_verdicts_go_from_done_to_worst_and_end_with_those_that_are_never_tiered() -> None:
    shown = [each for each in DISPLAY_ORDER if each not in NEVER_TIERED]
    assert set(DISPLAY_ORDER[len(shown) :]) == NEVER_TIERED
    order = [Level.SETTLED, Level.IN_REMOTE, Level.READY, Level.PENDING, Level.BLOCKED]
    assert [LEVEL[each] for each in shown] == sorted((LEVEL[each] for each in shown), key=order.index)
    assert [each for each in reversed(shown) if each in BLOCKED] == [each for each in SEVERITY if each in BLOCKED]


def test_worst_verdict_is_damage_before_what_is_missing_before_what_waits_before_what_is_done() -> None:
    order = [
        *(Verdict.CORRUPT_SEGMENT, Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT, Verdict.MISSING_SNAPSHOT),
        *(Verdict.ABOVE_LSO, Verdict.GAP_BEFORE, Verdict.READY, Verdict.TIERED, Verdict.ACTIVE_SEGMENT),
    ]
    for worse, better in pairwise(order):
        assert worst([better, worse]) is worst([worse, better]) is worse
    assert worst([]) is None


@pytest.mark.parametrize("verdict", Verdict)
def test_plan_names_apply_if_that_uploads_a_segment_or_writes_a_snapshot(verdict: Verdict) -> None:
    plainly = verdict in ("READY", "BEFORE_WINDOW", "MISSING_SNAPSHOT")
    replaced = verdict in ("CORRUPT_SNAPSHOT", "SUSPECT_SNAPSHOT")
    assert may_be_tiered({Verdict.TIERED: 3, verdict: 1}, EXACT) is plainly
    assert may_be_tiered({Verdict.TIERED: 3, verdict: 1}, REPLACING) is (plainly or replaced)
    assert not may_be_tiered({verdict: 0}, REPLACING)
    assert may_be_tiered({verdict: 1}, ReplayOptions(every_boundary=True))
    assert (verdict in cleared_by_apply(EXACT)) is (plainly and LEVEL[verdict] is not Level.READY)


def test_problems_are_the_verdicts_that_segments_have_and_that_are_not_cleared() -> None:
    found = {Verdict.MISSING_SNAPSHOT: 0, Verdict.SUSPECT_SNAPSHOT: 2, Verdict.INDEX_DAMAGED: 1, Verdict.GAP_BEFORE: 4}
    assert list(problems_of(found)) == [Verdict.SUSPECT_SNAPSHOT, Verdict.INDEX_DAMAGED, Verdict.GAP_BEFORE]
    assert list(problems_of(found, cleared={Verdict.INDEX_DAMAGED})) == [Verdict.SUSPECT_SNAPSHOT, Verdict.GAP_BEFORE]
    told_by_findings = {Verdict.CORRUPT_SEGMENT: 1, Verdict.UNREADABLE_SEGMENT: 1}
    assert list(problems_of(told_by_findings)) == []
