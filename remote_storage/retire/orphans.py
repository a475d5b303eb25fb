"""Find the orphans of a partition, and decide which of them may be removed.

An object may be removed under three conditions: tiersnap wrote it (a claim names the attempt; a manifest or the object
itself names the snapshot), it is older than a grace by the store's clock, and the cluster in `cluster.json` has no
record of it, or one of its deletion. The objects are listed before the records are read to their end, so a record that
was written in between is seen.

While the topic lives, a complete copy that ends above the published offsets is no orphan: `publish` may still publish
it. A copy whose offsets no other complete copy holds is no orphan either: a record or a claim does not restore lost
objects. The other copies are read whole first: if they are damaged, this one may be the last good copy of the log.

Objects of a broker's failed attempt, which its record names, may be removed too: see judge_attempts_of_brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.locks.claim import Claim
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.remote_log.partition_objects import PartitionObjects
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.remote_log.snapshot_objects import SnapshotManifest
from tiersnap.remote_storage.retire.known_to_cluster import KnownPartition
from tiersnap.remote_storage.retire.orphan_kinds import Fate, Orphan, OrphanKind
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.remote_storage.verify.compare_whole import ReadSegment
from tiersnap.snapshot.units import utc


@dataclass(frozen=True, slots=True)
class Aged:
    """The age from which objects may be removed: `now` in ms by the store's clock, `older_than` in ms."""

    now: int
    older_than: int

    def is_old(self, modified: int) -> bool:
        """Return whether an object that was last modified then (ms, by the same clock) is old enough."""
        return self.now - modified > self.older_than

    def waiting(self, orphan: Orphan, modified: int) -> Orphan:
        """Return a removable orphan as one that is still too young; `modified` is the time of its object (ms)."""
        moment = modified + self.older_than + 1
        reason = f"removable from {utc(moment)} on: {orphan.reason}"
        return replace(orphan, action=Fate.WAIT, reason=reason, removable_at=moment)


def judge_attempts(
    stored: PartitionObjects,
    known: KnownPartition,
    aged: Aged,
    claims: dict[str, Claim],
    look: Callable[[SegmentObjects], RemoteSegment | IncompleteSegment],
    read: Callable[[RemoteSegment], ReadSegment],
) -> Iterator[Orphan]:
    """Yield the orphans among the copies and attempts of a partition.

    Args:
        claims: by the segment ids that they name.
        look: reads the manifest of a copy that has all its objects.
        read: reads all bytes of a copy.
    """
    others = _Others(sorted(stored.attempts, key=lambda each: each.start_offset), known, look, read)
    for attempt in candidates(stored, known, aged):
        claim = claims.get(attempt.segment_id)
        is_whole = not attempt.missing
        action, reason = Fate.LEAVE, "no claim of ours names it"
        # The records were read, and none names a candidate.
        if claim is not None and claim.may_delete(attempt.segment_id, has_no_record=known.is_gone(attempt.segment_id)):
            action, reason = _fate(attempt, claim, others)
        kind = OrphanKind.COPY if is_whole else OrphanKind.ATTEMPT
        yield Orphan(kind, action, reason, attempt.keys, attempt.stored, stored.partition, attempt.segment_id)


def judge_attempts_of_brokers(
    stored: PartitionObjects,
    known: KnownPartition,
    aged: Aged,
    look: Callable[[SegmentObjects], RemoteSegment | IncompleteSegment],
    read: Callable[[RemoteSegment], ReadSegment],
) -> Iterator[Orphan]:
    """Yield the attempts that brokers of a live partition began and will not finish (KnownPartition.ended_attempts).

    One may be removed if segments in the cluster's records hold its offsets and were read whole. See judge_attempts.
    """
    others = _Others(sorted(stored.attempts, key=lambda each: each.start_offset), known, look, read)
    for attempt in stored.attempts if known.is_live and known.has_leader else ():
        if attempt.segment_id not in known.ended_attempts:
            continue
        record = known.records[attempt.segment_id]
        published = known.published_end(record.segment_leader_epochs[-1][0])
        kind = OrphanKind.ATTEMPT if attempt.missing else OrphanKind.COPY
        row = (attempt.keys, attempt.stored, stored.partition, attempt.segment_id)
        if record.end_offset >= published:
            why = f"a broker's attempt failed, and the cluster's remote log ends at {published}: tiersnap unblock"
            yield Orphan(kind, Fate.LEAVE, why, *row)
        elif not aged.is_old(attempt.modified):
            yield aged.waiting(Orphan(kind, Fate.WAIT, _FAILED, *row), attempt.modified)
        else:
            why = others.why_attempt_is_kept(attempt, record)
            yield Orphan(kind, Fate.LEAVE if why else Fate.REMOVE, why or _FAILED, *row)


