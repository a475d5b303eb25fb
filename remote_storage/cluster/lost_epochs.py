"""Find copy tasks that fail because leader-epoch-checkpoint lost the epochs of a closed segment.

At each attempt, the broker logs "segmentLeaderEpochs can not be null or empty" and writes no record. So only the
leader's log directory shows the failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition, name_of
from tiersnap.snapshot.gate.next_steps import REPLACE_APPLY
from tiersnap.snapshot.gate.step_template import NextStep
from tiersnap.snapshot.log.log_dir import LEADER_EPOCHS, Partition, Segment
from tiersnap.snapshot.units import count_of, human_bytes

FROM_REPLICA = f"copy {LEADER_EPOCHS} from another replica: no local batch has the lost leader epochs"


@dataclass(frozen=True, slots=True)
class LostEpochs:
    """A partition with closed segments that brokers cannot copy, because their leader epochs are lost."""

    partition: str
    leader: int
    base_offset: int  # of the first segment without leader epochs
    segments: int  # number of closed segments without leader epochs
    waiting_bytes: int  # bytes of the closed segments without leader epochs
    is_rebuildable: bool  # whether the batches contain the lost epochs

    def says(self) -> str:
        """Return the finding as a sentence."""
        have = count_of(self.segments, "closed segment has", "closed segments have")
        return (
            f"{self.partition}: the copy task of broker {self.leader} fails at offset {self.base_offset}: "
            f"{LEADER_EPOCHS} has no leader epoch for {have}; {human_bytes(self.waiting_bytes)} wait to be tiered"
        )

    def cure(self) -> Iterator[NextStep]:
        """Yield the steps on the leader's host that restore the lost leader epochs."""
        if self.is_rebuildable:
            yield NextStep(f"stop broker {self.leader}, because it reads {LEADER_EPOCHS} only when it starts")
            yield REPLACE_APPLY
            yield NextStep(f"start broker {self.leader}")
        else:
            yield NextStep(FROM_REPLICA)


def find_lost_epochs(
    records: MetadataCache, partitions: Iterable[Partition], leaders: Mapping[TopicIdPartition, int]
) -> list[LostEpochs]:
    """Return the partitions whose next segment to copy has no leader epoch.

    Args:
        records: all records of `__remote_log_metadata`.
        partitions: partitions in log directories of their leader.
        leaders: leaders of the partitions that brokers copy.
    """
    found = []
    for each in partitions:
        name = name_of(each)
        lacking = _lacking(each, _remote_end(records, name, each))
        if lacking and name in leaders:
            size = sum(segment.log.size for segment in lacking)
            first, leader = lacking[0].base_offset, leaders[name]
            found.append(LostEpochs(each.name, leader, first, len(lacking), size, each.epochs_lost_below > 0))
    return found


def _is_lacking(partition: Partition, segment: Segment) -> bool:
    """Return whether a segment is closed, and the checkpoint has no leader epoch for its offsets."""
    from tiersnap.snapshot.replay.examine import has_leader_epoch  # with numpy

    if segment.next_base_offset is None:
        return False
    is_lost = segment.next_base_offset <= partition.epochs_lost_below
    return is_lost or not has_leader_epoch(partition.leader_epochs, segment.next_base_offset)


def _remote_end(records: MetadataCache, name: TopicIdPartition, partition: Partition) -> int:
    """Return the next offset to copy: the highest end (exclusive) of the finished segments of the local log.

    A segment belongs to the local log if one of its leader epochs is in the checkpoint. Return 0 if there is none.
    """
    left = _epochs_left(partition)
    end = 0
    for each in records.in_state(name, SegmentState.COPY_SEGMENT_FINISHED):
        if not left.isdisjoint(dict(each.segment_leader_epochs)):
            end = max(end, each.end_offset + 1)
    return end


def _epochs_left(partition: Partition) -> set[int]:
    epochs = partition.leader_epochs or ()
    return {epoch for epoch, start in epochs if start >= partition.epochs_lost_below}


def _lacking(partition: Partition, end: int) -> list[Segment]:
    """Return the segments at or above the offset `end` that have no leader epoch."""
    return [each for each in partition.segments if each.base_offset >= end and _is_lacking(partition, each)]
