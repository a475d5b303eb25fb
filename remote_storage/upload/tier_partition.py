"""One partition's READY segments into remote storage: what the host's command and each task of a fleet do.

Segment by segment, ascending; after a failure the rest waits, so that there is never a hole. Each attempt has a segment
id of its own and goes as remote_storage.claims says: claim, delete what earlier attempts left, copy and prove, look at
the claim again, make visible, finish the claim. Whoever is killed anywhere leaves its id in the claim, and the next
attempt deletes what it left; nothing but what a claim names is ever deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage import claims
from tiersnap.remote_storage.claims import Attempt, Claim, ClaimedSegment, ClaimedSnapshot, Process, this_process
from tiersnap.remote_storage.cluster_record import put_cluster_id
from tiersnap.remote_storage.errors import (
    ClaimedError,
    ClaimLostError,
    CopyInFlightError,
    ExpiredError,
    ObjectChangedError,
)
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.layouts.layout import IndexType, Layout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    new_segment_id,
)
from tiersnap.remote_storage.presence.other_layout import check_layout
from tiersnap.remote_storage.presence.partition import COPY_GRACE_MS, Presence, look
from tiersnap.remote_storage.stores.deadline import DEFAULT_UPLOAD_SECONDS
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.remote_storage.upload.bundle import epochs_in_range
from tiersnap.remote_storage.upload.ready_segment import PlannedSegment, ReadySegment
from tiersnap.remote_storage.upload.tier_rows import Row, row_of, started
from tiersnap.remote_storage.upload.uploader import copy_segment, delete_copy
from tiersnap.snapshot.errors import IncompleteBundleError, TiersnapError, TransientError
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.coverage import coverage_of

_log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
# An attempt that loses its claim waits for the copy of the one that took it, for so many times as long as its own took;
# that one may have died, so then it claims the segment again, once.
_PATIENCE = 3


@dataclass(frozen=True, slots=True)
class Tierer:
    """Who tiers: the same for all attempts of one task, also of a repeated or speculative one.

    Attributes:
        run_id, warehouse, process: see claims.Attempt.
        now: ms, the run's time; nothing here reads the host's clock.
        broker_id: for the metadata.
        timeout: seconds for one segment, None for no limit.
        wait: seconds, at least, for another attempt's copy to appear before this one tries again or gives up.
        copy_grace: ms, by the store's clock, for which an unfinished copy of somebody else counts as under way.
        pause: waits so many seconds.
    """

    run_id: str
    now: int
    warehouse: str | None = None
    process: Process = field(default_factory=this_process)
    broker_id: int = -1
    timeout: float | None = DEFAULT_UPLOAD_SECONDS
    wait: float = 30.0
    copy_grace: int = COPY_GRACE_MS
    pause: Callable[[float], None] = time.sleep


def tier_partition(
    store: ObjectStore,
    layout: Layout,
    keys: ObjectKeys,
    partition: TopicIdPartition,
    segments: Iterable[PlannedSegment],
    tierer: Tierer,
    *,
    cluster_id: str | None = None,
) -> Iterator[Row]:
    """Copy the READY segments of a partition, given in ascending order; rows of tier_rows.TIERED as things happen.

    A copy of the lineage that is there already gives a row without a state, or with COPY_SEGMENT_FINISHED where it is
    that of an attempt which was killed before it could say so. Errors are rows, and the last ones.

    Args:
        keys: those of `layout`; claims lie below the same prefix.
        cluster_id: whose log it is, said beside the partition before its first object; None where nobody knows.
    """
    planned = tuple(segments)
    if not planned:
        return
    job = _Job(store, layout, keys, partition, tierer)
    try:
        if cluster_id is not None:
            put_cluster_id(store, keys, partition, cluster_id)
        presence = job.look(planned[0].base_offset)
        job.check_in_flight(presence)
        job.delete_superseded(presence)
    except TiersnapError as error:
        _log.debug("not begun with %s: %s", partition, error.message)
        yield job.row(planned[0], error=error)
        return
    for segment in planned:
        for row in job.tier(segment, presence):
            yield row
            if row["error"] is not None:
                return


@dataclass(frozen=True, slots=True)
class _Lost:
    """Another attempt has the claim; `seconds` is how long this one had copied, 0 where it never had the claim."""

    error: TiersnapError
    seconds: float


@dataclass(frozen=True, slots=True)
class _Job:
    store: ObjectStore
    layout: Layout
    keys: ObjectKeys
    partition: TopicIdPartition
    tierer: Tierer

    @property
    def is_local(self) -> bool:
        return isinstance(self.layout, LocalTieredStorageLayout)

    def look(self, local_start: int) -> Presence:
        return look(self.store, self.keys, self.partition, local=self.is_local, local_start=local_start)

    def check_in_flight(self, presence: Presence) -> None:
        in_flight = presence.in_flight(self.tierer.copy_grace)
        if in_flight:
            raise CopyInFlightError(
                f"somebody else is copying the segment at {min(in_flight)}, or stopped a moment ago",
                hint="stop the broker's copier (remote.log.copy.disable=true) or leave the topic to it",
            )

    def delete_superseded(self, presence: Presence) -> None:
        for left in presence.superseded:
            self._check_deleted(self.store.delete([key]) for key in left.keys)
            _log.info("deleted what an earlier attempt left of %s: %d objects", self.partition, len(left.keys))

    def tier(self, segment: PlannedSegment, presence: Presence) -> Iterator[Row]:
        """Rows of one segment."""
        try:
            row = self._there(segment, presence) if self._is_covered(segment, presence) else None
            if row is not None:
                yield row
                return
            self._check_not_expired(segment, presence)
            ready = segment.ready(self.store)
        except TiersnapError as error:
            yield self.row(segment, error=error)
            return
        lost = yield from self._attempt(segment, ready)
        if lost is None:
            return
        row = self._wait_for_other(segment, lost)
        if row is None:
            again = yield from self._attempt(segment, ready)
            if again is None:
                return
            # Whoever still holds the claim was waited for before.
            row = self._wait_for_other(segment, again) if again.seconds else None
        yield row or self.row(segment, error=lost.error)

    def row(
        self,
        segment: PlannedSegment,
        *,
        segment_id: str | None = None,
        state: SegmentState | None = None,
        error: TiersnapError | None = None,
    ) -> Row:
        now = self.tierer.now
        return row_of(self.partition, segment, now=now, segment_id=segment_id, state=state, error=error)

    def _attempt(self, segment: PlannedSegment, ready: ReadySegment) -> Generator[Row, None, _Lost | None]:
        """Claim and copy; returns to whom it was lost, None where that is settled."""
        began = time.monotonic()
        try:
            claimed = self._claim(segment)
            if claimed is None:
                yield self._there(segment, self.look(segment.base_offset)) or self.row(segment)
                return None
        except ClaimedError as error:
            return _Lost(error, 0.0)
        except TiersnapError as error:
            yield self.row(segment, error=error)
            return None
        taken = yield from self._copy(segment, ready, claimed)
        return None if taken is None else _Lost(taken, time.monotonic() - began)

    def _copy(
        self, segment: PlannedSegment, ready: ReadySegment, claimed: Claim
    ) -> Generator[Row, None, TiersnapError | None]:
        """Copy for the holder of `claimed`; returns how it lost the claim, None if it did not."""
        metadata = self._metadata(ready, claimed.holder)
        segment_id = metadata.id.segment_id
        yield started(metadata, segment)
        try:
            self._delete_earlier(metadata, claimed)
            copied = copy_segment(
                self.store,
                self.layout,
                ready,
                metadata,
                timeout=self.tierer.timeout,
                before_visible=lambda: self._check_ours(claimed),
            )
        except TiersnapError as error:
            left = bool(error.attrs.get("left_behind"))
            if self._is_lost(claimed, error):
                yield from self._undone(segment, segment_id, None, left=left)
                return error
            if not left:
                with suppress(TiersnapError):
                    claims.release(self.store, self.keys, claimed)
            yield from self._undone(segment, segment_id, error, left=left)
            return None
        try:
            claims.finish(self.store, self.keys, claimed, _snapshot_of(ready))
        except ObjectChangedError as error:
            left = bool(delete_copy(self.store, self.layout, metadata))
            yield from self._undone(segment, segment_id, None, left=left)
            return error
        except TiersnapError as error:  # whether it is finished nobody knows; the copy is, and the next run looks
            yield self.row(segment, segment_id=segment_id, error=error)
            return None
        state = SegmentState.COPY_SEGMENT_FINISHED
        done = self.row(segment, segment_id=segment_id, state=state)
        yield {**done, "bytes": copied.bytes, "rebuilt_indexes": copied.rebuilt_indexes}
        return None

    def _undone(
        self, segment: PlannedSegment, segment_id: str, error: TiersnapError | None, *, left: bool
    ) -> Iterator[Row]:
        """The states of an attempt whose objects were deleted; if something is `left`, the claim names it."""
        steps = [SegmentState.DELETE_SEGMENT_STARTED] + ([] if left else [SegmentState.DELETE_SEGMENT_FINISHED])
        for state in steps:
            yield self.row(segment, segment_id=segment_id, state=state, error=error if state is steps[-1] else None)

    def _claim(self, segment: PlannedSegment) -> Claim | None:
        """The segment claimed for a new attempt, None if another has finished it and its copy is there."""
        attempt = self._attempt_of_ours()
        claimed = claims.claim(self.store, self.keys, self._claimed_segment(segment), attempt)
        if claimed.finished is None:
            return claimed
        presence = self.look(segment.base_offset)
        if self._is_covered(segment, presence):
            return None
        # Whatever was tiered and expired since the first look is claimed still: expire leaves young claims.
        self._check_not_expired(segment, presence)
        is_whole = claimed.finished in {copy.segment_id for copy in presence.copies}
        if not is_whole:
            check_layout(self.store, self.keys, claimed, self.layout.name, local=self.is_local)
        return claims.reopen(self.store, self.keys, claimed, attempt, is_whole=is_whole)

    def _is_covered(self, segment: PlannedSegment, presence: Presence) -> bool:
        bounds = (segment.base_offset, segment.next_base_offset)
        # What nobody finished can be finished only by who has the same segment.
        counts = (each for each in presence.copies if not each.is_unfinished or each.bounds == bounds)
        facts = (copy.facts for copy in counts)
        coverage = coverage_of(facts, segment.leader_epochs, segment.next_base_offset)
        return coverage.covers(segment.base_offset, segment.next_base_offset)

    def _there(self, segment: PlannedSegment, presence: Presence) -> Row | None:
        """The row of a segment that is covered; a copy of ours that was not said to be finished is finished now.

        None where that may not be: its attempt may be at work, or it has another snapshot than is right now.
        """
        bounds = (segment.base_offset, segment.next_base_offset)
        same = [copy for copy in presence.copies if copy.bounds == bounds]
        claimed_segment = self._claimed_segment(segment)
        if not same or claimed_segment not in presence.claimed:
            return self.row(segment, segment_id=same[-1].segment_id if same else None)
        try:
            found = claims.read_claim_and_age(self.store, self.keys, claimed_segment)
            holder = None if found is None else found[0].holder.segment_id
            if found is None or holder not in {copy.segment_id for copy in same}:
                return self.row(segment, segment_id=same[-1].segment_id)
            if found[0].finished is None and not self._finish(segment, *found):
                return None
        except TiersnapError as error:
            return self.row(segment, error=error)
        return self.row(segment, segment_id=holder, state=SegmentState.COPY_SEGMENT_FINISHED)

    def _finish(self, segment: PlannedSegment, held: Claim, age: int) -> bool:
        """Finish the copy of an attempt that is over, if it has the snapshot that would go up now."""
        if claims.may_take_over(held, self._attempt_of_ours(), age, claims.STALE_AFTER_MS) is None:
            return False
        ready = segment.ready(self.store)
        metadata = self._metadata(ready, held.holder)
        stored = self.layout.fetch_index(self.store, metadata, IndexType.PRODUCER_SNAPSHOT)
        if stored != ready.producer_snapshot.data:
            _log.info("copied again: %s has another snapshot than is right now", metadata.id)
            return False
        claims.finish(self.store, self.keys, held, _snapshot_of(ready))
        _log.info("finished the copy of an attempt that is over: %s", metadata.id)
        return True

    def _attempt_of_ours(self) -> Attempt:
        return Attempt(new_segment_id(), self.tierer.run_id, self.tierer.warehouse, self.tierer.process)

    def _wait_for_other(self, segment: PlannedSegment, lost: _Lost) -> Row | None:
        """The row of the copy that another attempt makes, None if it does not come in time or that one gave up."""
        left = max(self.tierer.wait, _PATIENCE * lost.seconds)
        try:
            while True:
                found = claims.read_claim(self.store, self.keys, self._claimed_segment(segment))
                if found is not None and found.finished is not None:
                    presence = self.look(segment.base_offset)
                    if self._is_covered(segment, presence):
                        return self._there(segment, presence)
                if left <= 0 or found is None or found.holder.ended:
                    return None
                self.tierer.pause(min(left, _POLL_SECONDS))
                left -= _POLL_SECONDS
        except TiersnapError as trouble:
            return self.row(segment, error=trouble)

    def _is_lost(self, claimed: Claim, error: TiersnapError) -> bool:
        """Whether `error` came of another attempt, which deletes what it finds of those whose claim it took."""
        if isinstance(error, ClaimLostError):
            return True
        try:
            return not claims.is_still_ours(self.store, self.keys, claimed)
        except TiersnapError:
            return False

    def _check_ours(self, claimed: Claim) -> None:
        if not claims.is_still_ours(self.store, self.keys, claimed):
            raise ClaimLostError(
                f"{claimed.segment}: another attempt took over the claim of {claimed.holder.segment_id}",
                hint="run the same command again: it finds the other attempt's copy",
            )

    def _check_not_expired(self, segment: PlannedSegment, presence: Presence) -> None:
        if segment.next_base_offset <= presence.expired_to:
            raise ExpiredError(
                f"tiersnap expire deleted what lies below {presence.expired_to} in remote storage since it was planned",
                hint="run the same command again: it sees what is there now",
            )

    def _delete_earlier(self, metadata: RemoteLogSegmentMetadata, claimed: Claim) -> None:
        """Delete what attempts left that are over; the claim names them, so it is ours beyond doubt."""
        for earlier in claimed.earlier:
            of_it = replace(metadata, id=replace(metadata.id, segment_id=earlier.segment_id))
            stem = self.layout.log_key(of_it).removesuffix(".log")
            for upload in self.store.unfinished_uploads(stem):
                if earlier.segment_id in upload.key:
                    self.store.abort_upload(upload)
            if earlier.ended:
                continue  # it said that it deleted its objects
            self._check_deleted([delete_copy(self.store, self.layout, of_it)])

    def _check_deleted(self, results: Iterable[tuple[DeleteFailure, ...]]) -> None:
        failures = [failure for result in results for failure in result]
        if failures:
            raise TransientError(
                f"what an earlier attempt left could not be deleted: {failures[0].key}: {failures[0].reason}",
                hint="allow s3:DeleteObject below the prefix, then run the same command again",
            )

    def _claimed_segment(self, segment: PlannedSegment) -> ClaimedSegment:
        epochs = epochs_in_range(segment.leader_epochs, segment.base_offset, segment.next_base_offset)
        if not epochs:
            raise IncompleteBundleError(f"segment {segment.base_offset}: no leader epoch began below its end")
        return ClaimedSegment(self.partition, segment.base_offset, epochs[-1][0])

    def _metadata(self, ready: ReadySegment, attempt: Attempt) -> RemoteLogSegmentMetadata:
        partition = self.partition
        segment_id = RemoteLogSegmentId(
            partition.topic, partition.topic_id or "", partition.partition, attempt.segment_id
        )
        return ready.metadata(segment_id, broker_id=self.tierer.broker_id, event_timestamp=self.tierer.now)


def _snapshot_of(ready: ReadySegment) -> ClaimedSnapshot:
    snapshot = ready.producer_snapshot
    return ClaimedSnapshot(
        crc32c(snapshot.data), str(snapshot.provenance), str(snapshot.comparison or snapshot.verdict or "")
    )
