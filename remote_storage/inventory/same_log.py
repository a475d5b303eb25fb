"""Compare a local log with remote storage by bytes: a diverged clone has the same ids, epochs, offsets and sizes.

Two logs that parted do not meet again, since each batch has its own CRC. So the last batch of the newest segment of
remote storage that ends in the local log is enough, wherever the local segments are cut: a few bytes of a file, and one
request.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from tiersnap.remote_storage.errors import DivergedLogError
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.formats.indexes import decode_offset_index, position_of
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, Segment

_HEADER = struct.Struct(">qi4xbI")  # base offset, length, magic, CRC-32C
_LENGTH_ENDS = 12  # bytes of a batch that its length does not count


@dataclass(frozen=True, slots=True)
class _Batch:
    """The first bytes of a batch."""

    header: bytes

    @property
    def size(self) -> int:
        """Return its bytes."""
        return int(_LENGTH_ENDS + max(_HEADER.unpack(self.header)[1], 0))

    @property
    def base_offset(self) -> int:
        """Return its first offset; of magic 0 and 1 the last one."""
        return int(_HEADER.unpack(self.header)[0])

    def __str__(self) -> str:
        """Return what tells it from another batch."""
        return f"offset {self.base_offset} with CRC {_HEADER.unpack(self.header)[3]:08x}"


def check_same_log(
    location: RemoteLocation, segments: Sequence[RemoteSegment], filesystem: FileSystem, partition: Partition
) -> None:
    """Compare the newest remote segment that ends in the local log; one request, none without such a segment.

    Args:
        segments: complete ones, in ascending start offset.

    Raises:
        DivergedLogError: they are segments of two logs.
    """
    for segment in reversed(segments):
        local = _local_of(partition, segment)
        if local is None or segment.chunks is not None or segment.is_encrypted:
            continue
        if segment.facts.is_of(partition.leader_epochs or ()):
            check_same_segment(location, segment, filesystem, local)
            return


def _local_of(partition: Partition, segment: RemoteSegment) -> Segment | None:
    """Return the closed local segment that has the last offset of a remote one; None without one."""
    last = segment.end_offset - 1
    return next((each for each in partition.segments if _has(each, last)), None)


def _has(segment: Segment, offset: int) -> bool:
    return segment.next_base_offset is not None and segment.base_offset <= offset < segment.next_base_offset


def check_same_segment(
    location: RemoteLocation, segment: RemoteSegment, filesystem: FileSystem, local: Segment
) -> None:
    """Compare the last batch of a remote segment that is stored as it is with the batch of a local segment there.

    Nothing is compared if the local file is damaged or cannot be read: the replay of the log reports that.

    Raises:
        DivergedLogError: it is another batch.
    """
    size, last_offset = segment.metadata.segment_size, segment.end_offset - 1
    if segment.bounds == (local.base_offset, local.next_base_offset) and size != local.log.size:
        return
    try:
        with filesystem.open(local.log.path) as file:
            found = _last_batch(file, local.log.size, _begin(filesystem, local, last_offset), last_offset)
    except OSError:
        return
    if found is None:
        return
    position = size - found.size
    remote = b""
    if position >= 0:
        remote = location.store.get_range(location.layout.log_key(segment.metadata), position, _HEADER.size)
    if remote != found.header:
        there = str(_Batch(remote)) if len(remote) == _HEADER.size else "none"
        raise DivergedLogError(
            f"{local.log.path}: its batch before offset {segment.end_offset} is not that of "
            f"{location.log_uri(segment.metadata)}: {found} here, {there} there",
            hint="two logs with one topic id: tier from the replica whose log is in remote storage, and give a clone "
            "another --remote",
        )


def _last_batch(file: BinaryIO, size: int, position: int, last_offset: int) -> _Batch | None:
    """Return the last batch that begins at an offset or below; None if the file is damaged before."""
    found = None
    while position < size:
        file.seek(position)
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return None
        batch = _Batch(header)
        if batch.base_offset > last_offset:
            return found
        found, position = batch, position + batch.size
    return found if position == size else None


def _begin(filesystem: FileSystem, local: Segment, offset: int) -> int:
    """Return the position of a batch at an offset or below, by the offset index; 0 without a sound one."""
    if local.offset_index is None:
        return 0
    try:
        with filesystem.open(local.offset_index.path) as file:
            entries = decode_offset_index(file.read(local.offset_index.size), base_offset=local.base_offset)
    except (CorruptIndexError, OSError):
        return 0
    return position_of(entries, offset)
