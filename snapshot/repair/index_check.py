"""Compare the indexes of a segment with its batches, and rebuild the wrong ones, in one pass over the batches.

An index is right if every lookup in it returns the right batch. A right index may differ from the one that a recovery
would write. A live broker adds at most one entry per append, and a follower appends all batches of a fetch at once.

    offset index   Every position is the start of a batch. Every offset is the last offset of a batch that starts at
                   the position or later. Each batch starts at most LARGEST_SCAN bytes after an indexed batch or the
                   start of the segment. The index is not empty if a recovery would write an entry.
    time index     Each entry names a batch whose largest timestamp exceeds all earlier timestamps of the segment. The
                   offset of the entry is in this batch (brokers before 3.0 name the record instead of the batch's last
                   offset). After each new largest timestamp, an entry follows within LARGEST_SCAN bytes. The last entry
                   has the segment's largest timestamp.
    transaction    The index has exactly the aborted transactions whose markers are in the segment. If the open
    index          transactions at the segment's start are unknown, they are taken from the index itself. A rebuild that
                   begins with these transactions must then give the entries of the index.

Zeros after the last entry are preallocated by the broker, and are cut. Other bytes after the last entry are wrong.

Follows org.apache.kafka.storage.internals.log.LogSegment: append, onBecomeInactiveSegment, recover.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tiersnap.snapshot.errors import CorruptDataError, CorruptIndexError
from tiersnap.snapshot.formats import indexes, transaction_index
from tiersnap.snapshot.formats.record_batch import ABORT
from tiersnap.snapshot.kernels import index as kernels
from tiersnap.snapshot.log.index_rebuild import IndexRebuild
from tiersnap.snapshot.log.segment_check import EntryFeed
from tiersnap.snapshot.log.segment_walk import compressed_control_record, compressed_controls

# Bytes: a follower's fetch of a partition (replica.fetch.max.bytes, 1 MiB), plus batches before it without an entry.
LARGEST_SCAN = 2 << 20
_ROWS = 8192
_NONE_OPEN = np.empty(0, transaction_index.ONGOING_TXN_DTYPE)

_FAULTS = {
    kernels.NO_BATCH_THERE: "an entry points to a position at which no batch starts",
    kernels.NO_SUCH_OFFSET: "an entry names an offset that no batch has",
    kernels.NOT_ITS_BATCH: "an entry points to a position after the batch that has the entry's offset",
    kernels.NOT_LARGEST_TIMESTAMP: "the timestamp of an entry is not the largest timestamp up to its batch",
    kernels.TOO_SPARSE: f"more than {LARGEST_SCAN} bytes of batches in a row have no entry",
}


@dataclass(frozen=True, slots=True)
class FoundIndexes:
    """The file bytes of a segment's indexes; None for a missing file."""

    offset_index: bytes | None = None
    time_index: bytes | None = None
    transaction_index: bytes | None = None


@dataclass(frozen=True, slots=True)
class CheckedIndexes:
    """The file bytes of indexes that agree with the batches."""

    offset_index: bytes
    time_index: bytes
    transaction_index: bytes | None  # None for a segment without aborted transactions, for which brokers keep no file
    # Why an index was rebuilt, by name: "offset index", "time index", "transaction index".
    rebuilt: dict[str, str]
    # True if the segment has ABORT markers, no right file exists, and the open transactions at its start are unknown.
    # The rebuilt index is then right only for a log that begins with this segment.
    lacks_transactions: bool = False


