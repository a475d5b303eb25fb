"""How a broker finds a remote segment: by leader epoch, then by start offset; as plain as can be.

Follows org.apache.kafka.server.log.remote.metadata.storage.RemoteLogLeaderEpochState of Kafka 4.1.
"""

from __future__ import annotations

from collections import defaultdict

from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata


class RemoteIndex:
    """The finished segments of a partition, in the order in which they were finished."""

    def __init__(self) -> None:
        self._starts: dict[int, dict[int, RemoteLogSegmentMetadata]] = defaultdict(dict)
        self._highest: dict[int, int] = defaultdict(lambda: -1)

    def finish(self, segment: RemoteLogSegmentMetadata) -> None:
        """Take COPY_SEGMENT_FINISHED."""
        for epoch, start in segment.segment_leader_epochs:
            starts, end = self._starts[epoch], end_in(segment, epoch)
            while starts and max(starts) >= start and self._highest[epoch] <= end:
                del starts[max(starts)]
            starts[start] = segment
            self._highest[epoch] = max(self._highest[epoch], end)

    def find(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The segment that a fetch of `offset` reads."""
        below = [start for start in self._starts[epoch] if start <= offset]
        found = self._starts[epoch][max(below)] if below else None
        return found if found is not None and offset <= end_in(found, epoch) else None


def end_in(segment: RemoteLogSegmentMetadata, epoch: int) -> int:
    """Last offset that a segment has of an epoch."""
    later = [start for each, start in segment.segment_leader_epochs if each > epoch]
    return min(later) - 1 if later else segment.end_offset
