"""Gather during a fold where each producer was seen, and which transactions cross the ends of segments.

Whether a state that began empty at an offset knows a producer, and what it knows of it, follows from where the
producer's batches and markers lie to that offset. So one pass over the runs answers for every offset at which a run
begins, and no state is computed twice.

A follower that begins with an empty snapshot at a segment's end sees the rest of a transaction that crosses it, and not
its beginning. Of one that is aborted it writes no entry into its transaction index, and serves what lies before the
snapshot as if it were committed; of one that writes on it takes the first write that it sees for the beginning.
KIP-952 does not speak of either. An upload waits until the last stable offset is above the segment, so on the leader
all of them are decided, but their markers lie behind it.

Follows org.apache.kafka.storage.internals.log.ProducerAppendInfo: a transactional batch opens, a marker of whatever
epoch closes.
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
        ("first_seen", "<i8"),  # start offset of the first run that names the producer
        ("last_seen", "<i8"),  # of the last one
        ("last_epoch", "<i8"),  # of the last one that says its epoch, -1 where only emptied batches were left of it
        ("last_marker", "<i8"),  # of the last one with a marker of it, -1 without one
    ]
)
_LATEST = ("last_seen", "last_epoch", "last_marker")


class Sightings:
    """The sightings of each producer, collected from runs in ascending order.

    Peak memory is about 40 bytes a producer, and twice as much again for what was not sorted in yet.
    """

    _HELD = 65_536

    def __init__(self) -> None:
        self._found = np.empty(0, SIGHTING_DTYPE)
        self._held: list[np.ndarray] = []
        self._count = 0

    def add(self, run: Run) -> None:
        """Note the producers of the next run."""
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
        """Return SIGHTING_DTYPE, ascending producer id."""
        self._settle()
        return self._found

    def of(self, producer_ids: np.ndarray) -> np.ndarray:
        """Return SIGHTING_DTYPE of these producers; every offset is -1 of one that a snapshot alone knows."""
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
    """A transaction that was open at an offset and is not decided yet."""

    crossing: Crossing
    records: int
    bytes: int
    writes_on: bool = False


class CrossingTransactions:
    """Gathers them while the batches of a log go by; memory grows with the transactions open at segment ends."""

    def __init__(self) -> None:
        self.found: dict[int, Crossing] = {}
        self._open: dict[int, tuple[int, int]] = {}  # producer id -> records, bytes of its open transaction
        self._waiting: defaultdict[int, list[_Waiting]] = defaultdict(list)

    def boundary(self, offset: int) -> None:
        """Note that a segment ends at `offset`: all batches below it were added, and none above."""
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
