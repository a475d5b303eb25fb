"""Find the orphans of a partition, and decide which of them may be removed.

An object may be removed if three conditions are true:

    1. tiersnap wrote the object. For a segment, a claim contains the copy attempt. For a snapshot, a snapshot manifest
       lists the snapshot, or the object's user metadata has a run id
    2. the object is older than a grace period, by the store's clock
    3. the cluster in `cluster.json` has no record of the object, or has recorded its deletion

The objects are listed first, and the records are read to their end afterwards. So a record that is written after the
listing is read, too.

While the topic exists, a complete segment that ends above the published offsets is no orphan, because `publish` may
still publish it. An attempt with a log is removed only if other segments contain its offsets, and this run read these
segments fully and found no damage. If they are damaged, the attempt may have the last good log (see Remaining). An
attempt without a log has no offsets to lose. Objects of a broker's failed attempt may be removed, too: see
judge_attempts_of_brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tiersnap.remote_storage.locks.claim import Claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.partition_objects import PartitionObjects
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.remote_log.snapshot_objects import SnapshotManifest
from tiersnap.remote_storage.retire.known_to_cluster import KnownPartition
from tiersnap.remote_storage.retire.orphan_kinds import Fate, Orphan, OrphanKind
from tiersnap.remote_storage.retire.remaining import Remaining
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.snapshot.units import utc


@dataclass(frozen=True, slots=True)
class Aged:
    """The minimum age of removable objects. `now` is in ms by the store's clock, `older_than` is in ms."""

    now: int
    older_than: int

    def is_old(self, modified: int) -> bool:
        """Return whether an object is old enough.

        `modified` is the time of its last change, in ms by the store's clock.
        """
        return self.now - modified > self.older_than

    def waiting(self, orphan: Orphan, modified: int) -> Orphan:
        """Return an orphan that is too young, with the action WAIT. `modified` is the time of its last change in ms."""
        moment = modified + self.older_than + 1
        reason = f"removable from {utc(moment)} on: {orphan.reason}"
        return replace(orphan, action=Fate.WAIT, reason=reason, removable_at=moment)


def judge_attempts(
    stored: PartitionObjects, aged: Aged, claims: dict[str, Claim], others: Remaining
) -> Iterator[Orphan]:
    """Yield the orphans among the copy attempts of a partition.

    Args:
        claims: the claim of each attempt, by segment id.
        others: the remaining segments, which must contain the offsets of a removed attempt.
    """
    known = others.known
    for attempt in candidates(stored, known, aged):
        claim = claims.get(attempt.segment_id)
        action, reason = Fate.LEAVE, "no claim of tiersnap names the segment"
        # The records were read, and none names a candidate.
        if claim is not None and claim.may_delete(attempt.segment_id, has_no_record=known.is_gone(attempt.segment_id)):
            action, reason = _fate(attempt, claim, others)
        yield _of_attempt(attempt, action, reason)


def judge_attempts_of_brokers(stored: PartitionObjects, aged: Aged, others: Remaining) -> Iterator[Orphan]:
    """Yield the failed copy attempts of brokers in a live partition (KnownPartition.ended_attempts).

    Such an attempt may be removed if recorded segments contain its offsets and were read fully. See judge_attempts.
    """
    known = others.known
    if not (known.is_live and known.has_leader):
        return
    for attempt in stored.attempts:
        if attempt.segment_id not in known.ended_attempts:
            continue
        record = known.records[attempt.segment_id]
        published = known.published_end(record.segment_leader_epochs[-1][0])
        if record.end_offset >= published:
            why = (
                "a broker's attempt to upload this segment failed, and the remote log of the cluster ends at offset "
                f"{published}; next: tiersnap unblock"
            )
            yield _of_attempt(attempt, Fate.LEAVE, why)
        elif not aged.is_old(attempt.modified):
            yield aged.waiting(_of_attempt(attempt, Fate.WAIT, _FAILED), attempt.modified)
        elif why := others.why_attempt_is_kept(attempt, record):
            yield _of_attempt(attempt, Fate.LEAVE, why)
        else:
            yield _of_attempt(attempt, Fate.REMOVE, _FAILED)


