"""What a store holds of one partition: complete copies, attempts that are none, and which of those are ours.

Facts alone: which copies count for a log, and what that means for its segments, says readiness.coverage. At most
two listings, and expire's record where they show one; one manifest a copy, newest first, and none of copies that lie
wholly below the log that is asked for. Of the claims that of the newest copy is read, since who tiers finishes each
before the next; and those that were last changed at another time than right behind their copy: somebody else may have
been at them, or nobody has finished them, and another replica's host went on behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tiersnap.remote_storage.inventory.attempts import AttemptObjects, group
from tiersnap.remote_storage.inventory.other_layout import complete_in_other_layout
from tiersnap.remote_storage.inventory.remote_segment import RemoteCopy, UnusableCopy, read_copy
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stored.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.stored.claims import list_beside_claims, read_claim
from tiersnap.remote_storage.stored.deletion_record import ExpireRecord, read_record
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.readiness.coverage import CopyFacts

REQUESTS_AT_ONCE = 8
COPY_GRACE_MS = 900_000
"""A broker writes a manifest right behind its log: a log that has had none for so long gets none."""
_FINISHED_WITHIN_MS = 10_000
"""Who has made a copy visible finishes its claim with the next request."""
_ALONE = "whole, but another attempt finished, and its copy is not: it stays until that is tiered again"
_OVERTAKEN = "whole, but another attempt holds its claim: it stays until that one has copied"


@dataclass(frozen=True, slots=True)
class FoundCopy:
    """A complete copy.

    Attributes:
        end_offset: exclusive.
        leader_epochs: (epoch, first offset in this segment), ascending.
        size: bytes of the log.
        stored: bytes of all its objects.
        max_timestamp: ms, as its manifest tells; -1 where it has none.
        written_at: ms, by the store's clock.
        keys: of its objects, what makes it visible first.
        claim: of ours that names the attempt; looked for only where several copies begin at one offset, where it was
            not changed right behind the copy, and of the newest copies up to one that is finished.
        is_encrypted: by the plugin.
        is_brokers: no claim of ours is there for its segment, or one that was read and does not name it; and its
            manifest names a broker, if it has one.
    """

    segment_id: str
    start_offset: int
    end_offset: int
    leader_epochs: LeaderEpochs
    size: int
    stored: int
    max_timestamp: int
    written_at: int
    keys: tuple[str, ...]
    claim: Claim | None
    is_encrypted: bool = False
    is_brokers: bool = False

    @property
    def facts(self) -> CopyFacts:
        """What the gate takes."""
        return CopyFacts(self.start_offset, self.end_offset, self.leader_epochs, is_complete=True)

    @property
    def bounds(self) -> tuple[int, int]:
        """First offset and the exclusive end."""
        return self.start_offset, self.end_offset

    @property
    def is_unfinished(self) -> bool:
        """Whether it is ours and its claim does not say that it counts: it does not, until somebody finishes it."""
        return self.claim is not None and self.claim.finished is None


@dataclass(frozen=True, slots=True)
class Leftover:
    """Objects of one attempt that are no complete copy.

    Attributes:
        written_at: ms, by the store's clock.
        keys: of its objects, what makes it visible first.
        problem: why it is no copy, or does not count as one.
        is_visible: what readers look for is there; so this is a copy that was damaged, or is being deleted.
        claim: of ours that names the attempt, None where none does.
    """

    segment_id: str
    start_offset: int
    written_at: int
    keys: tuple[str, ...]
    problem: str
    is_visible: bool
    claim: Claim | None

    @property
    def is_somebodys(self) -> bool:
        """Whether somebody else may be making a copy of these; what they are then depends on their age."""
        return self.claim is None and not self.is_visible


@dataclass(frozen=True, slots=True)
class RemoteInventory:
    """All that was looked at; copies and leftovers in ascending start offset.

    Attributes:
        problems: of claims that could not be read: their segments are nobody's until somebody looks.
        looked_at: ms, by the store's clock; 0 where its age makes no difference to anything that was found.
        expired_to: exclusive; copies below it `tiersnap expire` has deleted, or begun to delete; 0 where it never did.
        uncounted: whole copies of ours among the leftovers: another attempt has their claim, and no copy.
    """

    partition: TopicIdPartition
    copies: tuple[FoundCopy, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    problems: tuple[str, ...] = ()
    claimed: frozenset[ClaimedSegment] = field(default_factory=frozenset)
    looked_at: int = 0
    expired_to: int = 0
    uncounted: tuple[FoundCopy, ...] = ()

    @property
    def superseded(self) -> tuple[FoundCopy | Leftover, ...]:
        """What attempts of ours left that another attempt has finished without, whose copy is whole: it may go."""
        everything: tuple[FoundCopy | Leftover, ...] = (*self.copies, *self.leftovers)
        whole = {copy.segment_id for copy in self.copies}
        return tuple(each for each in everything if _finished_without(each) in whole)

    def in_flight(self, grace: int = COPY_GRACE_MS) -> frozenset[int]:
        """Start offsets of what somebody else is copying now: young objects that nobody reads and no claim names.

        Args:
            grace: ms, by the store's clock, which alone knows how old its objects are.
        """
        return frozenset(
            each.start_offset
            for each in self.leftovers
            if each.is_somebodys and self.looked_at - each.written_at <= grace
        )


def list_remote_partition(
    store: ObjectStore,
    keys: ObjectKeys,
    partition: TopicIdPartition,
    *,
    local: bool,
    local_start: int = 0,
    since: int | None = None,
) -> RemoteInventory:
    """What is there of a partition; nothing of a segment whose deletion `tiersnap expire` has begun.

    Args:
        local: LocalTieredStorage's files, or the objects of the Aiven plugin.
        local_start: base offset of the first local segment; copies that end there or below are not all looked into.
        since: ms; those that end there or below are, as far back as one may have a record as late as that.

    Raises:
        NewerFormatError, CorruptDataError: nobody can tell what `tiersnap expire` is deleting.
    """
    listed = store.list(keys.partition_segments(partition, local=local))
    grouped = group(keys, listed, local=local).get(partition, ())
    changed, beside = list_beside_claims(store, keys, partition)
    record = read_record(store, keys, partition) if KeyKind.EXPIRE in beside else ExpireRecord()
    going = {each.segment_id for each in record.deleting}
    attempts = [attempt for attempt in grouped if attempt.segment_id not in going]
    by_id = {attempt.segment_id: attempt for attempt in attempts}
    found, unusable = _read(store, partition, [each for each in attempts if not each.missing], local_start, since)
    # What lacks an object needs no request.
    lacking = (read_copy(store, partition, each) for each in attempts if each.missing)
    unusable += [each for each in lacking if isinstance(each, UnusableCopy)]
    claimed = frozenset(changed)
    starts = Counter(copy.start_offset for copy in found)
    several = {offset for offset, count in starts.items() if count > 1}
    doubtful = several | {each.start_offset for each in unusable}
    claims = _Claims(store, keys)
    for segment in claimed:
        if segment.base_offset in doubtful:
            claims.read(segment)
    segments = {_segment_of(partition, each): by_id[each.segment_id].modified for each in found}
    claims.read_unfinished(sorted(claimed & segments.keys(), key=_age, reverse=True))
    claims.read_all(
        segment
        for segment in claimed & segments.keys()
        if not 0 <= changed[segment] - segments[segment] <= _FINISHED_WITHIN_MS
    )
    copies = [_found_copy(partition, each, by_id[each.segment_id], claimed, claims) for each in found]
    whole = {copy.segment_id for copy in copies}
    absent = {over for each in copies if (over := _finished_without(each)) and over not in whole}
    absent -= complete_in_other_layout(store, keys, partition, absent, local=local)
    alone = {each.segment_id: _ALONE for each in copies if _finished_without(each) in absent}
    alone |= {each.segment_id: _OVERTAKEN for each in copies if _is_overtaken(each)}
    unusable += [
        UnusableCopy(each.segment_id, each.start_offset, alone[each.segment_id])
        for each in copies
        if each.segment_id in alone
    ]
    uncounted = [each for each in copies if each.segment_id in alone]
    copies = [each for each in copies if each.segment_id not in alone]
    leftovers = [_leftover(each, by_id[each.segment_id], claims.named) for each in unusable]
    return RemoteInventory(
        partition,
        tuple(sorted(copies, key=lambda copy: (copy.start_offset, copy.segment_id))),
        tuple(sorted(leftovers, key=lambda each: (each.start_offset, each.segment_id))),
        tuple(claims.problems.values()),
        claimed,
        store.now() if any(each.is_somebodys for each in leftovers) else 0,
        record.log_start_offset,
        tuple(uncounted),
    )


def _read(
    store: ObjectStore,
    partition: TopicIdPartition,
    attempts: Sequence[AttemptObjects],
    local_start: int,
    since: int | None,
) -> tuple[list[RemoteCopy], list[UnusableCopy]]:
    """Look into attempts that have all their objects, newest first, until they lie below the log."""
    copies: list[RemoteCopy] = []
    unusable: list[UnusableCopy] = []
    newest_first = attempts[::-1]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for start in range(0, len(newest_first), REQUESTS_AT_ONCE):
            wave = newest_first[start : start + REQUESTS_AT_ONCE]
            found = list(pool.map(lambda attempt: read_copy(store, partition, attempt), wave))
            unusable += [each for each in found if isinstance(each, UnusableCopy)]
            complete = [each for each in found if isinstance(each, RemoteCopy)]
            copies += complete
            # Copies lie end to end or overlap by a segment: where a whole wave lies below the log, the rest does, too.
            if complete and all(copy.end_offset <= local_start and _is_older(copy, since) for copy in complete):
                break
    return copies, unusable


def _is_older(copy: RemoteCopy, since: int | None) -> bool:
    """Whether no record of it is as late as `since` (ms); so it is where nobody asks."""
    return since is None or 0 <= copy.metadata.max_timestamp < since


@dataclass(frozen=True, slots=True)
class _Claims:
    """Claims that were read, each once: by the segment ids that they name, and what is wrong with others."""

    store: ObjectStore
    keys: ObjectKeys
    found: dict[ClaimedSegment, Claim | None] = field(default_factory=dict)
    named: dict[str, Claim] = field(default_factory=dict)
    problems: dict[ClaimedSegment, str] = field(default_factory=dict)

    def has_read(self, segment: ClaimedSegment) -> bool:
        """Whether the claim was read, and is one."""
        return self.found.get(segment) is not None

    def read(self, segment: ClaimedSegment) -> Claim | None:
        if segment not in self.found:
            try:
                claim = read_claim(self.store, self.keys, segment)
            except CorruptDataError as error:
                claim = None
                self.problems[segment] = error.message
            self.found[segment] = claim
            if claim is not None:
                self.named.update({attempt.segment_id: claim for attempt in claim.attempts})
        return self.found[segment]

    def read_all(self, segments: Iterable[ClaimedSegment]) -> None:
        """Read these claims, several at once."""
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            list(pool.map(self.read, segments))

    def read_unfinished(self, newest_first: Iterable[ClaimedSegment]) -> None:
        """Read claims up to one that is finished."""
        for segment in newest_first:
            claim = self.read(segment)
            if claim is not None and claim.finished is not None:
                return


def _segment_of(partition: TopicIdPartition, copy: RemoteCopy) -> ClaimedSegment:
    return ClaimedSegment(partition, copy.start_offset, copy.metadata.segment_leader_epochs[-1][0])


def _age(segment: ClaimedSegment) -> tuple[int, int]:
    """Segments in the order in which a log has them; of lineages that parted the newer one is the later."""
    return segment.leader_epoch, segment.base_offset


def _found_copy(
    partition: TopicIdPartition,
    copy: RemoteCopy,
    attempt: AttemptObjects,
    claimed: frozenset[ClaimedSegment],
    claims: _Claims,
) -> FoundCopy:
    metadata, segment, claim = copy.metadata, _segment_of(partition, copy), claims.named.get(attempt.segment_id)
    return FoundCopy(
        segment_id=copy.segment_id,
        start_offset=copy.start_offset,
        end_offset=copy.end_offset,
        leader_epochs=metadata.segment_leader_epochs,
        size=metadata.segment_size,
        stored=attempt.stored,
        max_timestamp=metadata.max_timestamp,
        written_at=attempt.modified,
        keys=attempt.keys,
        claim=claim,
        is_encrypted=copy.is_encrypted,
        is_brokers=claim is None
        and (segment not in claimed or claims.has_read(segment))
        and (metadata.broker_id >= 0 or attempt.is_local),
    )


def _finished_without(found: FoundCopy | Leftover) -> str | None:
    """The attempt that finished, by its claim, where `found` is of an earlier one."""
    claim = found.claim
    is_earlier = claim is not None and found.segment_id in {attempt.segment_id for attempt in claim.earlier}
    return claim.finished if claim is not None and is_earlier else None


def _is_overtaken(copy: FoundCopy) -> bool:
    """Whether an attempt that has finished nothing yet took over the claim of this copy, which goes when it copies."""
    return copy.claim is not None and copy.is_unfinished and copy.claim.holder.segment_id != copy.segment_id


def _leftover(unusable: UnusableCopy, attempt: AttemptObjects, claims: dict[str, Claim]) -> Leftover:
    return Leftover(
        segment_id=attempt.segment_id,
        start_offset=attempt.start_offset,
        written_at=attempt.modified,
        keys=attempt.keys,
        problem=unusable.problem,
        is_visible=attempt.is_visible,
        claim=claims.get(attempt.segment_id),
    )
