"""Deletion of what was planned: recorded first, oldest first; killed anywhere, the same command again ends it.

    DELETE_SEGMENT_STARTED    all that go are recorded, and the log start offset behind them
    objects                   segment by segment, what makes it visible first
    DELETE_SEGMENT_FINISHED   they are no longer recorded
    rest                      claims and snapshots below the log start that nothing of is left

The first object that cannot be deleted ends it: what is behind stays recorded, and readable where it was not begun.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tiersnap.remote_storage.claims import STALE_AFTER_MS
from tiersnap.remote_storage.expire.plan import ExpireAction, ExpirePlan, ExpiringSegment
from tiersnap.remote_storage.expire.record import Deleting, write_record
from tiersnap.remote_storage.expire.retention import Breach
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.orphans.find import is_ours
from tiersnap.remote_storage.orphans.judge import Aged, Fate, judge_snapshots
from tiersnap.remote_storage.orphans.known import KnownPartition
from tiersnap.remote_storage.orphans.remove import remove
from tiersnap.remote_storage.orphans.stored import StoredPartition, list_stored, read_manifests
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of a segment: DELETE_SEGMENT_FINISHED, or STARTED and what is still there."""

    segment: ExpiringSegment
    state: SegmentState
    failures: tuple[DeleteFailure, ...] = ()


def delete_expired(store: ObjectStore, keys: ObjectKeys, plan: ExpirePlan) -> Iterator[Deleted]:
    """Delete the segments of a plan that go.

    Raises:
        ObjectChangedError: another run is at the partition.
    """
    if not plan.going:
        return
    started = replace(plan.record, log_start_offset=plan.log_start_offset, deleting=_recorded(plan))
    record = started if started == plan.record else write_record(store, keys, plan.partition, started)
    done = set()
    for segment in plan.going:
        first, rest = segment.keys[:1], segment.keys[1:]
        failures = store.delete(first) or store.delete(rest)
        state = SegmentState.DELETE_SEGMENT_STARTED if failures else SegmentState.DELETE_SEGMENT_FINISHED
        _log.info("expired %s of %s: %s, %d failures", segment.segment_id, plan.partition, state.name, len(failures))
        yield Deleted(segment, state, failures)
        if failures:
            break
        done.add(segment.segment_id)
    left = tuple(each for each in record.deleting if each.segment_id not in done)
    write_record(store, keys, plan.partition, replace(record, deleting=left))
    _remove_rest(store, keys, plan)


def _recorded(plan: ExpirePlan) -> tuple[Deleting, ...]:
    """What goes now, and what is half gone since an earlier run and locked now: nobody else knows of that."""
    return tuple(
        Deleting(each.segment_id, each.start_offset, each.end_offset)
        for each in plan.segments
        if each.action is ExpireAction.DELETE or each.breach is Breach.BEGUN
    )


def _remove_rest(store: ObjectStore, keys: ObjectKeys, plan: ExpirePlan) -> None:
    """Claims and our snapshots below the log start; what cannot be deleted is left to the next run."""
    stored = list_stored(store, keys, plan.partition)
    old = Aged(store.now(), STALE_AFTER_MS)
    left = {each.start_offset for each in stored.attempts}
    store.delete(
        info.key
        for claimed, info in stored.claims.items()
        if claimed.base_offset < plan.log_start_offset and claimed.base_offset not in left and old.is_old(info.modified)
    )
    snapshots = judge_snapshots(
        stored, _beginning_at(stored, plan.log_start_offset), old, list(read_manifests(store, stored)), is_ours(store)
    )
    for _ in remove(store, (each for each in snapshots if each.action is Fate.REMOVE)):
        pass


def _beginning_at(stored: StoredPartition, log_start_offset: int) -> KnownPartition:
    return KnownPartition(stored.partition, stored.cluster_id or "", log_start=log_start_offset)
