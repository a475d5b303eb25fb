"""Encode and decode producer snapshot files (`<20 digits>.snapshot`).

    off len type    field
      0   2 int16   version = 1, the only one
      2   4 uint32  crc, CRC-32C over bytes 6 .. end
      6   4 int32   entry count n
     10      n entries of 46 bytes:
          0   8 int64  producerId
          8   2 int16  producerEpoch
         10   4 int32  lastSequence            -1 without a cached batch
         14   8 int64  lastOffset              -1 without a cached batch
         22   4 int32  offsetDelta             last - base offset of the cached batch; 0 without one
         26   8 int64  timestamp               ms
         34   4 int32  coordinatorEpoch        -1 without a marker
         38   8 int64  currentTxnFirstOffset   -1 without an open transaction

Big-endian; follows org.apache.kafka.storage.internals.log.ProducerStateManager (ProducerSnapshot.json). The offset in
the file name is exclusive: the file contains the state after all batches below that offset. tiersnap writes entries in
ascending producer id, so that equal states give equal files. Brokers write entries in hash order and read any order.
"""

from __future__ import annotations

import struct

import numpy as np

from tiersnap.snapshot.errors import CorruptSnapshotError
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.units import count_of

ENTRY_DTYPE = np.dtype(
    [
        ("producer_id", "<i8"),
        ("producer_epoch", "<i2"),
        ("last_sequence", "<i4"),
        ("last_offset", "<i8"),
        ("offset_delta", "<i4"),
        ("timestamp", "<i8"),  # ms
        ("coordinator_epoch", "<i4"),
        ("current_txn_first_offset", "<i8"),
    ]
)

VERSION = 1
_HEADER = struct.Struct(">hIi")  # version, crc, entry count
_CRC_START = 6
_ENTRY_ON_DISK = np.dtype([(name, ENTRY_DTYPE[name].newbyteorder(">")) for name in ENTRY_DTYPE.names or ()])
ENTRY_LENGTH = _ENTRY_ON_DISK.itemsize
HEADER_LENGTH = _HEADER.size


def size_of(count: int) -> int:
    """Return the size in bytes of a snapshot with `count` entries."""
    return HEADER_LENGTH + ENTRY_LENGTH * count


def encode(entries: np.ndarray) -> bytes:
    """Return the file bytes of `entries` (ENTRY_DTYPE), in ascending producer id.

    If a producer has several entries, only the last one is written.
    """
    entries = _ascending(entries)
    # Only one buffer: a million entries take 46 MB, and further copies would exceed a worker's memory budget.
    data = bytearray(size_of(entries.size))
    np.frombuffer(data, _ENTRY_ON_DISK, entries.size, HEADER_LENGTH)[:] = entries
    _HEADER.pack_into(data, 0, VERSION, 0, entries.size)
    _HEADER.pack_into(data, 0, VERSION, crc32c(memoryview(data)[_CRC_START:]), entries.size)
    return bytes(data)


def decode(data: bytes, *, name: str = "snapshot") -> np.ndarray:
    """Return the entries (ENTRY_DTYPE, ascending producer id) in the bytes of a snapshot file.

    If a producer has several entries, only the last one is returned, as in ProducerStateManager.loadFromSnapshot.

    Raises:
        CorruptSnapshotError: see `checked`.
    """
    return _ascending(checked(data, name=name).astype(ENTRY_DTYPE))


def checked(data: bytes, *, name: str = "snapshot") -> np.ndarray:
    """Return a view of the entries in snapshot bytes: fields of ENTRY_DTYPE, big-endian, in the order of the file.

    Raises:
        CorruptSnapshotError: the data is too short, has another version or a wrong CRC, or its length contradicts the
            entry count. Kafka's reader refuses such a file.
    """
    hint = "brokers skip or delete such a file; to rebuild it from the log: tiersnap repair LOGDIR"
    if len(data) < HEADER_LENGTH:
        raise CorruptSnapshotError(
            f"{name}: the file has {count_of(len(data), 'byte')}, but a snapshot has at least {HEADER_LENGTH}",
            hint=hint,
            found=len(data),
        )
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"{name}: the version at byte 0 is {version}, expected {VERSION}", hint=hint)
    expected_length = size_of(count)
    if len(data) != expected_length:
        raise CorruptSnapshotError(
            f"{name}: the file has {count_of(len(data), 'byte')}, but a snapshot of "
            f"{count_of(count, 'entry', 'entries')} (the count at byte 6) has {expected_length}",
            hint=hint,
        )
    actual = crc32c(memoryview(data)[_CRC_START:])
    if actual != crc:
        raise CorruptSnapshotError(
            f"{name}: the CRC at byte 2 is {crc:08x}, but the CRC of the bytes from 6 on is {actual:08x}", hint=hint
        )
    return np.frombuffer(data, _ENTRY_ON_DISK, count, HEADER_LENGTH)


def _ascending(entries: np.ndarray) -> np.ndarray:
    """Return the entries in ascending producer id, with only the last entry of each producer."""
    ids = entries["producer_id"]
    if (ids[1:] > ids[:-1]).all():
        return entries
    entries = entries.take(np.argsort(ids, kind="stable"))
    ids = entries["producer_id"]
    is_last = np.append(ids[1:] != ids[:-1], True)
    return entries if is_last.all() else entries.compress(is_last)


def file_name(offset: int) -> str:
    """Return `<20 digits>.snapshot` for an exclusive snapshot offset."""
    return f"{offset:020d}.snapshot"
