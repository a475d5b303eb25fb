"""Find the open transactions at the base offset of a segment below the scan window (--scan window).

The log below the window is not replayed, so snapshots there may lack transactions. Each upload checks that its
snapshot has all transactions that are open at the segment's end (checked_upload.py). So the snapshot of an uploaded
segment contains the transactions that are open at the base offset of the next segment. If an earlier run or a broker
uploaded the previous segment, tiersnap reads these transactions from remote storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.remote_log.starts import state_at
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.tier_job import TierJob
from tiersnap.snapshot.errors import UnknownStateError
from tiersnap.snapshot.formats.transaction_index import ongoing_transactions
from tiersnap.snapshot.log.log_dir import PartitionLog
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry


def known_starts(
    job: TierJob, planned: Sequence[PlannedSegment], inventory: RemoteInventory
) -> Iterator[PlannedSegment]:
    """Yield the segments of `planned`.

    If a segment is below the scan window and follows a remote segment, it gets `open_transactions` from remote storage.

    Args:
        job: the partition and the remote location.
        planned: the segments to upload, ascending.
        inventory: the remote segments that the job uses.

    Raises:
        UnknownStateError: remote storage does not determine the state at a base offset.
        TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
    """
    first = min((copy.start_offset for copy in inventory.segments), default=None)
    end = -1
    for segment in planned:
        follows_planned = segment.base_offset == end
        follows_remote = first is not None and first < segment.base_offset and not follows_planned
        end = segment.next_base_offset
        if follows_remote and segment.snapshot.provenance.is_of_window:
            yield replace(segment, open_transactions=_open_in_remote(job, segment))
        else:
            yield segment


def _open_in_remote(job: TierJob, segment: PlannedSegment) -> tuple[tuple[int, int], ...]:
    of, expiry = job.partition, BrokerExpiry(job.tierer.now, DEFAULT_PRODUCER_EXPIRATION_MS)
    log = PartitionLog(
        topic=of.topic, topic_id=of.topic_id, partition=of.partition, leader_epochs=segment.leader_epochs
    )
    try:
        entries = state_at(job.location, log, segment.base_offset, expiry).entries
    except UnknownStateError as error:
        raise UnknownStateError(
            f"the open transactions at offset {segment.base_offset} are unknown: {error.message}",
            hint="run the same command without --scan window: it replays the whole log",
            base_offset=segment.base_offset,
        ) from error
    return tuple((producer, first) for producer, first in ongoing_transactions(entries).tolist())
