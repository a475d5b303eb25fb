"""Reconstruct the leader epochs of a lineage at the time when a segment's record was written."""

from __future__ import annotations

from tiersnap.remote_storage.mend.stored_files import not_rebuilt
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, epochs_in_range
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs


def lineage_of_record(record: RemoteLogSegmentMetadata, lineage: LeaderEpochs, log_start: int) -> LeaderEpochs:
    """Return the lineage up to the end of a segment, as it was when the segment's record was written.

    Args:
        lineage: current lineage of the partition. A later leader may have truncated the log at a lower offset than the
            start of the segment.
        log_start: log start offset, which may be in a remote segment.

    Raises:
        NotRebuiltError: the epochs below the segment are unknown, or contradict its record.
    """
    own, first = record.segment_leader_epochs, record.segment_leader_epochs[0]
    before = [each for each in lineage if each[0] <= first[0] and each[1] <= first[1]]
    if not before and record.start_offset > log_start:
        raise not_rebuilt(record, "no other segment has the leader epochs of the offsets below this segment")
    found = (*before, *own)
    if before and before[-1][0] == first[0]:
        found = (*before, *own[1:])
    if epochs_in_range(found, record.start_offset, record.end_offset + 1) != own:
        raise not_rebuilt(record, f"the segment has the leader epochs {own}, but the log has {lineage}")
    return found
