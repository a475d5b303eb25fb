"""Offsets for which brokers find a copy that is lost, or none: may a copy of ours stand in?

A copy may take the place of one that is lost and had the very same offsets and epochs, and it may fill a gap in which
brokers find no copy: there is none, or one that begins later hides it (RemoteIndex). Anything else would hide another,
be hidden by it, or be there twice: that is refused. So is all where none of the brokers' copies is whole: this may not
be their remote storage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from tiersnap.remote_storage.errors import LostCopyError
from tiersnap.remote_storage.metadata.remote_index import Found, RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.snapshot.log.lineage import Interval, joined

WholeOf = Callable[[Collection[str]], Collection[str]]
"""Those of some segment ids whose objects are all there now."""

_KEEP = (
    "keep the local files (local.retention.ms and local.retention.bytes of the topic) and put the objects back: "
    "docs/runbook.md, exit code 5"
)
_OTHER_PLACE = f"is --remote, with its prefix and --layout, what the brokers use? If it is: {_KEEP}"
_NAMED = 5


class KnownCopies:
    """The finished copies that brokers know of one partition, and what is planned to be told of beside them."""

    def __init__(
        self,
        finished: Sequence[RemoteLogSegmentMetadata],
        of_this_log: Sequence[RemoteLogSegmentMetadata],
        gone: Collection[str],
        log_start_offset: int,
    ) -> None:
        """`finished` in the order in which they were finished, `gone` the segment ids of those that are not whole."""
        self._index = RemoteIndex(finished)
        self._of_this_log = list(of_this_log)
        self._gone = gone
        self._log_start = log_start_offset
        self._is_their_storage = any(each.id.segment_id not in gone for each in of_this_log)
        self._held: list[Interval] | None = None

    def hold(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether brokers find whole copies for all its offsets from the log start on."""
        if self._held is None:
            self._held = joined(
                (first, last + 1)
                for copy in self._of_this_log
                for first, last, found in self._read(copy)
                if found is not None and not self._is_gone(found)
            )
        start = max(segment.start_offset, self._log_start)
        return any(first <= start and segment.end_offset < end for first, end in self._held)

    def add(self, segment: RemoteLogSegmentMetadata) -> None:
        """Brokers are to be told of it."""
        self._index.finish(segment)
        self._of_this_log.append(segment)
        self._held = None

    def stand_in(self, segment: RemoteLogSegmentMetadata) -> None:
        """Add a copy where brokers are sure to read it instead of what is lost, or in a gap.

        Raises:
            LostCopyError: it is none that could stand in.
        """
        there = [found for _, _, found in self._read(segment) if found is not None]
        lost = list({each.id: each for each in there if self._is_gone(each)}.values())
        is_place = all(_place(each) == _place(segment) for each in lost) and bool(lost or not there)
        self.add(segment)
        if not (self._is_their_storage and is_place and self.hold(segment)):
            raise self.not_held(segment, lost)

    def lost(self) -> list[RemoteLogSegmentMetadata]:
        """Copies that brokers go on reading and that are not whole, ascending.

        Raises:
            LostCopyError: none of this partition is whole.
        """
        read = (found for copy in self._of_this_log for _, _, found in self._read(copy))
        lost = {found.id: found for found in read if found is not None and self._is_gone(found)}
        found = sorted(lost.values(), key=lambda each: each.start_offset)
        if found and not self._is_their_storage:
            raise LostCopyError(
                f"{found[0].id.topic_id_partition}: {_not_whole(found)}, nor is any other of this partition",
                hint=_OTHER_PLACE,
            )
        return found

    def not_held(
        self, segment: RemoteLogSegmentMetadata, lost: Sequence[RemoteLogSegmentMetadata] = ()
    ) -> LostCopyError:
        """That brokers lack offsets of `segment`; `lost` are the copies that they find there."""
        theirs = _not_whole(lost) if lost else "brokers find no whole copy"
        said = f"{segment.id.topic_id_partition}: offsets {segment.start_offset} to {segment.end_offset}: {theirs}"
        if not self._is_their_storage:
            return LostCopyError(f"{said}, nor is any other of this partition", hint=_OTHER_PLACE)
        return LostCopyError(f"{said}, and the copy {segment.id.segment_id} cannot take their place", hint=_KEEP)

    def _read(self, copy: RemoteLogSegmentMetadata) -> Iterator[Found]:
        """What brokers find for its offsets, but for what lies below the log start."""
        return (found for found in self._index.read(copy) if found[1] >= self._log_start)

    def _is_gone(self, copy: RemoteLogSegmentMetadata) -> bool:
        return copy.id.segment_id in self._gone


def lost_copies(copies: Sequence[RemoteLogSegmentMetadata]) -> LostCopyError:
    """That brokers read copies of one partition that are not whole, and that no copy of ours takes their place."""
    return LostCopyError(
        f"{copies[0].id.topic_id_partition}: {_not_whole(copies)}: without local files consumers stop there",
        hint=f"{_KEEP}. Where the leader has the local files still, tiersnap tier --apply makes copies instead",
    )


def _not_whole(copies: Sequence[RemoteLogSegmentMetadata]) -> str:
    named = [f"{each.start_offset}-{each.id.segment_id}" for each in copies[:_NAMED]]
    more = [f"{len(copies) - _NAMED} more"] if len(copies) > _NAMED else []
    return f"copies that brokers know are not whole there ({', '.join(named + more)})"


def _place(segment: RemoteLogSegmentMetadata) -> tuple[object, ...]:
    """Where brokers find it."""
    return segment.start_offset, segment.end_offset, segment.segment_leader_epochs
