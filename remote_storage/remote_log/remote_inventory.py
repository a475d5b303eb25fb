"""List the remote segments of one partition, its incomplete segments, and the claims that name them.

These are facts; snapshot.log.coverage decides which segments count for a log. The requests are two listings and the
manifests, newest first, without those of segments below the local log and those in KnownManifests. Few claims are read.
The newest segment's claim is, because each claim is finished before the next segment is claimed. So is a claim that was
not last written directly after its segment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claims_among, read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.complete import complete_in_other_layout
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, list_segments
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel, in_waves
from tiersnap.snapshot.errors import CorruptDataError

COPY_GRACE_MS = 900_000
"""A broker writes a manifest directly after the log. A log without a manifest for so long never gets one."""
_FINISHED_WITHIN_MS = 10_000
"""A copy attempt finishes its claim with the request that follows its manifest."""
_ALONE = "whole, but another attempt finished, and its copy is not: it stays until that is tiered again"
_OVERTAKEN = "whole, but another attempt holds its claim: it stays until that one has copied"


@dataclass(frozen=True, slots=True)
class RemoteInventory:
    """A partition's remote segments and claims; segments and leftovers in ascending start offset.

    Attributes:
        problems: of claims that could not be read.
        looked_at: ms, by the store's clock; 0 if no decision depends on an age.
        uncounted: complete segments of ours among the leftovers. Another attempt, without a segment, has their claim.
        unread: segments below the local log with all objects by the listing, whose manifests were not read.
        unpublished: complete segments, not in `segments`, that are restored only on request.
        why_unpublished: the reason, for people.
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
    unread: tuple[SegmentObjects, ...] = ()

    @property
    def superseded(self) -> tuple[RemoteSegment | IncompleteSegment, ...]:
        """Return our attempts after which another one finished with a complete segment: they may be deleted."""
        everything: tuple[RemoteSegment | IncompleteSegment, ...] = (*self.segments, *self.leftovers)
        whole = {copy.segment_id for copy in self.segments}
        return tuple(each for each in everything if _finished_without(each) in whole)

    def counted(self, wrong: Collection[str], of_brokers: Collection[str] | None) -> RemoteInventory:
        """Return the inventory without complete segments that count as missing.

        Args:
            wrong: their ids.
            of_brokers: ids of the segments without a claim of ours that count; None for all. The listing got the same.
        """
        right = [each for each in self.segments if each.segment_id not in wrong]
        if of_brokers is not None:
            right = [each for each in right if each.claim or each.segment_id in of_brokers]
        return replace(self, segments=tuple(right))

    def in_flight(self, grace: int = COPY_GRACE_MS) -> tuple[IncompleteSegment, ...]:
        """Return the segments that a broker may be copying now: young, not visible, and named by no claim.

        Args:
            grace: ms, by the store's clock, like the age of the objects.
        """
        return tuple(each for each in self.leftovers if each.is_somebodys and self.looked_at - each.written_at <= grace)


def list_remote_partition(
    location: RemoteLocation,
    partition: TopicIdPartition,
    *,
    local_start: int = 0,
    since: int | None = None,
    known: KnownManifests | None = None,
    of_brokers: Collection[str] | None = None,
) -> RemoteInventory:
    """List the remote inventory of a partition.

    Args:
        local_start: base offset of the first local segment. Few manifests of segments that end there or below are read.
        since: ms. The manifests of segments that may have a record as late as that are read in any case.
        known: manifests of the partition that were read before; by default those in the store.
        of_brokers: ids of segments that count without a claim. If given, the claims of all others are read.
    """
    store = location.store
    beside = list(store.list(keys.partition_claims(partition)))
    changed = claims_among(beside, partition)
    listed = list_segments(location, partition)
    known = known or KnownManifests(store, partition)
    known.size = next((each.size for each in beside if each.key == keys.manifests(partition)), 0)
    known.listed = frozenset(each.segment_id for each in listed)
    whole = [each for each in listed if not each.missing]
    found, incomplete = _read(known, whole, local_start, since)
    read: list[RemoteSegment | IncompleteSegment] = [*found, *incomplete]
    was_read = {each.segment_id for each in read}
    unread = [each for each in whole if each.segment_id not in was_read]
    incomplete += _lacking(store, listed)
    claims = _Claims(store, frozenset(changed))
    claims.read_for(found, incomplete, changed)
    if of_brokers is not None:
        claims.read_of(each for each in found if each.segment_id not in of_brokers)
    segments = [claims.told(each) for each in found]
    return replace(_counted(location, partition, claims, segments, incomplete), unread=tuple(unread))


