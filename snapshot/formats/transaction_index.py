"""Encode, decode and rebuild the transaction index (`.txnindex`) of a segment.

    off len type   field
      0   2 int16  version            0; readers check only its first byte
      2   8 int64  producerId
     10   8 int64  firstOffset        of the aborted transaction
     18   8 int64  lastOffset         offset of its ABORT marker, strictly increasing
     26   8 int64  lastStableOffset   first offset of the oldest transaction of another producer that is still open at
                                      that marker, else lastOffset + 1

Big-endian, 34 bytes an entry, no header, no padding. An entry belongs to the segment that contains the ABORT marker. A
broker creates the file for the first entry, so a segment without aborted transactions has no file. Follows
org.apache.kafka.storage.internals.log.TransactionIndex, AbortedTxn and ProducerStateManager.lastStableOffset.
"""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.formats.record_batch import ABORT, COMMIT, CONTROL_MASK, TRANSACTIONAL_MASK

ABORTED_TXN_DTYPE = np.dtype(
    [("producer_id", "<i8"), ("first_offset", "<i8"), ("last_offset", "<i8"), ("last_stable_offset", "<i8")]
)
ABORTED_TXN_ON_DISK = np.dtype(
    [("version", "i1"), ("unread", "u1")] + [(name, ">i8") for name in ABORTED_TXN_DTYPE.names or ()]
)
ONGOING_TXN_DTYPE = np.dtype([("producer_id", "<i8"), ("first_offset", "<i8")])

VERSION = 0
_STILL_OPEN = np.iinfo(np.int64).max
_HINT = (
    "delete the segment's `.index` file: at its next start the broker rebuilds the segment's three indexes from the log"
)


def decode(data: bytes, *, base_offset: int, name: str = "transaction index") -> np.ndarray:
    """Return the entries (ABORTED_TXN_DTYPE, ascending last offset) of a `.txnindex` file.

    Raises:
        CorruptIndexError: the length is no multiple of 34, a version is above 0, or a last offset is below the base
            offset or not above the previous one.
    """
    size = ABORTED_TXN_ON_DISK.itemsize
    whole = len(data) - len(data) % size
    if whole != len(data):
        raise _corrupt(name, whole, "length", f"a multiple of {size}", len(data))
    raw = np.frombuffer(data, ABORTED_TXN_ON_DISK)
    for index in np.flatnonzero(raw["version"] > VERSION)[:1]:
        raise _corrupt(name, int(index) * size, "version", str(VERSION), int(raw["version"][index]))
    last = raw["last_offset"]
    least = np.empty(raw.size, np.int64)
    least[:1] = base_offset
    least[1:] = np.maximum(last[:-1] + 1, base_offset)
    for index in np.flatnonzero(last < least)[:1]:
        raise _corrupt(name, int(index) * size, "last offset", f"at least {least[index]}", int(last[index]))
    entries = np.empty(raw.size, ABORTED_TXN_DTYPE)
    for field in ABORTED_TXN_DTYPE.names or ():
        entries[field] = raw[field]
    return entries


def encode(entries: np.ndarray) -> bytes:
    """Return the file bytes of `entries` (ABORTED_TXN_DTYPE)."""
    raw = np.zeros(entries.size, ABORTED_TXN_ON_DISK)
    for field in ABORTED_TXN_DTYPE.names or ():
        raw[field] = entries[field]
    return raw.tobytes()


def ongoing_transactions(entries: np.ndarray) -> np.ndarray:
    """Return the open transactions (ONGOING_TXN_DTYPE, ascending first offset) of snapshot entries (ENTRY_DTYPE)."""
    opened = entries[entries["current_txn_first_offset"] >= 0]
    return _ongoing(opened["producer_id"], opened["current_txn_first_offset"])


def rebuild(rows: np.ndarray, ongoing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the transaction index entries that consecutive batches of a segment produce.

    Args:
        rows: decoded batches of a segment, or of a window of a segment (RECORD_BATCH_DTYPE, offset order).
        ongoing: transactions (ONGOING_TXN_DTYPE) that began below the first row and are open at the first row. For the
            first window of a segment, take them from the producer snapshot at the segment's base offset. For each later
            window, take them from the previous call.

    Returns:
        Aborted transactions (ABORTED_TXN_DTYPE, ascending last offset), and the transactions that are open after the
            last row (ONGOING_TXN_DTYPE).
    """
    flags = rows["attributes"]
    is_control = (flags & CONTROL_MASK) != 0
    is_marker = is_control & (rows["record_count"] > 0) & np.isin(rows["control_type"], (ABORT, COMMIT))
    is_data = ~is_control & ((flags & TRANSACTIONAL_MASK) != 0)
    rows = rows[(is_marker | is_data) & (rows["producer_id"] >= 0)]

    # Each row is one event. The events are grouped by producer, and an open transaction in `ongoing` comes first.
    producer = np.concatenate([ongoing["producer_id"], rows["producer_id"]])
    offset = np.concatenate([ongoing["first_offset"], rows["base_offset"]])
    control = np.concatenate([np.full(ongoing.size, -1, np.int16), rows["control_type"]])
    order = np.argsort(producer, kind="stable")
    producer, offset, control = producer[order], offset[order], control[order]
    marks_end = control >= ABORT
    after_data = np.zeros(order.size, np.bool_)
    after_data[1:] = ~marks_end[:-1] & (producer[1:] == producer[:-1])

    starts = np.flatnonzero(~marks_end & ~after_data)
    ends = np.flatnonzero(marks_end & after_data)
    ended = np.searchsorted(starts, ends) - 1  # index in `starts` of the transaction that each marker ends
    last = np.full(starts.size, _STILL_OPEN)
    last[ended] = offset[ends]
    still_open = starts[last == _STILL_OPEN]

    aborts = control[ends] == ABORT
    aborted = np.empty(int(aborts.sum()), ABORTED_TXN_DTYPE)
    aborted["producer_id"] = producer[ends[aborts]]
    aborted["first_offset"] = offset[starts[ended[aborts]]]
    aborted["last_offset"] = offset[ends[aborts]]
    aborted["last_stable_offset"] = _last_stable_offsets(offset[starts], last, aborted["last_offset"])
    return np.sort(aborted, order="last_offset"), _ongoing(producer[still_open], offset[still_open])


def _last_stable_offsets(first: np.ndarray, last: np.ndarray, markers: np.ndarray) -> np.ndarray:
    """Return for each marker the first offset of the oldest transaction that is open at the marker, else marker + 1."""
    if first.size == 0:
        return markers + 1
    by_first = np.argsort(first)
    first, last = first[by_first], last[by_first]
    # In order of `first`, the oldest open transaction is where the running maximum of `last` first exceeds the marker.
    oldest = np.searchsorted(np.maximum.accumulate(last), markers, side="right")
    candidate = np.where(oldest < first.size, first[np.minimum(oldest, first.size - 1)], _STILL_OPEN)
    return np.where(candidate < markers, candidate, markers + 1)


def _ongoing(producer_id: np.ndarray, first_offset: np.ndarray) -> np.ndarray:
    ongoing = np.empty(producer_id.size, ONGOING_TXN_DTYPE)
    ongoing["producer_id"] = producer_id
    ongoing["first_offset"] = first_offset
    return np.sort(ongoing, order="first_offset")


def _corrupt(name: str, position: int, field: str, expected: str, found: int) -> CorruptIndexError:
    return CorruptIndexError(
        f"{name} at byte {position}: {field} expected {expected}, found {found}",
        hint=_HINT,
        file=name,
        position=position,
        expected=expected,
        found=found,
    )
