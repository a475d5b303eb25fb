"""Choose from the cluster's records the segments that `mend` replaces, and the segments that it may delete.

All functions are pure. tests/broker/test_remote_index.py compares their results with Kafka's RemoteLogMetadataCache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tiersnap.remote_storage.metadata.metadata_records import SegmentUpdate
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.verify.read_whole import ReadWhole

_FINISHED = SegmentState.COPY_SEGMENT_FINISHED
NO_BROKER = -1
"""The broker id in tiersnap's deletion records. It identifies the deletions that a run must finish."""


def wrong_and_read(index: RemoteIndex, wrong: Collection[str], log_start: int) -> list[RemoteLogSegmentMetadata]:
    """Return the wrong segments from which brokers read an offset at or above the log start, ascending.

    Args:
        wrong: segment ids.
    """
    found = [each for each in index.finished() if each.id.segment_id in wrong and _is_read(index, each, log_start)]
    return sorted(found, key=lambda each: (each.start_offset, each.id.segment_id))


def _is_read(index: RemoteIndex, segment: RemoteLogSegmentMetadata, log_start: int) -> bool:
    """Return whether brokers read an offset at or above the log start from this segment."""
    for _, last, copy in index.read(segment):
        if copy is not None and copy.id == segment.id and last >= log_start:
            return True
    return False


def unread(index: RemoteIndex) -> Iterator[RemoteLogSegmentMetadata]:
    """Yield the finished segments from which brokers read no offset under any leader epoch."""
    found = index.found()
    for each in index.finished():
        if each.id not in found:
            yield each


def without_readers(
    index: RemoteIndex, deleting: Iterable[RemoteLogSegmentMetadata]
) -> Iterator[RemoteLogSegmentMetadata]:
    """Yield the segments whose deletion tiersnap began, then the unread segments.

    Args:
        deleting: segments in DELETE_SEGMENT_STARTED. If a broker began the deletion, the segment is skipped: the broker
            will finish it.
    """
    for each in deleting:
        if each.broker_id == NO_BROKER:
            yield each
    yield from unread(index)


def to_be_deleted(
    index: RemoteIndex, deleting: Iterable[RemoteLogSegmentMetadata], proof: ReadWhole
) -> list[RemoteLogSegmentMetadata]:
    """Return the segments of `without_readers` that are wrong or redundant.

    Call `may_be_deleted` for each of them before its deletion.
    """
    read = _extents(index)
    found = []
    for each in without_readers(index, deleting):
        is_redundant = _extent(each) in read
        if is_redundant or each.state is not _FINISHED or proof.is_wrong(each.id.segment_id):
            found.append(each)
    return found


def _extents(index: RemoteIndex) -> set[tuple[object, ...]]:
    return {_extent(copy) for epoch in index.epochs.values() for copy, _ in epoch.copies}


def may_be_deleted(index: RemoteIndex, segment: RemoteLogSegmentMetadata, log_start: int, proof: ReadWhole) -> str:
    """Return the reason why a segment may not be deleted; "" if right segments have all its offsets.

    `proof` has the right segments, which this run read fully.

    Args:
        log_start: log start offset. If the segment's deletion has begun, offsets below the log start are ignored.
            Otherwise all its offsets count.
    """
    if segment.id in index.found():
        return "brokers read it"
    name, counted_from = segment.id.segment_id, 0 if segment.state is _FINISHED else log_start
    for first, last, remaining in index.read(segment):
        if last < counted_from:
            continue
        if remaining is None:
            return f"brokers would find no other segment for the offsets {first} to {last}"
        other = remaining.id.segment_id
        if why := proof.doubt(other):
            return f"brokers would read segment {other} instead, which is not proven to be right: {why}"
        if _extent(remaining) == _extent(segment) and proof.differ(name, other):
            return (
                f"the log of the segment differs from the log of segment {other}, which brokers read, and nothing "
                "shows which log is right"
            )
    return ""


def deletion(segment: RemoteLogSegmentMetadata, state: SegmentState, now: int) -> SegmentUpdate:
    """Return a deletion record of tiersnap. `now` is in ms."""
    return SegmentUpdate(segment.id, NO_BROKER, now, state)


def _extent(copy: RemoteLogSegmentMetadata) -> tuple[object, ...]:
    return copy.start_offset, copy.end_offset, copy.segment_leader_epochs
