"""The partition, the remote location and the process that all steps of an upload need."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    new_segment_id,
)
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.remote_inventory import COPY_GRACE_MS, RemoteInventory, list_remote_partition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import DEFAULT_UPLOAD_SECONDS
from tiersnap.remote_storage.upload.bundle import PlannedSegment, SegmentBundle
from tiersnap.snapshot.errors import IncompleteBundleError, RecordedError, TiersnapError
from tiersnap.snapshot.replay.remote_listing import CopyEvent, RemoteSegmentState


@dataclass(frozen=True, slots=True)
class Tierer:
    """The process that uploads. All attempts of a Spark task have the same Tierer, even if Spark repeats the task.

    Attributes:
        run_id: see locks.claim.Attempt.
        now: time of the run in ms; the clock is not read again.
        warehouse: see locks.claim.Attempt.
        process: see locks.claim.Attempt.
        broker_id: broker id in the metadata.
        timeout: seconds for one segment; None for no limit.
        wait: minimum seconds to wait for another attempt's segment, before this attempt tries again or gives up.
        copy_grace: ms by the store's clock. A broker's incomplete segment of at most this age counts as being copied.
        pause: sleeps for a number of seconds.
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


@dataclass(frozen=True, slots=True)
class TierJob:
    """One partition to tier.

    Attributes:
        known: manifests that were read earlier; None if none were read.
        replaced: ids of remote segments to treat as not uploaded, because they are wrong or `mend` does not publish
            them. No attempt deletes these remote segments.
        of_brokers: ids of the brokers' segments to use; None to use all.
    """

    location: RemoteLocation
    partition: TopicIdPartition
    tierer: Tierer
    known: KnownManifests | None = None
    replaced: frozenset[str] = frozenset()
    of_brokers: frozenset[str] | None = None

    @property
    def store(self) -> ObjectStore:
        """Return the store of the location."""
        return self.location.store

    def list_remote_partition(self, local_start: int) -> RemoteInventory:
        """List the remote segments; `local_start` is the base offset of the first local segment."""
        return list_remote_partition(
            self.location, self.partition, local_start=local_start, known=self.known, of_brokers=self.of_brokers
        )

    def counted(self, found: RemoteInventory) -> RemoteInventory:
        """Return the inventory with only the segments that count for this job.

        If this job replaces wrong segments, tiersnap's segments count only with a finished claim, because an unfinished
        attempt may not have checked its objects.
        """
        found = found.counted(self.replaced, self.of_brokers)
        if not self.replaced:
            return found
        finished = (each for each in found.segments if each.claim is None or each.claim.was_finished(each.segment_id))
        return replace(found, segments=tuple(finished))

    def new_attempt(self) -> Attempt:
        """Return an attempt with a new segment id."""
        return Attempt.of(new_segment_id(), self.tierer.run_id, self.tierer.warehouse, self.tierer.process)

    def claimed_segment(self, segment: PlannedSegment) -> ClaimedSegment:
        """Return the name of a segment in claims: partition, base offset and last leader epoch.

        Raises:
            IncompleteBundleError: the segment has no leader epoch.
        """
        epochs = segment.segment_leader_epochs
        if not epochs:
            raise IncompleteBundleError(
                f"segment {segment.base_offset}: leader-epoch-checkpoint has no leader "
                "epoch that starts below the end of the segment"
            )
        return ClaimedSegment(self.partition, segment.base_offset, epochs[-1][0])

    def metadata(self, ready: SegmentBundle, attempt: Attempt) -> RemoteLogSegmentMetadata:
        """Return the metadata of an attempt, in the state COPY_SEGMENT_STARTED."""
        segment_id = RemoteLogSegmentId.of(self.partition, attempt.segment_id)
        return ready.metadata(segment_id, broker_id=self.tierer.broker_id, event_timestamp=self.tierer.now)

    def event(
        self,
        segment: PlannedSegment,
        *,
        segment_id: str | None = None,
        state: RemoteSegmentState | None = None,
        error: TiersnapError | None = None,
    ) -> CopyEvent:
        """Return an event of a segment, with the time of the run."""
        message = "" if error is None else f"{self.partition} segment {segment.base_offset}: {error.message}"
        return CopyEvent(
            topic=self.partition.topic,
            topic_id=self.partition.topic_id or "",
            partition=self.partition.partition,
            base_offset=segment.base_offset,
            next_base_offset=segment.next_base_offset,
            size_bytes=segment.log.size,
            largest_timestamp=segment.max_timestamp,
            leader_epochs=segment.segment_leader_epochs,
            written_at=self.tierer.now,
            segment_id=segment_id,
            state=state,
            error=None if error is None else RecordedError.of(error, message),
        )