_FAILED = "a broker's attempt failed, and others hold its offsets"


def judge_young(
    stored: PartitionObjects, known: KnownPartition, aged: Aged, claims: dict[str, Claim]
) -> Iterator[Orphan]:
    """Yield the orphans that may be removed once they are old, as far as listings and records tell."""
    for attempt in young_candidates(stored, known, aged):
        if attempt.segment_id in claims:
            kind = OrphanKind.ATTEMPT if attempt.missing else OrphanKind.COPY
            why = "the cluster knows no such segment" if known.is_live else TOPIC_DELETED
            orphan = Orphan(kind, Fate.WAIT, why, attempt.keys, attempt.stored, stored.partition, attempt.segment_id)
            yield aged.waiting(orphan, attempt.modified)
    for offset, info in stored.snapshots.items():
        reason = _of_no_segment(offset, known)
        if reason and not aged.is_old(info.modified):
            orphan = Orphan(OrphanKind.SNAPSHOT, Fate.WAIT, reason, (info.key,), info.size, stored.partition)
            yield aged.waiting(orphan, info.modified)


def young_candidates(stored: PartitionObjects, known: KnownPartition, aged: Aged) -> list[SegmentObjects]:
    """Return attempts that are too young and in no record; not those that may still be published."""
    return [
        each
        for each in stored.attempts
        if not aged.is_old(each.modified)
        and known.is_gone(each.segment_id)
        and (each.missing or not known.is_live or each.segment_id in known.records)
    ]


def candidates(stored: PartitionObjects, known: KnownPartition, aged: Aged) -> list[SegmentObjects]:
    """Return attempts that are old enough and in no record, or in one of DELETE_SEGMENT_FINISHED."""
    return [each for each in stored.attempts if aged.is_old(each.modified) and known.is_gone(each.segment_id)]


def _fate(attempt: SegmentObjects, claim: Claim, others: _Others) -> tuple[Fate, str]:
    known = others.known
    if attempt.segment_id in known.records:
        return Fate.REMOVE, TOPIC_DELETED if known.is_absent else "the cluster has deleted it"
    finished = claim.finished if claim.finished != attempt.segment_id else None
    if finished is not None and others.lies_elsewhere(finished, attempt):
        finished = None
    superseded = f"another attempt finished: {finished}"
    copy = None if attempt.missing else others.look(attempt)
    if not isinstance(copy, RemoteSegment):
        return Fate.REMOVE, superseded if finished else "it was never finished, or lost an object"
    if not known.is_live:
        return Fate.REMOVE, superseded if finished else TOPIC_DELETED
    published = known.published_end(copy.metadata.segment_leader_epochs[-1][0])
    if finished is None and copy.end_offset > published:
        # `publish` skips an unfinished attempt.
        first = "" if claim.finished else "tiersnap tier --apply, which finishes it, then "
        return (
            Fate.LEAVE,
            f"not published yet, and the cluster's remote log ends at {published}: {first}tiersnap publish",
        )
    if why := others.why_kept(copy, finished):
        return Fate.LEAVE, why
    return Fate.REMOVE, superseded if finished else "the cluster knows no such segment, and others hold its offsets"


_LOST = "no other copy of its offsets is whole: what the cluster knows of them has lost objects"


