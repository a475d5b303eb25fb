"""One copy attempt: claim the segment, delete leftovers, upload, make it visible, finish the claim.

locks/claim_protocol.py explains the order of the steps. A segment is visible to readers once its last object exists.
`begin_attempt` does not write the last object. So several attempts may be started at the same time, and then completed
in ascending offset. If an attempt is killed, the claim contains its segment id, and the next attempt deletes its
leftovers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from tiersnap.remote_storage.errors import ClaimedError, ClaimLostError, ObjectChangedError
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import Claim, HeldClaim
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.remote_log.complete import check_layout, complete_segments
from tiersnap.remote_storage.remote_log.segment_objects import ids_of
from tiersnap.remote_storage.retire.partition_leftovers import Swept
from tiersnap.remote_storage.retire.store_leftovers import abort_uploads_of
from tiersnap.remote_storage.stores.requests import Deadline
from tiersnap.remote_storage.upload.already_there import claimed_snapshot, event_of_covered, is_covered
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.send_objects import SegmentCopy, delete_copy
from tiersnap.remote_storage.upload.tier_job import TierJob
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.replay.remote_listing import CopyEvent, RemoteSegmentState


@dataclass(frozen=True, slots=True)
class Lost:
    """The loss of a claim to another attempt. `seconds` is the time since this attempt began, 0 if it had no claim."""

    error: TiersnapError
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The events of an ended attempt; `lost` is set if another attempt has the claim."""

    events: tuple[CopyEvent, ...]
    lost: Lost | None = None


@dataclass(frozen=True, slots=True)
class CopyAttempt:
    """A claimed segment whose objects are in the store, except the last one. The segment is not visible yet."""

    job: TierJob
    segment: PlannedSegment
    copy: SegmentCopy
    claimed: HeldClaim
    began: float  # seconds of the monotonic clock
    superseded: tuple[RemoteLogSegmentMetadata, ...] = ()  # complete segments to delete after this attempt is finished

    @property
    def _segment_id(self) -> str:
        return self.claimed.claim.holder.segment_id

    def look(self) -> None:
        """Check that the objects and the claim still exist.

        Raises:
            ClaimLostError: another attempt took over the claim.
            TiersnapError: see SegmentCopy.
        """
        self.copy.look()
        if not claim_protocol.is_still_ours(self.job.store, self.claimed):
            raise ClaimLostError(
                f"{self.claimed.segment}: another copy attempt took over the claim of attempt {self._segment_id}",
                hint="run the same command again, which finds the segment of the other attempt",
            )

    def complete(self, look: Callable[[], None]) -> Ended:
        """Make the segment visible, and finish the claim.

        Args:
            look: called first. It is `self.look`, or returns the result of an earlier call of `self.look`.
        """
        job, started = self.job, self._event(RemoteSegmentState.COPY_SEGMENT_STARTED)
        try:
            with self.copy.undone_on_error():
                look()
            copied = self.copy.show()
        except TiersnapError as error:
            return self.failed(error)
        except KeyboardInterrupt:
            self.release()
            raise
        try:
            claim_protocol.finish(job.store, self.claimed, claimed_snapshot(self.copy.segment))
        except ObjectChangedError as error:
            left = bool(delete_copy(job.location, self.copy.metadata))
            return Ended((started, *self._undone(None, left=left)), self._lost(error))
        except TiersnapError as error:  # the segment is complete, so the next run can finish the claim
            return Ended((started, self._event(None, error)))
        if job.known is not None and not job.location.is_local:
            job.known.add(self._segment_id, *self.copy.shown)
        for each in self.superseded:
            delete_copy(job.location, each)  # a later run deletes objects that remain
        done = self._event(RemoteSegmentState.COPY_SEGMENT_FINISHED)
        return Ended((started, replace(done, object_bytes=copied.bytes, rebuilt_indexes=copied.rebuilt_indexes)))

    def failed(self, error: TiersnapError) -> Ended:
        """End an attempt whose objects were deleted after an error. Release the claim if this attempt still has it."""
        left = bool(error.attrs.get("left_behind"))
        started = self._event(RemoteSegmentState.COPY_SEGMENT_STARTED)
        if self._is_lost(error):
            with suppress(TiersnapError):
                claim_protocol.put_again(self.job.store, self.claimed)
            return Ended((started, *self._undone(None, left=left)), self._lost(error))
        if not left:
            self.release()
        return Ended((started, *self._undone(error, left=left)))

    def give_up(self) -> None:
        """Delete the objects of a segment that is not visible, and release the claim.

        Keep the claim if objects remain.
        """
        store = self.job.store
        with suppress(TiersnapError):
            if self.copy.undo() or not claim_protocol.release(store, self.claimed):
                claim_protocol.put_again(store, self.claimed)

    def release(self) -> None:
        """Release the claim, so that another attempt need not wait. Ignore errors."""
        with suppress(TiersnapError):
            claim_protocol.release(self.job.store, self.claimed)

    def _is_lost(self, error: TiersnapError) -> bool:
        """Return whether another attempt took over the claim and so caused `error` by deleting the objects."""
        if isinstance(error, ClaimLostError):
            return True
        try:
            return not claim_protocol.is_still_ours(self.job.store, self.claimed)
        except TiersnapError:
            return False

    def _lost(self, error: TiersnapError) -> Lost:
        return Lost(error, time.monotonic() - self.began)

    def _undone(self, error: TiersnapError | None, *, left: bool) -> Iterator[CopyEvent]:
        if left:
            yield self._event(RemoteSegmentState.DELETE_SEGMENT_STARTED, error)
            return
        yield self._event(RemoteSegmentState.DELETE_SEGMENT_STARTED)
        yield self._event(RemoteSegmentState.DELETE_SEGMENT_FINISHED, error)

    def _event(self, state: RemoteSegmentState | None, error: TiersnapError | None = None) -> CopyEvent:
        return self.job.event(self.segment, segment_id=self._segment_id, state=state, error=error)


