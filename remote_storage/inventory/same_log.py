"""Compare a local log with remote storage by bytes: a diverged clone has the same ids, epochs, offsets and sizes.

Two logs that parted do not meet again, since each batch has its own CRC. So the last batch of the newest segment that
both hold is enough: a few bytes of the file, and one request.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import BinaryIO

from tiersnap.remote_storage.errors import DivergedLogError
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.formats.indexes import decode_offset_index, position_of
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, Segment

_HEADER = struct.Struct(">qi4xbI")  # base offset, length, magic, CRC-32C


def check_same_log(
    location: RemoteLocation, segments: Sequence[RemoteSegment], filesystem: FileSystem, partition: Partition
) -> None:
    """Compare the newest remote segment that the local log has, too; one request, none without such a segment.

    Args:
        segments: complete ones, in ascending start offset.

    Raises:
        DivergedLogError: they are segments of two logs.
    """
    local = {(each.base_offset, each.next_base_offset): each for each in partition.segments}
    for segment in reversed(segments):
        found = local.get(segment.bounds)
        if found is None or segment.chunks is not None or segment.is_encrypted:
            continue
        if segment.facts.is_of(partition.leader_epochs or ()):
            check_same_segment(location, segment, filesystem, found)
            return


def check_same_segment(
    location: RemoteLocation, segment: RemoteSegment, filesystem: FileSystem, local: Segment
) -> None:
    """Compare the last batch of a remote segment that is stored as it is with that of a local segment.

    Nothing is compared if the local file is damaged or cannot be read: the replay of the log reports that.

    Raises:
        DivergedLogError: it is another batch.
    """
    try:
        with filesystem.open(local.log.path) as file:
            position, header = _last_batch(file, local.log.size, _begin(filesystem, local))
    except OSError:
        return
    if len(header) < _HEADER.size or segment.metadata.segment_size != local.log.size:
        return
    remote = _read(location.store, location.layout.log_key(segment.metadata), position)
    if remote != header:
        raise DivergedLogError(
            f"{local.log.path}: its last batch is not that of {location.log_uri(segment.metadata)}: "
            f"{_said(header)} here, {_said(remote)} there",
            hint="two logs with one topic id: tier from the replica whose log is in remote storage, and give a clone "
            "another --remote",
        )


def _read(store: ObjectStore, key: str, position: int) -> bytes:
    return store.get_range(key, position, _HEADER.size)


def _said(header: bytes) -> str:
    if len(header) < _HEADER.size:
        return "none"
    base_offset, _, _, crc = _HEADER.unpack(header)
    return f"offset {base_offset} with CRC {crc:08x}"


def _last_batch(file: BinaryIO, size: int, position: int) -> tuple[int, bytes]:
    """Return the position and the header of the last batch; an empty header if no batch ends at `size`."""
    last, header = position, b""
    while position < size:
        file.seek(position)
        header, last = file.read(_HEADER.size), position
        if len(header) < _HEADER.size:
            break
        position += 12 + max(_HEADER.unpack(header)[1], 0)
    return last, header if position == size else b""


def _begin(filesystem: FileSystem, local: Segment) -> int:
    """Return the position of a batch near the end, by the offset index; 0 without a sound one."""
    if local.offset_index is None:
        return 0
    try:
        with filesystem.open(local.offset_index.path) as file:
            entries = decode_offset_index(file.read(local.offset_index.size), base_offset=local.base_offset)
    except (CorruptIndexError, OSError):
        return 0
    return position_of(entries, (1 << 63) - 1)
