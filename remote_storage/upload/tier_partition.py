"""Upload the READY segments of one partition, on a host or in a Spark task.

Readers see the segments one by one, in ascending offset. After a failure, later segments are not uploaded, so that the
remote log has no gap.

If a segment is already in remote storage, already_there.py skips the segment, and finishes its claim if necessary.
Every other segment gets a copy attempt (copy_attempt.py). segments_in_flight.py starts attempts in advance. If an
attempt loses its claim, it waits until the attempt that took the claim has uploaded the segment.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import closing

from tiersnap.remote_storage.errors import CopyInFlightError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import put_cluster_id
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.retire.partition_leftovers import sweep_partition
from tiersnap.remote_storage.upload.already_there import covered_of, event_of_covered, is_covered
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.copy_attempt import Lost
from tiersnap.remote_storage.upload.segments_in_flight import Ahead
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile
from tiersnap.remote_storage.upload.stored_snapshots import KeptSnapshots
from tiersnap.remote_storage.upload.tier_job import Tierer, TierJob
from tiersnap.remote_storage.upload.window_upload import known_starts
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.gate.judge_partition import JudgedSnapshot, SegmentReadiness
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.replay.remote_listing import CopyEvent

_log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
# An attempt that lost its claim waits this multiple of its own upload time for the other attempt. The process of the
# other attempt may have died, so this attempt then claims the segment once more.
_PATIENCE = 3


def tier_partition(
    location: RemoteLocation,
    partition: TopicIdPartition,
    segments: Iterable[PlannedSegment],
    tierer: Tierer,
    *,
    cluster_id: str | None = None,
    known: KnownManifests | None = None,
    replaced: frozenset[str] = frozenset(),
    of_brokers: frozenset[str] | None = None,
) -> Iterator[CopyEvent]:
    """Upload the READY segments of a partition, and yield their events.

    A segment that is already in remote storage yields an event without a state. If this run finished the claim of a
    killed attempt, the event has the state COPY_SEGMENT_FINISHED. No event follows an event with an error.

    Args:
        location: the remote location.
        partition: the partition.
        segments: the READY segments, ascending.
        tierer: the process that uploads.
        cluster_id: id of the log's cluster, written to `cluster.json` before the first object; None if unknown.
        known: manifests that were read earlier; if None, they are read from the store.
        replaced: see TierJob.
        of_brokers: see TierJob.
    """
    planned = tuple(segments)
    if not planned:
        return
    known = known or KnownManifests(location.store, partition)
    job = TierJob(location, partition, tierer, known, replaced, of_brokers)
    try:
        if cluster_id is not None:
            put_cluster_id(job.store, partition, cluster_id)
        inventory = job.list_remote_partition(planned[0].base_offset)
        _check_in_flight(job, inventory)
        sweep_partition(job.store, inventory).check()
        inventory = job.counted(inventory)
        planned = tuple(known_starts(job, planned, inventory))
    except TiersnapError as error:
        _log.debug("stopped before %s: %s", partition, error.message)
        yield job.event(planned[0], error=error)
        return
    covered = covered_of(planned, inventory)
    uncovered = [each for each in planned if each.base_offset not in covered]
    with closing(Ahead(job, uncovered)) as ahead:
        for segment in planned:
            there = inventory if segment.base_offset in covered else None
            for event in _tier(job, segment, there, ahead):
                yield event
                if event.error is not None:
                    return
    known.save()


def _check_in_flight(job: TierJob, inventory: RemoteInventory) -> None:
    in_flight = [each.start_offset for each in inventory.in_flight(job.tierer.copy_grace)]
    if in_flight:
        raise CopyInFlightError(
            f"a broker is uploading the segment at offset {min(in_flight)}, or uploaded a part of it a moment ago",
            hint="disable copying (remote.log.copy.disable=true), or let the broker copy this topic",
        )


def _tier(job: TierJob, segment: PlannedSegment, there: RemoteInventory | None, ahead: Ahead) -> Iterator[CopyEvent]:
    """Yield the events of one segment; `there` is the inventory if it covers the segment, otherwise None."""
    try:
        event = None
        if there is not None:
            event = event_of_covered(job, segment, there)
    except TiersnapError as error:
        event = job.event(segment, error=error)
    if event is not None:
        yield event
        return
    ended = ahead.attempt(segment)
    yield from ended.events
    if ended.lost is None:
        return
    event = _wait_for_other(job, segment, ended.lost)
    if event is None:
        again = ahead.attempt(segment)
        yield from again.events
        if again.lost is None:
            return
        # With 0 seconds this attempt never had the claim, and it has already waited for the holder.
        event = _wait_for_other(job, segment, again.lost) if again.lost.seconds else None
    yield event or job.event(segment, error=ended.lost.error)


def _wait_for_other(job: TierJob, segment: PlannedSegment, lost: Lost) -> CopyEvent | None:
    """Wait for another attempt's segment and return its event; None after a timeout or if that attempt ended."""
    left = max(job.tierer.wait, _PATIENCE * lost.seconds)
    try:
        while True:
            found = claim_protocol.read_claim(job.store, job.claimed_segment(segment))
            if found is not None and found.finished is not None:
                inventory = job.counted(job.list_remote_partition(segment.base_offset))
                if is_covered(segment, inventory):
                    return event_of_covered(job, segment, inventory)
            if left <= 0 or found is None or found.holder.ended:
                return None
            job.tierer.pause(min(left, _POLL_SECONDS))
            left -= _POLL_SECONDS
    except TiersnapError as trouble:
        return job.event(segment, error=trouble)


