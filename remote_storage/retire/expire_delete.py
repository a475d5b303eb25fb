"""Deletion of what was planned, and its exit code: recorded first, oldest first; killed, the same command ends it.

    DELETE_SEGMENT_STARTED    all that go are recorded, and the log start offset behind them
    objects                   segment by segment, what makes it visible first
    DELETE_SEGMENT_FINISHED   they are no longer recorded
    rest                      claims and snapshots below the log start that nothing of is left

Whoever came to work at the partition since it was planned is seen once the record is there, and then nothing goes. The
first object that cannot be deleted ends it: what is behind stays recorded, and readable where it was not begun.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tiersnap.remote_storage.inventory.partition_objects import list_partition_objects
from tiersnap.remote_storage.inventory.remote_inventory import list_remote_partition
from tiersnap.remote_storage.layouts.remote_location import in_each_layout
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition
from tiersnap.remote_storage.own_objects.claim_protocol import STALE_AFTER_MS
from tiersnap.remote_storage.own_objects.deletion_record import Deleting, ExpireRecord, write_record
from tiersnap.remote_storage.own_objects.snapshot_objects import readable_manifests
from tiersnap.remote_storage.retire.expire_plan import ExpirePlan, ExpiringSegment, PartitionInUseError, in_use
from tiersnap.remote_storage.retire.known_to_cluster import KnownPartition
from tiersnap.remote_storage.retire.orphan_kinds import Fate
from tiersnap.remote_storage.retire.orphans import Aged, judge_snapshots
from tiersnap.remote_storage.retire.orphans_find import is_ours, remove
from tiersnap.remote_storage.retire.partition_leftovers import Swept, delete_visible_first, sweep_partition
from tiersnap.remote_storage.retire.retention import Breach, ExpireAction
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.snapshot.errors import ExitCode, GateError, TiersnapError, failure

_REFUSED = {ExpireAction.REFUSE, ExpireAction.IN_USE}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result for a segment: DELETE_SEGMENT_FINISHED, or STARTED with the objects that are still there."""

    segment: ExpiringSegment
    state: SegmentState
    failures: tuple[DeleteFailure, ...] = ()


def delete_expired(store: ObjectStore, plan: ExpirePlan) -> Iterator[Deleted]:
    """Delete the segments of a plan that go, and what an earlier run left of those that went.

    Raises:
        ObjectChangedError: another run is at the partition.
        PartitionInUseError: somebody else is, since it was planned.
    """
    record = plan.record
    if plan.has_changes:
        started = replace(record, log_start_offset=plan.log_start_offset, deleting=_recorded(plan))
        if started != record:
            record = _record(store, plan, started)
        done = set()
        for segment in plan.going:
            failures = delete_visible_first(store, segment.keys)
            state = SegmentState.DELETE_SEGMENT_STARTED if failures else SegmentState.DELETE_SEGMENT_FINISHED
            _log.info(
                "expired %s of %s: %s, %d failures", segment.segment_id, plan.partition, state.name, len(failures)
            )
            yield Deleted(segment, state, failures)
            if failures:
                break
            done.add(segment.segment_id)
        left = tuple(each for each in record.deleting if each.segment_id not in done)
        record = write_record(store, plan.partition, replace(record, deleting=left))
    below = min((record.log_start_offset, *(each.start_offset for each in record.deleting)))
    _remove_rest(store, plan.partition, below)


def _record(store: ObjectStore, plan: ExpirePlan, started: ExpireRecord) -> ExpireRecord:
    """Record what goes; taken back where somebody came to work at the partition since it was planned."""
    record = write_record(store, plan.partition, started)
    stored = list_partition_objects(store, plan.partition)
    somebody = in_use(store, stored, {each.segment_id for each in record.deleting}, store.now())
    if somebody:
        before = replace(record, log_start_offset=plan.record.log_start_offset, deleting=plan.record.deleting)
        write_record(store, plan.partition, before)
        raise PartitionInUseError(
            f"{plan.partition}: nothing was deleted: {somebody}", hint="run the same command again later"
        )
    return record


