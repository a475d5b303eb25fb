"""Find segments that are already in remote storage.

If a copy attempt was killed after it sent all objects, this module finishes the claim, and the segment is not uploaded
again.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import ClaimedSnapshot, HeldClaim
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.upload.bundle import PlannedSegment, SegmentBundle
from tiersnap.remote_storage.upload.tier_job import TierJob
from tiersnap.remote_storage.verify.compare_whole import find_problems
from tiersnap.remote_storage.verify.local_log import LocalComparison
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.log.coverage import coverage_of
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import CopyEvent, RemoteSegmentState

_log = logging.getLogger(__name__)


def covered_of(planned: Iterable[PlannedSegment], inventory: RemoteInventory) -> frozenset[int]:
    """Return the base offsets of planned segments whose offsets are all in remote segments of the lineage."""
    copies = inventory.segments
    ends = list(accumulate((each.end_offset for each in copies), max))

    def beside(segment: PlannedSegment) -> Sequence[RemoteSegment]:
        begin_below = bisect_left(copies, segment.next_base_offset, key=lambda each: each.start_offset)
        return copies[bisect_right(ends, segment.base_offset) : begin_below]

    return frozenset(each.base_offset for each in planned if _is_held(each, beside(each)))


def is_covered(segment: PlannedSegment, inventory: RemoteInventory) -> bool:
    """Return whether all offsets of a segment are in remote segments of the lineage."""
    return bool(covered_of([segment], inventory))


def _is_held(segment: PlannedSegment, copies: Iterable[RemoteSegment]) -> bool:
    bounds = (segment.base_offset, segment.next_base_offset)
    # The claim of an unfinished attempt can be finished only for a local segment with the same bounds.
    facts = (each.facts for each in copies if not each.is_unfinished or each.bounds == bounds)
    coverage = coverage_of(facts, segment.leader_epochs, segment.next_base_offset)
    return coverage.covers(segment.base_offset, segment.next_base_offset)


def event_of_covered(job: TierJob, segment: PlannedSegment, inventory: RemoteInventory) -> CopyEvent | None:
    """Return the event of a covered segment. If its claim is unfinished, finish the claim first.

    Return None if the claim must not be finished: the attempt may still run, the remote snapshot differs from the
    trusted snapshot, or the remote log differs from the local log.
    """
    bounds = (segment.base_offset, segment.next_base_offset)
    same = {copy.segment_id: copy for copy in inventory.segments if copy.bounds == bounds}
    newest = next(reversed(same), None)
    claimed_segment = job.claimed_segment(segment)
    if newest is None or claimed_segment not in inventory.claimed:
        return job.event(segment, segment_id=newest)
    try:
        found = claim_protocol.read_claim_and_age(job.store, claimed_segment)
        if found is None or found[0].claim.holder.segment_id not in same:
            return job.event(segment, segment_id=newest)
        if found[0].claim.finished is None and not _finish(job, segment, *found):
            return None
    except TiersnapError as error:
        return job.event(segment, error=error)
    holder = found[0].claim.holder
    event = job.event(segment, segment_id=holder.segment_id, state=RemoteSegmentState.COPY_SEGMENT_FINISHED)
    # A repeated Spark task counts the bytes of its first try, because the rows of that try were lost.
    if holder.run_id != job.tierer.run_id:
        return event
    return replace(event, object_bytes=same[holder.segment_id].objects.stored)


def _finish(job: TierJob, segment: PlannedSegment, held: HeldClaim, age: int) -> bool:
    """Finish the claim of an ended attempt, and return whether it was finished.

    The claim is finished only if the remote snapshot equals the trusted snapshot, and the remote log equals the local
    log.
    """
    if claim_protocol.may_take_over(held.claim, job.new_attempt(), age, claim_protocol.STALE_AFTER_MS) is None:
        return False
    ready = segment.bundle(job.store)
    metadata = job.metadata(ready, held.claim.holder)
    stored = job.location.layout.fetch_index(job.store, metadata, IndexType.PRODUCER_SNAPSHOT)
    if stored != ready.producer_snapshot.data:
        _log.info("uploaded again: %s has another snapshot than the trusted one", metadata.id)
        return False
    segment_id = held.claim.holder.segment_id

    digests = {}
    if segment.header_digest:
        digests[segment_id] = segment.header_digest
    expiry = BrokerExpiry(job.tierer.now, DEFAULT_PRODUCER_EXPIRATION_MS)
    if find_problems(job.location, job.partition, {segment_id}, lambda *_: LocalComparison(digests=digests), expiry):
        return False
    claim_protocol.finish(job.store, held, claimed_snapshot(ready))
    _log.info("finished the claim of an ended attempt: %s", metadata.id)
    return True


def claimed_snapshot(ready: SegmentBundle) -> ClaimedSnapshot:
    """Return the snapshot of a bundle in the form that a finished claim contains."""
    snapshot = ready.producer_snapshot
    return ClaimedSnapshot.of(
        crc32c(snapshot.data), str(snapshot.provenance), str(snapshot.comparison or snapshot.verdict or "")
    )