def plan_segment(
    filesystem: FileSystem,
    segment: Segment,
    judged: SegmentReadiness,
    *,
    leader_epochs: LeaderEpochs,
    open_transactions: tuple[tuple[int, int], ...] | None,
    kept: KeptSnapshots,
) -> PlannedSegment:
    """Return a READY segment of a host as an argument for `tier_partition`.

    Args:
        filesystem: the file system of the log directory.
        segment: the local segment.
        judged: the judgement of `segment`, with the verdict READY.
        leader_epochs: the whole leader-epoch-checkpoint.
        open_transactions: (producer id, first offset) of the transactions open at the base offset; None if unknown.
        kept: snapshots whose bytes are in memory.
    """
    return PlannedSegment(
        base_offset=segment.base_offset,
        next_base_offset=segment.next_base_offset or 0,
        max_timestamp=judged.facts.largest_timestamp,
        log=SourceFile(filesystem, segment.log.path, segment.log.size),
        leader_epochs=leader_epochs,
        offset_index=_file(filesystem, segment.offset_index),
        time_index=_file(filesystem, segment.time_index),
        transaction_index=_file(filesystem, segment.transaction_index),
        open_transactions=open_transactions,
        header_digest=judged.facts.digest or None,
        snapshot=_snapshot(filesystem, posixpath.dirname(segment.log.path), judged.snapshot, kept),
    )


def _snapshot(filesystem: FileSystem, folder: str, judged: JudgedSnapshot, kept: KeptSnapshots) -> SnapshotSource:
    found = judged.found
    assert found is not None, "the segment is READY, but has no snapshot"
    provenance = judged.provenance or Provenance.BROKER
    if judged.is_object and found.stored is not None:
        data, key = kept.of(found.stored.object_key), found.stored.object_key
        return SnapshotSource(
            offset=found.snapshot_offset,
            provenance=provenance,
            crc32c=found.stored.object_crc32c,
            data=data,
            object_key=key if data is None else None,
        )
    return SnapshotSource(
        offset=found.snapshot_offset,
        provenance=provenance,
        verdict=judged.verdict,
        comparison=found.comparison.compared,
        crc32c=found.file.file_crc32c,
        file=SourceFile(filesystem, f"{folder}/{file_name(found.snapshot_offset)}", found.file.file_bytes or 0),
    )


def _file(filesystem: FileSystem, ref: FileRef | None) -> SourceFile | None:
    if ref is None:
        return None
    return SourceFile(filesystem, ref.path, ref.size)