def _counted(
    location: RemoteLocation,
    partition: TopicIdPartition,
    claims: _Claims,
    segments: Sequence[RemoteSegment],
    incomplete: Iterable[IncompleteSegment],
) -> RemoteInventory:
    """Return the inventory; complete segments of ours that do not count are leftovers in it."""
    alone = _alone(location, partition, segments)
    leftovers = [claims.with_claim(each) for each in incomplete]
    counted, uncounted = [], []
    for each in segments:
        if each.segment_id not in alone:
            counted.append(each)
            continue
        uncounted.append(each)
        left = IncompleteSegment(each.segment_id, each.start_offset, alone[each.segment_id], each.objects)
        leftovers.append(claims.with_claim(left))
    looked_at = 0
    if any(each.is_somebodys for each in leftovers):
        looked_at = location.store.now()
    return RemoteInventory(
        partition,
        tuple(sorted(counted, key=_offset)),
        tuple(sorted(leftovers, key=_offset)),
        tuple(claims.problems.values()),
        claims.claimed,
        looked_at,
        tuple(uncounted),
    )


def _lacking(store: ObjectStore, listed: Iterable[SegmentObjects]) -> Iterator[IncompleteSegment]:
    """Yield the segments that lack an object; that needs no request."""
    for each in listed:
        found = read_segment(store, each) if each.missing else None
        if isinstance(found, IncompleteSegment):
            yield found


def _offset(segment: RemoteSegment | IncompleteSegment) -> tuple[int, str]:
    return segment.start_offset, segment.segment_id


def _alone(location: RemoteLocation, partition: TopicIdPartition, segments: Sequence[RemoteSegment]) -> dict[str, str]:
    """Return why complete segments of ours do not count, by id: an attempt without a segment has their claim."""
    whole = {each.segment_id for each in segments}
    absent = set(filter(None, map(_finished_without, segments))) - whole
    absent -= complete_in_other_layout(location, partition, absent)
    alone = {}
    for each in segments:
        if _is_overtaken(each):
            alone[each.segment_id] = _OVERTAKEN
        elif _finished_without(each) in absent:
            alone[each.segment_id] = _ALONE
    return alone


def _read(
    known: KnownManifests, listed: Sequence[SegmentObjects], local_start: int, since: int | None
) -> tuple[list[RemoteSegment], list[IncompleteSegment]]:
    """Read the attempts that have all their objects, newest first, until they are below the log."""
    segments: list[RemoteSegment] = []
    incomplete: list[IncompleteSegment] = []
    read = partial(read_segment, known.store, known=known)
    is_below = partial(_is_below, local_start=local_start, since=since)
    for found in in_waves(read, listed[::-1], is_known=partial(_is_known, known)):
        complete = []
        for each in found:
            if isinstance(each, RemoteSegment):
                complete.append(each)
            else:
                incomplete.append(each)
        segments += complete
        # They are contiguous or overlap by one. If a whole wave is below the log, so are the others.
        if complete and all(map(is_below, complete)):
            break
    return segments, incomplete


def _is_known(known: KnownManifests, attempt: SegmentObjects) -> bool:
    manifest = attempt.objects.get(KeyKind.RSM_MANIFEST)
    return manifest is not None and known.has(attempt.segment_id, manifest)


def _is_below(copy: RemoteSegment, local_start: int, since: int | None) -> bool:
    return copy.end_offset <= local_start and _is_older(copy, since)


def _is_older(copy: RemoteSegment, since: int | None) -> bool:
    """Return whether all its records are earlier than `since` (ms); True without `since`."""
    return since is None or 0 <= copy.metadata.max_timestamp < since


