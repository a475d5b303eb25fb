"""One attempt to copy a segment: claim, delete what earlier ones left, copy and prove, make visible, finish the claim.

The order is that of stored.claims. Whoever is killed anywhere leaves its id in the claim, and the next attempt
deletes what it left.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from tiersnap.remote_storage.errors import ClaimedError, ClaimLostError, ExpiredError, ObjectChangedError
from tiersnap.remote_storage.inventory.complete import check_layout
from tiersnap.remote_storage.inventory.remote_inventory import RemoteInventory
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.retire.leftovers import Swept
from tiersnap.remote_storage.stored import claims
from tiersnap.remote_storage.stored.claim import Claim
from tiersnap.remote_storage.upload.already_there import claimed_snapshot, event_of_covered, is_covered
from tiersnap.remote_storage.upload.bundle import PlannedSegment, SegmentBundle
from tiersnap.remote_storage.upload.copy_event import CopyEvent
from tiersnap.remote_storage.upload.tier_job import TierJob
from tiersnap.remote_storage.upload.uploader import copy_segment, delete_copy
from tiersnap.snapshot.errors import TiersnapError


@dataclass(frozen=True, slots=True)
class Lost:
    """Another attempt has the claim; `seconds` is how long this one had copied, 0 where it never had the claim."""

    error: TiersnapError
    seconds: float


def attempt(job: TierJob, segment: PlannedSegment, ready: SegmentBundle) -> Generator[CopyEvent, None, Lost | None]:
    """Claim and copy; returns how the claim was lost, None where the segment is settled."""
    began = time.monotonic()
    try:
        claimed = _claim(job, segment)
        if claimed is None:
            yield event_of_covered(job, segment, job.list_remote_partition(segment.base_offset)) or job.event(segment)
            return None
    except ClaimedError as error:
        return Lost(error, 0.0)
    except TiersnapError as error:
        yield job.event(segment, error=error)
        return None
    taken = yield from _copy(job, segment, ready, claimed)
    return None if taken is None else Lost(taken, time.monotonic() - began)


def check_not_expired(segment: PlannedSegment, inventory: RemoteInventory) -> None:
    """See that `tiersnap expire` has not deleted a segment, which nobody wants back.

    Raises:
        ExpiredError: it has.
    """
    if segment.next_base_offset <= inventory.expired_to:
        raise ExpiredError(
            f"tiersnap expire deleted what lies below {inventory.expired_to} in remote storage since it was planned",
            hint="run the same command again: it sees what is there now",
        )


def _claim(job: TierJob, segment: PlannedSegment) -> Claim | None:
    """The segment claimed for a new attempt, None if another has finished it and its copy is there."""
    new = job.new_attempt()
    claimed = claims.claim(job.store, job.keys, job.claimed_segment(segment), new)
    if claimed.finished is None:
        return claimed
    inventory = job.list_remote_partition(segment.base_offset)
    if is_covered(segment, inventory):
        return None
    # Whatever was tiered and expired since the first look is claimed still: expire leaves young claims.
    check_not_expired(segment, inventory)
    is_whole = claimed.finished in {copy.segment_id for copy in inventory.segments}
    if not is_whole:
        check_layout(job.store, job.keys, claimed, job.layout.name, local=job.is_local)
    return claims.reopen(job.store, job.keys, claimed, new, is_whole=is_whole)


def _copy(
    job: TierJob, segment: PlannedSegment, ready: SegmentBundle, claimed: Claim
) -> Generator[CopyEvent, None, TiersnapError | None]:
    """Copy for the holder of `claimed`; returns how it lost the claim, None if it did not."""
    metadata = job.metadata(ready, claimed.holder)
    segment_id = metadata.id.segment_id
    yield job.event(segment, segment_id=segment_id, state=metadata.state)
    try:
        delete_earlier(job, metadata, claimed)
        copied = copy_segment(
            job.store,
            job.layout,
            ready,
            metadata,
            timeout=job.tierer.timeout,
            before_visible=lambda: _check_ours(job, claimed),
        )
    except TiersnapError as error:
        left = bool(error.attrs.get("left_behind"))
        if _is_lost(job, claimed, error):
            with suppress(TiersnapError):
                claims.put_again(job.store, job.keys, claimed)
            yield from _undone(job, segment, segment_id, None, left=left)
            return error
        if not left:
            with suppress(TiersnapError):
                claims.release(job.store, job.keys, claimed)
        yield from _undone(job, segment, segment_id, error, left=left)
        return None
    except KeyboardInterrupt:
        # Its objects are deleted as far as that could be; what is left goes with the leftovers.
        with suppress(TiersnapError):
            claims.release(job.store, job.keys, claimed)
        raise
    try:
        claims.finish(job.store, job.keys, claimed, claimed_snapshot(ready))
    except ObjectChangedError as error:
        left = bool(delete_copy(job.store, job.layout, metadata))
        yield from _undone(job, segment, segment_id, None, left=left)
        return error
    except TiersnapError as error:  # whether it is finished nobody knows; the copy is, and the next run looks
        yield job.event(segment, segment_id=segment_id, error=error)
        return None
    done = job.event(segment, segment_id=segment_id, state=SegmentState.COPY_SEGMENT_FINISHED)
    yield replace(done, bytes=copied.bytes, rebuilt_indexes=copied.rebuilt_indexes)
    return None


def _undone(
    job: TierJob, segment: PlannedSegment, segment_id: str, error: TiersnapError | None, *, left: bool
) -> Iterator[CopyEvent]:
    """The states of an attempt whose objects were deleted; if something is `left`, the claim names it."""
    steps = [SegmentState.DELETE_SEGMENT_STARTED] + ([] if left else [SegmentState.DELETE_SEGMENT_FINISHED])
    for state in steps:
        yield job.event(segment, segment_id=segment_id, state=state, error=error if state is steps[-1] else None)


def _is_lost(job: TierJob, claimed: Claim, error: TiersnapError) -> bool:
    """Whether `error` came of another attempt, which deletes what it finds of those whose claim it took."""
    if isinstance(error, ClaimLostError):
        return True
    try:
        return not claims.is_still_ours(job.store, job.keys, claimed)
    except TiersnapError:
        return False


def _check_ours(job: TierJob, claimed: Claim) -> None:
    if not claims.is_still_ours(job.store, job.keys, claimed):
        raise ClaimLostError(
            f"{claimed.segment}: another attempt took over the claim of {claimed.holder.segment_id}",
            hint="run the same command again: it finds the other attempt's copy",
        )


def delete_earlier(job: TierJob, metadata: RemoteLogSegmentMetadata, claimed: Claim) -> None:
    """Delete what the earlier attempts of a claim left; it names them, so it is ours beyond doubt.

    Args:
        metadata: of the attempt that holds the claim.

    Raises:
        TransientError: something could not be deleted.
    """
    for earlier in claimed.earlier:
        of_it = replace(metadata, id=replace(metadata.id, segment_id=earlier.segment_id))
        for upload in job.store.unfinished_uploads(job.layout.stem(of_it)):
            if earlier.segment_id in upload.key:
                job.store.abort_upload(upload)
        if earlier.ended:
            continue  # it deleted its objects; what appears of it later goes with the leftovers
        Swept(failures=delete_copy(job.store, job.layout, of_it)).check()
