"""The logs of a partition's remote segments. A log can replace or confirm the log of another segment.

A log that was read fully provides content even if its segment lost another object, or has a damaged manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.segment_bytes import fetched_segment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.retire.attempt_log import AttemptLog, read_attempt_log
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.replay.segment_runs import fold_segment


@dataclass
class StoredLogs:
    """Logs of remote segments. Each log is read only once.

    Attributes:
        copies: complete segments.
        wrong: ids of wrong segments. Their logs can contradict another log, but are never used as content.
        incomplete: the objects of each incomplete segment.
    """

    store: ObjectStore
    copies: Sequence[RemoteSegment]
    wrong: Collection[str] = ()
    incomplete: Sequence[SegmentObjects] = ()
    _logs: dict[str, AttemptLog | None] = field(default_factory=dict)
    _digests: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.copies = [each for each in self.copies if not each.is_encrypted]

    def twins(self, record: RemoteLogSegmentMetadata, *, also_wrong: bool = False) -> list[RemoteSegment]:
        """Return the other remote segments that have the same `extent` as a record."""
        left_out = {record.id.segment_id}
        if not also_wrong:
            left_out.update(self.wrong)
        found: list[RemoteSegment] = []
        for each in self.copies:
            if each.segment_id in left_out:
                continue
            if extent(each.metadata) == extent(record):
                found.append(each)
        return [*found, *self._incomplete_twins(record)]

    def _incomplete_twins(self, record: RemoteLogSegmentMetadata) -> Iterator[RemoteSegment]:
        """Yield incomplete segments with an undamaged log whose size, offsets and last leader epoch match a record."""
        end = record.end_offset + 1, record.segment_leader_epochs[-1][0]
        for each in self.incomplete:
            if each.log is None or each.segment_id == record.id.segment_id:
                continue
            if (each.start_offset, each.log.size) != (record.start_offset, record.segment_size):
                continue
            if each.segment_id not in self._logs:
                log = read_attempt_log(self.store, each)
                self._logs[each.segment_id] = log
                self._digests[each.segment_id] = None
                if log is not None:
                    self._digests[each.segment_id] = log.digest
            log = self._logs[each.segment_id]
            if log is not None and (log.end_offset, log.leader_epoch) == end:
                metadata = replace(record, id=replace(record.id, segment_id=each.segment_id))
                yield RemoteSegment(each, metadata, None if each.is_local else {})

    def undamaged_twin(self, record: RemoteLogSegmentMetadata) -> RemoteSegment | None:
        """Return another remote segment with the same `extent` and an undamaged log, or None."""
        return next((each for each in self.twins(record) if self.digest(each) is not None), None)

    def itself_or_twin(self, record: RemoteLogSegmentMetadata, itself: RemoteSegment) -> RemoteSegment:
        """Return the segment itself. If its log is damaged and `undamaged_twin` finds another segment, return that."""
        if not self.twins(record) or self.digest(itself) is not None:
            return itself
        return self.undamaged_twin(record) or itself

    def neighbours(self, record: RemoteLogSegmentMetadata) -> tuple[list[RemoteSegment], list[RemoteSegment]]:
        """Return the remote segments below and above a record's offsets, the nearest first."""
        before = [each for each in self.copies if each.end_offset <= record.start_offset]
        behind = [each for each in self.copies if each.start_offset > record.end_offset]
        before.sort(key=lambda each: -each.start_offset)
        return before, sorted(behind, key=lambda each: each.start_offset)

    def digest(self, copy: RemoteSegment) -> str | None:
        """Return the digest of a segment's log (kernels.digest), or None if the log is damaged or missing.

        Raises:
            TransientError: remote storage does not answer.
            RemoteStorageError: remote storage refuses a request.
        """
        if copy.segment_id not in self._digests:
            try:
                with fetched_segment(self.store, copy) as segment:
                    _, end = fold_segment(LOCAL, segment)
                self._digests[copy.segment_id] = end.digest if end.finding is None else None
            except CorruptDataError:
                self._digests[copy.segment_id] = None
        return self._digests[copy.segment_id]


def extent(record: RemoteLogSegmentMetadata) -> tuple[object, ...]:
    """Return the offsets, leader epochs and size of a segment. They are equal for segments with the same batches."""
    return record.start_offset, record.end_offset, record.segment_leader_epochs, record.segment_size