_FAILED = "a broker's attempt to upload this segment failed, and other segments have its offsets"


def judge_young(
    stored: PartitionObjects, known: KnownPartition, aged: Aged, claims: dict[str, Claim]
) -> Iterator[Orphan]:
    """Yield the orphans that may be removed when they are old enough. Their objects are not read."""
    why = TOPIC_DELETED
    if known.is_live:
        why = "the cluster does not know the segment"
    for attempt in young_candidates(stored, known, aged):
        if attempt.segment_id in claims:
            yield aged.waiting(_of_attempt(attempt, Fate.WAIT, why), attempt.modified)
    for _, info, reason in _snapshots_without_segment(stored, known):
        if not aged.is_old(info.modified):
            orphan = _of_object(OrphanKind.SNAPSHOT, Fate.WAIT, reason, info, stored.partition)
            yield aged.waiting(orphan, info.modified)


def young_candidates(stored: PartitionObjects, known: KnownPartition, aged: Aged) -> list[SegmentObjects]:
    """Return the attempts that `candidates` will return when they are old enough.

    Attempts that `publish` may still publish are omitted.
    """
    found: list[SegmentObjects] = []
    for each in stored.attempts:
        if not known.is_gone(each.segment_id) or aged.is_old(each.modified):
            continue
        if not _may_be_published(each, known):
            found.append(each)
    return found


def _may_be_published(attempt: SegmentObjects, known: KnownPartition) -> bool:
    """Return whether `publish` may still publish an attempt: it is complete, and a live topic has no record of it."""
    return not attempt.missing and known.is_live and attempt.segment_id not in known.records


def candidates(stored: PartitionObjects, known: KnownPartition, aged: Aged) -> list[SegmentObjects]:
    """Return the attempts that are old enough, and have no record or a record in DELETE_SEGMENT_FINISHED."""
    return [each for each in stored.attempts if aged.is_old(each.modified) and known.is_gone(each.segment_id)]


def _of_attempt(attempt: SegmentObjects, action: Fate, reason: str) -> Orphan:
    kind = OrphanKind.COPY
    if attempt.missing:
        kind = OrphanKind.ATTEMPT
    return Orphan(kind, action, reason, attempt.keys, attempt.stored, attempt.partition, attempt.segment_id)


def _of_object(kind: OrphanKind, action: Fate, reason: str, info: ObjectInfo, partition: TopicIdPartition) -> Orphan:
    return Orphan(kind, action, reason, (info.key,), info.size, partition)


def _fate(attempt: SegmentObjects, claim: Claim, others: Remaining) -> tuple[Fate, str]:
    known = others.known
    if attempt.segment_id in known.records:
        if known.is_absent:
            return Fate.REMOVE, TOPIC_DELETED
        return Fate.REMOVE, "the cluster has deleted the segment"
    finished, copy = others.finished_instead(attempt, claim), others.complete(attempt)
    if known.is_live and (why := _why_left(attempt, copy, finished, claim, others)):
        return Fate.LEAVE, why
    if finished is not None:
        return Fate.REMOVE, f"another attempt finished the segment: {finished}"
    if copy is None:
        return Fate.REMOVE, "the upload of the segment was never finished, or an object was lost"
    if not known.is_live:
        return Fate.REMOVE, TOPIC_DELETED
    return Fate.REMOVE, "the cluster does not know the segment, and other segments have its offsets"


