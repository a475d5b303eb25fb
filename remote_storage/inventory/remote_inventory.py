"""List the remote segments of one partition, the incomplete ones, and which of them tiersnap uploaded.

snapshot.log.coverage decides which segments count for a log. The requests are two listings and one manifest for each
segment, newest first; segments wholly below the local log need none, and most of those in KnownManifests neither. Few
claims are read: that of the newest segment, since each claim is finished before the next segment is claimed, and those
that were not written right after their manifests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tiersnap.remote_storage.inventory.complete import complete_in_other_layout
from tiersnap.remote_storage.inventory.known_manifests import KnownManifests
from tiersnap.remote_storage.inventory.remote_segment import IncompleteSegment, RemoteSegment, read_segment
from tiersnap.remote_storage.inventory.segment_objects import SegmentObjects, list_segments
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.own_objects.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.own_objects.claim_protocol import claimed_segments, read_claim
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel, in_waves
from tiersnap.snapshot.errors import CorruptDataError

COPY_GRACE_MS = 900_000
"""A broker writes a manifest right after its log: a log without one for so long will get none."""
_FINISHED_WITHIN_MS = 10_000
"""A copy attempt finishes its claim with the request that follows its manifest."""
_ALONE = "whole, but another attempt finished, and its copy is not: it stays until that is tiered again"
_OVERTAKEN = "whole, but another attempt holds its claim: it stays until that one has copied"


@dataclass(frozen=True, slots=True)
class RemoteInventory:
    """A partition's remote objects and claims; segments and leftovers in ascending start offset.

    Attributes:
        problems: of claims that could not be read.
        looked_at: ms, by the store's clock; 0 if no object was found whose age matters.
        uncounted: complete segments of ours among the leftovers: another attempt has their claim, and no segment.
        unpublished: complete segments that only --unpublished restores; they are not in `segments`.
        why_unpublished: the reason, for messages.
    """

    partition: TopicIdPartition
    segments: tuple[RemoteSegment, ...] = ()
    leftovers: tuple[IncompleteSegment, ...] = ()
    problems: tuple[str, ...] = ()
    claimed: frozenset[ClaimedSegment] = field(default_factory=frozenset)
    looked_at: int = 0
    uncounted: tuple[RemoteSegment, ...] = ()
    unpublished: tuple[RemoteSegment, ...] = ()
    why_unpublished: str = ""

    @property
    def superseded(self) -> tuple[RemoteSegment | IncompleteSegment, ...]:
        """Objects of our attempts that a later attempt replaced with a complete segment; they may be deleted."""
        everything: tuple[RemoteSegment | IncompleteSegment, ...] = (*self.segments, *self.leftovers)
        whole = {copy.segment_id for copy in self.segments}
        return tuple(each for each in everything if _finished_without(each) in whole)

    def counted(self, wrong: Collection[str], of_brokers: Collection[str] | None) -> RemoteInventory:
        """Return the inventory without complete segments that count as missing.

        Args:
            wrong: their ids.
            of_brokers: ids of the segments without a claim of ours that count; None for all.
        """
        right = (each for each in self.segments if each.segment_id not in wrong)
        kept = (each for each in right if each.claim or of_brokers is None or each.segment_id in of_brokers)
        return replace(self, segments=tuple(kept))

    def in_flight(self, grace: int = COPY_GRACE_MS) -> tuple[IncompleteSegment, ...]:
        """Return the segments that a broker or another tool copies now: incomplete, young, and in no claim.

        Args:
            grace: ms, by the store's clock, which alone knows how old its objects are.
        """
        return tuple(each for each in self.leftovers if each.is_somebodys and self.looked_at - each.written_at <= grace)


def list_remote_partition(
    location: RemoteLocation,
    partition: TopicIdPartition,
    *,
    local_start: int = 0,
    since: int | None = None,
    known: KnownManifests | None = None,
) -> RemoteInventory:
    """List the remote inventory of a partition.

    Args:
        local_start: base offset of the first local segment; few manifests of segments that end there or below are read.
        since: ms; the manifests of those that may have a record as late as this are all read.
        known: manifests of the partition that were read before. [default: those kept in the store]
    """
    store = location.store
    changed = claimed_segments(store, partition)
    listed = list_segments(location, partition)
    known = known or KnownManifests(store, partition)
    known.listed = frozenset(each.segment_id for each in listed)
    found, incomplete = _read(known, [each for each in listed if not each.missing], local_start, since)
    # A segment that lacks an object needs no request.
    lacking = (read_segment(store, each) for each in listed if each.missing)
    incomplete += [each for each in lacking if isinstance(each, IncompleteSegment)]
    claims = _Claims(store, frozenset(changed))
    claims.read_for(found, incomplete, changed)
    segments = [claims.with_claim(each) for each in found]
    uncounted = _uncounted(location, partition, segments)
    incomplete += [_incomplete(each, uncounted[each.segment_id]) for each in segments if each.segment_id in uncounted]
    leftovers = [replace(each, claim=claims.named.get(each.segment_id)) for each in incomplete]
    return RemoteInventory(
        partition,
        tuple(sorted((each for each in segments if each.segment_id not in uncounted), key=_offset)),
        tuple(sorted(leftovers, key=_offset)),
        tuple(claims.problems.values()),
        claims.claimed,
        store.now() if any(each.is_somebodys for each in leftovers) else 0,
        tuple(each for each in segments if each.segment_id in uncounted),
    )


def _incomplete(segment: RemoteSegment, problem: str) -> IncompleteSegment:
    return IncompleteSegment(segment.segment_id, segment.start_offset, problem, segment.objects)


def _offset(segment: RemoteSegment | IncompleteSegment) -> tuple[int, str]:
    return segment.start_offset, segment.segment_id


def _uncounted(
    location: RemoteLocation, partition: TopicIdPartition, segments: Sequence[RemoteSegment]
) -> dict[str, str]:
    """Return why complete segments of ours do not count, by segment id: an attempt without a copy has their claim."""
    whole = {each.segment_id for each in segments}
    absent = {over for each in segments if (over := _finished_without(each)) and over not in whole}
    absent -= complete_in_other_layout(location, partition, absent)
    uncounted = {each.segment_id: _ALONE for each in segments if _finished_without(each) in absent}
    return uncounted | {each.segment_id: _OVERTAKEN for each in segments if _is_overtaken(each)}


def _read(
    known: KnownManifests, listed: Sequence[SegmentObjects], local_start: int, since: int | None
) -> tuple[list[RemoteSegment], list[IncompleteSegment]]:
    """Read the manifests of attempts with all objects, newest first, down to the segments below the local log."""
    segments: list[RemoteSegment] = []
    incomplete: list[IncompleteSegment] = []
    read = partial(read_segment, known.store, known=known)
    for found in in_waves(read, listed[::-1], is_known=partial(_is_known, known)):
        incomplete += [each for each in found if isinstance(each, IncompleteSegment)]
        complete = [each for each in found if isinstance(each, RemoteSegment)]
        segments += complete
        # Segments are contiguous or overlap by one: if a whole wave ends below the log, all older ones do.
        if complete and all(each.end_offset <= local_start and _is_older(each, since) for each in complete):
            break
    return segments, incomplete


def _is_known(known: KnownManifests, attempt: SegmentObjects) -> bool:
    manifest = attempt.objects.get(KeyKind.RSM_MANIFEST)
    return manifest is not None and known.has(attempt.segment_id, manifest)


def _is_older(copy: RemoteSegment, since: int | None) -> bool:
    """Return whether all its records are older than `since` (ms); true for None."""
    return since is None or 0 <= copy.metadata.max_timestamp < since


@dataclass(frozen=True, slots=True)
class _Claims:
    """Claims, each read once: `named` by the segment ids in them, and `problems` of those that cannot be read."""

    store: ObjectStore
    claimed: frozenset[ClaimedSegment]
    found: dict[ClaimedSegment, Claim | None] = field(default_factory=dict)
    named: dict[str, Claim] = field(default_factory=dict)
    problems: dict[ClaimedSegment, str] = field(default_factory=dict)

    def read_for(
        self,
        found: Sequence[RemoteSegment],
        incomplete: Sequence[IncompleteSegment],
        changed: Mapping[ClaimedSegment, int],
    ) -> None:
        """Read the claims that can decide whether a segment counts; `changed` is the time of their last write (ms)."""
        starts = Counter(each.start_offset for each in found)
        doubtful = {offset for offset, count in starts.items() if count > 1} | {
            each.start_offset for each in incomplete
        }
        for segment in self.claimed:
            if segment.base_offset in doubtful:
                self.read(segment)
        written = {each.claimed_as: each.written_at for each in found}
        self.read_unfinished(sorted(self.claimed & written.keys(), key=_age, reverse=True))
        in_parallel(
            self.read,
            [
                segment
                for segment in self.claimed & written.keys()
                if not 0 <= changed[segment] - written[segment] <= _FINISHED_WITHIN_MS
            ],
        )

    def with_claim(self, segment: RemoteSegment) -> RemoteSegment:
        """Return the segment with its claim, and whether a broker copied it."""
        claim = self.named.get(segment.segment_id)
        is_theirs = claim is None and (segment.claimed_as not in self.claimed or self.found.get(segment.claimed_as))
        is_copied = segment.metadata.broker_id >= 0 or segment.objects.is_local
        return replace(segment, claim=claim, is_brokers=bool(is_theirs) and is_copied)

    def read(self, segment: ClaimedSegment) -> Claim | None:
        if segment not in self.found:
            try:
                claim = read_claim(self.store, segment)
            except CorruptDataError as error:
                claim = None
                self.problems[segment] = error.message
            self.found[segment] = claim
            if claim is not None:
                self.named.update(dict.fromkeys(claim.segment_ids, claim))
        return self.found[segment]

    def read_unfinished(self, newest_first: Iterable[ClaimedSegment]) -> None:
        """Read claims up to one that is finished."""
        for segment in newest_first:
            claim = self.read(segment)
            if claim is not None and claim.finished is not None:
                return


def _age(segment: ClaimedSegment) -> tuple[int, int]:
    """Return the sort key of log order; segments of a later leader epoch are newer."""
    return segment.leader_epoch, segment.base_offset


def _finished_without(found: RemoteSegment | IncompleteSegment) -> str | None:
    """Return the finished attempt by the claim of `found`, if `found` is of an earlier attempt."""
    claim = found.claim
    is_earlier = claim is not None and found.segment_id in {attempt.segment_id for attempt in claim.earlier}
    return claim.finished if claim is not None and is_earlier else None


def _is_overtaken(copy: RemoteSegment) -> bool:
    """Return whether another attempt took over the claim of this segment and has not finished its own."""
    return copy.claim is not None and copy.is_unfinished and copy.claim.holder.segment_id != copy.segment_id


def leftovers_of(found: RemoteInventory) -> list[RemoteSegment | IncompleteSegment]:
    """Return our objects that nobody needs once they are old; sends no request.

    They are segments of attempts that a later attempt replaced, and objects of attempts that were taken over, ended or
    never finished. A complete segment stays until a finished one exists: it may be the only copy of its offsets.
    """
    complete = {each.segment_id for each in found.uncounted}
    left = (each for each in found.leftovers if each.segment_id not in complete and _is_over(each))
    return [*found.superseded, *(each for each in left if each not in found.superseded)]


def _is_over(left: IncompleteSegment) -> bool:
    return left.claim is not None and left.claim.may_delete(left.segment_id)
