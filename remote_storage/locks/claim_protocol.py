"""The protocol by which the attempts at one segment exclude each other.

Each attempt has a segment id of its own, and does in this order:

    claim            before its first byte; the claim names the attempt
    copy             log and indexes, which nobody sees yet; leftovers of `claim.earlier` may be deleted, but for
                     complete copies, which may be the only ones
    is_still_ours    if not: delete what it copied, and stop
    make visible     the manifest
    finish           if that raises ObjectChangedError: delete the copy, manifest first, and stop
    delete           complete copies of `claim.earlier`

`finish` decides. It replaces the claim that was read and no other, so of all attempts one finishes, whatever the others
believe; only its copy counts. Between `is_still_ours` and `finish` another may take over, and for a moment two copies
are complete; both are named by the claim, and the one that is not `finished` goes. Who is killed leaves its segment id
in the claim, so whoever comes next knows what to delete, without doubt that it is ours.

Brokers know nothing of claims: beside a copier that works, nothing is tiered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from tiersnap.remote_storage.errors import ClaimedError, ObjectChangedError
from tiersnap.remote_storage.layouts import keys, stored_json
from tiersnap.remote_storage.locks.claim import MAX_BYTES, Attempt, Claim, ClaimedSegment, ClaimedSnapshot
from tiersnap.remote_storage.locks.process import Process, is_gone
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import DEFAULT_UPLOAD_SECONDS
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError

_log = logging.getLogger(__name__)
STALE_AFTER_MS = int(2 * DEFAULT_UPLOAD_SECONDS * 1000)
"""An attempt gives up by its own deadline long before this: longer than any upload may take."""
_RACES = 8


def claim(
    store: ObjectStore,
    segment: ClaimedSegment,
    attempt: Attempt,
    *,
    stale_after_ms: int = STALE_AFTER_MS,
) -> Claim:
    """Claim a segment for a new attempt; one request where nobody was at it.

    Returns the claim with `attempt` as its holder; or one with `finished` set, which somebody else has brought to its
    end: look at the objects, and `reopen` it if they are gone or do not hold all of the segment.

    Raises:
        ClaimedError: another attempt holds it and may be at work.
        CorruptDataError: what is there is no claim.
    """
    fresh = Claim(segment, (attempt,))
    key = _key(segment)
    for _ in range(_RACES):
        try:
            return replace(fresh, etag=store.put_if_absent(key, fresh.encode()).etag)
        except ObjectExistsError:
            pass
        found = _read(store, key, segment)
        if found is None:
            continue  # deleted since
        held, age, since = found
        if held.finished is not None or held.holder == attempt:
            return held
        reason = may_take_over(held, attempt, age, stale_after_ms)
        if reason is None:
            raise _held(store, key, held, since, stale_after_ms)
        try:
            taken = _replace(store, key, held.taken_by(attempt))
        except ObjectChangedError:
            continue
        _log.info("claim taken over key=%s from=%s because=%s", key, held.holder.segment_id, reason)
        return taken
    raise ClaimedError(
        f"{store.uri}{key}: other attempts took this claim {_RACES} times while it was asked for",
        hint="run the same command again when they are done",
        key=key,
    )


def may_take_over(
    held: Claim, attempt: Attempt, age: int, stale_after_ms: int, gone: Callable[[Process], bool] = is_gone
) -> str | None:
    """Return why `attempt` may take over an unfinished claim, `age` ms after its last change; None if it may not."""
    holder = held.holder
    if held.names(attempt.segment_id):
        return None  # it was taken over itself: a new attempt has a new segment id
    if holder.ended:
        return "its holder gave up"
    if holder.run_id == attempt.run_id:
        return "its holder is an attempt of the same task"
    if attempt.warehouse is not None and holder.warehouse == attempt.warehouse:
        return "its holder is of an earlier run: a warehouse has one writer"
    if age > stale_after_ms:
        return "it is stale"
    return "its holder's process is gone" if gone(holder.process) else None


def reopen(store: ObjectStore, finished: Claim, attempt: Attempt) -> Claim:
    """Claim a segment again whose finished copy lost objects, or does not hold all of it.

    The claim keeps the finished copy: brokers may know it, and one of a replica that rolled elsewhere holds offsets.

    Raises:
        ObjectChangedError: another attempt was faster.
    """
    return _replace(store, _key(finished.segment), finished.without_finished().taken_by(attempt))


def keep(store: ObjectStore, segment: ClaimedSegment, segment_id: str) -> None:
    """Keep a copy that brokers know, before lost objects of it come back: no attempt takes it for a leftover then.

    A damaged claim names no copy, so nobody deletes one by it.

    Raises:
        ClaimedError: another attempt at the segment may be at work: it deletes what its claim names.
        ObjectChangedError: another attempt was faster.
    """
    key = _key(segment)
    try:
        found = _read(store, key, segment)
    except CorruptDataError:
        return
    if found is None or not found[0].names(segment_id) or segment_id in found[0].kept:
        return
    held, age, since = found
    is_over = held.finished is not None or held.holder.ended or age > STALE_AFTER_MS or is_gone(held.holder.process)
    if held.holder.segment_id != segment_id and not is_over:
        raise _held(store, key, held, since, STALE_AFTER_MS)
    _replace(store, key, held.keeping(segment_id))
    _log.info("claim keeps %s key=%s", segment_id, key)


def is_still_ours(store: ObjectStore, claimed: Claim) -> bool:
    """Return whether the attempt that holds `claimed` still does; asked before its copy is made visible."""
    found = read_claim(store, claimed.segment)
    return found is not None and found.holder == claimed.holder


def finish(store: ObjectStore, claimed: Claim, snapshot: ClaimedSnapshot | None = None) -> Claim:
    """Say that the holder's copy is the one that counts; again is fine.

    Raises:
        ObjectChangedError: the claim was taken over: the holder's copy is left over, and has to go.
    """
    return _replace(store, _key(claimed.segment), claimed.finished_by_holder(snapshot))


def release(store: ObjectStore, claimed: Claim) -> bool:
    """Give up, after the holder deleted its objects, so that nobody has to wait; False if it was taken over before."""
    try:
        _replace(store, _key(claimed.segment), claimed.released())
    except ObjectChangedError:
        return False
    return True


def put_again(store: ObjectStore, claimed: Claim) -> None:
    """Write a claim again that the store lost, as one whose holder gave up: it names what may arrive late.

    One that another attempt wrote since stays.
    """
    with suppress(ObjectExistsError):
        store.put_if_absent(_key(claimed.segment), claimed.released().encode())


def read_claim(store: ObjectStore, segment: ClaimedSegment) -> Claim | None:
    """The claim of a segment, None if there is none. Raises CorruptDataError: what is there is no claim."""
    found = read_claim_and_age(store, segment)
    return found and found[0]


def read_claim_and_age(store: ObjectStore, segment: ClaimedSegment) -> tuple[Claim, int] | None:
    """The claim of a segment and the ms since its last change, by the store's clock; None if there is none.

    Raises:
        CorruptDataError: what is there is no claim.
    """
    found = _read(store, _key(segment), segment)
    return found and found[:2]


def claim_naming(
    store: ObjectStore, claimed: Iterable[ClaimedSegment], base_offset: int, segment_id: str
) -> Claim | None:
    """Return the claim, of those at a base offset, that names a segment id; None if none that can be read does."""
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
    claimed: dict[ClaimedSegment, int] = {}
    for found in store.list(keys.partition_claims(partition)):
        parsed = keys.recognise(found.key)
        if parsed is not None and parsed.offset is not None and parsed.leader_epoch is not None:
            claimed[ClaimedSegment(partition, parsed.offset, parsed.leader_epoch)] = found.modified
    return claimed


def _key(segment: ClaimedSegment) -> str:
    return keys.claim(segment.partition, segment.base_offset, segment.leader_epoch)


def _read(store: ObjectStore, key: str, segment: ClaimedSegment) -> tuple[Claim, int, int] | None:
    """The claim, its age and when it was last changed; ms, by the store's clock."""
    found = stored_json.read(store, key, partial(Claim.decode, segment), limit=MAX_BYTES)
    return None if found is None else (replace(found.content, etag=found.etag), found.age, found.written_at)


def _replace(store: ObjectStore, key: str, new: Claim) -> Claim:
    """Write `new` in the place of the claim it was made of, whose etag it has."""
    return replace(new, etag=store.replace_if(key, new.encode(), new.etag).etag)


def _held(store: ObjectStore, key: str, held: Claim, since: int, stale_after_ms: int) -> ClaimedError:
    holder, moment = held.holder, datetime.fromtimestamp(since / 1000, UTC).isoformat(" ", "seconds")
    of = f" of {holder.warehouse}" if holder.warehouse is not None else ""
    return ClaimedError(
        f"{held.segment}: held since {moment} by run {holder.run_id}{of}"
        f" (host {holder.process.host}, process {holder.process.pid})",
        hint=f"run the same command again when it is done; after {stale_after_ms / 1000:g} s it is taken over",
        claim=store.uri + key,
        segment_id=holder.segment_id,
    )