def _recorded(plan: ExpirePlan) -> tuple[Deleting, ...]:
    # Also those that an earlier run began to delete and that are locked now.
    return tuple(
        Deleting(each.segment_id, each.start_offset, each.end_offset)
        for each in plan.segments
        if each.action is ExpireAction.DELETE or each.breach is Breach.BEGUN
    )


def _remove_rest(store: ObjectStore, partition: TopicIdPartition, log_start_offset: int) -> None:
    """Claims and our snapshots below the log start; what cannot be deleted is left to the next run."""
    if log_start_offset == 0:
        return
    stored = list_partition_objects(store, partition)
    old = Aged(store.now(), STALE_AFTER_MS)
    left = {each.start_offset for each in stored.attempts}
    store.delete(
        info.key
        for claimed, info in stored.claims.items()
        if claimed.base_offset < log_start_offset and claimed.base_offset not in left and old.is_old(info.modified)
    )
    beginning = KnownPartition(partition, stored.cluster_id or "", log_start=log_start_offset)
    snapshots = judge_snapshots(
        stored, beginning, old, list(readable_manifests(store, stored.manifests.values())), is_ours(store)
    )
    for _ in remove(store, (each for each in snapshots if each.action is Fate.REMOVE)):
        pass


class ExpireOutcome(NamedTuple):
    """The result for a partition."""

    plan: ExpirePlan
    deleted: Sequence[Deleted] = ()  # of the segments that were begun
    error: TiersnapError | None = None  # what ended it; the other partitions go on
    swept: Swept = Swept()  # what ended attempts had left


def carry_out(store: ObjectStore, plan: ExpirePlan) -> ExpireOutcome:
    """Delete what a plan says, as far as it can be done."""
    deleted: list[Deleted] = []
    swept = Swept()
    try:
        if plan.action is ExpireAction.DELETE:
            for each in delete_expired(store, plan):
                deleted.append(each)  # noqa: PERF402 - those before an error count
        for location in in_each_layout(store) if plan.leftovers else ():
            found = list_remote_partition(location, plan.partition)
            swept += sweep_partition(store, found, plan.expired)
    except TiersnapError as error:
        return ExpireOutcome(plan, deleted, error, swept)
    return ExpireOutcome(plan, deleted, swept=swept)


def exit_code_of(done: Sequence[ExpireOutcome]) -> ExitCode:
    """PARTIAL for what could not be deleted; where all that was asked for is refused GATE_REFUSED; locks are no error.

    What is left to brokers is as it should be.
    """
    actions = {each.plan.action for each in done}
    errors = [each.error for each in done if each.error is not None]
    if errors and not any(each.deleted for each in done) and actions == {ExpireAction.DELETE}:
        return errors[0].exit_code
    if errors or any(_left(done)):
        return ExitCode.PARTIAL
    if not actions & _REFUSED:
        return ExitCode.OK
    if actions <= {ExpireAction.IN_USE, ExpireAction.LEAVE_TO_BROKERS}:
        return ExitCode.TRANSIENT
    return ExitCode.PARTIAL if ExpireAction.DELETE in actions else ExitCode.GATE_REFUSED


def errors_of(done: Sequence[ExpireOutcome]) -> list[TiersnapError]:
    """Return refusals, errors that ended a partition, and objects that could not be deleted."""
    refused = [
        GateError(f"{each.plan.partition}: {each.plan.reason}", hint=each.plan.hint)
        for each in done
        if each.plan.action in _REFUSED
    ]
    ended = [each.error for each in done if each.error is not None]
    left = (failure(f"{each.key}: {each.reason}", is_transient=False) for each in _left(done))
    return [*refused, *ended, *left]


def _left(done: Sequence[ExpireOutcome]) -> Iterator[DeleteFailure]:
    for each in done:
        yield from (failed for deleted in each.deleted for failed in deleted.failures)
        yield from each.swept.failures
