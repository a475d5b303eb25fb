"""Delete the leftovers of ended copy attempts in a partition.

A failed attempt deletes its objects when it ends. If an attempt is killed, the attempt that takes over its claim
deletes the objects. A server may apply a request late, so an object can still appear after its attempt has ended. An
object is deleted only if a claim contains the segment id of its attempt, and only after a grace period. This period, by
the store's clock, is longer than any attempt.

The log of a leftover may be the last undamaged log with its offsets. Object names and sizes do not show whether other
segments are undamaged. So a log is deleted only if the same call has fully read other segments with its offsets and
found no damage. Otherwise all objects of the attempt are kept. They are deleted by a later call, or by the next attempt
to upload the local segment.

If an attempt seems to be killed and still holds its claim, the attempt is marked as ended before its objects are
deleted. If its process runs after all, the process finds the claim changed and makes no segment visible.
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import Claim
from tiersnap.remote_storage.locks.claim_protocol import STALE_AFTER_MS
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory, leftovers_of
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment
from tiersnap.remote_storage.remote_log.segment_objects import ids_of
from tiersnap.remote_storage.retire.attempt_log import UNKNOWN_END, first_problem, holding, read_attempt_log
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.remote_storage.verify.compare_whole import read_remaining
from tiersnap.snapshot.errors import CorruptDataError, TransientError

_log = logging.getLogger(__name__)
GRACE_MS = STALE_AFTER_MS
"""Longer than the deadline of an attempt."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The number of deleted objects, the failed deletions, and the reasons why superseded segments were kept."""

    objects: int = 0
    failures: tuple[DeleteFailure, ...] = ()
    doubts: tuple[CorruptDataError, ...] = ()

    def __add__(self, other: Swept) -> Swept:
        failures, doubts = (*self.failures, *other.failures), (*self.doubts, *other.doubts)
        return Swept(self.objects + other.objects, failures, doubts)

    def check(self) -> None:
        """Raise TransientError if an object could not be deleted."""
        if self.failures:
            first = self.failures[0]
            raise TransientError(
                f"cannot delete {first.key}, which an earlier attempt left: {first.reason}",
                hint="allow s3:DeleteObject below the prefix, then run the same command again",
            )


def _old_leftovers(store: ObjectStore, found: RemoteInventory) -> list[RemoteSegment | IncompleteSegment]:
    """Return the leftovers that are older than GRACE_MS by the store's clock. Needs at most one request.

    Segments that a later attempt replaced are included at any age.
    """
    superseded = found.superseded
    wanted, now = leftovers_of(found), 0
    if len(wanted) > len(superseded):
        now = store.now()
    return [each for each in wanted if each in superseded or now - each.written_at > GRACE_MS]


def sweep_partition(store: ObjectStore, found: RemoteInventory, *, log_start: int = 0) -> Swept:
    """Delete the old leftovers of a partition. The function may be killed at any point and called again.

    Args:
        log_start: log start offset. Offsets below it need no segment.

    Raises:
        TransientError: remote storage does not answer.
        RemoteStorageError: remote storage refuses a request.
    """
    done, superseded = Swept(), found.superseded
    for each in _old_leftovers(store, found):
        if why := _why_kept(store, found, each, log_start):
            _log.info("%s at %d of %s stays: %s", each.segment_id, each.start_offset, found.partition, why)
            if each in superseded:
                done += Swept(doubts=(_doubt(store, found, each, why),))
        elif each in superseded or _is_ended(store, each):
            failures = delete_visible_first(store, each.keys)
            deleted = len(each.keys) - len(failures)
            _log.info("deleted leftovers of attempt %s of %s: %d objects", each.segment_id, found.partition, deleted)
            done += Swept(deleted, failures)
    return done


def _why_kept(
    store: ObjectStore, found: RemoteInventory, left: RemoteSegment | IncompleteSegment, log_start: int
) -> str:
    """Return the reason why a leftover is kept, or "".

    "" means that the leftover has no log, or that other segments with its offsets were read fully and are undamaged.
    """
    if left.objects is None or left.objects.log is None:
        return ""
    complete = None
    if isinstance(left, RemoteSegment):
        complete = left
    log = read_attempt_log(store, left.objects, complete)
    if log is None:
        return UNKNOWN_END
    first = max(log.start_offset, log_start)
    remaining = holding(_counted(found, log.leader_epoch), first, log.end_offset)
    if remaining is None:
        return f"no other complete segments have the offsets {first} to {log.end_offset - 1} of this segment"
    now = store.now()
    return first_problem(log, remaining, lambda segment: read_remaining(store, segment, now))


def _counted(found: RemoteInventory, leader_epoch: int) -> list[RemoteSegment]:
    """Return the remaining segments of this leader epoch or a later one, in ascending start offset."""
    superseded = ids_of(found.superseded)
    counted: list[RemoteSegment] = []
    for each in found.segments:
        if each.is_unfinished or each.segment_id in superseded:
            continue
        if each.leader_epochs[-1][0] >= leader_epoch:
            counted.append(each)
    return counted


def _doubt(
    store: ObjectStore, found: RemoteInventory, left: RemoteSegment | IncompleteSegment, why: str
) -> CorruptDataError:
    location = RemoteLocation(store, found.segments[0].layout)
    return CorruptDataError(
        f"{found.partition}: another segment replaces segment {left.segment_id} at offset {left.start_offset}, "
        f"but tiersnap keeps the replaced segment: {why}",
        hint=f"tiersnap verify --remote {shlex.join(location.words)} --depth full",
        segment_id=left.segment_id,
    )


def _is_ended(store: ObjectStore, left: RemoteSegment | IncompleteSegment) -> bool:
    """Return whether the attempt has ended. If it has held its claim for longer than GRACE_MS, mark it as ended."""
    assert left.claim is not None
    assert left.claimed_as is not None
    if not _is_held(left.claim, left.segment_id):
        return True
    found = claim_protocol.read_claim_and_age(store, left.claimed_as)
    if found is None or not _is_held(found[0].claim, left.segment_id):
        return found is None or found[0].claim.may_delete(left.segment_id)
    held, age = found
    return age > GRACE_MS and claim_protocol.release(store, held)


def _is_held(claim: Claim, segment_id: str) -> bool:
    return claim.finished is None and claim.holder.segment_id == segment_id and not claim.holder.ended


def delete_visible_first(store: ObjectStore, keys: tuple[str, ...]) -> tuple[DeleteFailure, ...]:
    """Delete the object that makes a segment visible, then its other objects. Return the failures."""
    if not (failures := store.delete(keys[:1])):
        return store.delete(keys[1:])
    return (*failures, *(DeleteFailure(key, f"stays with {keys[0]}") for key in keys[1:]))
