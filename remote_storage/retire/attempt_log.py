"""Read the log of a copy attempt before the attempt is deleted. Only batches prove which offsets a log contains."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.segment_bytes import fetched_log
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.verify.compare_whole import ReadSegment
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.replay.segment_runs import fold_segment

UNKNOWN_END = "the log of this attempt is damaged, and no manifest proves which offsets the log contains"


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """Facts about the log of a copy attempt, from its batches."""

    start_offset: int
    end_offset: int  # exclusive
    leader_epoch: int  # the largest leader epoch; -1 if no batch has one
    digest: str = ""  # digest of the batch headers (kernels.digest); "" if the log is damaged, compressed or encrypted

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the first offset and the exclusive end offset."""
        return self.start_offset, self.end_offset


def read_attempt_log(
    store: ObjectStore, attempt: SegmentObjects, complete: RemoteSegment | None = None
) -> AttemptLog | None:
    """Return the facts about the log of a copy attempt, or None if its end is unknown.

    The end comes from the batches, because a damaged manifest can name fewer offsets than the log contains. If the log
    is damaged, the end comes from the manifest of `complete`, or is unknown without `complete`.

    Args:
        complete: the complete segment of the attempt, or None.

    Raises:
        TransientError: remote storage does not answer.
        RemoteStorageError: remote storage refuses the request.
    """
    log = _walk(store, attempt)
    if log.digest:
        return log
    if complete is None:
        return None
    epoch = max(log.leader_epoch, complete.leader_epochs[-1][0])
    return AttemptLog(log.start_offset, max(log.end_offset, complete.end_offset), epoch)


def _walk(store: ObjectStore, attempt: SegmentObjects) -> AttemptLog:
    """Return the facts about the log up to its first damage."""
    start, epochs = attempt.start_offset, [-1]

    def on_rows(rows: np.ndarray) -> None:
        if rows.size:
            epochs.append(int(rows["partition_leader_epoch"].max()))

    try:
        with fetched_log(store, attempt) as segment:
            _, end = fold_segment(LOCAL, segment, on_rows=on_rows)
    except CorruptDataError:
        return AttemptLog(start, start, -1)
    digest = ""
    if end.finding is None and end.valid_bytes == end.total_bytes:
        digest = end.digest
    return AttemptLog(start, end.last_offset + 1, max(epochs), digest)


def first_problem(
    log: AttemptLog, remaining: Iterable[RemoteSegment], read: Callable[[RemoteSegment], ReadSegment], then: str = ""
) -> str:
    """Return the reason why segments with the same offsets cannot replace a log; "" if they can.

    Args:
        remaining: the segments that contain the log's offsets.
        read: reads all bytes of a segment.
        then: text about the next step. If a segment cannot be verified, the reason ends with this text.
    """
    for each in remaining:
        found = read(each)
        if found.doubt:
            return (
                f"segment {each.segment_id}, which has the same offsets, is not proven to be right: {found.doubt}{then}"
            )
        if log.bounds == each.bounds and log.digest not in ("", found.digest):
            return (
                f"the log of this attempt differs from the log of segment {each.segment_id}, and nothing shows which "
                "log is right"
            )
    return ""


def holding(segments: Iterable[RemoteSegment], start: int, end: int) -> list[RemoteSegment] | None:
    """Return the segments that together contain [start, end), or None if an offset is missing.

    Args:
        segments: in ascending start offset.
    """
    reached, found = start, list[RemoteSegment]()
    for each in segments:
        if reached >= end or each.start_offset > reached:
            break
        if each.end_offset > reached:
            found.append(each)
            reached = each.end_offset
    if reached < end:
        return None
    return found
