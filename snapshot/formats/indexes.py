"""Encode and decode the offset index (`.index`) and the time index (`.timeindex`) of a segment.

    offset index, 8 bytes an entry          time index, 12 bytes an entry
      off len type   field                    off len type   field
        0   4 int32  relativeOffset             0   8 int64  timestamp       ms, largest so far
        4   4 int32  position                   8   4 int32  relativeOffset  last offset of the timestamp's batch

Big-endian, without header and checksum; offsets are relative to the segment's base offset. An entry of the offset index
has the last offset of a batch, and the byte position where that batch starts. Brokers preallocate the files of an
active segment, so zeros at the end are padding. A time index whose only entry is timestamp 0 at the base offset looks
like padding. The decoder reads such an index as empty, because lookups return the same results as in an empty index.

Follows org.apache.kafka.storage.internals.log.OffsetIndex and TimeIndex.
"""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.errors import CorruptIndexError

LARGEST_RELATIVE_OFFSET = 2**31 - 1

OFFSET_ENTRY_DTYPE = np.dtype([("offset", "<i8"), ("position", "<i4")])
TIME_ENTRY_DTYPE = np.dtype([("timestamp", "<i8"), ("offset", "<i8")])  # ms

OFFSET_ENTRY_ON_DISK = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY_ON_DISK = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])

_HINT = "delete the file: the broker rebuilds it from the log at its next start"


def decode_offset_index(data: bytes, *, base_offset: int, name: str = "offset index") -> np.ndarray:
    """Return the entries (OFFSET_ENTRY_DTYPE, offsets and positions ascending) of a `.index` file, without padding.

    Raises:
        CorruptIndexError: the length is no multiple of 8, an offset is below the base, or entries do not ascend.
    """
    raw = _entries(data, OFFSET_ENTRY_ON_DISK, name)
    _check_ascending(raw["relative_offset"], "relative offset", OFFSET_ENTRY_ON_DISK, name, lowest=0, strictly=True)
    _check_ascending(raw["position"], "position", OFFSET_ENTRY_ON_DISK, name, lowest=0, strictly=True)
    entries = np.empty(raw.size, OFFSET_ENTRY_DTYPE)
    entries["offset"] = raw["relative_offset"].astype(np.int64) + base_offset
    entries["position"] = raw["position"]
    return entries


def decode_time_index(data: bytes, *, base_offset: int, name: str = "time index") -> np.ndarray:
    """Return the entries (TIME_ENTRY_DTYPE, both fields ascending) of a `.timeindex` file, without padding.

    Raises:
        CorruptIndexError: the length is no multiple of 12, an offset is below the base, or entries descend.
    """
    raw = _entries(data, TIME_ENTRY_ON_DISK, name)
    _check_ascending(raw["timestamp"], "timestamp", TIME_ENTRY_ON_DISK, name, lowest=-1, strictly=False)
    _check_ascending(raw["relative_offset"], "relative offset", TIME_ENTRY_ON_DISK, name, lowest=0, strictly=False)
    entries = np.empty(raw.size, TIME_ENTRY_DTYPE)
    entries["timestamp"] = raw["timestamp"]
    entries["offset"] = raw["relative_offset"].astype(np.int64) + base_offset
    return entries


def encode_offset_index(entries: np.ndarray, *, base_offset: int) -> bytes:
    """Return the file bytes of `entries` (OFFSET_ENTRY_DTYPE).

    Raises:
        CorruptIndexError: an offset is below the base offset, or 2^31 or more above it.
    """
    raw = np.empty(entries.size, OFFSET_ENTRY_ON_DISK)
    raw["relative_offset"] = relative_offsets(entries["offset"], base_offset)
    raw["position"] = entries["position"]
    return raw.tobytes()


def encode_time_index(entries: np.ndarray, *, base_offset: int) -> bytes:
    """Return the file bytes of `entries` (TIME_ENTRY_DTYPE).

    Raises:
        CorruptIndexError: an offset is below the base offset, or 2^31 or more above it.
    """
    raw = np.empty(entries.size, TIME_ENTRY_ON_DISK)
    raw["timestamp"] = entries["timestamp"]
    raw["relative_offset"] = relative_offsets(entries["offset"], base_offset)
    return raw.tobytes()


def position_of(entries: np.ndarray, offset: int) -> int:
    """Return the byte position at which to start scanning for the batch that contains `offset`."""
    index = int(np.searchsorted(entries["offset"], offset, side="right")) - 1
    return int(entries["position"][index]) if index >= 0 else 0


def relative_offsets(offsets: np.ndarray, base_offset: int) -> np.ndarray:
    """Return the offsets minus the base offset, as an index stores them.

    Raises:
        CorruptIndexError: an offset is below the base offset, or 2^31 or more above it.
    """
    relative = offsets - base_offset
    bad = np.flatnonzero((relative < 0) | (relative > LARGEST_RELATIVE_OFFSET))
    if bad.size:
        found = int(offsets[bad[0]])
        raise CorruptIndexError(
            f"index of the segment {base_offset}: found offset {found}, expected {base_offset} to "
            f"{base_offset + LARGEST_RELATIVE_OFFSET}",
            hint="at its next start the broker splits a segment that spans more than 2^31 offsets",
            base_offset=base_offset,
            found=found,
        )
    return relative


def _entries(data: bytes, dtype: np.dtype, name: str) -> np.ndarray:
    if len(data) % dtype.itemsize:
        whole = len(data) - len(data) % dtype.itemsize
        raise CorruptIndexError(
            f"{name} at byte {whole}: the length is {len(data)}, expected a multiple of {dtype.itemsize}",
            hint=_HINT,
            file=name,
            position=whole,
            expected=whole,
            found=len(data),
        )
    used = len(data.rstrip(b"\0"))
    return np.frombuffer(data, dtype, -(-used // dtype.itemsize))


def _check_ascending(
    values: np.ndarray, field: str, dtype: np.dtype, name: str, *, lowest: int, strictly: bool
) -> None:
    least = np.empty(values.size, np.int64)
    least[:1] = lowest
    least[1:] = values[:-1] + np.int64(strictly)
    bad = np.flatnonzero(values < least)
    if bad.size:
        index = int(bad[0])
        expected, found, position = int(least[index]), int(values[index]), index * dtype.itemsize
        raise CorruptIndexError(
            f"{name} at byte {position}: {field} expected at least {expected}, found {found}",
            hint=_HINT,
            file=name,
            position=position,
            expected=expected,
            found=found,
        )
