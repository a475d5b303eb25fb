"""The protocol by which copy attempts at one segment exclude each other.

Each attempt has its own segment id. It takes these steps in this order:

    claim            before its first byte; the claim names the attempt
    copy             log and indexes, which are not visible yet. It may delete leftovers of `claim.earlier`, except
                     complete remote segments, which may be the only ones
    is_still_ours    if the claim was taken over: delete the copied objects, and stop
    make visible     the manifest
    finish           if that raises ObjectChangedError: delete the remote segment, manifest first, and stop
    delete           complete remote segments of `claim.earlier`

`finish` decides. It replaces only the version of the claim that the attempt read, so exactly one attempt finishes. Only
its remote segment counts. If another attempt takes over between `is_still_ours` and `finish`, two remote segments are
complete for a moment. The claim names both, and the one that is not `finished` is deleted. The claim also names a
killed attempt, so the next attempt knows that tiersnap wrote its objects, and deletes them.

Brokers do not read claims, so tiersnap uploads nothing to a partition with a working copy task.
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
"""Longer than any upload may take: the deadline of an attempt ends it long before."""
_RACES = 8


def claim(
    store: ObjectStore,
    segment: ClaimedSegment,
    attempt: Attempt,
    *,
    stale_after_ms: int = STALE_AFTER_MS,
) -> HeldClaim:
    """Claim a segment for a new attempt; one request if the segment has no claim.

    Return the claim with `attempt` as its holder. If another attempt finished it, return it with `finished` set; then
    check the objects, and `reopen` the claim if they are missing or do not hold the whole segment.

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
            continue  # deleted since
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
        f"{store.uri}{_key(segment)}: other attempts took this claim {_RACES} times while it was asked for",
        hint="run the same command again when they are done",
        key=_key(segment),
    )


def may_take_over(held: Claim, attempt: Attempt, age: int, stale_after_ms: int) -> str | None:
    """Return why `attempt` may take over an unfinished claim, `age` ms after its last change; None if it may not."""
    holder = held.holder
    if held.names(attempt.segment_id):
        return None  # it was taken over itself: a new attempt has a new segment id
    if holder.run_id == attempt.run_id:
        return "its holder is an attempt of the same task"
    if attempt.warehouse is not None and holder.warehouse == attempt.warehouse:
        return "its holder is of an earlier run: a warehouse has one writer"
    return why_over(holder.process, age, stale_after_ms, is_ended=holder.ended)


def reopen(store: ObjectStore, finished: HeldClaim, attempt: Attempt) -> HeldClaim:
    """Claim a finished segment again, because it lost objects or does not hold the whole local segment.

    The claim still names the remote segment: brokers may know it. If another replica rolled its segments at other
    offsets, it holds offsets that are needed.

    Raises:
        ObjectChangedError: another attempt was faster.
    """
    return _write(store, finished.segment, finished.claim.reopened_by(attempt), finished.etag)


def keep(store: ObjectStore, segment: ClaimedSegment, segment_id: str) -> None:
    """Mark a published segment as kept before its objects are restored, so that no attempt deletes them.

    A damaged claim names no segment, so no attempt deletes one by it.

    Raises:
        ClaimedError: another attempt at the segment may be running, and would delete the objects.
        ObjectChangedError: another attempt was faster.
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
    """Return whether the claim still has this holder. Ask before the holder's remote segment is made visible."""
    found = read_claim(store, held.segment)
    return found is not None and found.holder == held.claim.holder


def finish(store: ObjectStore, held: HeldClaim, snapshot: ClaimedSnapshot | None = None) -> HeldClaim:
    """Record that the holder's remote segment is the one that counts. A repeated call changes nothing.

    Raises:
        ObjectChangedError: the claim was taken over, so the holder's remote segment must be deleted.
    """
    return _write(store, held.segment, held.claim.finished_by_holder(snapshot), held.etag)


def release(store: ObjectStore, held: HeldClaim) -> bool:
    """Give up after the holder deleted its objects, so that no attempt waits; False if it was taken over before."""
    try:
        _write(store, held.segment, held.claim.released(), held.etag)
    except ObjectChangedError:
        return False
    return True


def put_again(store: ObjectStore, held: HeldClaim) -> None:
    """Write a lost claim again, in the state of a released one: it names objects that may arrive late.

    If another attempt wrote a claim since, that one stays.
    """
    with suppress(ObjectChangedError):
        _write(store, held.segment, held.claim.released(), None)


def read_claim(store: ObjectStore, segment: ClaimedSegment) -> Claim | None:
    """Return the claim of a segment, None without one. Raises CorruptDataError: the object is not a claim."""
    found = _read(store, segment)
    return None if found is None else found.content


def read_claim_and_age(store: ObjectStore, segment: ClaimedSegment) -> tuple[HeldClaim, int] | None:
    """Return the claim of a segment and the ms since its last change, by the store's clock; None without a claim.

    Raises:
        CorruptDataError: the object is not a claim.
    """
    found = _read(store, segment)
    return None if found is None else (HeldClaim(segment, found.content, found.etag), found.age)


def claim_naming(
    store: ObjectStore, claimed: Iterable[ClaimedSegment], base_offset: int, segment_id: str
) -> Claim | None:
    """Return the readable claim at a base offset that names a segment id, None without one."""
    for segment in claimed:
        if segment.base_offset == base_offset:
            with suppress(CorruptDataError):
                claim = read_claim(store, segment)
                if claim is not None and segment_id in claim.segment_ids:
                    return claim
    return None


def claimed_segments(store: ObjectStore, partition: TopicIdPartition) -> dict[ClaimedSegment, int]:
    """Return the claimed segments of a partition, by base offset, with the time when each claim was last written.

    Times are in ms, by the store's clock. No claim is read.
    """
    return claims_among(store.list(keys.partition_claims(partition)), partition)


def claims_among(listed: Iterable[ObjectInfo], partition: TopicIdPartition) -> dict[ClaimedSegment, int]:
    """Return `claimed_segments` of a listing of the folder of a partition's claims."""
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
    """Write `new` over the version with this ETag; None creates the object."""
    return HeldClaim(segment, new, lock_object.write(store, _key(segment), new, etag))


def _held(
    store: ObjectStore, segment: ClaimedSegment, found: StoredContent[Claim], stale_after_ms: int
) -> ClaimedError:
    holder = found.content.holder
    moment = datetime.fromtimestamp(found.written_at / 1000, UTC).isoformat(" ", "seconds")
    of = f" of {holder.warehouse}" if holder.warehouse is not None else ""
    return ClaimedError(
        f"{segment}: held since {moment} by run {holder.run_id}{of}"
        f" (host {holder.process.host}, process {holder.process.pid})",
        hint=f"run the same command again when it is done; after {stale_after_ms / 1000:g} s it is taken over",
        claim=store.uri + _key(segment),
        segment_id=holder.segment_id,
    )
