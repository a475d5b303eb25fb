"""Compare bytes to check that a local log and its remote segments are one log.

A diverged clone of a log has the same topic id, epochs and offsets, but other batches. After the point of divergence,
the batches of the two logs have different CRCs. So it suffices to compare one batch: the last batch of the newest
remote segment that ends within the local log. The comparison reads a few bytes of the local file and makes one request.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from tiersnap.remote_storage.errors import DivergedLogError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.segment_bytes import fetch_range
from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.formats.indexes import decode_offset_index, position_of
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, Segment

_HEADER = struct.Struct(">qi4xbIhi")  # base offset, length, magic, CRC-32C, attributes, last offset delta
_OVERHEAD = 12  # bytes of base offset and length, which the length does not count


@dataclass(frozen=True, slots=True)
class _Batch:
    """The header of a batch, and the size of the batch in bytes."""

    header: bytes
    size: int

    @property
    def base_offset(self) -> int:
        return int(_HEADER.unpack(self.header)[0])

    @property
    def end_offset(self) -> int:
        """Return the exclusive end offset. For magic 0 and 1, the base offset field has the last record's offset."""
        base, _, magic, _, _, delta = _HEADER.unpack(self.header)
        return int(base + (delta if magic > 1 else 0)) + 1


def check_same_log(
    location: RemoteLocation, segments: Sequence[RemoteSegment], filesystem: FileSystem, partition: Partition
) -> None:
    """Compare the last batch of the newest remote segment that ends within the local log.

    One request is made. If the local file is damaged or cannot be read, the next older remote segment is compared
    instead. The replay reports the damage.

    Args:
        segments: complete segments, in ascending start offset.

    Raises:
        DivergedLogError: the remote segment and the local segment are from two logs.
        CorruptDataError: a chunk of the remote segment is damaged.
    """
    for segment in _readable_newest_first(segments, partition):
        local = _holding(partition.segments, segment.end_offset - 1)
        if local is None:
            continue
        batch = _last_batch(filesystem, local, segment.end_offset)
        if batch is not None:
            _check_same_batch(location, segment, local, batch)
            return


def _readable_newest_first(segments: Iterable[RemoteSegment], partition: Partition) -> list[RemoteSegment]:
    """Return the unencrypted segments of the partition's lineage, newest first."""
    epochs = partition.leader_epochs or ()
    own = (each for each in segments if not each.is_encrypted and each.facts.is_of(epochs))
    return sorted(own, key=lambda each: (each.end_offset, each.attempt), reverse=True)


def _holding(segments: Iterable[Segment], offset: int) -> Segment | None:
    for each in segments:
        if each.base_offset <= offset and (each.next_base_offset is None or offset < each.next_base_offset):
            return each
    return None


def _check_same_batch(location: RemoteLocation, segment: RemoteSegment, local: Segment, batch: _Batch) -> None:
    position = segment.metadata.segment_size - batch.size
    remote = b"" if position < 0 else fetch_range(location.store, segment, position, _HEADER.size)
    if remote != batch.header:
        raise DivergedLogError(
            f"{local.log.path}: the last batch before offset {segment.end_offset} is {_said(batch.header)}, but "
            f"in {location.log_uri(segment.metadata)} it is {_said(remote)}",
            hint="two different logs have the same topic id: run tier on the replica whose log is in remote storage. "
            "If this log belongs to a clone of the cluster, give the clone another --remote",
        )


def _said(header: bytes) -> str:
    if len(header) < _HEADER.size:
        return "none"
    base_offset, _, _, crc, *_ = _HEADER.unpack(header)
    return f"offset {base_offset} with CRC {crc:08x}"


def _last_batch(filesystem: FileSystem, local: Segment, end: int) -> _Batch | None:
    """Return the last batch below `end`; None if the file is damaged, unreadable or ends below `end`."""
    try:
        with filesystem.open(local.log.path) as file:
            # If the offset index is damaged, read the file from its first byte.
            for position in sorted({_begin(filesystem, local, end), 0}, reverse=True):
                if (found := _walk(file, local, position, end)) is not None:
                    return found
    except OSError:
        return None
    return None


def _walk(file: BinaryIO, local: Segment, position: int, end: int) -> _Batch | None:
    """Return the last batch below `end`. Read from `position` on; return None if the batches are not contiguous."""
    last: _Batch | None = None
    while position < local.log.size:
        file.seek(position)
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return None
        found = _Batch(header, _OVERHEAD + int(_HEADER.unpack(header)[1]))
        if found.base_offset >= end:
            return last
        if found.size <= _HEADER.size or found.base_offset < local.base_offset:
            return None
        last, position = found, position + found.size
    is_reached = last is not None and (local.next_base_offset == end or last.end_offset >= end)
    return last if position == local.log.size and is_reached else None


def _begin(filesystem: FileSystem, local: Segment, end: int) -> int:
    """Return the position of a batch below `end`, from the offset index; 0 if the index is missing or damaged."""
    if local.offset_index is None:
        return 0
    try:
        with filesystem.open(local.offset_index.path) as file:
            entries = decode_offset_index(file.read(local.offset_index.size), base_offset=local.base_offset)
    except (CorruptIndexError, OSError):
        return 0
    return position_of(entries, end - 1)
