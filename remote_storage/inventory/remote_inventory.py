"""List what a store holds of one partition: remote segments, what is incomplete, and which of those are ours.

These are facts; snapshot.log.coverage says which segments count for a log. It takes two listings and a
manifest for each segment, newest first; none for segments wholly below the log that is asked for, and few of those that
KnownManifests has. Few claims are read: that of the newest segment, since each is finished before the next is claimed,
and those that were last written at another time than right behind theirs.
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
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claimed_segments, read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel, in_waves
from tiersnap.snapshot.errors import CorruptDataError

COPY_GRACE_MS = 900_000
"""A broker writes a manifest right behind its log. A log that has had none for so long gets none."""
_FINISHED_WITHIN_MS = 10_000
"""A copy attempt finishes its claim with the request that follows its manifest."""
_ALONE = "whole, but another attempt finished, and its copy is not: it stays until that is tiered again"
_OVERTAKEN = "whole, but another attempt holds its claim: it stays until that one has copied"


@dataclass(frozen=True, slots=True)
class RemoteInventory:
    """A partition's remote objects and claims; segments and leftovers in ascending start offset.

    Attributes:
        problems: of claims that could not be read.
        looked_at: ms, by the store's clock; 0 if no age decides about anything that was found.
        uncounted: complete segments of ours among the leftovers: another attempt has their claim, and no segment.
        unpublished: complete segments that are restored only if that is asked for; apart from `segments`.
        why_unpublished: what is known of them.
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
        """Objects of our attempts after which another one finished, if its segment is complete: they may go."""
        everything: tuple[RemoteSegment | IncompleteSegment, ...] = (*self.segments, *self.leftovers)
        whole = {copy.segment_id for copy in self.segments}
        return tuple(each for each in everything if _finished_without(each) in whole)

    def counted(self, wrong: Collection[str], of_brokers: Collection[str] | None) -> RemoteInventory:
        """Return the inventory without complete segments that count as missing.

        Args:
            wrong: their ids.
            of_brokers: the only ids that count of segments without a claim of ours; None for all.
        """
        right = (each for each in self.segments if each.segment_id not in wrong)
        kept = (each for each in right if each.claim or of_brokers is None or each.segment_id in of_brokers)
        return replace(self, segments=tuple(kept))

    def in_flight(self, grace: int = COPY_GRACE_MS) -> tuple[IncompleteSegment, ...]:
        """Return what somebody else is copying now: young objects that nobody reads and no claim names.

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
        local_start: base offset of the first local segment; of segments that end there or below few are looked into.
        since: ms; of those, all are looked into that may have a record as late as that.
        known: manifests of the partition that were read before; they are taken from the store where nobody gives them.
    """
    store = location.store
    changed = claimed_segments(store, partition)
    listed = list_segments(location, partition)
    known = known or KnownManifests(store, partition)
    known.listed = frozenset(each.segment_id for each in listed)
    found, incomplete = _read(known, [each for each in listed if not each.missing], local_start, since)
    # What lacks an object needs no request.
    lacking = (read_segment(store, each) for each in listed if each.missing)
    incomplete += [each for each in lacking if isinstance(each, IncompleteSegment)]
    claims = _Claims(store, frozenset(changed))
    claims.read_for(found, incomplete, changed)
    segments = [claims.told(each) for each in found]
    alone = _alone(location, partition, segments)
    incomplete += [
        IncompleteSegment(each.segment_id, each.start_offset, alone[each.segment_id], each.objects)
        for each in segments
        if each.segment_id in alone
    ]
    leftovers = [claims.with_claim(each) for each in incomplete]
    return RemoteInventory(
        partition,
        tuple(sorted((each for each in segments if each.segment_id not in alone), key=_offset)),
        tuple(sorted(leftovers, key=_offset)),
        tuple(claims.problems.values()),
        claims.claimed,
        store.now() if any(each.is_somebodys for each in leftovers) else 0,
        tuple(each for each in segments if each.segment_id in alone),
    )


def _offset(segment: RemoteSegment | IncompleteSegment) -> tuple[int, str]:
    return segment.start_offset, segment.segment_id