class IndexCheck:
    """A check of the indexes of one segment. The segment's bytes are streamed in pieces of any length."""

    def __init__(self, base_offset: int, found: FoundIndexes, open_transactions: np.ndarray | None) -> None:
        """Create a check that expects the first byte of the segment.

        Args:
            found: the existing index files.
            open_transactions: the transactions that are open at `base_offset` (ONGOING_TXN_DTYPE), from the producer
                snapshot at that offset. None if they are unknown, for example because earlier segments were deleted.
        """
        self._base_offset = base_offset
        self._feed = EntryFeed(self._consume)
        self._rows = np.empty(_ROWS, kernels.HEADER_DTYPE)
        self._rebuild = IndexRebuild(base_offset)
        decode_offsets = partial(indexes.decode_offset_index, base_offset=base_offset)
        decode_times = partial(indexes.decode_time_index, base_offset=base_offset)
        self._offsets = _Entries(found.offset_index, 8, decode_offsets, kernels.check_offsets, [0, 0])
        self._times = _Entries(found.time_index, 12, decode_times, kernels.check_times, [0, -1, -1])
        self._found_aborted = found.transaction_index
        self._aborted = _Aborted(_NONE_OPEN if open_transactions is None else open_transactions)
        # If the open transactions are unknown, take them from the file. The file must then follow from them exactly.
        self._claimed: _Aborted | None = None
        if open_transactions is None:
            claims = _claims(found.transaction_index, base_offset)
            if claims is not None:
                self._claimed = _Aborted(claims)
        self._knows_open, self._has_abort = open_transactions is not None, False

    @property
    def open_transactions(self) -> np.ndarray:
        """Return the known transactions that are open after the last added batch (ONGOING_TXN_DTYPE)."""
        return self._aborted.ongoing

    def update(self, piece: memoryview) -> None:
        """Add the next bytes of the segment. No reference to `piece` is kept.

        Raises:
            CorruptIndexError: an offset is 2^31 or more above the base offset, so that no index can contain it.
        """
        self._feed.update(piece)

    def finish(self) -> CheckedIndexes:
        """Return the right indexes, existing or rebuilt. Call it after the last byte.

        Raises:
            CorruptDataError: the bytes are not a complete segment.
        """
        if self._feed.is_over or self._feed.left_over:
            raise CorruptDataError(
                f"segment {self._base_offset}: the entry at byte {self._feed.position} is incomplete",
                hint="to see the position: tiersnap scan SOURCE; restore the segment from another replica",
            )
        offset_entries, time_entries = self._rebuild.finish()
        offset_index, time_index = self._offset_index(offset_entries), self._time_index(time_entries)
        aborted, fault = self._transaction_index()
        faults = {
            "offset index": self._offsets.fault,
            "time index": self._times.fault,
            "transaction index": fault,
        }
        return CheckedIndexes(
            offset_index,
            time_index,
            aborted,
            rebuilt={name: why for name, why in faults.items() if why},
            lacks_transactions=self._lacks_transactions(aborted),
        )

    def _offset_index(self, rebuilt: np.ndarray) -> bytes:
        """Return the file's bytes if they are right, else `rebuilt`, the entries that a recovery would write."""
        fault = ""
        if rebuilt.size > 0 and self._offsets.entries.size == 0:
            fault = "it is empty"
        self._offsets.finish(fault)
        return self._offsets.choose(indexes.encode_offset_index(rebuilt, base_offset=self._base_offset))

    def _time_index(self, rebuilt: np.ndarray) -> bytes:
        """Return the file's bytes if they are right, else `rebuilt`, the entries that a recovery would write."""
        found, largest, fault = _last_timestamp(self._times.entries), _last_timestamp(rebuilt), ""
        if found != largest:
            fault = f"the index ends with timestamp {found}, but the largest timestamp of the segment is {largest}"
        self._times.finish(fault)
        return self._times.choose(indexes.encode_time_index(rebuilt, base_offset=self._base_offset))

    def _lacks_transactions(self, aborted: bytes | None) -> bool:
        """Return CheckedIndexes.lacks_transactions; `aborted` are the bytes of the transaction index to keep."""
        if self._knows_open or not self._has_abort:
            return False
        return not aborted or aborted != self._found_aborted

    def _consume(self, buffer: np.ndarray, position: int) -> int | None:
        cursor, reason = 0, kernels.ROWS_FULL
        while reason == kernels.ROWS_FULL:
            cursor, count, reason = kernels.headers(buffer, cursor, position, self._rows)
            rows = self._rows[:count]
            for found in compressed_controls(rows):
                rows["control_type"][found] = compressed_control_record(buffer[rows["position"][found] - position :])[0]
            self._rebuild.add(rows)
            self._offsets.add(rows)
            self._times.add(rows)
            self._aborted.add(rows)
            self._has_abort |= bool(np.any((rows["producer_id"] >= 0) & (rows["control_type"] == ABORT)))
            if self._claimed is not None:
                self._claimed.add(rows)
        return None if reason == kernels.BROKEN else cursor

    def _transaction_index(self) -> tuple[bytes | None, str]:
        """Return (bytes to keep, fault). The fault is "" if the file is right."""
        found, rebuilt = self._found_aborted, transaction_index.encode(self._aborted.entries())
        kept = rebuilt or None  # brokers keep no empty file
        if (found or b"") == rebuilt:
            return kept, ""
        if found is None:
            return kept, "it is missing"
        if self._follows_from_its_claims(found):
            return found, ""
        return kept, "the index differs from the aborted transactions whose markers are in the segment"

    def _follows_from_its_claims(self, found: bytes) -> bool:
        return bool(found) and self._claimed is not None and _agrees(self._claimed.entries(), found, self._base_offset)