def _why_left(
    attempt: SegmentObjects, copy: RemoteSegment | None, finished: str | None, claim: Claim, others: Remaining
) -> str:
    """Return the reason why an attempt of a live topic is kept; "" if it may be removed.

    Args:
        copy: the complete segment of the attempt, or None.
        finished: id of the attempt that superseded this one, or None.
    """
    if copy is None or finished is not None:
        return others.why_kept(attempt, finished)
    published = others.known.published_end(copy.leader_epochs[-1][0])
    if copy.end_offset <= published:
        return others.why_kept(attempt, None)
    # `publish` skips an unfinished attempt.
    first = ""
    if not claim.finished:
        first = "tiersnap tier --apply (finishes the upload), then "
    return (
        f"the segment is not published yet, and the remote log of the cluster ends at offset {published}; next: "
        f"{first}tiersnap publish"
    )


TOPIC_DELETED = "the topic was deleted"


def judge_snapshots(
    stored: PartitionObjects,
    known: KnownPartition,
    aged: Aged,
    manifests: list[tuple[ObjectInfo, SnapshotManifest]],
    is_ours: Callable[[ObjectInfo], bool],
) -> Iterator[Orphan]:
    """Yield the orphans among the snapshot objects and their manifests.

    Args:
        is_ours: returns whether tiersnap wrote a snapshot that is in no manifest.
    """
    named: set[int] = set()
    for _, manifest in manifests:
        named |= _offsets_of(manifest)
    left = set(stored.snapshots)
    for offset, info, reason in _snapshots_without_segment(stored, known):
        if not aged.is_old(info.modified):
            continue
        if offset in named or is_ours(info):
            left.discard(offset)
            yield _of_object(OrphanKind.SNAPSHOT, Fate.REMOVE, reason, info, stored.partition)
        else:
            why = "no manifest of tiersnap names this snapshot"
            yield _of_object(OrphanKind.SNAPSHOT, Fate.LEAVE, why, info, stored.partition)
    for info, manifest in manifests:
        if aged.is_old(info.modified) and left.isdisjoint(_offsets_of(manifest)):
            why = "all snapshots that this manifest names are removed"
            yield _of_object(OrphanKind.MANIFEST, Fate.REMOVE, why, info, stored.partition)


def _offsets_of(manifest: SnapshotManifest) -> set[int]:
    return {record.offset for record in manifest.snapshots}


def _snapshots_without_segment(
    stored: PartitionObjects, known: KnownPartition
) -> Iterator[tuple[int, ObjectInfo, str]]:
    """Yield offset and object of each snapshot that no segment needs, with the reason."""
    for offset, info in stored.snapshots.items():
        if known.log_start is None:
            yield offset, info, TOPIC_DELETED
        elif offset < known.log_start:
            yield offset, info, f"the snapshot is below the log start offset {known.log_start}"


def judge_rest(stored: PartitionObjects, known: KnownPartition, aged: Aged, removed: set[str]) -> Iterator[Orphan]:
    """Yield the claims and `cluster.json` of a deleted topic, if all other objects of the partition are removed.

    Args:
        removed: keys of the objects that are removed first.
    """
    if known.is_live or not removed.issuperset(_keys_of_content(stored)):
        return
    rest = list(_claims_and_cluster(stored))
    if not all(aged.is_old(info.modified) for _, info in rest):
        return
    for kind, info in rest:
        yield _of_object(kind, Fate.REMOVE, TOPIC_DELETED, info, stored.partition)


def _claims_and_cluster(stored: PartitionObjects) -> Iterator[tuple[OrphanKind, ObjectInfo]]:
    """Yield the claims, the manifest cache and `cluster.json`, in the order of deletion."""
    for info in stored.claims.values():
        yield OrphanKind.CLAIM, info
    if stored.known_manifests is not None:
        yield OrphanKind.KNOWN_MANIFESTS, stored.known_manifests
    if stored.cluster is not None:
        yield OrphanKind.CLUSTER, stored.cluster


def _keys_of_content(stored: PartitionObjects) -> Iterator[str]:
    """Yield the keys of segments, snapshots and snapshot manifests."""
    for attempt in stored.attempts:
        yield from attempt.keys
    for info in (*stored.snapshots.values(), *stored.manifests.values()):
        yield info.key
