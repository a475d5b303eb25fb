"""The events of tiering a segment: KIP-405's states, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition
from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs


@dataclass(frozen=True, slots=True)
class CopyEvent:
    """One step of one segment.

    Attributes:
        end_offset: exclusive.
        segment_id: of the attempt, or of the copy that is there; None where there is neither.
        max_timestamp: ms.
        leader_epochs: (epoch, first offset in the segment).
        state: that was entered; None where none was: somebody else's copy, or an error.
        event_timestamp: ms.
        bytes: of all objects that were sent and are there.
        rebuilt_indexes: why an index is not the broker's, by its name.
        error: the last event of a partition.
    """

    partition: TopicIdPartition
    start_offset: int
    end_offset: int
    segment_size: int
    max_timestamp: int
    leader_epochs: LeaderEpochs
    event_timestamp: int
    segment_id: str | None = None
    state: SegmentState | None = None
    error: RecordedError | None = None
    bytes: int = 0
    rebuilt_indexes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        """Return whether a copy of ours is finished since."""
        return self.state is SegmentState.COPY_SEGMENT_FINISHED

    @property
    def is_in_remote_storage(self) -> bool:
        """Return whether the segment is in remote storage, whoever copied it."""
        return self.error is None and (self.state is None or self.is_finished)
