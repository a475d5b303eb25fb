"""Compute the producer state at the first offset of a scan window, and the boundaries below it.

A segment below the window is decoded only to complete the entry of a producer. The computed snapshot at the end of such
a segment contains only open transactions, because these never expire. If an entry is still incomplete at the first
local segment, and the log begins in remote storage, the state at the first local offset is read from remote storage.

The window follows KIP-952: a producer without a batch in the window has expired, and a snapshot may omit it. If the
first batch of a producer in the window is a marker, its last data batch is older. If that first batch is transactional,
the transaction may have begun earlier. In both cases older segments are read until the entry is complete: the producer
is *followed back*. If that first batch is not transactional, the producer is assumed to have no transactions. UNSEEN
lists everything that no scan of the window can find.

An open transaction never expires, and may have no batch in the window. So the open transactions at the window's start
need a proof. Without a proof, no computed snapshot may be written:

    a broker's snapshot   A file exists at the window's first offset and has at least one entry. Producers with an open
                          transaction in the file are followed back. The file must agree with the log about all
                          producers that were followed back. An empty file proves nothing: a broker that finds no file
                          writes an empty one (LogLoader). If the log begins in remote storage, no file proves anything:
                          a rebuilt replica loses its producers (KAFKA-14467)
    the cluster           The leader's last stable offset is in the window, and the local log reaches the leader's high
                          watermark. So the window contains a marker for each transaction that was open at its start

The log of the transaction coordinator proves nothing: the coordinator does not know hanging transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.kernels.fold import CLEAR, SET
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.producer_fold import DELTA_DTYPE, OpenTransaction, OpenTransactions, ProducerFold, to_entries
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.partition_state import Boundary
from tiersnap.snapshot.replay.replay_start import StartState
from tiersnap.snapshot.replay.segment_runs import WindowDecode, fold_segment
from tiersnap.snapshot.replay.snapshot_comparison import ReadSnapshot, found_at

# Limits that the plan prints; docs/scan-window.md explains them.
UNSEEN = (
    "transactions that ended before the window. If a segment ends inside such a transaction, and its snapshot lacks "
    "the transaction, the upload refuses the segment",
    "earlier markers of a producer that has no transaction in the window. The snapshot then has coordinator epoch -1 "
    "for this producer",
    "errors in a broker's snapshot whose offset is before the window. `run` uploads such a snapshot as "
    "BROKER_UNVERIFIED if the file is readable",
)


def window_offset(bases: Sequence[int], largest_timestamps: Sequence[int | None], since: int) -> int | None:
    """Return the base offset of the window's first segment; None if the window is the whole log.

    Args:
        bases: ascending base offsets of the log's segments.
        largest_timestamps: ms, for each segment. A segment with an unknown timestamp, None, is in the window.
        since: ms; all timestamps in a segment below the window are older.
    """
    for base, largest in zip(bases, largest_timestamps, strict=True):
        if largest is None or largest >= since:
            if base == bases[0]:
                return None
            return base
    if len(bases) < 2:
        return None
    return bases[-1]


def proving_offset(bases: Iterable[int], snapshots: Collection[int], read_snapshot: ReadSnapshot) -> int | None:
    """Return the greatest base offset with a readable, non-empty snapshot file, or None.

    Such a file may prove which transactions are open at its offset.

    Args:
        bases: base offsets of the segments at which a window may begin.
        snapshots: offsets of the snapshot files.
    """
    for offset in sorted(set(bases).intersection(snapshots), reverse=True):
        entries = found_at(offset, read_snapshot).entries
        if entries is not None and entries.size:
            return offset
    return None


@dataclass(frozen=True, slots=True)
class LeaderOffsets:
    """The last stable offset of a partition's leader, and its high watermark at a later time. Both are exclusive."""

    leader_stable_offset: int
    leader_high_watermark: int  # transactions that began below the stable offset have their markers below this offset

    def proves(self, offset: int, log_end: int) -> bool:
        """Return whether each transaction open at `offset` has its marker in a local log that ends at `log_end`."""
        return self.leader_stable_offset >= offset and log_end >= self.leader_high_watermark


def is_partial(deltas: np.ndarray) -> np.ndarray:
    """Return a mask of the deltas (DELTA_DTYPE) whose entries depend on batches below their run."""
    has_batch = np.isin(deltas["batch_action"], (SET, CLEAR))
    may_have_begun_before = (deltas["txn_first_offset"] >= 0) & (deltas["has_marker"] == 0)
    partial: np.ndarray = ~has_batch | may_have_begun_before
    return partial


