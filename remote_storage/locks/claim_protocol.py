"""The protocol by which copy attempts at one segment exclude each other.

Each attempt has its own segment id. It takes these steps in this order:

    claim            add the attempt to the claim, before any byte is uploaded
    copy             upload log and indexes, which readers do not see yet. The attempt may delete incomplete leftovers
                     of `claim.earlier`. Complete segments stay for now, because perhaps no other segment has their
                     offsets
    is_still_ours    if another attempt took over the claim: delete the copied objects, and stop
    make visible     write the manifest
    finish           if it raises ObjectChangedError: delete the uploaded segment, manifest first, and stop
    delete           complete remote segments of `claim.earlier`

`finish` replaces only the version of the claim that the attempt read. So exactly one attempt finishes, and only its
remote segment is valid. If another attempt takes over between `is_still_ours` and `finish`, two remote segments are
complete for a moment. The claim contains the ids of both, and the segment that is not `finished` is deleted. The claim
also contains killed attempts, so the next attempt knows which objects tiersnap wrote, and deletes these objects.

Brokers do not read claims. Therefore tiersnap uploads nothing to a partition with a working copy task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from tiersnap.remote_storage.errors import ClaimedError, ObjectChangedError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks import lock_object
from tiersnap.remote_storage.locks.claim import Attempt, Claim, ClaimedSegment, ClaimedSnapshot, HeldClaim
from tiersnap.remote_storage.locks.lock_object import StoredContent, why_over
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.stores.requests import DEFAULT_UPLOAD_SECONDS
from tiersnap.snapshot.errors import CorruptDataError

_log = logging.getLogger(__name__)
STALE_AFTER_MS = int(2 * DEFAULT_UPLOAD_SECONDS * 1000)
"""Longer than any upload: the deadline of an attempt is only half of this time."""
_RACES = 8


def claim(
    store: ObjectStore,
    segment: ClaimedSegment,
    attempt: Attempt,
    *,
    stale_after_ms: int = STALE_AFTER_MS,
) -> HeldClaim:
    """Claim a segment for a new attempt. If the segment has no claim, this needs one request.

    Return the claim with `attempt` as its holder. If another attempt has finished the segment, return the claim
    unchanged, with `finished` set. Then the caller must check the objects, and `reopen` the claim if the segment is
    incomplete.

    Raises:
        ClaimedError: another attempt holds the claim and may be running.
        CorruptDataError: the object is not a claim.
    """
    fresh = Claim.of(attempt)
    for _ in range(_RACES):
        with suppress(ObjectChangedError):
            return _write(store, segment, fresh, None)
        found = _read(store, segment)
        if found is None:
            continue  # deleted meanwhile
        held = found.content
        if held.finished is not None or held.holder == attempt:
            return HeldClaim(segment, held, found.etag)
        reason = may_take_over(held, attempt, found.age, stale_after_ms)
        if reason is None:
            raise _held(store, segment, found, stale_after_ms)
        try:
            taken = _write(store, segment, held.taken_by(attempt), found.etag)
        except ObjectChangedError:
            continue
        _log.info("claim taken over key=%s from=%s because=%s", _key(segment), held.holder.segment_id, reason)
        return taken
    raise ClaimedError(
        f"{store.uri}{_key(segment)}: other copy attempts took this claim {_RACES} times while this run tried to "
        "take it",
        hint="run the same command again when the other attempts are done",
        key=_key(segment),
    )


def may_take_over(held: Claim, attempt: Attempt, age: int, stale_after_ms: int) -> str | None:
    """Return the reason why `attempt` may take over an unfinished claim, or None if it may not.

    Args:
        age: ms since the last change of the claim.
    """
    holder = held.holder
    if held.names(attempt.segment_id):
        return None  # this attempt has lost the claim, because a new attempt would have a new segment id
    if holder.run_id == attempt.run_id:
        return "the holder of the claim is an attempt of the same task"
    if attempt.warehouse is not None and holder.warehouse == attempt.warehouse:
        return "the holder of the claim is an earlier run on the same warehouse, which has only one writer at a time"
    return why_over(holder.process, age, stale_after_ms, is_ended=holder.ended)


def reopen(store: ObjectStore, finished: HeldClaim, attempt: Attempt) -> HeldClaim:
    """Claim a finished segment again, because its remote segment lost objects or lacks offsets of the local segment.

    The claim keeps the id of the finished remote segment, because brokers may read this segment. If replicas rolled at
    different offsets, some offsets may exist only in this remote segment.

    Raises:
        ObjectChangedError: another attempt changed the claim first.
    """
    return _write(store, finished.segment, finished.claim.reopened_by(attempt), finished.etag)


def keep(store: ObjectStore, segment: ClaimedSegment, segment_id: str) -> None:
    """Mark a published segment as kept before its objects are restored, so that no attempt deletes them.

    If the claim cannot be decoded, do nothing. Attempts cannot decode it either, and so delete no objects.

    Raises:
        ClaimedError: another attempt at the segment may be running, and would delete the objects.
        ObjectChangedError: another attempt changed the claim first.
    """
    try:
        found = _read(store, segment)
    except CorruptDataError:
        return
    if found is None or not found.content.names(segment_id) or segment_id in found.content.kept:
        return
    held, holder = found.content, found.content.holder
    is_over = held.finished is not None or why_over(holder.process, found.age, STALE_AFTER_MS, is_ended=holder.ended)
    if holder.segment_id != segment_id and not is_over:
        raise _held(store, segment, found, STALE_AFTER_MS)
    _write(store, segment, held.keeping(segment_id), found.etag)
    _log.info("claim keeps %s key=%s", segment_id, _key(segment))


def is_still_ours(store: ObjectStore, held: HeldClaim) -> bool:
    """Return whether the stored claim still has the holder of `held`. Call this before the manifest is written."""
    found = read_claim(store, held.segment)
    return found is not None and found.holder == held.claim.holder


def finish(store: ObjectStore, held: HeldClaim, snapshot: ClaimedSnapshot | None = None) -> HeldClaim:
    """Record that the holder's remote segment is the valid one. A repeated call changes nothing.

    Raises:
        ObjectChangedError: another attempt took over the claim, so the holder's remote segment must be deleted.
    """
    return _write(store, held.segment, held.claim.finished_by_holder(snapshot), held.etag)


def release(store: ObjectStore, held: HeldClaim) -> bool:
    """Record that the holder gave up and deleted its objects, so that no attempt waits for it.

    Return False, and change nothing, if another attempt has taken over the claim.
    """
    try:
        _write(store, held.segment, held.claim.released(), held.etag)
    except ObjectChangedError:
        return False
    return True


def put_again(store: ObjectStore, held: HeldClaim) -> None:
    """Recreate a deleted claim, with its holder marked as ended.

    Requests that are still running may create further objects. Later attempts find these objects by the segment ids in
    the claim. If another attempt has written a claim, keep that claim.
    """
    with suppress(ObjectChangedError):
        _write(store, held.segment, held.claim.released(), None)


def read_claim(store: ObjectStore, segment: ClaimedSegment) -> Claim | None:
    """Return the claim of a segment, or None if it has none. Raises CorruptDataError: the object is not a claim."""
    found = _read(store, segment)
    if found is None:
        return None
    return found.content


def read_claim_and_age(store: ObjectStore, segment: ClaimedSegment) -> tuple[HeldClaim, int] | None:
    """Return the claim of a segment and the ms since its last change (store's clock), or None if it has none.

    Raises:
        CorruptDataError: the object is not a claim.
    """
    found = _read(store, segment)
    if found is None:
        return None
    return HeldClaim(segment, found.content, found.etag), found.age


def claim_naming(
    store: ObjectStore, claimed: Iterable[ClaimedSegment], base_offset: int, segment_id: str
) -> Claim | None:
    """Return the claim of a segment in `claimed` with this base offset, if the claim contains the segment id.

    Return None if there is no such claim. Claims that cannot be decoded are skipped.
    """
    for segment in claimed:
        if segment.base_offset == base_offset:
            with suppress(CorruptDataError):
                claim = read_claim(store, segment)
                if claim is not None and segment_id in claim.segment_ids:
                    return claim
    return None


def claimed_segments(store: ObjectStore, partition: TopicIdPartition) -> dict[ClaimedSegment, int]:
    """Return the claimed segments of a partition, ascending, with the time of each claim's last change.

    Times are in ms, by the store's clock. The claims themselves are not read.
    """
    return claims_among(store.list(keys.partition_claims(partition)), partition)


def claims_among(listed: Iterable[ObjectInfo], partition: TopicIdPartition) -> dict[ClaimedSegment, int]:
    """Return the same as `claimed_segments`, but from `listed`, an existing listing of the partition's claims."""
    claimed: dict[ClaimedSegment, int] = {}
    for found in listed:
        parsed = keys.recognise(found.key)
        if parsed is not None and parsed.offset is not None and parsed.leader_epoch is not None:
            claimed[ClaimedSegment(partition, parsed.offset, parsed.leader_epoch)] = found.modified
    return claimed


def _key(segment: ClaimedSegment) -> str:
    return keys.claim(segment.partition, segment.base_offset, segment.leader_epoch)


def _read(store: ObjectStore, segment: ClaimedSegment) -> StoredContent[Claim] | None:
    return lock_object.read(store, _key(segment), Claim)


def _write(store: ObjectStore, segment: ClaimedSegment, new: Claim, etag: str | None) -> HeldClaim:
    """Write `new` over the version with this ETag, or create the object if `etag` is None."""
    return HeldClaim(segment, new, lock_object.write(store, _key(segment), new, etag))


def _held(
    store: ObjectStore, segment: ClaimedSegment, found: StoredContent[Claim], stale_after_ms: int
) -> ClaimedError:
    holder = found.content.holder
    moment = datetime.fromtimestamp(found.written_at / 1000, UTC).isoformat(" ", "seconds")
    of = ""
    if holder.warehouse is not None:
        of = f" of {holder.warehouse}"
    return ClaimedError(
        f"{segment}: since {moment} the claim of this segment is held by run {holder.run_id}{of} (host "
        f"{holder.process.host}, process {holder.process.pid})",
        hint="run the same command again when that run is done; a run may take over a claim that is "
        f"{stale_after_ms / 1000:g} s old",
        claim=store.uri + _key(segment),
        segment_id=holder.segment_id,
    )
