"""Find faults in the index files of a closed segment, by the size of a file and the order of its entries.

A valid index satisfies these rules:

    offset index        length is a multiple of 8; positions ascend, are above 0 (the first batch has no entry) and
                        below the size of the log; offsets ascend and are inside the segment
    time index          length is a multiple of 12; timestamps and offsets do not descend; offsets are inside the
                        segment; the last timestamp is the largest of the segment
    transaction index   length is a multiple of 34, version is 0; markers ascend and are inside the segment

A broker trims the padding of an index when it closes the segment. If zeros remain after the last entry, the broker
reads these zeros as entries, and its lookups return wrong results. No broker detects such zeros: LogSegment.sanityCheck
skips the offset index and the time index, and RemoteLogManager uploads all three indexes without a check. This module
reads no batches; snapshot.repair.index_check compares the entries with the batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.errors import CorruptIndexError
from tiersnap.snapshot.formats import transaction_index
from tiersnap.snapshot.formats.indexes import OFFSET_ENTRY_ON_DISK, TIME_ENTRY_ON_DISK
from tiersnap.snapshot.formats.record_batch import LOG_OVERHEAD, SMALLEST_LEGACY_SIZE
from tiersnap.snapshot.units import count_of

LENGTHS = {
    "offset index": OFFSET_ENTRY_ON_DISK.itemsize,
    "time index": TIME_ENTRY_ON_DISK.itemsize,
    "transaction index": transaction_index.ABORTED_TXN_ON_DISK.itemsize,
}
"""Bytes of an entry, by the name of the index."""
_SMALLEST_BATCH = LOG_OVERHEAD + SMALLEST_LEGACY_SIZE


@dataclass(frozen=True, slots=True)
class SegmentExtent:
    """The bounds of a segment that the entries of its indexes must respect."""

    base_offset: int
    last_offset: int  # upper bound: no batch has a larger last offset
    size: int  # bytes of the log
    largest_timestamp: int | None = None  # ms; -1 if no batch has a timestamp, None if unknown


def fault_of_size(name: str, size: int, log_size: int) -> str:
    """Return the fault in the size of an index file, or "" if there is none.

    Args:
        name: a key of LENGTHS.
        size: bytes of the index file.
        log_size: bytes of the segment's `.log` file.
    """
    length = LENGTHS[name]
    if size % length:
        return f"the size is {count_of(size, 'byte')}, which is not a multiple of {length}"
    if size // length > log_size // _SMALLEST_BATCH + 1:
        return (
            f"the index has {count_of(size // length, 'entry', 'entries')}, more than a log of {log_size} bytes can "
            "have"
        )
    return ""


def fault_of_order(name: str, data: bytes, extent: SegmentExtent) -> str:
    """Return the first fault in an index file of a closed segment, or "" if there is none.

    Args:
        name: a key of LENGTHS.
        data: content of the index file.
    """
    if fault := fault_of_size(name, len(data), extent.size):
        return fault
    return _FAULTS[name](data, extent)


def _of_offsets(data: bytes, extent: SegmentExtent) -> str:
    raw = np.frombuffer(data, OFFSET_ENTRY_ON_DISK)
    last, end = extent.last_offset - extent.base_offset, extent.size - 1
    return _out_of_order(raw, "position", least=1, most=end, step=1) or _out_of_order(
        raw, "relative_offset", least=0, most=last, step=1
    )


def _of_times(data: bytes, extent: SegmentExtent) -> str:
    raw = np.frombuffer(data, TIME_ENTRY_ON_DISK)
    last, largest = extent.last_offset - extent.base_offset, extent.largest_timestamp
    fault = _out_of_order(raw, "timestamp", least=0, most=np.iinfo(np.int64).max, step=0) or _out_of_order(
        raw, "relative_offset", least=0, most=last, step=0
    )
    said = int(raw["timestamp"][-1]) if raw.size else -1
    if fault or said == largest:
        return fault
    if largest is not None:
        return f"the index ends with timestamp {said}, but the largest timestamp of the segment is {largest}"
    return "the index ends with timestamp 0, like unused padding" if said == 0 else ""


def _of_transactions(data: bytes, extent: SegmentExtent) -> str:
    try:
        entries = transaction_index.decode(data, base_offset=extent.base_offset, name="")
    except CorruptIndexError as error:
        return error.message.strip()
    first_offsets, last_offsets = entries["first_offset"], entries["last_offset"]
    beyond = np.flatnonzero((last_offsets > extent.last_offset) | (first_offsets > last_offsets))
    if not beyond.size:
        return ""
    index = int(beyond[0])
    first, last = int(first_offsets[index]), int(last_offsets[index])
    position = index * LENGTHS["transaction index"]
    return (
        f"at byte {position}: the transaction from offset {first} to {last} is not within the segment, whose last "
        f"offset is {extent.last_offset}"
    )


_FAULTS = {"offset index": _of_offsets, "time index": _of_times, "transaction index": _of_transactions}


def _out_of_order(raw: np.ndarray, field: str, *, least: int, most: int, step: int) -> str:
    """Return a message about the first value that is too small or too large, or "" if there is none.

    A value must be at least `least`, at most `most`, and at least `step` above the previous value.
    """
    values = raw[field].astype(np.int64)
    lowest = np.empty(values.size, np.int64)
    lowest[:1] = least
    lowest[1:] = np.maximum(values[:-1] + step, least)
    wrong = np.flatnonzero((values < lowest) | (values > most))
    if not wrong.size:
        return ""
    index = int(wrong[0])
    found, name, position = int(values[index]), field.replace("_", " "), index * raw.dtype.itemsize
    expected = f"at most {most}" if found > most else f"at least {int(lowest[index])}"
    return f"at byte {position}: {name} expected {expected}, found {found}"
