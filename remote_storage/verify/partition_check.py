"""Verify the remote segments of one partition, in ascending offset.

The depths of a check:

    metadata   Every object exists with the size in its manifest. The segments of the newest lineage have no gap.
    snapshots  The indexes have valid sizes and ascending entries. Each snapshot is compared with the first source that
               exists: the local log, a snapshot that a run compared or computed, a claim that marks the snapshot
               as trusted, the replay of the snapshot's own segment. A segment is replayed only if one of its
               producers may be active. Each active producer of an earlier snapshot must be in the snapshot, or a
               later batch must explain why the producer is missing.
    full       The CRC-32C and leader epoch of every batch are right, and the indexes agree with the batches. Each
               snapshot is compared with the first source that exists: the local log, a snapshot that a run compared or
               computed, the replay of the remote log.

A segment is skipped if its earlier check is still valid. If the next segment is verified, the snapshot of the skipped
segment gives the producer state between the two segments. Retention may delete segments during the check. So a missing
segment is not reported if all older segments are missing, too. remote_log/remote_state.py has the rules for snapshots.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claim_naming, claimed_segments
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.log_head import LogHead, LogStartOf, Uploads, gaps_between
from tiersnap.remote_storage.remote_log.remote_inventory import COPY_GRACE_MS
from tiersnap.remote_storage.remote_log.remote_segment import (
    IncompleteSegment,
    RemoteSegment,
    newest,
    read_lineage,
    read_segment,
)
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, by_id, ids_of, list_segments
from tiersnap.remote_storage.stores.requests import in_waves
from tiersnap.remote_storage.verify.local_log import CompareLocally, LocalComparison
from tiersnap.remote_storage.verify.whole_segment import ReasonedVerdict, WholeSegmentCheck
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.lost_ranges import in_no_segment
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest, RemoteCheck, RemoteVerdict
from tiersnap.snapshot.log.leader_epochs import Interval, joined


def sample_order(segment_id: str, now: int) -> int:
    """Return the sort key of a segment in a random sample; `now` (ms) is the seed."""
    return crc32c(f"{segment_id} {now}".encode())


@dataclass
class PartitionCheck:
    """The check of one partition.

    Attributes:
        known: earlier checks, by segment id; checks of another remote location are dropped.
        compare_locally: compares segments with the local log; None without a local log.
        compared: CRC-32C of snapshots that a run compared with the log or computed, by snapshot offset.
        skipped: number of segments with a valid earlier check or outside the sample; set by `checks`.
        digests: digests of the undamaged logs that `checks` read, by segment id.
        names_replaced: whether to report a segment that lost objects even if a finished segment replaced it. Brokers
            may still read the segment that lost objects.
        log_start_of: returns the log start, to judge offsets below the first segment. If None, they are not judged.
        local_from: base offset of the first local file; None without a local log.
    """

    location: RemoteLocation
    partition: TopicIdPartition
    asked: CheckRequest
    known: Mapping[str, RemoteCheck] = field(default_factory=dict)
    compare_locally: CompareLocally | None = None
    compared: Mapping[int, int] = field(default_factory=dict)
    skipped: int = 0
    digests: dict[str, str] = field(default_factory=dict)
    log_start_of: LogStartOf | None = None
    local_from: int | None = None
    names_replaced: bool = False
    _listed: tuple[SegmentObjects, ...] = ()
    _claimed: frozenset[ClaimedSegment] = frozenset()
    _lineage: LeaderEpochs = ()

    def __post_init__(self) -> None:
        self.known = {key: each for key, each in self.known.items() if each.remote == self.location.store.uri}

    def checks(self) -> Iterator[RemoteCheck]:
        """Yield one check per segment in ascending base offset, then checks of missing offsets.

        Raises:
            TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
        """
        return (each for each in self._checks() if each.verdict.is_sound or not self._has_retired(each))

    def _has_retired(self, found: RemoteCheck) -> bool:
        return bool(found.segment_id) and self._begins_behind(found.base_offset)

    def _begins_behind(self, offset: int) -> bool:
        """List the partition, and return whether all segments begin above `offset`, or no segment exists."""
        listed = self.location.store.list(keys.partition_segments(self.partition, local=self.location.is_local))
        for info in listed:
            key = keys.recognise(info.key)
            if key is not None and key.offset is not None:
                return key.offset > offset
        return True

    def _checks(self) -> Iterator[RemoteCheck]:
        self._claimed = frozenset(claimed_segments(self.location.store, self.partition))
        self._listed = list_segments(self.location, self.partition)
        due = [each for each in self._listed if self._is_due(each)]
        self.skipped = len(self._listed) - len(due)
        waves = in_waves(partial(read_segment, self.location.store), self._to_read(due))
        read = by_id(chain.from_iterable(waves))
        complete = [each for each in read.values() if isinstance(each, RemoteSegment)]
        problems = self._find_lineage(complete)
        covered = self._covered(read)
        incomplete = [each for each in read.values() if isinstance(each, IncompleteSegment)]
        yield from self._incomplete(incomplete, covered)
        yield from self._complete(ids_of(due), complete, problems)
        yield from self._holes(covered, incomplete)
        yield from self._head(covered, incomplete)
        yield from self._gone()

    def _covered(self, read: Mapping[str, RemoteSegment | IncompleteSegment]) -> list[Interval]:
        """Return the offset intervals of the log that the listed segments contain.

        Args:
            read: the listed segments that were read, by segment id.
        """
        following = dict(pairwise(sorted({each.start_offset for each in self._listed})))
        covered: list[Interval] = []
        for each in self._listed:
            end = following.get(each.start_offset, each.start_offset + 1)
            covered += self._held(each, read.get(each.segment_id), end)
        return joined(covered)

    @property
    def _listed_from(self) -> int:
        if not self._listed:
            return 0
        return self._listed[0].start_offset

    def _gone(self) -> Iterator[RemoteCheck]:
        """Yield a GONE check for each wrong segment that retention or `tiersnap mend` deleted since its last check."""
        there = ids_of(self._listed)
        for each in self.known.values():
            if not each.verdict.is_sound and each.segment_id not in there:
                told = ReasonedVerdict(
                    RemoteVerdict.GONE, f"the last verdict was {each.verdict}; since then the segment was deleted"
                )
                at = each.segment_id, each.base_offset, each.next_base_offset, 0, each.written_at
                yield self._made(*at, told, each.leader_epoch, is_of_log=each.is_of_log)

    def _is_due(self, attempt: SegmentObjects) -> bool:
        if attempt.missing:
            return True
        known = self.known.get(attempt.segment_id)
        if known is not None and known.still_holds(self.asked, attempt.modified, attempt.stored):
            return False
        sampled = self.asked.sampled
        return sampled is None or sample_order(attempt.segment_id, self.asked.now) <= sampled

    def _to_read(self, due: list[SegmentObjects]) -> list[SegmentObjects]:
        """Return the segments to verify (`due`), and the segments that may be newest and so determine the lineage."""
        wanted = ids_of(due).union(self._may_be_newest())
        return [each for each in self._listed if each.segment_id in wanted]

    def _may_be_newest(self) -> Iterator[str]:
        whole = [each.segment_id for each in self._listed if not each.missing]
        if whole:
            yield whole[-1]
        known = list(filter(None, map(self.known.get, whole)))
        if known:
            yield max(known, key=lambda each: (each.leader_epoch, each.base_offset)).segment_id

    def _find_lineage(self, complete: Sequence[RemoteSegment]) -> dict[str, str]:
        """Set the lineage from the newest readable leader epochs. Return errors of damaged epochs, by segment id."""
        problems: dict[str, str] = {}
        while left := [each for each in complete if each.segment_id not in problems]:
            copy = newest(left)
            try:
                self._lineage = read_lineage(self.location.store, copy)
                break
            except (CorruptDataError, ObjectNotFoundError) as error:
                problems[copy.segment_id] = error.message
        return problems

    def _held(
        self, attempt: SegmentObjects, found: RemoteSegment | IncompleteSegment | None, following: int
    ) -> list[Interval]:
        """Return the offset intervals of the log that a listed segment contains.

        Args:
            following: the start offset of the next segment. If no check ever read `attempt`, its end is unknown, and
                `following` is taken instead.
        """
        if isinstance(found, IncompleteSegment):
            return []
        if found is not None:
            return found.facts.held(self._lineage_of(found))
        known = self.known.get(attempt.segment_id)
        if known is not None and known.next_base_offset is not None:
            return [(known.base_offset, known.next_base_offset)]
        return [(attempt.start_offset, following)]

    def _lineage_of(self, copy: RemoteSegment) -> LeaderEpochs:
        """Return the lineage of the partition. If it could not be read, return the leader epochs of the segment."""
        return self._lineage or copy.leader_epochs

    def _incomplete(self, found: Iterable[IncompleteSegment], covered: Sequence[Interval]) -> Iterator[RemoteCheck]:
        if not found:
            return
        begin = end = 0
        if covered:
            begin, end = covered[0][0], covered[-1][1]
        now = self.location.store.now()
        for each in found:
            is_last = each.start_offset >= end
            is_covered = any(start <= each.start_offset < stop for start, stop in covered)
            is_young = is_last and now - each.written_at <= COPY_GRACE_MS
            if each.objects is None or self._is_left_out(each, is_covered=is_covered, is_young=is_young):
                continue
            is_outside = is_last or each.start_offset < begin
            yield self._row(
                each.objects, ReasonedVerdict(_of_incomplete(each, each.objects, is_outside=is_outside), each.problem)
            )

    def _is_left_out(self, left: IncompleteSegment, *, is_covered: bool, is_young: bool) -> bool:
        """Return whether to omit an incomplete segment, because it is a leftover, a running upload or replaced."""
        if not is_covered:
            return is_young and not left.is_visible
        if not left.is_visible:
            return True
        return not self.names_replaced and self._is_replaced(left)

    def _is_replaced(self, left: IncompleteSegment) -> bool:
        """Return whether the segment's claim was finished by another attempt with a complete segment."""
        claim = claim_naming(self.location.store, self._claimed, left.start_offset, left.segment_id)
        if claim is None or claim.finished == left.segment_id:
            return False
        return any(each.segment_id == claim.finished and not each.missing for each in self._listed)

    def _holes(self, covered: Sequence[Interval], incomplete: Sequence[IncompleteSegment]) -> Iterator[RemoteCheck]:
        told = {each.start_offset for each in incomplete}
        for start, end in gaps_between(covered, self.local_from):
            within = (offset for offset in told if start <= offset < end)
            # The end of an incomplete segment is unknown, so the reported gap ends at its start.
            hole_end = min(within, default=end)
            if hole_end > start:
                yield self._hole(start, hole_end)

    def _head(self, covered: Sequence[Interval], incomplete: Sequence[IncompleteSegment]) -> Iterator[RemoteCheck]:
        """Yield the check of missing offsets below the first segment. They are lost, or retention deleted them."""
        if self.log_start_of is None:
            return
        first = self._first_offset(covered, incomplete)
        if first == 0:
            return
        start = self.log_start_of(self.partition, covered)
        head = LogHead(Uploads(self.location.store, self._claimed), first, self.local_from).judge(start)
        if head is not None:
            told = ReasonedVerdict(head.verdict, head.reason)
            yield self._made("", head.start, head.end, 0, 0, told, -1, is_of_log=True)

    def _first_offset(self, covered: Sequence[Interval], incomplete: Sequence[IncompleteSegment]) -> int | None:
        """Return the lowest offset in complete segments and in visible incomplete segments; None if there are none."""
        first = None
        if covered:
            first = covered[0][0]
        damaged = min((each.start_offset for each in incomplete if each.is_visible), default=None)
        if damaged is None:
            return first
        if first is not None and first <= damaged:
            return first
        if self._begins_behind(damaged):
            return first
        return damaged

    def _hole(self, start: int, end: int) -> RemoteCheck:
        told = ReasonedVerdict(RemoteVerdict.MISSING, in_no_segment(f"{start} to {end - 1}"))
        return self._made("", start, end, 0, 0, told, -1, is_of_log=True)

    def _complete(
        self, wanted: Collection[str], complete: Sequence[RemoteSegment], problems: Mapping[str, str]
    ) -> Iterator[RemoteCheck]:
        """Verify the complete segments among `wanted`. The other segments only provide the producer state."""
        copies = by_id(complete)
        local = self._compare_locally(complete, wanted)
        check = WholeSegmentCheck(
            self.location.store, self.asked, self._claimed, self.compared, local, self._is_of_log, self.digests
        )
        ordered = [(each, copies.get(each.segment_id)) for each in self._listed if not each.missing]
        for wave in in_waves(lambda pair: (*pair, check.prefetched(pair[1], wanted)), ordered):
            for attempt, copy, data in wave:
                if attempt.segment_id not in wanted:
                    check.skip(attempt)
                    continue
                if copy is None:
                    continue
                if copy.segment_id in problems:
                    check.forget()
                    told = ReasonedVerdict(RemoteVerdict.CORRUPT, problems[copy.segment_id])
                else:
                    told = check.judge(copy, data)
                yield self._of_copy(copy, told)

    def _compare_locally(self, copies: Iterable[RemoteSegment], wanted: Collection[str]) -> LocalComparison:
        """Compare the unencrypted segments among `wanted` with the local log, if the depth includes snapshots."""
        if self.compare_locally is None or self.asked.depth is CheckDepth.METADATA:
            return LocalComparison()
        own = filter(self._is_of_log, copies)
        readable = [each for each in own if each.segment_id in wanted and not each.is_encrypted]
        return self.compare_locally(self.location.store, readable)

    def _is_of_log(self, copy: RemoteSegment) -> bool:
        return copy.facts.is_of(self._lineage_of(copy))

    def _of_copy(self, copy: RemoteSegment, told: ReasonedVerdict) -> RemoteCheck:
        epoch, is_of_log = copy.leader_epochs[-1][0], self._is_of_log(copy)
        if not is_of_log and told.verdict is RemoteVerdict.NOT_COMPARED:
            told = ReasonedVerdict(told.verdict, "the newest segment does not have the leader epochs of this segment")
        size, at = copy.objects.stored, copy.written_at
        return self._made(copy.segment_id, *copy.bounds, size, at, told, epoch, is_of_log=is_of_log)

    def _row(self, objects: SegmentObjects, told: ReasonedVerdict) -> RemoteCheck:
        at = objects.segment_id, objects.start_offset, None, objects.stored, objects.modified
        return self._made(*at, told, -1, is_of_log=False)

    def _made(
        self,
        segment_id: str,
        start: int,
        end: int | None,
        size: int,
        at: int,
        told: ReasonedVerdict,
        epoch: int,
        *,
        is_of_log: bool,
    ) -> RemoteCheck:
        of, asked = self.partition, self.asked
        return RemoteCheck(
            of.topic, of.topic_id or "", of.partition, segment_id, start, end, epoch, is_of_log,
            len(self._listed), self._listed_from, size, at,
            asked.depth, told.verdict, told.compared_with, told.reason, asked.now,
            asked.producer_expiration, self.location.store.uri,
        )  # fmt: skip


def _of_incomplete(left: IncompleteSegment, objects: SegmentObjects, *, is_outside: bool) -> RemoteVerdict:
    """Return the verdict of an incomplete segment.

    `is_outside` is whether the segment begins below or above all complete segments.
    """
    if not left.is_visible and is_outside:
        return RemoteVerdict.SUSPECT
    return RemoteVerdict.MISSING if objects.missing else RemoteVerdict.CORRUPT