@dataclass(frozen=True, slots=True)
class _Others:
    """The attempts of a partition in ascending start offset, to find other copies of the same offsets."""

    attempts: Sequence[SegmentObjects]
    known: KnownPartition
    look: Callable[[SegmentObjects], RemoteSegment | IncompleteSegment]
    read: Callable[[RemoteSegment], ReadSegment]
    _read: dict[str, ReadSegment] = field(default_factory=dict)

    def lies_elsewhere(self, segment_id: str, attempt: SegmentObjects) -> bool:
        """Return whether a segment is stored in another layout than `attempt`, so that it does not supersede it."""
        return any(each.segment_id == segment_id and each.is_local is not attempt.is_local for each in self.attempts)

    def why_kept(self, copy: RemoteSegment, finished: str | None) -> str:
        """Return why a copy stays; "" if `finished`, or segments in the records, hold the same offsets rightly.

        Offsets below the log start need no copy.
        """
        epoch = copy.metadata.segment_leader_epochs[-1][0]
        holding = self._holding(copy.start_offset, copy.end_offset, epoch, finished)
        if holding is None:
            return _LOST
        return next(filter(None, (self._doubt(copy, other) for other in holding)), "")

    def why_attempt_is_kept(self, attempt: SegmentObjects, record: RemoteLogSegmentMetadata) -> str:
        """Return why the objects of a broker's attempt stay; "" if segments in the records hold its offsets."""
        copy = None if attempt.missing else self.look(attempt)
        if isinstance(copy, RemoteSegment):
            return self.why_kept(copy, None)
        epoch = record.segment_leader_epochs[-1][0]
        holding = self._holding(record.start_offset, record.end_offset + 1, epoch, None)
        if holding is None:
            return _LOST
        return next(filter(None, map(self._unproven, holding)), "")

    def _holding(self, start: int, end: int, epoch: int, finished: str | None) -> list[RemoteSegment] | None:
        """Return the complete segments that together hold [start, end); None if an offset is in none of them."""
        reached = max(start, self.known.log_start or 0)
        holding: list[RemoteSegment] = []
        for attempt in self.attempts:
            if not attempt.start_offset <= reached < end:
                break
            counts = attempt.segment_id == finished or self.known.finished_end(attempt.segment_id, epoch) > reached
            other = self.look(attempt) if counts and not attempt.missing else None
            if isinstance(other, RemoteSegment) and other.end_offset > reached:
                holding.append(other)
                reached = other.end_offset
        return None if reached < end else holding

    def _unproven(self, other: RemoteSegment) -> str:
        doubt = self._read_once(other).doubt
        return f"{other.segment_id}, which holds its offsets, is not proven to be right: {doubt}" if doubt else ""

    def _doubt(self, copy: RemoteSegment, other: RemoteSegment) -> str:
        if unproven := self._unproven(other):
            return unproven
        if copy.bounds == other.bounds and self._read_once(copy).digest not in ("", self._read_once(other).digest):
            return f"its log and the log of {other.segment_id} differ; nothing shows which one is right"
        return ""

    def _read_once(self, segment: RemoteSegment) -> ReadSegment:
        if segment.segment_id not in self._read:
            self._read[segment.segment_id] = self.read(segment)
        return self._read[segment.segment_id]


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
        is_ours: whether tiersnap wrote a snapshot that no manifest names.
    """
    told = {record.offset for _, manifest in manifests for record in manifest.snapshots}
    gone = set()
    for offset, info in stored.snapshots.items():
        reason = _of_no_segment(offset, known)
        if not reason or not aged.is_old(info.modified):
            continue
        if offset in told or is_ours(info):
            gone.add(offset)
            yield Orphan(OrphanKind.SNAPSHOT, Fate.REMOVE, reason, (info.key,), info.size, stored.partition)
        else:
            why = "no manifest of ours tells of it"
            yield Orphan(OrphanKind.SNAPSHOT, Fate.LEAVE, why, (info.key,), info.size, stored.partition)
    left = stored.snapshots.keys() - gone
    for info, manifest in manifests:
        if aged.is_old(info.modified) and left.isdisjoint(record.offset for record in manifest.snapshots):
            reason = "none of its snapshots is left"
            yield Orphan(OrphanKind.MANIFEST, Fate.REMOVE, reason, (info.key,), info.size, stored.partition)


def _of_no_segment(offset: int, known: KnownPartition) -> str:
    if known.log_start is None:
        return TOPIC_DELETED
    return f"the log starts at {known.log_start}" if offset < known.log_start else ""


def judge_rest(stored: PartitionObjects, known: KnownPartition, aged: Aged, removed: set[str]) -> Iterator[Orphan]:
    """Yield the claims and `cluster.json` of a deleted topic, once no object of ours is left that needs them.

    Args:
        removed: keys that are removed before them.
    """
    kept = [key for attempt in stored.attempts for key in attempt.keys if key not in removed]
    kept += [info.key for info in (*stored.snapshots.values(), *stored.manifests.values()) if info.key not in removed]
    if known.is_live or kept:
        return
    rest = [(OrphanKind.CLAIM, info) for info in stored.claims.values()]
    rest += [] if stored.known_manifests is None else [(OrphanKind.KNOWN_MANIFESTS, stored.known_manifests)]
    rest += [] if stored.cluster is None else [(OrphanKind.CLUSTER, stored.cluster)]
    if all(aged.is_old(info.modified) for _, info in rest):
        for kind, info in rest:
            yield Orphan(kind, Fate.REMOVE, TOPIC_DELETED, (info.key,), info.size, stored.partition)
