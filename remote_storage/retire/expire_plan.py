"""Plan what `expire` deletes of a partition, or say why it deletes nothing; the store is read and not changed.

All partitions are listed first, and the cluster is asked then.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from tiersnap.remote_storage.inventory.finished import largest_timestamp
from tiersnap.remote_storage.inventory.known_manifests import KnownManifests
from tiersnap.remote_storage.inventory.partition_objects import PartitionObjects, list_all, list_partition_objects
from tiersnap.remote_storage.inventory.remote_inventory import (
    COPY_GRACE_MS,
    RemoteInventory,
    list_remote_partition,
)
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment, newest, read_lineage, read_segment
from tiersnap.remote_storage.inventory.segment_objects import SegmentObjects
from tiersnap.remote_storage.layouts.remote_location import in_each_layout
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.own_objects.claim import ClaimedSegment
from tiersnap.remote_storage.own_objects.claim_protocol import STALE_AFTER_MS, read_claim
from tiersnap.remote_storage.own_objects.deletion_record import ExpireRecord, read_record
from tiersnap.remote_storage.own_objects.process import is_gone
from tiersnap.remote_storage.retire.incomplete_end import EndOf, IncompleteLimits, end_of_incomplete, ids_past
from tiersnap.remote_storage.retire.known_to_cluster import KnownToCluster, Managed, Manager, manager_of
from tiersnap.remote_storage.retire.partition_leftovers import old_leftovers
from tiersnap.remote_storage.retire.retention import Breach, ExpireAction, Retention, expired
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel, in_waves
from tiersnap.snapshot.errors import TiersnapError, TransientError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExpiringSegment:
    """A segment that retention has passed."""

    segment_id: str
    start_offset: int
    end_offset: int  # exclusive
    max_timestamp: int | None  # ms; None if the segment is damaged, or its deletion has begun
    keys: tuple[str, ...]  # of its objects that are there, what makes it visible first
    size: int  # bytes of those objects
    breach: Breach
    action: ExpireAction
    reason: str = ""

    @property
    def moves_log_start(self) -> bool:
        """Return whether the log begins behind the segment once that is gone."""
        return self.action is ExpireAction.DELETE and self.breach is not Breach.OUTSIDE_LINEAGE


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """All that is to be said of a partition."""

    partition: TopicIdPartition
    # DELETE, or why nothing goes: LEAVE_TO_BROKERS, IN_USE or REFUSE, and then there are no segments
    action: ExpireAction
    reason: str = ""
    # ascending; those that go, then at most one that is LOCKED and what waits for it
    segments: tuple[ExpiringSegment, ...] = ()
    # behind those that go, and behind what is lost below --log-start; 0 where nothing is known
    log_start_offset: int = 0
    record: ExpireRecord = field(default_factory=ExpireRecord)  # what is recorded as being deleted
    hint: str = ""  # what to do about a refusal
    # keys of objects that ended attempts of ours left; they go, whoever manages the partition
    leftovers: tuple[str, ...] = ()
    expired: frozenset[str] = frozenset()  # ids of our incomplete segments among them

    @property
    def going(self) -> tuple[ExpiringSegment, ...]:
        """Those that may be deleted now."""
        return tuple(each for each in self.segments if each.action is ExpireAction.DELETE)

    @property
    def has_changes(self) -> bool:
        """Return whether segments go, or the log start moves: of lost segments nothing else can go."""
        return bool(self.going) or self.log_start_offset > self.record.log_start_offset


def plan_partition(store: ObjectStore, stored: PartitionObjects, managed: Managed, retention: Retention) -> ExpirePlan:
    """The plan for a partition that was listed before its manager was asked for.

    Raises:
        TransientError: the store does not answer.
    """
    try:
        return _plan(store, stored, managed, retention)
    except TransientError:
        raise
    except TiersnapError as error:
        return ExpirePlan(stored.partition, ExpireAction.REFUSE, error.message, hint=error.hint)


def _plan(store: ObjectStore, stored: PartitionObjects, managed: Managed, retention: Retention) -> ExpirePlan:
    if managed.manager is not Manager.NOBODY:
        by_brokers = managed.manager is Manager.BROKERS
        action = ExpireAction.LEAVE_TO_BROKERS if by_brokers else ExpireAction.REFUSE
        lacking = [each for each in stored.attempts if each.missing] if by_brokers else []
        left = _leftovers(store, _inventories(store, stored, lacking), frozenset()) if by_brokers else ()
        return ExpirePlan(stored.partition, action, managed.reason, leftovers=left)
    record = read_record(store, stored.partition)
    begun = {each.segment_id for each in record.deleting}
    somebody = in_use(store, stored, begun, retention.now)
    if somebody:
        return ExpirePlan(stored.partition, ExpireAction.IN_USE, somebody)
    known = KnownManifests(store, stored.partition)
    found, incomplete = _read(store, known, [each for each in stored.attempts if each.segment_id not in begun])
    segments = _expiring(store, found, retention)
    end_of = partial(end_of_incomplete, store, known, found)
    damaged = [each for each in incomplete if not each.missing]
    segments += _damaged(damaged, found, end_of, _limits(record, retention, segments, found))
    by_id = {each.segment_id: each for each in stored.attempts}
    ahead = [
        _going(each.start_offset, each.end_offset, None, by_id.get(each.segment_id), Breach.BEGUN, each.segment_id)
        for each in record.deleting
    ]
    ordered = sorted([*ahead, *segments], key=lambda each: (each.start_offset, each.end_offset))
    looked = _up_to_the_first_lock(store, ordered)
    going = [each for each in looked if each.action is ExpireAction.DELETE]
    limits = _limits(record, retention, going, [*found, *damaged])
    inventories = _inventories(store, stored, incomplete)
    gone = ids_past(inventories, limits.recorded, end_of)
    named = {key for each in looked for key in each.keys}
    return ExpirePlan(
        stored.partition,
        ExpireAction.DELETE,
        managed.reason,
        looked,
        limits.recorded.log_start,
        record,
        leftovers=tuple(key for key in _leftovers(store, inventories, gone) if key not in named),
        expired=gone,
    )


def _limits(
    record: ExpireRecord,
    retention: Retention,
    going: Sequence[ExpiringSegment],
    found: Sequence[RemoteSegment | SegmentObjects],
) -> IncompleteLimits:
    """Return the limits that segments which go leave; `found` are those, and what stays."""
    gone = {each.segment_id for each in going}
    oldest = min((each.start_offset for each in found if each.segment_id not in gone), default=None)
    behind = max([record.log_start_offset, *(each.end_offset for each in going if each.moves_log_start)])
    written_before = 0 if retention.milliseconds is None else retention.now - retention.milliseconds
    return IncompleteLimits(behind, retention.log_start_offset or 0, oldest, written_before)


def _damaged(
    damaged: Sequence[SegmentObjects], complete: Sequence[RemoteSegment], end_of: EndOf, limits: IncompleteLimits
) -> list[ExpiringSegment]:
    """Return segments with damaged objects that go, whoever copied them; none behind one that stays goes by time.

    The log goes on with the next complete segment, which the store may lock, wherever a damaged one before it ends.
    """
    going = []
    for each in damaged:
        end = end_of(each) if limits.may_pass(each) else None
        breach = limits.breach_of(each, end)
        if breach is not None and end is not None:
            next_at = min((one.start_offset for one in complete if one.start_offset > each.start_offset), default=end)
            going.append(_going(each.start_offset, min(end, next_at), None, each, breach, each.segment_id))
            continue
        if each.start_offset < limits.log_start:
            until = "" if end is None else f" up to {end - 1}"
            _log.warning(
                "damaged segment left: %s %s at %d: it may hold offsets%s, and the log start is %d",
                *(each.partition, each.segment_id, each.start_offset, until, limits.log_start),
            )
        limits = limits.with_staying(each.start_offset)
    return going


def _inventories(
    store: ObjectStore, stored: PartitionObjects, incomplete: Sequence[SegmentObjects]
) -> list[RemoteInventory]:
    """List the layouts in which an attempt may have left objects; no request where all segments are complete."""
    starts = Counter((each.is_local, each.start_offset) for each in stored.attempts)
    doubtful = {each.is_local for each in incomplete}
    doubtful |= {is_local for (is_local, _), count in starts.items() if count > 1}
    locations = (each for each in in_each_layout(store) if each.is_local in doubtful)
    return [list_remote_partition(each, stored.partition) for each in locations]


def _leftovers(store: ObjectStore, found: Sequence[RemoteInventory], gone: frozenset[str]) -> tuple[str, ...]:
    """Keys of what ended attempts left."""
    return tuple(key for inventory in found for each in old_leftovers(store, inventory, gone) for key in each.keys)


def _read(
    store: ObjectStore, known: KnownManifests, attempts: Sequence[SegmentObjects]
) -> tuple[list[RemoteSegment], list[SegmentObjects]]:
    """Return complete segments, and attempts that are none; of those that lack an object nothing is read."""
    read = in_parallel(partial(read_segment, store, known=known), [each for each in attempts if not each.missing])
    complete = [each for each in read if isinstance(each, RemoteSegment)]
    ids = {each.segment_id for each in complete}
    return complete, [each for each in attempts if each.segment_id not in ids]


def _expiring(store: ObjectStore, found: Sequence[RemoteSegment], retention: Retention) -> list[ExpiringSegment]:
    if not found:
        return []
    lineage = read_lineage(store, newest(found))
    segments = {each.segment_id: each for each in found}
    dated = [replace(each.metadata, max_timestamp=largest_timestamp(store, each)) for each in found]
    going = []
    for gone in expired(dated, lineage, retention):
        segment, newest_at = segments[gone.metadata.id.segment_id], gone.metadata.max_timestamp
        going.append(_going(*segment.bounds, newest_at, segment.objects, gone.breach, segment.segment_id))
    return going


def _going(
    start: int, end: int, max_timestamp: int | None, objects: SegmentObjects | None, breach: Breach, segment_id: str
) -> ExpiringSegment:
    keys, size = ((), 0) if objects is None else (objects.keys, objects.stored)
    return ExpiringSegment(segment_id, start, end, max_timestamp, keys, size, breach, ExpireAction.DELETE)


def _up_to_the_first_lock(store: ObjectStore, segments: Sequence[ExpiringSegment]) -> tuple[ExpiringSegment, ...]:
    """The same segments, told which the store does not let go; a request each, up to the first of those."""
    locks = _locks(store, segments)
    first = next((number for number, lock in enumerate(locks) if lock), None)
    if first is None:
        return tuple(segments)
    going, locked = list(segments[:first]), segments[first]
    log_start = max((each.end_offset for each in going if each.moves_log_start), default=0)
    behind = f"the segment at {locked.start_offset} is {locks[first]}"
    return (
        *(each if each.end_offset <= log_start else _waiting(each, behind) for each in going),
        replace(locked, action=ExpireAction.LOCKED, reason=locks[first]),
        *(_waiting(each, behind) for each in segments[first + 1 :]),
    )


def _locks(store: ObjectStore, segments: Sequence[ExpiringSegment]) -> list[str]:
    """Return what locks each segment, by its last written object; the list ends with the first that is locked."""
    locks: list[str] = []
    for found in in_waves(partial(_lock, store), segments):
        locks += found
        if any(locks):
            break
    return locks


def _lock(store: ObjectStore, segment: ExpiringSegment) -> str:
    found = store.head(segment.keys[0]) if segment.keys else None
    return "" if found is None else found.lock


def _waiting(segment: ExpiringSegment, reason: str) -> ExpiringSegment:
    return replace(segment, action=ExpireAction.WAIT, reason=reason)


class PartitionInUseError(TransientError):
    """Somebody is copying segments of the partition."""


def in_use(store: ObjectStore, stored: PartitionObjects, begun: Container[str], now: int) -> str:
    """Return who may be copying segments of the partition, in words for a person; "" if nobody.

    A claim that is older than any upload may last is nobody's, nor is one whose process on this host is gone. A segment
    that no claim names is a broker's, under way for as long as its manifest may take.

    Args:
        begun: segment ids that `expire` has begun to delete, and that look like a copy under way.
        now: ms, by the store's clock.
    """
    young = [each for each, info in stored.claims.items() if now - info.modified <= STALE_AFTER_MS]
    for segment, holder in zip(young, in_parallel(partial(_live_holder, store), young), strict=True):
        if holder:
            return f"{segment} is claimed by {holder}, which may be at work"
    for each in stored.attempts:
        if each.segment_id not in begun and not each.is_visible and now - each.modified <= COPY_GRACE_MS:
            return f"the segment {each.segment_id} at {each.start_offset} is being copied"
    return ""


def _live_holder(store: ObjectStore, segment: ClaimedSegment) -> str:
    claim = read_claim(store, segment)
    if claim is None or claim.finished is not None or claim.holder.ended or is_gone(claim.holder.process):
        return ""
    return f"run {claim.holder.run_id} (host {claim.holder.process.host}, process {claim.holder.process.pid})"


_PARTITIONS_AT_ONCE = 64


def find_expired(
    store: ObjectStore,
    is_wanted: Callable[[TopicIdPartition], bool],
    retention: Retention,
    *,
    cluster: KnownToCluster | None,
    unmanaged: bool,
) -> Iterator[ExpirePlan]:
    """A plan for each partition that has objects of segments, or had until `expire` was at it; nothing is changed.

    A cluster is asked right before the partitions that are yielded next, so that what it says is not old by the time
    that they are deleted.

    Args:
        cluster: asked whether a broker manages them; None where nobody is asked.
        unmanaged: the user says that no broker does.

    Raises:
        MetadataTopicAbsentError, BrokerUnavailableError: the cluster cannot be asked.
        TransientError: the store does not answer.
    """
    listed, records = list_all(store, lambda _: True)
    wanted = [each for each in listed if each.topic_id is not None and is_wanted(each)]
    unblocking = {(each.topic, each.topic_id) for each in records}
    with nullcontext() if cluster is None else cluster.reading(wanted) as ask:
        for start in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            some = [list_partition_objects(store, each) for each in wanted[start : start + _PARTITIONS_AT_ONCE]]
            some = [each for each in some if each.attempts or each.expire]
            known = {} if ask is None else ask(each.partition for each in some)
            for stored in some:
                managed = manager_of(
                    known.get(stored.partition),
                    stored.cluster_id,
                    [each.segment_id for each in stored.attempts],
                    unblocking=(stored.partition.topic, stored.partition.topic_id) in unblocking,
                    unmanaged=unmanaged,
                )
                yield plan_partition(store, stored, managed, retention)
