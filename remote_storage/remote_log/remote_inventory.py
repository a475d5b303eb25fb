"""List the remote segments of one partition, its incomplete segments, and the claims that name them.

snapshot.log.coverage decides which offsets of a log these segments cover. An inventory needs two listings, and one
request for each manifest that was not read before. If no claim names a recent incomplete segment, the claims are listed
again. Manifests are read newest first, down to the first local offset.

Only these claims are read:

    the newest claims, down to the first finished one
    claims at the start offset of an incomplete segment, or of several complete segments
    claims that were not written within 10 s after their segment
    claims that were written after the claims were listed, at the start offset of a recent incomplete segment

All other claims are finished, because an upload finishes each claim before it writes the next claim.
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
from tiersnap.remote_storage.locks.claim_protocol import claimed_segments, claims_among, read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.complete import complete_in_other_layout
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.listing_ahead import PartitionKeys, list_keys
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, group, ids_of
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel, in_waves
from tiersnap.snapshot.errors import CorruptDataError

COPY_GRACE_MS = 900_000
"""A broker writes the manifest directly after the log object. A log object of this age without one never gets one."""
_FINISHED_WITHIN_MS = 10_000
"""A copy attempt writes the manifest, and finishes its claim with the next request."""
_ALONE = (
    "complete, but the claim names another attempt, whose segment lacks objects: kept until the segment of the other "
    "attempt is uploaded again"
)
_OVERTAKEN = "complete, but another copy attempt holds the claim: kept until that attempt has finished"


@dataclass(frozen=True, slots=True)
class RemoteInventory:
    """The remote segments and claims of a partition. Segments and leftovers have ascending start offsets.

    Attributes:
        problems: error messages of damaged claims.
        listed_at: time of the listing: ms, by the store's clock; 0 if no broker may be copying a segment.
        uncounted: complete segments of tiersnap that do not count, because their claim names a later attempt that is
            not complete. They are also in `leftovers`.
        unread: segments below the local log that have all objects, but whose manifests were not read.
        unpublished: complete segments that are restored only on request. They are not in `segments`.
        why_unpublished: the reason why the segments in `unpublished` are not in `segments`, for messages.
    """

    partition: TopicIdPartition
    segments: tuple[RemoteSegment, ...] = ()
    leftovers: tuple[IncompleteSegment, ...] = ()
    problems: tuple[str, ...] = ()
    claimed: frozenset[ClaimedSegment] = field(default_factory=frozenset)
    listed_at: int = 0
    uncounted: tuple[RemoteSegment, ...] = ()
    unpublished: tuple[RemoteSegment, ...] = ()
    why_unpublished: str = ""
    unread: tuple[SegmentObjects, ...] = ()

    @property
    def has_complete(self) -> bool:
        """Return whether a segment has all objects, even if it does not count or its manifest was not read."""
        return bool(self.segments or self.uncounted or self.unread)

    @property
    def superseded(self) -> tuple[RemoteSegment | IncompleteSegment, ...]:
        """Return our attempts that may be deleted, because a later attempt finished and its segment is complete."""
        everything: tuple[RemoteSegment | IncompleteSegment, ...] = (*self.segments, *self.leftovers)
        whole = ids_of(self.segments)
        return tuple(each for each in everything if _finished_without(each) in whole)

    def counted(self, wrong: Collection[str], of_brokers: Collection[str] | None) -> RemoteInventory:
        """Return the inventory without the complete segments that the caller treats as missing.

        Args:
            wrong: ids of segments to treat as missing.
            of_brokers: ids of the brokers' segments to use; None to use all. The call of `list_remote_partition` must
                have had the same value.
        """
        right = [each for each in self.segments if each.segment_id not in wrong]
        if of_brokers is not None:
            right = [each for each in right if each.claim or each.segment_id in of_brokers]
        return replace(self, segments=tuple(right))

    def in_flight(self, grace: int = COPY_GRACE_MS) -> tuple[IncompleteSegment, ...]:
        """Return the segments that a broker may be copying now.

        No claim names these segments, and the object that an upload writes last does not exist yet.

        Args:
            grace: greatest age of the newest object in ms, by the store's clock.
        """
        return tuple(
            each for each in self.leftovers if each.may_be_of_broker and self.listed_at - each.written_at <= grace
        )


def list_remote_partition(
    location: RemoteLocation,
    partition: TopicIdPartition,
    *,
    local_start: int = 0,
    since: int | None = None,
    known: KnownManifests | None = None,
    of_brokers: Collection[str] | None = None,
    listed: PartitionKeys | None = None,
) -> RemoteInventory:
    """List the objects of a partition, read manifests and claims, and return the inventory.

    Args:
        local_start: base offset of the first local segment. Reading stops at segments that end at or below it.
        since: ms. If given, reading stops only at segments whose records are all older than `since`, too.
        known: manifests of the partition that were read earlier; by default the manifests in `manifests.json`.
        of_brokers: ids of the brokers' segments to use; None to use all. If given, the claims of segments with other
            ids are read, to find tiersnap's segments.
        listed: objects of the partition from an earlier listing, see `listing_ahead`; None lists the partition now.
    """
    store = location.store
    if listed is None:
        listed = list_keys(location, partition)
    changed = claims_among(listed.beside, partition)
    attempts = group(listed.segments, local=location.is_local).get(partition, ())
    known = known or KnownManifests(store, partition)
    known.size = next((each.size for each in listed.beside if each.key == keys.manifests(partition)), 0)
    known.listed = ids_of(attempts)
    whole = [each for each in attempts if not each.missing]
    found, incomplete = _read(known, whole, local_start, since)
    read: list[RemoteSegment | IncompleteSegment] = [*found, *incomplete]
    was_read = ids_of(read)
    unread = [each for each in whole if each.segment_id not in was_read]
    incomplete += _lacking(store, attempts)
    claims = _Claims(store, frozenset(changed))
    claims.read_for(found, incomplete, changed)
    listed_at = claims.read_new(partition, incomplete)
    if of_brokers is not None:
        claims.read_of(each for each in found if each.segment_id not in of_brokers)
    segments = list(map(claims.marked, found))
    counted = _counted(location, partition, claims, segments, incomplete)
    return replace(counted, listed_at=listed_at, unread=tuple(unread))


def _counted(
    location: RemoteLocation,
    partition: TopicIdPartition,
    claims: _Claims,
    segments: Sequence[RemoteSegment],
    incomplete: Iterable[IncompleteSegment],
) -> RemoteInventory:
    """Return the inventory. Complete segments of tiersnap that do not count (see `uncounted`) become leftovers."""
    alone = _alone(location, partition, segments)
    leftovers = list(map(claims.with_claim, incomplete))
    counted, uncounted = [], []
    for each in segments:
        if each.segment_id not in alone:
            counted.append(each)
            continue
        uncounted.append(each)
        left = IncompleteSegment(each.segment_id, each.start_offset, alone[each.segment_id], each.objects)
        leftovers.append(claims.with_claim(left))
    return RemoteInventory(
        partition,
        tuple(sorted(counted, key=_offset)),
        tuple(sorted(leftovers, key=_offset)),
        tuple(claims.problems.values()),
        claims.claimed,
        uncounted=tuple(uncounted),
    )


def _lacking(store: ObjectStore, listed: Iterable[SegmentObjects]) -> Iterator[IncompleteSegment]:
    """Yield the segments that lack an object. No request is made."""
    for each in listed:
        if each.missing:
            found = read_segment(store, each)
            if isinstance(found, IncompleteSegment):
                yield found


def _offset(segment: RemoteSegment | IncompleteSegment) -> tuple[int, str]:
    return segment.start_offset, segment.segment_id


def _alone(location: RemoteLocation, partition: TopicIdPartition, segments: Sequence[RemoteSegment]) -> dict[str, str]:
    """Return the reasons why complete segments of tiersnap do not count, by segment id."""
    whole = ids_of(segments)
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
    """Read the manifests, newest first, until the segments end at or below `local_start`."""
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
        # Segments are contiguous or overlap by one. If a whole wave is below the local log, all earlier segments are.
        if complete and all(map(is_below, complete)):
            break
    return segments, incomplete


def _is_known(known: KnownManifests, attempt: SegmentObjects) -> bool:
    manifest = attempt.objects.get(KeyKind.RSM_MANIFEST)
    return manifest is not None and known.has(attempt.segment_id, manifest)


def _is_below(copy: RemoteSegment, local_start: int, since: int | None) -> bool:
    return copy.end_offset <= local_start and _is_older(copy, since)


def _is_older(copy: RemoteSegment, since: int | None) -> bool:
    """Return whether all records of a segment are older than `since` (ms). Return True if `since` is None."""
    return since is None or 0 <= copy.metadata.max_timestamp < since


def _doubtful_starts(found: Iterable[RemoteSegment], incomplete: Iterable[IncompleteSegment]) -> set[int]:
    """Return the start offsets of incomplete segments, and the start offsets that several complete segments share."""
    starts = Counter(each.start_offset for each in found)
    shared = {offset for offset, count in starts.items() if count > 1}
    return shared.union(each.start_offset for each in incomplete)


@dataclass(frozen=True, slots=True)
class _Claims:
    """Reads each claim once. A damaged claim is None in `found`, and its error message is in `problems`."""

    store: ObjectStore
    claimed: frozenset[ClaimedSegment]
    found: dict[ClaimedSegment, Claim | None] = field(default_factory=dict)
    named: dict[str, ClaimedSegment] = field(
        default_factory=dict
    )  # the claimed segment, by each segment id in the claim
    problems: dict[ClaimedSegment, str] = field(default_factory=dict)

    def read_for(
        self,
        found: Sequence[RemoteSegment],
        incomplete: Sequence[IncompleteSegment],
        changed: Mapping[ClaimedSegment, int],
    ) -> None:
        """Read the claims that the module docstring lists. `changed` has the last write time of each claim (ms)."""
        doubtful = _doubtful_starts(found, incomplete)
        for segment in self.claimed:
            if segment.base_offset in doubtful:
                self.read(segment)
        written = {each.claimed_as: each.written_at for each in found}
        claimed = self.claimed & written.keys()
        self.read_unfinished(sorted(claimed, key=_age, reverse=True))
        late = [each for each in claimed if not 0 <= changed[each] - written[each] <= _FINISHED_WITHIN_MS]
        in_parallel(self.read, late)

    def read_new(self, partition: TopicIdPartition, incomplete: Iterable[IncompleteSegment]) -> int:
        """Read the claims that another host wrote for recent segments after the claims were listed.

        Return the time by the store's clock (ms); 0 if no broker may be copying a segment.
        """
        unclaimed = [each for each in incomplete if self.with_claim(each).may_be_of_broker]
        if not unclaimed:
            return 0
        now = self.store.now()
        recent = [each for each in unclaimed if now - each.written_at <= COPY_GRACE_MS]
        self._read_new_at({each.start_offset for each in recent}, partition)
        return now

    def _read_new_at(self, starts: Collection[int], partition: TopicIdPartition) -> None:
        if not starts:
            return
        for segment in claimed_segments(self.store, partition).keys() - self.claimed:
            if segment.base_offset in starts:
                self.read(segment)

    def read_of(self, segments: Iterable[RemoteSegment]) -> None:
        in_parallel(self.read, [each.claimed_as for each in segments if each.claimed_as in self.claimed])

    def marked(self, segment: RemoteSegment) -> RemoteSegment:
        """Return the segment with `claim` and `is_brokers` set."""
        named = self.named.get(segment.segment_id)
        claim = None
        if named is not None:
            claim = self.found[named]
        return replace(segment, claim=claim, is_brokers=claim is None and self._is_brokers(segment))

    def _is_brokers(self, segment: RemoteSegment) -> bool:
        """Return whether a broker uploaded the segment. Call this only if no claim that was read names the segment."""
        if segment.claimed_as in self.claimed and self.found.get(segment.claimed_as) is None:
            return False  # a claim that was not read or is damaged may name the segment
        return segment.metadata.broker_id >= 0 or segment.objects.is_local

    def with_claim(self, attempt: IncompleteSegment) -> IncompleteSegment:
        """Return the attempt, with the claim if a claim names the attempt."""
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
        """Read claims, newest first, until one is finished."""
        for segment in newest_first:
            claim = self.read(segment)
            if claim is not None and claim.finished is not None:
                return


def _age(segment: ClaimedSegment) -> tuple[int, int]:
    """Return the sort key of a claimed segment: leader epoch, then base offset."""
    return segment.leader_epoch, segment.base_offset


def _finished_without(found: RemoteSegment | IncompleteSegment) -> str | None:
    """Return the segment id of a later attempt that finished the claim of `found`; None without such an attempt."""
    claim = found.claim
    is_earlier = claim is not None and found.segment_id in ids_of(claim.earlier)
    return claim.finished if claim is not None and is_earlier else None


def _is_overtaken(copy: RemoteSegment) -> bool:
    """Return whether a later attempt took over the segment's claim and has not finished."""
    return copy.claim is not None and copy.is_unfinished and copy.claim.holder.segment_id != copy.segment_id


def leftovers_of(found: RemoteInventory) -> list[RemoteSegment | IncompleteSegment]:
    """Return the leftovers of our attempts, which may be deleted after the grace period. No request is made.

    A leftover is a remote segment that a later attempt replaced, or an incomplete segment of an ended attempt. If no
    attempt finished, a complete segment is not a leftover, because it may be the only segment with its offsets.
    """
    complete, superseded = ids_of(found.uncounted), found.superseded
    left = (each for each in found.leftovers if each.segment_id not in complete and each not in superseded)
    return [*superseded, *filter(_is_over, left)]


def _is_over(left: IncompleteSegment) -> bool:
    return left.claim is not None and left.claim.may_delete(left.segment_id)
