"""How a stuck partition is planned to be freed, and how it ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reference.readiness_tables import TOPIC_ID
from tiersnap.remote_storage.cluster.copy_progress import CopyProgress
from tiersnap.remote_storage.cluster.stuck import StuckPartition
from tiersnap.remote_storage.errors import HiddenOffsetsError
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.publish.segments_to_publish import PublishAction, PublishPlan, SegmentToPublish
from tiersnap.remote_storage.unblock.freeing import Freeing
from tiersnap.remote_storage.unblock.unblock import Unblocked
from tiersnap.remote_storage.unblock.unblock_outcome import End
from tiersnap.snapshot.errors import CorruptDataError, ExitCode, GateError, TiersnapError, TransientError
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.gate.judge import Readiness
from tiersnap.snapshot.gate.printed_steps import NEXT_STEP
from tiersnap.snapshot.gate.verdict import Verdict

pytestmark = pytest.mark.unit

PARTITION = TopicIdPartition("orders", TOPIC_ID, 0)
OLD, NEW = "tqimKeZwStOEOwRzT3L5oQ", "adh9f8BMS4anaUnD8KWfWg"
NOTHING_TO_DO = "no segment is left to tier"


def stuck(*, next_offset: int = 100, ignores_published: bool = False, seen: frozenset[str] = frozenset()) -> Freeing:
    """A partition whose remote storage ends before `next_offset`."""
    return Freeing(StuckPartition(PARTITION, 1, next_offset, 3, ignores_published, frozenset({next_offset}), seen))


def plan(*segments: tuple[str, int, int, PublishAction], refusal: TiersnapError | None = None):
    """A plan of (id, first offset, last offset, what becomes of it)."""
    planned = []
    for name, start, end, action in segments:
        of = RemoteLogSegmentId(PARTITION.topic, PARTITION.topic_id, PARTITION.partition, name)
        finished = SegmentState.COPY_SEGMENT_FINISHED
        planned.append(
            SegmentToPublish(RemoteLogSegmentMetadata(of, start, end, 1, 0, 0, ((0, start),), 9, finished), action)
        )
    return PublishPlan(PARTITION, tuple(planned), 1, refusal)


def row(base_offset: int, verdict: Verdict) -> Readiness:
    """A row of READINESS."""
    return Readiness(base_offset, verdict, "why")


def test_of_what_is_tiered_already_brokers_are_told_what_they_lack():
    freeing = stuck()
    tiered = [row(100, Verdict.TIERED), row(200, Verdict.TIERED)]
    told = plan((OLD, 100, 199, PublishAction.FINISH), (NEW, 200, 299, PublishAction.PUBLISH))
    freeing.plan(tiered, told)
    assert (freeing.end, freeing.tier, freeing.publish, freeing.next_offset) == (End.PLANNED, 2, 2, 300)


@pytest.mark.parametrize("verdict", [Verdict.READY, Verdict.MISSING_SNAPSHOT, Verdict.CORRUPT_SNAPSHOT])
@pytest.mark.parametrize("is_cleared", [True, False])
def test_freeing_plans_the_segments_that_apply_would_upload(verdict, *, is_cleared):
    freeing, rows = stuck(), [row(200, Verdict.GAP_BEFORE), row(100, verdict)]
    freeing.plan(rows, None, {100, 200} if is_cleared else set())
    if is_cleared:
        assert (freeing.end, freeing.tier, freeing.publish, freeing.reason) == (End.PLANNED, 2, 2, "")
    else:
        assert (freeing.end, freeing.reason, freeing.hint) == (End.BLOCKED, f"{verdict}: why", NEXT_STEP[verdict])


def test_freeing_counts_nothing_below_remote_storage_and_what_was_uploaded_before():
    freeing = stuck()
    rows = [row(50, Verdict.READY), row(100, Verdict.UPLOADED), row(200, Verdict.MISSING_SNAPSHOT)]
    freeing.plan(rows, plan((NEW, 100, 199, PublishAction.PUBLISH)), {50, 200})
    assert (freeing.end, freeing.tier, freeing.publish) == (End.PLANNED, 2, 2)


def test_what_could_not_be_tiered_is_named_after_the_attempt():
    freeing = stuck()
    freeing.plan([row(100, Verdict.READY)], plan())
    assert (freeing.end, freeing.reason) == (End.BLOCKED, "READY: why"), "it should have been tiered"
    freeing = stuck()
    freeing.plan([row(50, Verdict.TIERED)], plan())
    assert (freeing.end, freeing.tier, freeing.reason) == (End.BLOCKED, 0, NOTHING_TO_DO)


def test_a_gap_that_the_copier_has_passed_stands_in_nobodys_way_and_one_ahead_does():
    passed = [row(50, Verdict.GAP_IN_REMOTE), row(100, Verdict.MISSING_SNAPSHOT)]
    freeing = stuck()
    freeing.plan(passed, None, {100})
    assert (freeing.end, freeing.tier) == (End.PLANNED, 1)
    freeing = stuck()
    freeing.plan([row(100, Verdict.GAP_IN_REMOTE)], None, set())
    assert (freeing.end, freeing.reason) == (End.BLOCKED, "GAP_IN_REMOTE: why")
    freeing = stuck()
    freeing.plan([row(50, Verdict.CORRUPT_SEGMENT), *passed], None, set())
    assert (freeing.end, freeing.reason) == (End.BLOCKED, "CORRUPT_SEGMENT: why")


@pytest.mark.parametrize("action", [PublishAction.KNOWN, PublishAction.COVERED])
def test_what_others_published_meanwhile_is_no_blocked_partition_but_its_copier_must_look(action):
    freeing = stuck()
    freeing.plan([row(100, Verdict.TIERED)], plan((NEW, 100, 199, action)))
    assert (freeing.end, freeing.publish, freeing.next_offset) == (End.PLANNED, 0, 200)


def test_a_copier_that_has_not_looked_is_made_to_though_nothing_is_new():
    freeing = stuck(ignores_published=True)
    freeing.plan([], plan())
    assert (freeing.end, freeing.publish, freeing.next_offset) == (End.PLANNED, 0, 100)


def test_what_a_leader_that_lost_an_election_had_tiered_farther_is_not_where_remote_storage_ends():
    # The copy of the lost leader was known when the partition was found stuck, and it is not of this log: its offsets
    # 100 to 299 are still to be copied. What came to be known since was published by somebody who looked.
    freeing = stuck(seen=frozenset({OLD}))
    known = plan((OLD, 100, 299, PublishAction.KNOWN))
    freeing.plan([row(100, Verdict.CORRUPT_SEGMENT)], known)
    assert (freeing.end, freeing.reason, freeing.next_offset) == (End.BLOCKED, "CORRUPT_SEGMENT: why", 100)
    freeing = stuck(seen=frozenset({OLD}))
    freeing.plan(
        [],
        plan((OLD, 100, 299, PublishAction.KNOWN), (NEW, 100, 149, PublishAction.KNOWN)),
    )
    assert (freeing.end, freeing.next_offset) == (End.PLANNED, 150)


def test_a_copy_that_somebody_began_and_we_finish_counts_though_its_beginning_was_known():
    freeing = stuck(seen=frozenset({OLD}))
    freeing.plan([], plan((OLD, 100, 199, PublishAction.FINISH)))
    assert (freeing.end, freeing.publish, freeing.next_offset) == (End.PLANNED, 1, 200)


def test_a_segment_of_another_lineage_says_nothing_of_where_remote_storage_ends():
    freeing = stuck()
    other = plan((OLD, 100, 999, PublishAction.OTHER_LINEAGE), (NEW, 100, 199, PublishAction.PUBLISH))
    freeing.plan([], other)
    assert (freeing.end, freeing.publish, freeing.next_offset) == (End.PLANNED, 1, 200)


def test_what_others_freed_at_the_last_moment_is_left_to_them():
    freeing = stuck()
    freeing.plan([], plan((NEW, 100, 199, PublishAction.PUBLISH)))
    freeing.needs_restart("it may not be switched off")
    assert (freeing.end, freeing.reason) == (End.RESTART, "it may not be switched off")
    freeing.skip_freed_by_others(plan((NEW, 100, 199, PublishAction.COVERED)))
    assert (freeing.end, freeing.publish, freeing.next_offset) == (End.FREED, 0, 200)
    assert freeing.hint == ""


@pytest.mark.parametrize(
    ("progress", "end", "said"),
    [
        (CopyProgress.MOVED_ON, End.FREED, "the copy task continues"),
        (CopyProgress.QUIET, End.FREED, "no segment is left to upload"),
        (CopyProgress.STUCK_AHEAD, End.STUCK_AHEAD, "fails at offset 200"),
        (CopyProgress.FAILING, End.PLANNED, ""),
    ],
)
def test_how_it_ended_is_what_the_copier_does_next(progress, end, said):
    freeing = stuck()
    freeing.plan([], plan((NEW, 100, 199, PublishAction.PUBLISH)))
    freeing.conclude(progress)
    assert freeing.end == end
    assert said in freeing.reason


def test_exit_code_of_a_partition_is_that_of_its_end_or_its_refusal():
    def code(*freeings: Freeing) -> ExitCode:
        return exit_code_of(Unblocked(1, freeings).problems())

    def ended(end: End) -> Freeing:
        return Freeing(stuck().stuck, end=end)

    passing, for_good, damaged = stuck(), stuck(), stuck()
    passing.plan([], plan(refusal=TransientError("no leader")))
    for_good.plan([], plan(refusal=GateError("another log")))
    damaged.plan([], plan(refusal=CorruptDataError("not a record")))
    assert (passing.end, passing.reason, for_good.end) == (End.REFUSED, "no leader", End.REFUSED)
    assert code() is code(ended(End.FREED), ended(End.PLANNED)) is ExitCode.OK
    assert code(passing, for_good, ended(End.FREED)) is ExitCode.TRANSIENT
    assert code(for_good) is code(ended(End.BLOCKED)) is ExitCode.GATE_REFUSED
    assert code(ended(End.RESTART)) is code(ended(End.STUCK_AHEAD)) is ExitCode.PARTIAL
    assert code(for_good, ended(End.RESTART)) is ExitCode.GATE_REFUSED
    assert code(damaged, passing, for_good) is ExitCode.DATA_CORRUPT


def test_plan_with_nothing_but_segments_that_are_held_back_is_refused():
    freeing, held = stuck(), plan((NEW, 100, 199, PublishAction.HELD_BACK))
    error = HiddenOffsetsError("it would hide others", hint="what to do")
    held = replace(held, segments=tuple(replace(each, error=error) for each in held.segments))
    freeing.plan([row(100, Verdict.TIERED)], held)
    assert (freeing.end, freeing.reason, freeing.hint) == (End.REFUSED, "it would hide others", "what to do")