class _Entries:
    """The entries of an existing offset or time index, which are compared with the batches in order.

    Attributes:
        fault: why the index is wrong, or "".
    """

    def __init__(
        self,
        data: bytes | None,
        entry_length: int,
        decode: Callable[[bytes], np.ndarray],
        check: Callable[..., int],
        state: list[int],
    ) -> None:
        self._data = data
        self._entry_length = entry_length
        self._check = check
        self._state = np.array(state, np.int64)
        self.entries, self.fault = decode(b""), ""
        if data is None:
            self.fault = "it is missing"
            return
        try:
            self.entries = decode(data)
        except CorruptIndexError as error:
            self.fault = error.message

    def add(self, rows: np.ndarray) -> None:
        if not self.fault:
            self.fault = _FAULTS.get(self._check(rows, self.entries, LARGEST_SCAN, self._state), "")

    def finish(self, fault: str) -> None:
        if not self.fault and self._state[0] < self.entries.size:
            self.fault = "the index has an entry after the last batch"
        self.fault = self.fault or fault

    def choose(self, rebuilt: bytes) -> bytes:
        """Return the file's bytes without padding if the file is right, else the rebuilt bytes."""
        if self._data is None or (self.fault and self._data != rebuilt):
            return rebuilt
        self.fault = ""
        return self._data[: self.entries.size * self._entry_length] or rebuilt


class _Aborted:
    """A rebuild of the transaction index of a segment, from the open transactions at its start.

    Attributes:
        ongoing: open transactions after the last added batch (ONGOING_TXN_DTYPE).
    """

    def __init__(self, ongoing: np.ndarray) -> None:
        self.ongoing = ongoing
        self._parts = [np.empty(0, transaction_index.ABORTED_TXN_DTYPE)]

    def add(self, rows: np.ndarray) -> None:
        rows = rows[rows["producer_id"] >= 0]
        if rows.size == 0:
            return
        aborted, self.ongoing = transaction_index.rebuild(rows, self.ongoing)
        self._parts.append(aborted)

    def entries(self) -> np.ndarray:
        return np.concatenate(self._parts)


def _claims(found: bytes | None, base_offset: int) -> np.ndarray | None:
    """Return the transactions (ONGOING_TXN_DTYPE) that are open at `base_offset` according to the file.

    Return None if the file is wrong.
    """
    try:
        entries = transaction_index.decode(found or b"", base_offset=base_offset)
    except CorruptIndexError:
        return None
    older = entries[entries["first_offset"] < base_offset]
    if np.unique(older["producer_id"]).size != older.size or (older["first_offset"] < 0).any():
        return None
    claims = np.empty(older.size, transaction_index.ONGOING_TXN_DTYPE)
    for name in claims.dtype.names or ():
        claims[name] = older[name]
    return np.sort(claims, order="first_offset")


def _last_timestamp(entries: np.ndarray) -> int:
    return int(entries["timestamp"][-1]) if entries.size else -1


def _agrees(expected: np.ndarray, found: bytes, base_offset: int) -> bool:
    """Return whether the entries of a file equal the expected ones, except for last stable offsets below the segment.

    Such a last stable offset is the start of an older transaction that was committed. A committed transaction has no
    entry, so a rebuild cannot find its start.
    """
    entries = transaction_index.decode(found, base_offset=base_offset)
    named = ["producer_id", "first_offset", "last_offset"]
    if entries[named].tolist() != expected[named].tolist():
        return False
    stable = entries["last_stable_offset"]
    return bool(((stable == expected["last_stable_offset"]) | ((stable >= 0) & (stable < base_offset))).all())