class FirstSeen:
    """The producers of a window, by the segment in which each appears first.

    Attributes:
        transactional: ids of the transactional producers, by the base offset of their first segment.
    """

    def __init__(self) -> None:
        self._seen = np.empty(0, np.int64)
        self.transactional: dict[int, list[int]] = {}

    def add(self, base_offset: int, deltas: np.ndarray) -> None:
        """Add the next deltas of the segment at `base_offset`. Producer ids ascend within one call."""
        is_new = ~np.isin(deltas["producer_id"], self._seen)
        new = deltas.compress(is_new)
        if new.size:
            self._seen = np.union1d(self._seen, new["producer_id"])
        # A run with a marker may begin inside a transaction, even if the entry is complete at the end of the run.
        found = new["producer_id"].compress(is_partial(new) | (new["has_marker"] == 1))
        if found.size:
            self.transactional.setdefault(base_offset, []).extend(found.tolist())


class FollowedBack:
    """The state of the producers that the window shows only in part. It comes from the segments below the window.

    Attributes:
        segments: (base offset, deltas of these producers) for each segment, ascending.
        reached_beginning: whether a producer was still incomplete after all segments below the window were read.
    """

    def __init__(self, producers: Iterable[int], older: Iterable[tuple[int, np.ndarray]]) -> None:
        """Read older segments until the entry of each producer is complete.

        Args:
            producers: producer ids.
            older: (base offset, deltas of the whole segment), descending from the last segment below the window. The
                iteration stops when all entries are complete.
        """
        wanted = np.unique(np.fromiter(producers, np.int64))
        found: list[tuple[int, np.ndarray]] = []
        known = np.empty(0, DELTA_DTYPE)
        segments = iter(older)
        while wanted.size and (segment := next(segments, None)) is not None:
            base_offset, deltas = segment
            mine = deltas.compress(np.isin(deltas["producer_id"], wanted))
            if mine.size:
                found.append((base_offset, mine))
                known = _combined((mine, known))
                partial = known["producer_id"].compress(is_partial(known))
                heard = np.isin(wanted, known["producer_id"], assume_unique=True)
                wanted = np.union1d(wanted[~heard], np.intersect1d(wanted, partial))
        self._followed_to_the_beginning = wanted
        self.reached_beginning = bool(wanted.size)
        self.segments: Sequence[tuple[int, np.ndarray]] = found[::-1]

    @property
    def deltas(self) -> np.ndarray:
        """Return the deltas of `segments`, combined into one run that ends at the window's start."""
        return _combined(deltas for _, deltas in self.segments)

    def open_entries(self, ends: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (end, entries with an open transaction) for each segment end below the window, ascending.

        Incomplete entries are omitted: their transactions began in older segments, which were not read.
        """
        producers, place = ProducerFold(), 0
        for end in ends:
            while place < len(self.segments) and self.segments[place][0] < end:
                producers.combine(self.segments[place][1])
                place += 1
            deltas = producers.deltas()
            is_known = ~is_partial(deltas) | np.isin(deltas["producer_id"], self._followed_to_the_beginning)
            yield end, to_entries(deltas.compress((deltas["txn_first_offset"] >= 0) & is_known))


def _open(entries: np.ndarray) -> np.ndarray:
    """Return the entries (ENTRY_DTYPE) with an open transaction."""
    return entries.compress(entries["current_txn_first_offset"] >= 0)


def _combined(runs: Iterable[np.ndarray]) -> np.ndarray:
    producers = ProducerFold()
    for deltas in runs:
        producers.combine(deltas)
    return producers.deltas()


_NOBODY = np.empty(0, ENTRY_DTYPE)
_TRANSACTION = ["producer_id", "current_txn_first_offset"]
_UNVERIFIED = Comparison(SnapshotVerdict.UNVERIFIED, "not compared: the file is below the scan window")


def _transactions(entries: np.ndarray) -> OpenTransactions:
    """Return the open transactions of entries (ENTRY_DTYPE)."""
    return tuple(OpenTransaction(*each) for each in _open(entries)[_TRANSACTION].tolist())


class WindowStart:
    """The state at the start of a scan window, and the boundaries below it, for the replay of one partition.

    Attributes:
        state: the state at the window's first offset, for the producers that the window shows only in part.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        partition: Partition,
        offset: int,
        decodes: Iterable[WindowDecode],
        *,
        is_continued: bool,
        before: Callable[[], StartState | None],
        read_snapshot: ReadSnapshot,
        leader: LeaderOffsets | None,
    ) -> None:
        """Find the producers that the window shows only in part, and follow them back.

        Args:
            offset: base offset of the window's first segment.
            decodes: decodes of the window's segments, ascending.
            is_continued: whether the log begins, or may begin, in remote storage.
            before: returns the state at the first local offset, or None if it is unknown.
            read_snapshot: reads the snapshot files.
            leader: offsets that the leader returned; None without a cluster.

        Raises:
            CorruptDataError: a segment below the window is damaged, and a producer's entry depends on its batches.
        """
        self._filesystem, self._partition, self._offset = filesystem, partition, offset
        self._ask_before, self._has_before = before, False
        first, log_end = FirstSeen(), 0
        for decode in decodes:
            first.add(decode.base_offset, decode.deltas)
            log_end = max(log_end, decode.log_end)
        is_proven_by_leader = leader is not None and leader.proves(offset, log_end)
        shown = _NOBODY
        if not is_proven_by_leader and not is_continued:
            shown = self._shown(read_snapshot)
        producers: Iterable[int] = ()
        if is_proven_by_leader or shown.size:
            producers = chain(_open(shown)["producer_id"].tolist(), self._seen_before(first))
        self._followed = FollowedBack(producers, self._older())
        unproven = ""
        if not is_proven_by_leader:
            unproven = self._why_unproven(shown)
        is_unknown = is_continued and not self._has_before and self._followed.reached_beginning
        self._provenance = Provenance.COMPUTED_WITHIN_WINDOW
        if is_unknown or unproven:
            self._provenance = Provenance.COMPUTED_FROM_LOCAL_START
        deltas = self._followed.deltas
        self.state = StartState(
            offset, deltas, offset, has_adopted=False, lacks_start=is_unknown, transactions_unknown=unproven
        )

    def _seen_before(self, first: FirstSeen) -> Iterator[int]:
        """Yield the transactional producers of the window that may have older batches."""
        for base_offset, producers in first.transactional.items():
            yield from self._not_new(base_offset, producers)

    def _shown(self, read_snapshot: ReadSnapshot) -> np.ndarray:
        """Return the entries of the snapshot file at the window's start; empty if no file can be read."""
        entries = found_at(self._offset, read_snapshot).entries
        return _NOBODY if entries is None else entries

    def _why_unproven(self, shown: np.ndarray) -> str:
        """Return why the open transactions at the window's start are unproven, or "" if the snapshot file proves them.

        The open transactions in the file must equal the open transactions of the same producers in the log.
        """
        why = f"the scan window begins at offset {self._offset}, and nothing proves which transactions are open there"
        if not shown.size:
            return why
        if set(_transactions(to_entries(self._followed.deltas))) == set(_transactions(shown)):
            return ""
        return f"{why}: the snapshot file contradicts the log"

    def boundaries(self, offsets: Iterable[int], read_snapshot: ReadSnapshot) -> Iterator[Boundary]:
        """Yield the boundaries up to the window's first offset, ascending.

        A boundary's `open_transactions` come from the broker's snapshot file at its offset, or from the log if no file
        can be read. An upload starts from these transactions, and then checks that the snapshot at the segment's end
        names every transaction that is open there.
        """
        ends = sorted(offset for offset in offsets if offset <= self._offset)
        for end, entries in self._followed.open_entries(ends):
            found = found_at(end, read_snapshot)
            comparison, opened = _UNVERIFIED, found.entries
            if opened is None:
                comparison, opened = found.comparison, entries
            yield Boundary(
                end,
                entries.view,
                self._provenance,
                comparison,
                self._offset,
                open_now=partial(_transactions, opened),
                file=found.file,
            )

    def _older(self) -> Iterator[tuple[int, np.ndarray]]:
        for segment in reversed(self._partition.segments):
            if segment.base_offset < self._offset:
                runs, end = fold_segment(self._filesystem, segment)
                if end.finding is not None:
                    raise CorruptDataError(
                        f"producers cannot be followed back beyond the scan window: {end.finding}",
                        hint="to find the damage: tiersnap scan LOGDIR. A run with --scan exact would stop at the "
                        "damage too",
                        at="",
                    )
                yield segment.base_offset, runs[0].deltas
        if (before := self._ask_before()) is not None:
            self._has_before = True
            yield before.offset - 1, before.deltas

    def _not_new(self, base_offset: int, producers: list[int]) -> Iterator[int]:
        """Yield the producers that may have batches below this segment.

        Their first batch in the segment is not sequence 0 of epoch 0.
        """
        wanted, is_new = np.unique(producers), dict[int, bool]()

        def look(rows: np.ndarray) -> None:
            mine = rows.compress(np.isin(rows["producer_id"], wanted))
            found, first = np.unique(mine["producer_id"], return_index=True)
            begins = (mine["producer_epoch"][first] == 0) & (mine["base_sequence"][first] == 0)
            for producer_id, begins_here in zip(found.tolist(), begins.tolist(), strict=True):
                is_new.setdefault(producer_id, begins_here)

        segment = next(each for each in self._partition.segments if each.base_offset == base_offset)
        fold_segment(self._filesystem, segment, check_crc=False, on_rows=look)
        return (producer_id for producer_id in producers if not is_new.get(producer_id, False))
