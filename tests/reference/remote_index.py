"""How a broker finds a remote segment: by leader epoch, then by start offset; as plain as can be.

Follows org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache and RemoteLogLeaderEpochState of
Kafka 4.1; tests/broker/test_remote_index.py holds it against them.
"""

from __future__ import annotations

from collections import defaultdict

from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState

STARTED, FINISHED, DELETING, DELETED = SegmentState
NEXT = {None: {STARTED}, STARTED: {STARTED, FINISHED, DELETING}, FINISHED: {FINISHED, DELETING}, DELETING: {2, 3}}


class RemoteIndex:
    """The segments of a partition, record by record.

    Attributes:
        deleted: ids of those that brokers have begun to delete.
    """

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        self._segments: dict[str, RemoteLogSegmentMetadata] = {}
        self._states: dict[str, SegmentState] = {}
        self._starts: dict[int, dict[int, str]] = defaultdict(dict)
        self._highest: dict[int, int] = defaultdict(lambda: -1)

    def apply(self, record: SegmentRecord | SegmentUpdate) -> None:
        """Take a record, or drop it where Kafka does."""
        whole = isinstance(record, SegmentRecord)
        state = record.metadata.state if whole else record.state
        name = (record.metadata if whole else record).id.segment_id
        if state not in NEXT[self._states.get(name)] or whole != (state is STARTED):
            return
        self._states[name] = state
        if whole:
            self._segments[name] = record.metadata
        elif state is FINISHED:
            self._finish(self._segments[name], name)
        elif state is DELETING:
            self.deleted.add(name)
            for epoch, start in self._segments[name].segment_leader_epochs:
                if self._starts[epoch].get(start) == name:
                    del self._starts[epoch][start]
        else:
            del self._states[name], self._segments[name]

    def _finish(self, segment: RemoteLogSegmentMetadata, name: str) -> None:
        for epoch, start in segment.segment_leader_epochs:
            starts, end = self._starts[epoch], end_in(segment, epoch)
            while starts and max(starts) >= start and self._highest[epoch] <= end:
                del starts[max(starts)]
            starts[start] = name
            self._highest[epoch] = max(self._highest[epoch], end)

    def highest(self, epoch: int) -> int | None:
        """Last offset of an epoch that was ever finished, None without one."""
        return self._highest[epoch] if self._highest[epoch] >= 0 else None

    def segments(self) -> list[RemoteLogSegmentMetadata]:
        """All that are not deleted, in whatever state."""
        return list(self._segments.values())

    def finished(self) -> list[RemoteLogSegmentMetadata]:
        """Segments in COPY_SEGMENT_FINISHED, whether they are found or not."""
        return [each for name, each in self._segments.items() if self._states[name] is FINISHED]

    def find(self, epoch: int, offset: int) -> str | None:
        """Id of the segment of which a fetch of `offset` reads, None without one."""
        below = [start for start in self._starts[epoch] if start <= offset]
        found = self._starts[epoch][max(below)] if below else None
        return found if found is not None and offset <= end_in(self._segments[found], epoch) else None

    def table(self, epochs: range, offsets: range) -> dict[tuple[int, int], str]:
        """What is found for each (epoch, offset) at which anything is."""
        cells = [(epoch, offset) for epoch in epochs if self._starts[epoch] for offset in offsets]
        return {cell: found for cell in cells if (found := self.find(*cell)) is not None}


def end_in(segment: RemoteLogSegmentMetadata, epoch: int) -> int:
    """Last offset that a segment has of an epoch."""
    later = [start for each, start in segment.segment_leader_epochs if each > epoch]
    return min(later) - 1 if later else segment.end_offset