def begin_attempt(job: TierJob, segment: PlannedSegment, deadline: Deadline) -> CopyAttempt | Ended:
    """Claim a segment, and send all its objects except the last one.

    Return Ended if the segment is already in remote storage, another attempt has the claim, or an error occurs.

    Args:
        deadline: limits the whole call.
    """
    began = time.monotonic()
    try:
        with deadline:
            ready = segment.bundle(job.store)
            claimed = _claim(job, segment)
            if claimed is None:
                inventory = job.counted(job.list_remote_partition(segment.base_offset))
                there = event_of_covered(job, segment, inventory)
                return Ended((there or job.event(segment),))
        copy = SegmentCopy(job.location, ready, job.metadata(ready, claimed.claim.holder))
    except ClaimedError as error:
        return Ended((), Lost(error, 0.0))
    except TiersnapError as error:
        return Ended((job.event(segment, error=error),))
    attempt = CopyAttempt(job, segment, copy, claimed, began)
    try:
        with deadline:
            attempt = replace(attempt, superseded=delete_earlier(job, copy.metadata, claimed.claim))
        copy.send(deadline)
    except TiersnapError as error:
        return attempt.failed(error)
    except KeyboardInterrupt:
        # `send` deleted objects; a later run deletes those that remain.
        attempt.release()
        raise
    return attempt


def _claim(job: TierJob, segment: PlannedSegment) -> HeldClaim | None:
    """Claim the segment for a new attempt. Return None if a finished remote segment exists."""
    new = job.new_attempt()
    claimed = claim_protocol.claim(job.store, job.claimed_segment(segment), new)
    finished = claimed.claim.finished
    if finished is None:
        return claimed
    inventory = job.list_remote_partition(segment.base_offset)
    if finished not in job.replaced and is_covered(segment, job.counted(inventory)):
        return None
    there = job.replaced | ids_of(inventory.segments)
    if finished not in there:
        check_layout(job.location, job.partition, finished)
    return claim_protocol.reopen(job.store, claimed, new)


def delete_earlier(
    job: TierJob, metadata: RemoteLogSegmentMetadata, claim: Claim
) -> tuple[RemoteLogSegmentMetadata, ...]:
    """Delete the incomplete segments of a claim's earlier attempts, and return the complete ones.

    Complete segments stay until the new attempt is finished, because perhaps no other segment has their offsets.

    Args:
        job: the partition and the remote location.
        metadata: metadata of the attempt that has the claim.
        claim: the claim with its earlier attempts.

    Raises:
        TransientError: an object could not be deleted.
    """
    earlier = {each.segment_id: each for each in claim.earlier if each.segment_id not in job.replaced}
    made = {each: replace(metadata, id=replace(metadata.id, segment_id=each)) for each in earlier}
    for segment_id, of_it in made.items():
        abort_uploads_of(job.store, job.location.layout.stem(of_it), segment_id)
    # An ended attempt deleted its objects. If an object appears later, a later run deletes it as a leftover.
    left = [segment_id for segment_id, each in earlier.items() if not each.ended]
    if not left:
        return ()
    complete: list[RemoteLogSegmentMetadata] = []
    complete_ids = complete_segments(job.location, job.partition, left)
    for segment_id in left:
        if segment_id in complete_ids:
            complete.append(made[segment_id])
        else:
            Swept(failures=delete_copy(job.location, made[segment_id])).check()
    return tuple(complete)
