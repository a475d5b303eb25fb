"""Are the indexes of a segment what its batches say? One pass over the batches answers, and makes those that are not.

An index is right if every look-up in it ends where it should; it need not be the one that a recovery would write. A
live broker indexes by append and not by batch, so a follower has one entry for all that one fetch brought.

    offset index   every position is where a batch starts; every offset is the last one of a batch that starts there or
                   behind; no batch lies more than LARGEST_SCAN bytes behind an indexed one (or the start of the
                   segment); it is not empty where a recovery would write an entry
    time index     every entry has the largest timestamp up to the first batch that has it and an offset in that batch
                   (brokers before 3.0 name the record, not the last offset of the batch); where the timestamp has
                   grown, an entry says so within LARGEST_SCAN bytes; the last one is the segment's largest
    transaction    exactly the aborted transactions whose markers lie in the segment; where it is not known which
    index          transactions were open at its start, the file may tell of such, and the batches must bear it out

Zeros behind the last entry are what a broker preallocates, and are cut; any other bytes behind it are wrong.

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

# Bytes: a follower's fetch of a partition (replica.fetch.max.bytes, 1 MiB) and what came before it without an entry.
LARGEST_SCAN = 2 << 20
_ROWS = 8192
_NONE_OPEN = np.empty(0, transaction_index.ONGOING_TXN_DTYPE)

_FAULTS = {
    kernels.NO_BATCH_THERE: "an entry points where no batch starts",
    kernels.NO_SUCH_OFFSET: "an entry has an offset that no batch has",
    kernels.NOT_ITS_BATCH: "an entry points behind the batch of its offset",
    kernels.NOT_LARGEST_TIMESTAMP: "an entry has not the largest timestamp up to its batch",
    kernels.TOO_SPARSE: f"batches of more than {LARGEST_SCAN} bytes have no entry",
}


@dataclass(frozen=True, slots=True)
class FoundIndexes:
    """File bytes of the indexes beside a segment; None where there is no file."""

    offset_index: bytes | None = None
    time_index: bytes | None = None
    transaction_index: bytes | None = None


@dataclass(frozen=True, slots=True)
class CheckedIndexes:
    """File bytes of indexes that the batches bear out."""

    offset_index: bytes
    time_index: bytes
    transaction_index: bytes | None  # None for a segment without aborted transactions, as a broker has it
    # Why, by "offset index", "time index" and "transaction index", for those that were missing or wrong.
    rebuilt: dict[str, str]
    # Transactions were aborted here, no right file names them, and nobody knows what was open before: what was made
    # again is right only for a log that begins with the segment.
    lacks_transactions: bool = False


class IndexCheck:
    """The indexes of one segment, while its bytes pass by in pieces of any length."""

    def __init__(self, base_offset: int, found: FoundIndexes, open_transactions: np.ndarray | None) -> None:
        """Begin with the first byte of the segment.

        Args:
            open_transactions: those open at `base_offset` (ONGOING_TXN_DTYPE), by the producer snapshot there; None
                where nobody knows, at the start of a log whose beginning is gone.
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
        # Where nobody knows what was open the file is asked, and what follows from its word must be all that it says.
        claims = None if open_transactions is not None else _claims(found.transaction_index, base_offset)
        self._claimed = None if claims is None else _Aborted(claims)
        self._knows_open, self._has_abort = open_transactions is not None, False

    @property
    def open_transactions(self) -> np.ndarray:
        """Return those open behind the batches that passed (ONGOING_TXN_DTYPE), as far as the start was known."""
        return self._aborted.ongoing

    def update(self, piece: memoryview) -> None:
        """Go on with the next bytes of the segment; `piece` is not kept.

        Raises:
            CorruptIndexError: an offset that no index of this segment can hold: more than 2^31 above the base.
        """
        self._feed.update(piece)

    def finish(self) -> CheckedIndexes:
        """Return the indexes to keep, and the rebuilt ones to keep instead, after the last byte.

        Raises:
            CorruptDataError: the bytes are no whole segment.
        """
        if self._feed.is_over or self._feed.left_over:
            raise CorruptDataError(
                f"segment {self._base_offset}: no whole entry of a log at byte {self._feed.position}",
                hint="tiersnap scan SOURCE shows the place; restore the segment from another replica",
            )
        offset_entries, time_entries = self._rebuild.finish()
        offsets = indexes.encode_offset_index(offset_entries, base_offset=self._base_offset)
        times = indexes.encode_time_index(time_entries, base_offset=self._base_offset)
        largest = int(time_entries["timestamp"][-1]) if time_entries.size else -1
        self._offsets.finish("it is empty" if offset_entries.size and not self._offsets.entries.size else "")
        said = int(self._times.entries["timestamp"][-1]) if self._times.entries.size else -1
        self._times.finish(f"it ends with timestamp {said}, the largest is {largest}" if said != largest else "")
        aborted, fault = self._transaction_index()
        offset_index, time_index = self._offsets.choose(offsets), self._times.choose(times)
        faults = {
            "offset index": self._offsets.fault,
            "time index": self._times.fault,
            "transaction index": fault,
        }
        is_known = self._knows_open or not self._has_abort or bool(aborted and aborted == self._found_aborted)
        rebuilt = {name: why for name, why in faults.items() if why}
        return CheckedIndexes(offset_index, time_index, aborted, rebuilt, lacks_transactions=not is_known)

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
        """Bytes to keep, and why they are not those that were found, or ""."""
        found, rebuilt = self._found_aborted, transaction_index.encode(self._aborted.entries())
        if (found or b"") == rebuilt:
            return rebuilt or None, ""
        if found and self._claimed is not None and _bears_out(self._claimed.entries(), found, self._base_offset):
            return found, ""
        if found is None:
            return rebuilt, "it is missing"
        return rebuilt or None, "it does not hold the aborted transactions whose markers are in the segment"


class _Entries:
    """Entries of a found offset or time index, compared with the batches as they pass by.

    Attributes:
        fault: why the index is not to be kept, or "".
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
            self.fault = "an entry lies behind the last batch"
        self.fault = self.fault or fault

    def choose(self, rebuilt: bytes) -> bytes:
        """The found bytes without padding where nothing is wrong with them, else the rebuilt ones."""
        if self._data is None or (self.fault and self._data != rebuilt):
            return rebuilt
        self.fault = ""
        return self._data[: self.entries.size * self._entry_length] or rebuilt


class _Aborted:
    """The transaction index of a segment made again, from the transactions open at its start.

    Attributes:
        ongoing: those open behind the batches so far (ONGOING_TXN_DTYPE).
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
    """Return the transactions (ONGOING_TXN_DTYPE) that a file says were open at `base_offset`; None if it is wrong."""
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


def _bears_out(expected: np.ndarray, found: bytes, base_offset: int) -> bool:
    """Return whether the file follows from its own claims; an older transaction that it need not name, because it
    was committed, may hold the last stable offset below the segment.
    """
    entries = transaction_index.decode(found, base_offset=base_offset)
    named = ["producer_id", "first_offset", "last_offset"]
    if entries[named].tolist() != expected[named].tolist():
        return False
    stable = entries["last_stable_offset"]
    return bool(((stable == expected["last_stable_offset"]) | ((stable >= 0) & (stable < base_offset))).all())