def _doubtful_starts(found: Iterable[RemoteSegment], incomplete: Iterable[IncompleteSegment]) -> set[int]:
    """Return the start offsets of several complete segments, or of an incomplete one."""
    starts = Counter(each.start_offset for each in found)
    shared = {offset for offset, count in starts.items() if count > 1}
    return shared.union(each.start_offset for each in incomplete)


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims that were read, each once, and the problems of those that cannot be read."""

    store: ObjectStore
    claimed: frozenset[ClaimedSegment]
    found: dict[ClaimedSegment, Claim | None] = field(default_factory=dict)
    named: dict[str, ClaimedSegment] = field(default_factory=dict)  # by the segment ids that the claim names
    problems: dict[ClaimedSegment, str] = field(default_factory=dict)

    def read_for(
        self,
        found: Sequence[RemoteSegment],
        incomplete: Sequence[IncompleteSegment],
        changed: Mapping[ClaimedSegment, int],
    ) -> None:
        """Read the claims on which a decision depends; `changed` is when each was last written (ms)."""
        doubtful = _doubtful_starts(found, incomplete)
        for segment in self.claimed:
            if segment.base_offset in doubtful:
                self.read(segment)
        written = {each.claimed_as: each.written_at for each in found}
        claimed = self.claimed & written.keys()
        self.read_unfinished(sorted(claimed, key=_age, reverse=True))
        late = [each for each in claimed if not 0 <= changed[each] - written[each] <= _FINISHED_WITHIN_MS]
        in_parallel(self.read, late)

    def read_of(self, segments: Iterable[RemoteSegment]) -> None:
        """Read the claims of segments."""
        in_parallel(self.read, [each.claimed_as for each in segments if each.claimed_as in self.claimed])

    def told(self, segment: RemoteSegment) -> RemoteSegment:
        """Return the segment with its claim and whether a broker uploaded it."""
        named = self.named.get(segment.segment_id)
        claim = None
        if named is not None:
            claim = self.found[named]
        return replace(segment, claim=claim, is_brokers=claim is None and self._is_brokers(segment))

    def _is_brokers(self, segment: RemoteSegment) -> bool:
        """Return whether a broker uploaded a segment that no claim names, by its metadata and others' claims."""
        if segment.claimed_as in self.claimed and self.found.get(segment.claimed_as) is None:
            return False  # its claim was not read, or is damaged, and may name it
        return segment.metadata.broker_id >= 0 or segment.objects.is_local

    def with_claim(self, attempt: IncompleteSegment) -> IncompleteSegment:
        """Return the attempt with the claim that names it, if one does."""
        named = self.named.get(attempt.segment_id)
        return attempt if named is None else replace(attempt, claim=self.found[named], claimed_as=named)

    def read(self, segment: ClaimedSegment) -> Claim | None:
        if segment not in self.found:
            try:
                claim = read_claim(self.store, segment)
            except CorruptDataError as error:
                claim = None
                self.problems[segment] = error.message
            self.found[segment] = claim
            if claim is not None:
                self.named.update(dict.fromkeys(claim.segment_ids, segment))
        return self.found[segment]

    def read_unfinished(self, newest_first: Iterable[ClaimedSegment]) -> None:
        """Read claims until one is finished."""
        for segment in newest_first:
            claim = self.read(segment)
            if claim is not None and claim.finished is not None:
                return


def _age(segment: ClaimedSegment) -> tuple[int, int]:
    """Order segments as a log has them; if lineages diverged, the newer one is later."""
    return segment.leader_epoch, segment.base_offset


def _finished_without(found: RemoteSegment | IncompleteSegment) -> str | None:
    """Return the attempt that finished the claim, if `found` belongs to an earlier one."""
    claim = found.claim
    is_earlier = claim is not None and found.segment_id in {attempt.segment_id for attempt in claim.earlier}
    return claim.finished if claim is not None and is_earlier else None


def _is_overtaken(copy: RemoteSegment) -> bool:
    """Return whether another attempt took over the claim of this segment and has not finished."""
    return copy.claim is not None and copy.is_unfinished and copy.claim.holder.segment_id != copy.segment_id


def leftovers_of(found: RemoteInventory) -> list[RemoteSegment | IncompleteSegment]:
    """Return the leftovers of our attempts in a partition, which may be deleted once they are old; no request.

    Leftovers are remote segments in whose place another attempt finished, and incomplete segments of attempts that were
    taken over, gave up or did not finish. A complete segment stays if no attempt finished: it may be the only one with
    its offsets.
    """
    complete, superseded = {each.segment_id for each in found.uncounted}, found.superseded
    left = (each for each in found.leftovers if each.segment_id not in complete and each not in superseded)
    return [*superseded, *filter(_is_over, left)]


def _is_over(left: IncompleteSegment) -> bool:
    return left.claim is not None and left.claim.may_delete(left.segment_id)
