"""Find the offsets that brokers read in remote storage, and decide which of our segments may be published.

A record of tiersnap must not make an offset unreadable. For each offset and leader epoch:

- If brokers read the offset from a complete segment, they still read it from a complete segment after the record.
- If brokers find a lost segment of this log for the offset, they still find a lost segment or a complete segment after
  the record. An operator may restore the objects of a lost segment.

So our segment may fill a gap, or replace a lost segment or a segment that `mend` found wrong. Our segment is held back
if it would hide other segments, or if brokers would not read it. If no published segment is complete, nothing is
published, because brokers may read another location.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from tiersnap.remote_storage.errors import HiddenOffsetsError, LostCopyError
from tiersnap.remote_storage.metadata.remote_index import Found, RemoteIndex, less_found, parts
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.log.leader_epochs import Interval, joined

WholeOf = Callable[[Collection[str]], Collection[str]]
"""Returns the given segment ids whose objects all exist."""

KEEP_LOCAL = (
    "raise local.retention.ms and local.retention.bytes of the topic, so that brokers keep the local files; then "
    "restore the remote objects: tiersnap runbook 'Objects that are lost or damaged'"
)
_OTHER_PLACE = (
    f"compare --remote, its prefix and --layout with server.properties of the brokers. If they agree: {KEEP_LOCAL}"
)
_NAMED = 5
_NOTHING, _LOST, _WRONG, _COMPLETE = range(4)


class ReadableOffsets:
    """The offsets of one partition that brokers can read after the existing and the planned records."""

    def __init__(
        self,
        index: RemoteIndex,
        of_this_log: Iterable[RemoteLogSegmentMetadata],
        gone: Collection[str],
        wrong: Collection[str],
        log_start_offset: int,
    ) -> None:
        self._index = index  # includes planned segments
        self._of_this_log = {
            each.id.segment_id: each for each in of_this_log
        }  # finished segments of the leader's lineage, by id
        self._gone = gone  # ids of finished segments that are not complete
        self._wrong = wrong  # ids of complete segments that may be replaced
        self._log_start = log_start_offset  # offsets below it are ignored
        self._held: list[Interval] | None = None

    def hold(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether brokers read all offsets of a segment from complete segments of this log."""
        if self._held is None:
            self._held = joined(self._complete_intervals())
        start = max(segment.start_offset, self._log_start)
        return any(first <= start and segment.end_offset < end for first, end in self._held)

    def read(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether brokers find a complete segment for each offset and leader epoch of `segment`."""
        return all(self._rank(found) == _COMPLETE for _, _, found in self._read(segment))

    def tell(self, segment: RemoteLogSegmentMetadata) -> str:
        """Plan the COPY_SEGMENT_FINISHED record of a segment. Return "" or the reason why it may not be published.

        The record must not hide an offset of any leader epoch, and must make at least one more offset readable.
        """
        gains = False
        after = self._index.after(segment)
        for epoch, start, _ in parts(segment):
            then, now, first = after[epoch], self._index.epochs[epoch], max(start, self._log_start)
            for hidden_from, to in less_found(now, then, self._rank, first):
                return (
                    f"the segment's record would hide the offsets {hidden_from} to {to} of leader epoch {epoch}, "
                    "although brokers find these offsets now"
                )
            gains = gains or any(less_found(then, now, self._rank, first))
        if not gains:
            return "brokers would not read the segment"
        self._index.take(segment)
        self._of_this_log[segment.id.segment_id] = segment
        self._held = None
        return ""

    def lost(self) -> list[RemoteLogSegmentMetadata]:
        """Return the incomplete segments that brokers find for offsets of this log, ascending."""
        lost = {}
        for copy in self._of_this_log.values():
            for _, _, found in self._read(copy):
                if found is not None and self._rank(found) != _COMPLETE:
                    lost[found.id] = found
        return sorted(lost.values(), key=lambda each: each.start_offset)

    def refuse_other_place(self) -> None:
        """Raise an error if this log has published segments, but none of them is complete.

        Raises:
            LostCopyError: no published segment is complete.
        """
        theirs = sorted(self._of_this_log.values(), key=lambda each: each.start_offset)
        if theirs and all(self._rank(each) < _WRONG for each in theirs):
            raise LostCopyError(
                f"{theirs[0].id.topic_id_partition}: {_not_complete(theirs)}, and the location has no other "
                "complete segment of the partition",
                hint=_OTHER_PLACE,
            )

    def _complete_intervals(self) -> Iterator[Interval]:
        """Yield the intervals that brokers read from complete segments; ends are exclusive."""
        for copy in self._of_this_log.values():
            for first, last, found in self._read(copy):
                if self._rank(found) == _COMPLETE:
                    yield first, last + 1

    def _read(self, copy: RemoteLogSegmentMetadata) -> Iterator[Found]:
        for epoch, start, end in parts(copy):
            yield from self._index.epochs[epoch].read(max(start, self._log_start), end)

    def _rank(self, copy: RemoteLogSegmentMetadata | None) -> int:
        if copy is None:
            return _NOTHING
        segment_id = copy.id.segment_id
        if segment_id in self._gone:
            return _LOST if segment_id in self._of_this_log else _NOTHING
        return _WRONG if segment_id in self._wrong else _COMPLETE


def lost_copies(copies: Sequence[RemoteLogSegmentMetadata]) -> LostCopyError:
    """Return the error for incomplete published segments of one partition that tiersnap cannot replace."""
    return LostCopyError(
        f"{copies[0].id.topic_id_partition}: {_not_complete(copies)}: consumers cannot read these offsets if the "
        "local files are gone",
        hint=f"{KEEP_LOCAL}. If the leader still has the local files, upload them again: tiersnap tier --apply",
    )


def held_back(segment: RemoteLogSegmentMetadata, why: str, *, is_behind: bool) -> TiersnapError:
    """Return the error for a segment of ours that is not published.

    Args:
        why: the reason, for the message.
        is_behind: whether the segment ends above all published segments, so that brokers can still upload it.
    """
    said = f"{_name(segment)} is not published: {why}"
    if not is_behind:
        return LostCopyError(
            f"{said}; brokers cannot read all offsets of the segment from complete segments", hint=KEEP_LOCAL
        )
    return HiddenOffsetsError(
        said,
        hint=f"to let brokers upload the segment: kafka-configs --alter --topic {segment.id.topic} --add-config "
        f"{COPY_DISABLE}=false",
    )


def read_in_part(segment: RemoteLogSegmentMetadata) -> LostCopyError:
    """Return the error for a published segment of which brokers read only some offsets."""
    return LostCopyError(
        f"{_name(segment)}: brokers read only a part of the segment, because other segments hide the rest",
        hint=KEEP_LOCAL,
    )


def _name(segment: RemoteLogSegmentMetadata) -> str:
    offsets = f"offsets {segment.start_offset} to {segment.end_offset}"
    return f"{segment.id.topic_id_partition}: {offsets}: segment {segment.id.segment_id}"


def _not_complete(copies: Sequence[RemoteLogSegmentMetadata]) -> str:
    named = [f"{each.start_offset}-{each.id.segment_id}" for each in copies[:_NAMED]]
    if len(copies) > _NAMED:
        named.append(f"{len(copies) - _NAMED} more")
    return f"published segments are not complete at this location ({', '.join(named)})"
