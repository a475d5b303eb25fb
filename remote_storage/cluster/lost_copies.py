"""Offsets that brokers take for tiered and that no whole copy of theirs holds: may a copy of ours stand in?

A broker finds a copy by leader epoch and start offset, and of two with the same start it reads the one that was
finished last. So a copy may take the place of one that is lost and had the very same offsets and epochs, and it may
fill a gap of which brokers know no copy. Anything else that overlaps it would hide it, be hidden by it, or be there
twice: that is refused. So is all where none of the brokers' copies is whole: this may not be their remote storage.

Follows org.apache.kafka.server.log.remote.metadata.storage.RemoteLogLeaderEpochState.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tiersnap.remote_storage.errors import LostCopyError
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata

WholeOf = Callable[[Collection[str]], Collection[str]]
"""Those of some segment ids whose objects are all there now."""

_KEEP = (
    "keep the local files (local.retention.ms and local.retention.bytes of the topic) and put the objects back: "
    "docs/runbook.md, exit code 5"
)


class KnownCopies:
    """The finished copies that brokers know of one partition, and what is planned to be told of beside them."""

    def __init__(
        self,
        finished: Sequence[RemoteLogSegmentMetadata],
        of_this_log: Sequence[RemoteLogSegmentMetadata],
        whole: Collection[str],
        log_start_offset: int,
    ) -> None:
        self._finished = list(finished)
        self._whole = [each for each in of_this_log if each.id.segment_id in whole]
        self._log_start = log_start_offset
        self._is_their_storage = bool(self._whole)
        self._held = _ranges(self._whole)

    def hold(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether whole copies hold all its offsets from the log start on."""
        start = max(segment.start_offset, self._log_start)
        return any(first <= start and segment.end_offset <= last for first, last in self._held)

    def add(self, segment: RemoteLogSegmentMetadata) -> None:
        """Brokers are to be told of it."""
        self._finished.append(segment)
        self._whole.append(segment)
        self._held = _ranges(self._whole)

    def check_fits(self, segment: RemoteLogSegmentMetadata) -> None:
        """Refuse a copy that brokers might not read in the place of what is lost.

        Raises:
            LostCopyError: it is none that could stand in.
        """
        whole = {each.id.segment_id for each in self._whole}
        near = [
            each
            for each in self._finished
            if each.start_offset <= segment.end_offset and segment.start_offset <= each.end_offset
        ]
        lost = [each for each in near if each.id.segment_id not in whole]
        if self._is_their_storage and lost == near and all(_place(each) == _place(segment) for each in lost):
            return
        raise self.lost(segment, lost)

    def lost(self, segment: RemoteLogSegmentMetadata, copies: Iterable[RemoteLogSegmentMetadata] = ()) -> LostCopyError:
        """That brokers lack offsets of `segment`; `copies` are those of theirs that are not whole."""
        named = ", ".join(f"{each.start_offset}-{each.id.segment_id}" for each in copies)
        theirs = f"copies that brokers know are not whole there ({named})" if named else "brokers know no whole copy"
        if not self._is_their_storage:
            return LostCopyError(
                f"{segment.id.topic_id_partition}: offsets {segment.start_offset} to {segment.end_offset}: {theirs}, "
                "nor is any other of this partition",
                hint=f"is --remote, with its prefix and --layout, what the brokers use? If it is: {_KEEP}",
            )
        return LostCopyError(
            f"{segment.id.topic_id_partition}: offsets {segment.start_offset} to {segment.end_offset}: {theirs}, and "
            f"the copy {segment.id.segment_id} cannot take their place",
            hint=_KEEP,
        )


def _place(segment: RemoteLogSegmentMetadata) -> tuple[object, ...]:
    """Where brokers find it."""
    return segment.start_offset, segment.end_offset, segment.segment_leader_epochs


def _ranges(copies: Iterable[RemoteLogSegmentMetadata]) -> list[tuple[int, int]]:
    """Offsets that copies hold without a gap; both ends inclusive, ascending."""
    found: list[tuple[int, int]] = []
    for copy in sorted(copies, key=lambda each: each.start_offset):
        if found and copy.start_offset <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], copy.end_offset)
        else:
            found.append((copy.start_offset, copy.end_offset))
    return found
