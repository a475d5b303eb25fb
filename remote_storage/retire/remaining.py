"""The segments that remain if an attempt is deleted.

An attempt may be deleted only if these segments contain its offsets, were read fully and are undamaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.locks.claim import Claim
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.retire.attempt_log import UNKNOWN_END, AttemptLog, first_problem, holding
from tiersnap.remote_storage.retire.known_to_cluster import KnownPartition
from tiersnap.remote_storage.verify.compare_whole import ReadSegment

_MEND = "tiersnap mend --depth full, which can use the log of this segment"
_LOST = (
    f"no other complete segment has the offsets of this segment, because published segments lost objects; next: {_MEND}"
)
_BY_HAND = "if tiersnap verify --depth full finds the other segments right, delete this segment by hand"


@dataclass(frozen=True, slots=True)
class Remaining:
    """The attempts of a partition, in ascending start offset. Its methods find segments that can replace an attempt.

    Attributes:
        look: reads the manifest of a segment that has all its objects.
        read: reads all bytes of a complete segment.
        read_log: reads the log of an attempt; see read_attempt_log.
    """

    attempts: Sequence[SegmentObjects]
    known: KnownPartition
    look: Callable[[SegmentObjects], RemoteSegment | IncompleteSegment]
    read: Callable[[RemoteSegment], ReadSegment]
    read_log: Callable[[SegmentObjects, RemoteSegment | None], AttemptLog | None]
    _looked: dict[str, RemoteSegment | IncompleteSegment] = field(default_factory=dict)
    _read: dict[str, ReadSegment] = field(default_factory=dict)

    def complete(self, attempt: SegmentObjects) -> RemoteSegment | None:
        """Return the complete segment of an attempt, or None if it lacks objects."""
        if attempt.missing:
            return None
        if attempt.segment_id not in self._looked:
            self._looked[attempt.segment_id] = self.look(attempt)
        found = self._looked[attempt.segment_id]
        if isinstance(found, RemoteSegment):
            return found
        return None

    def finished_instead(self, attempt: SegmentObjects, claim: Claim) -> str | None:
        """Return the id of another attempt that finished the claim of this attempt, or None.

        Return None, too, if the segment of that attempt is in the other layout.
        """
        if claim.finished in (None, attempt.segment_id):
            return None
        for each in self.attempts:
            if each.segment_id == claim.finished and each.is_local is not attempt.is_local:
                return None
        return claim.finished

    def why_kept(self, attempt: SegmentObjects, finished: str | None) -> str:
        """Return the reason why the log of an attempt is kept, or "".

        "" means that the attempt has no log, or that other segments with its offsets were read fully and are undamaged.
        Only the segment with the id `finished` and segments with a COPY_SEGMENT_FINISHED record are considered. Offsets
        below the log start offset need no segment.
        """
        if attempt.log is None:
            return ""
        log = self.read_log(attempt, self.complete(attempt))
        if log is None:
            return f"{UNKNOWN_END}: {_BY_HAND}"
        why = self._why(log, finished)
        published = self.known.published_end(log.leader_epoch)
        if why is _LOST and finished is None and log.end_offset > published:
            return (
                "no other segment has the offsets of this segment, and the remote log of the cluster ends at "
                f"offset {published}; to upload these offsets again: tiersnap tier --apply"
            )
        return why

    def why_attempt_is_kept(self, attempt: SegmentObjects, record: RemoteLogSegmentMetadata) -> str:
        """Return the reason why a broker's attempt is kept; "" if recorded segments contain its offsets."""
        if attempt.log is None:
            return ""
        log = AttemptLog(record.start_offset, record.end_offset + 1, record.segment_leader_epochs[-1][0])
        return self._why(replace(log, digest=self._digest(attempt)), None)

    def _digest(self, attempt: SegmentObjects) -> str:
        if (copy := self.complete(attempt)) is not None:
            return self._read_once(copy).digest  # the plugin may have compressed it
        log = self.read_log(attempt, None)
        if log is None:
            return ""
        return log.digest

    def _why(self, log: AttemptLog, finished: str | None) -> str:
        start = max(log.start_offset, self.known.log_start or 0)
        others = holding(self._others(log, finished), start, log.end_offset)
        if others is None:
            return _LOST
        return first_problem(log, others, self._read_once, then=f": {_MEND}")

    def _others(self, log: AttemptLog, finished: str | None) -> Iterator[RemoteSegment]:
        """Yield complete segments that may replace a log, in ascending start offset.

        Each segment ends above `log.start_offset`.
        """
        for attempt in self.attempts:
            end = self.known.finished_end(attempt.segment_id, log.leader_epoch)
            if attempt.segment_id != finished and end <= log.start_offset:
                continue
            other = self.complete(attempt)
            # Compare with the record, because a damaged manifest can name offsets that its log lacks.
            if other is not None and end in (0, other.end_offset):
                yield other

    def _read_once(self, segment: RemoteSegment) -> ReadSegment:
        if segment.segment_id not in self._read:
            self._read[segment.segment_id] = self.read(segment)
        return self._read[segment.segment_id]