def _alone(location: RemoteLocation, partition: TopicIdPartition, segments: Sequence[RemoteSegment]) -> dict[str, str]:
    """Return why complete segments of ours do not count, by segment id: an attempt without a copy has their claim."""
    whole = {each.segment_id for each in segments}
    absent = {over for each in segments if (over := _finished_without(each)) and over not in whole}
    absent -= complete_in_other_layout(location, partition, absent)
    alone = {each.segment_id: _ALONE for each in segments if _finished_without(each) in absent}
    return alone | {each.segment_id: _OVERTAKEN for each in segments if _is_overtaken(each)}


def _read(
    known: KnownManifests, listed: Sequence[SegmentObjects], local_start: int, since: int | None
) -> tuple[list[RemoteSegment], list[IncompleteSegment]]:
    """Look into attempts that have all their objects, newest first, until they lie below the log."""
    segments: list[RemoteSegment] = []
    incomplete: list[IncompleteSegment] = []
    read = partial(read_segment, known.store, known=known)
    for found in in_waves(read, listed[::-1], is_known=partial(_is_known, known)):
        incomplete += [each for each in found if isinstance(each, IncompleteSegment)]
        complete = [each for each in found if isinstance(each, RemoteSegment)]
        segments += complete
        # They lie end to end or overlap by one: if a whole wave lies below the log, the rest does, too.
        if complete and all(each.end_offset <= local_start and _is_older(each, since) for each in complete):
            break
    return segments, incomplete


def _is_known(known: KnownManifests, attempt: SegmentObjects) -> bool:
    manifest = attempt.objects.get(KeyKind.RSM_MANIFEST)
    return manifest is not None and known.has(attempt.segment_id, manifest)


def _is_older(copy: RemoteSegment, since: int | None) -> bool:
    """Return whether no record of it is as late as `since` (ms); true if nobody asks."""
    return since is None or 0 <= copy.metadata.max_timestamp < since


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
        """Read the claims that decide about something; `changed` is when each was last written (ms)."""
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

    def told(self, segment: RemoteSegment) -> RemoteSegment:
        """Return the segment with what claims say of it."""
        named = self.named.get(segment.segment_id)
        claim = None if named is None else self.found[named]
        is_theirs = claim is None and (segment.claimed_as not in self.claimed or self.found.get(segment.claimed_as))
        is_copied = segment.metadata.broker_id >= 0 or segment.objects.is_local
        return replace(segment, claim=claim, is_brokers=bool(is_theirs) and is_copied)

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
        """Read claims up to one that is finished."""
        for segment in newest_first:
            claim = self.read(segment)
            if claim is not None and claim.finished is not None:
                return


def _age(segment: ClaimedSegment) -> tuple[int, int]:
    """Segments in the order in which a log has them; of lineages that parted the newer one is the later."""
    return segment.leader_epoch, segment.base_offset


def _finished_without(found: RemoteSegment | IncompleteSegment) -> str | None:
    """The attempt that finished, by its claim, where `found` is of an earlier one."""
    claim = found.claim
    is_earlier = claim is not None and found.segment_id in {attempt.segment_id for attempt in claim.earlier}
    return claim.finished if claim is not None and is_earlier else None


def _is_overtaken(copy: RemoteSegment) -> bool:
    """Return whether an attempt that has finished nothing yet took over the claim of this copy."""
    return copy.claim is not None and copy.is_unfinished and copy.claim.holder.segment_id != copy.segment_id


def leftovers_of(found: RemoteInventory) -> list[RemoteSegment | IncompleteSegment]:
    """Return what of a partition is ours and needed by nobody, once it is old; no request.

    That are remote segments that another attempt has finished without, and objects that are no complete remote segment:
    of attempts that another one took over, that ended or that did not finish. A complete one stays while no finished
    one is: it may be all that there is of its offsets.
    """
    complete = {each.segment_id for each in found.uncounted}
    left = (each for each in found.leftovers if each.segment_id not in complete and _is_over(each))
    return [*found.superseded, *(each for each in left if each not in found.superseded)]


def _is_over(left: IncompleteSegment) -> bool:
    return left.claim is not None and left.claim.may_delete(left.segment_id)
