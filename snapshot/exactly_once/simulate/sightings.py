"""The ranges of batches that contain each producer, and the transactions that are open at segment ends.

A follower that starts with an empty snapshot at an offset knows a producer only from batches and markers above the
offset. So one pass over the ranges of batches (Run) gives, for each range, the producers that a follower would know if
the follower started there.

Such a follower does not see the beginning of a transaction that is open at the offset. If the transaction is aborted,
the follower writes no entry into its transaction index, and serves the records below the offset as committed. If the
transaction continues, the follower takes the first write above the offset for the beginning. KIP-952 mentions neither
case. An upload waits until the last stable offset is above the segment. So at the upload all these transactions have
ended on the leader, but their markers are above the segment.

Follows org.apache.kafka.storage.internals.log.ProducerAppendInfo: a transactional batch opens a transaction, and a
marker of any epoch closes it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.exactly_once.simulate.risk_kinds import Crossing
from tiersnap.snapshot.formats.record_batch import ABORT, COMMIT, CONTROL_MASK, LOG_OVERHEAD, TRANSACTIONAL_MASK
from tiersnap.snapshot.kernels.fold import KEEP
from tiersnap.snapshot.producer_fold import NONE
from tiersnap.snapshot.replay.segment_runs import Run

SIGHTING_DTYPE = np.dtype(
    [
        ("producer_id", "<i8"),
        # Start offsets of ranges of batches; -1 if there is no such range:
        ("first_seen", "<i8"),  # first range with the producer
        ("last_seen", "<i8"),  # last range with the producer
        ("last_epoch", "<i8"),  # last range with the producer's epoch; emptied batches do not count
        ("last_marker", "<i8"),  # last range with a marker of the producer
    ]
)
_LATEST = ("last_seen", "last_epoch", "last_marker")


class Sightings:
    """A collector of the first and last ranges of batches (Run) that contain each producer.

    Ranges must be added in order.

    It takes 40 bytes per producer, plus up to 80 bytes per producer for ranges that are not sorted yet.
    """

    _HELD = 65_536

    def __init__(self) -> None:
        self._found = np.empty(0, SIGHTING_DTYPE)
        self._held: list[np.ndarray] = []
        self._count = 0

    def add(self, run: Run) -> None:
        """Add the producers of the next range of batches."""
        deltas = run.deltas
        seen = np.empty(deltas.size, SIGHTING_DTYPE)
        seen["producer_id"] = deltas["producer_id"]
        seen["first_seen"] = seen["last_seen"] = run.start_offset
        seen["last_epoch"] = np.where(deltas["batch_action"] != KEEP, run.start_offset, NONE)
        seen["last_marker"] = np.where(deltas["has_marker"] != 0, run.start_offset, NONE)
        self._held.append(seen)
        self._count += deltas.size
        if self._count > max(self._HELD, self._found.size):
            self._settle()

    def found(self) -> np.ndarray:
        """Return all sightings (SIGHTING_DTYPE, ascending producer id)."""
        self._settle()
        return self._found

    def of(self, producer_ids: np.ndarray) -> np.ndarray:
        """Return the sightings (SIGHTING_DTYPE) of some producers. All offsets of an unseen producer are -1."""
        found = self.found()
        wanted = np.empty(producer_ids.size, SIGHTING_DTYPE)
        for name in SIGHTING_DTYPE.names or ():
            wanted[name] = NONE
        wanted["producer_id"] = producer_ids
        if found.size:
            index = np.minimum(np.searchsorted(found["producer_id"], producer_ids), found.size - 1)
            is_there = found["producer_id"][index] == producer_ids
            wanted[is_there] = found[index[is_there]]
        return wanted

    def _settle(self) -> None:
        if not self._held:
            return
        every = np.concatenate([self._found, *self._held])
        every = every.take(np.argsort(every["producer_id"], kind="stable"))
        self._held, self._count = [], 0
        if not every.size:
            return
        ids = every["producer_id"]
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        self._found = np.empty(starts.size, SIGHTING_DTYPE)
        self._found["producer_id"] = ids[starts]
        self._found["first_seen"] = np.minimum.reduceat(every["first_seen"], starts)
        for name in _LATEST:
            self._found[name] = np.maximum.reduceat(every[name], starts)


@dataclass(slots=True)
class _Waiting:
    """A transaction that was open at a segment's end and has no marker yet."""

    crossing: Crossing
    records: int
    bytes: int
    writes_on: bool = False


class CrossingTransactions:
    """A collector of transactions that are open at segment ends. Its memory grows with their number."""

    def __init__(self) -> None:
        self.found: dict[int, Crossing] = {}
        self._open: dict[int, tuple[int, int]] = {}  # producer id -> records, bytes of its open transaction
        self._waiting: defaultdict[int, list[_Waiting]] = defaultdict(list)

    def boundary(self, offset: int) -> None:
        """Record a segment's end. Call this after all batches below `offset` were added, and before any other batch."""
        crossing = self.found[offset] = Crossing(undecided=len(self._open))
        for producer_id, (records, size) in self._open.items():
            self._waiting[producer_id].append(_Waiting(crossing, records, size))

    def add(self, rows: np.ndarray) -> None:
        """Add the next batches (RECORD_BATCH_DTYPE) in offset order."""
        is_control = rows["attributes"] & CONTROL_MASK != 0
        is_marker = is_control & ((rows["control_type"] == ABORT) | (rows["control_type"] == COMMIT))
        is_data = ~is_control & (rows["attributes"] & TRANSACTIONAL_MASK != 0)
        rows = rows.compress((rows["producer_id"] >= 0) & (is_marker | is_data))
        if not rows.size:
            return
        rows = rows.take(np.argsort(rows["producer_id"], kind="stable"))
        ids, is_marker = rows["producer_id"], rows["attributes"] & CONTROL_MASK != 0
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        ends = np.concatenate([starts[1:], [ids.size]])
        places = np.arange(ids.size)
        first = np.minimum(np.minimum.reduceat(np.where(is_marker, places, ids.size), starts), ends)
        last = np.maximum.reduceat(np.where(is_marker, places, -1), starts)
        records = _cumulated(np.where(is_marker, 0, rows["record_count"]))
        sizes = _cumulated(np.where(is_marker, 0, rows["batch_length"] + LOG_OVERHEAD))
        for start, end, head, tail in zip(*(each.tolist() for each in (starts, ends, first, last)), strict=True):
            producer_id = int(ids[start])
            if producer_id in self._waiting:
                is_aborted = head < end and rows["control_type"][head] == ABORT
                self._decide(producer_id, head > start, head < end, is_aborted=bool(is_aborted))
            if tail < 0:
                known = self._open.get(producer_id, (0, 0))
                more = int(records[end] - records[start]), int(sizes[end] - sizes[start])
                self._open[producer_id] = known[0] + more[0], known[1] + more[1]
            elif tail + 1 < end:
                self._open[producer_id] = int(records[end] - records[tail + 1]), int(sizes[end] - sizes[tail + 1])
            else:
                self._open.pop(producer_id, None)

    def _decide(self, producer_id: int, writes_on: bool, is_ended: bool, *, is_aborted: bool) -> None:
        for each in self._waiting[producer_id]:
            if writes_on and not each.writes_on:
                each.writes_on = True
                each.crossing.beginning_late += 1
            if is_ended:
                each.crossing.undecided -= 1
            if is_aborted:
                each.crossing.aborted += 1
                each.crossing.aborted_records += each.records
                each.crossing.aborted_bytes += each.bytes
        if is_ended:
            del self._waiting[producer_id]


def _cumulated(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
