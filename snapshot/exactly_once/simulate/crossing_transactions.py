"""Transactions that are open at a segment's end, and what comes of them behind it.

A follower that begins with an empty snapshot there sees the rest of such a transaction and not its beginning. Of one
that is aborted it writes no entry into its transaction index, and serves what lies before the snapshot as if it were
committed; of one that writes on it takes the first write that it sees for the beginning. KIP-952 does not speak of
either. An upload waits until the last stable offset is above the segment, so on the leader all of them are decided,
but their markers lie behind it.

Follows org.apache.kafka.storage.internals.log.ProducerAppendInfo: a transactional batch opens, a marker of whatever
epoch closes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.formats.record_batch import ABORT, COMMIT, CONTROL_MASK, LOG_OVERHEAD, TRANSACTIONAL_MASK


@dataclass(slots=True)
class Crossing:
    """The transactions that are open at an offset; all counts are exact.

    Attributes:
        open_transactions: all of them.
        aborted: those that are aborted behind it; `aborted_records` and `aborted_bytes` lie before it, and consumers
            that read committed data would get them.
        beginning_late: those that write on behind it: they would seem to begin there.
        undecided: those that the log shows no marker of.
    """

    open_transactions: int = 0
    aborted: int = 0
    aborted_records: int = 0
    aborted_bytes: int = 0
    beginning_late: int = 0
    undecided: int = 0


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
        crossing = self.found[offset] = Crossing(open_transactions=len(self._open), undecided=len(self._open))
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
