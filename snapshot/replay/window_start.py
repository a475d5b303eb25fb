"""The state at the edge of a scan window, and what is said of the boundaries before it.

The segments before the window are not decoded, but for those that a producer has to be followed back into, which are
read here and now. At their ends a snapshot holds what cannot have expired: the transactions that are open there. Where
the log goes back further in remote storage, that is asked what came before the first file, if a producer leads there.

The window is that of KIP-952: a producer that was last heard of before it has expired, and a snapshot may leave it out.
One that the window shows in part is followed back until what was found is complete: if it begins with a marker, the
last data batch lies before; if with transactional data, the transaction may have begun before. UNSEEN says what no scan
of the window can find: a producer whose first batch in the window is not transactional is taken for one that never was.

An open transaction never expires, and one that began before the window may show nothing in it. So the window needs a
proof of what is open where it begins, or nothing of it is computed:

    a broker's snapshot   at the window's first offset, with at least one entry, that agrees with the log about the
                          producers that were followed back; what it names as open is followed back, too. An empty one
                          proves nothing: brokers write such files when they find none (LogLoader). Nor does one of a
                          log that begins in remote storage: a rebuilt replica forgets (KAFKA-14467)
    the cluster           the leader's last stable offset is in the window, and the log here reaches the leader's high
                          watermark: what was open at the window's begin has ended, and its marker is in the window

The coordinator's log proves nothing: a transaction that hangs is one that its coordinator does not know.
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

# Sentences for the plan; docs/scan-window.md says more.
UNSEEN = (
    "transactions that ended before the window: a segment that ends inside one needs a snapshot that names it",
    "markers before the window of a producer that writes without transactions in it: its coordinator epoch is written "
    "as -1",
    "what a broker's snapshot before the window says: it is tiered as BROKER_UNVERIFIED if it can be read",
)


def window_offset(bases: Sequence[int], largest_timestamps: Sequence[int | None], since: int) -> int | None:
    """Base offset of the first segment of the window, None where it is the whole log.

    Args:
        bases: ascending base offsets of the log's segments.
        largest_timestamps: ms, of each segment; None where nobody knows, which puts it into the window.
        since: ms; all segments before the window are older.
    """
    for base, largest in zip(bases, largest_timestamps, strict=True):
        if largest is None or largest >= since:
            return None if base == bases[0] else base
    return bases[-1] if len(bases) > 1 else None


def proving_offset(bases: Iterable[int], snapshots: Collection[int], read_snapshot: ReadSnapshot) -> int | None:
    """Return the greatest of the base offsets with a snapshot file that may prove what is open there; None without one.

    Args:
        bases: those of the segments that a window may begin with.
        snapshots: offsets of the files.
    """
    for offset in sorted(set(bases).intersection(snapshots), reverse=True):
        entries = found_at(offset, read_snapshot).entries
        if entries is not None and entries.size:
            return offset
    return None


@dataclass(frozen=True, slots=True)
class LeaderOffsets:
    """Offsets of a partition as its leader told them, both exclusive; the second was asked after the first."""

    leader_stable_offset: int
    leader_high_watermark: int  # each transaction that began below the stable offset has its marker below it


def is_partial(deltas: np.ndarray) -> np.ndarray:
    """Mask of the deltas (DELTA_DTYPE) whose entries depend on what came before their run."""
    has_batch = np.isin(deltas["batch_action"], (SET, CLEAR))
    may_have_begun_before = (deltas["txn_first_offset"] >= 0) & (deltas["has_marker"] == 0)
    partial: np.ndarray = ~has_batch | may_have_begun_before
    return partial


class FirstSeen:
    """The offsets at which the window's runs, ascending, first show each producer.

    Attributes:
        transactional: ids of the transactional producers, by the base offset of that segment.
    """

    def __init__(self) -> None:
        self._seen = np.empty(0, np.int64)
        self.transactional: dict[int, list[int]] = {}

    def add(self, base_offset: int, deltas: np.ndarray) -> None:
        """The next run, of the segment at `base_offset`; deltas ascend in producer id within a part of a run."""
        is_new = ~np.isin(deltas["producer_id"], self._seen)
        new = deltas.compress(is_new)
        if new.size:
            self._seen = np.union1d(self._seen, new["producer_id"])
        # A run that ends complete may have begun inside a transaction, so each of them is looked at.
        found = new["producer_id"].compress(is_partial(new) | (new["has_marker"] == 1))
        if found.size:
            self.transactional.setdefault(base_offset, []).extend(found.tolist())


class FollowedBack:
    """The state of the producers that the window shows in part, by the segments before it.

    Attributes:
        segments: (base offset, deltas of those producers), ascending; one segment each.
        reached_beginning: whether a producer was not complete even at the last segment that `older` gave.
    """

    def __init__(self, producers: Iterable[int], older: Iterable[tuple[int, np.ndarray]]) -> None:
        """Read until every producer is complete.

        Args:
            producers: ids.
            older: (base offset, deltas of the whole segment), from the last segment before the window downwards; read
                no further than is needed.
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
        """Return the deltas of all that was found, as one run that ends at the window's begin."""
        return _combined(deltas for _, deltas in self.segments)

    def open_entries(self, ends: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """(offset, entries with an open transaction there) at each of the ascending segment ends before the window.

        Only entries that are complete there: of others the beginning lies further back than anybody had to look.
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
_UNVERIFIED = Comparison(SnapshotVerdict.UNVERIFIED, "not compared: it lies before the window that was scanned")


def _transactions(entries: np.ndarray) -> OpenTransactions:
    """Return the open transactions of entries (ENTRY_DTYPE)."""
    return tuple(OpenTransaction(*each) for each in _open(entries)[_TRANSACTION].tolist())


class WindowStart:
    """The start of the replay of a partition that is scanned within the expiration.

    Attributes:
        state: of the producers that the window shows in part, at its first offset.
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
        """Find what the window shows in part, and follow it back.

        Args:
            offset: base offset of the window's first segment.
            decodes: of the window's segments, ascending.
            is_continued: the log goes back further in remote storage, or may.
            before: asks for the state where the files begin, None where nobody knows it.
            leader: what its leader says; None if no cluster was asked.

        Raises:
            CorruptDataError: a segment before the window is damaged, and a producer has to be followed through it.
        """
        self._filesystem, self._partition, self._offset = filesystem, partition, offset
        self._ask_before, self._has_before = before, False
        first, log_end = FirstSeen(), 0
        for decode in decodes:
            first.add(decode.base_offset, decode.deltas)
            log_end = max(log_end, decode.log_end)
        is_told = (
            leader is not None and leader.leader_stable_offset >= offset and log_end >= leader.leader_high_watermark
        )
        shown = _NOBODY if is_told or is_continued else self._shown(read_snapshot)
        seen = (each for base, found in first.transactional.items() for each in self._not_new(base, found))
        producers = chain(_open(shown)["producer_id"].tolist(), seen) if is_told or shown.size else ()
        self._followed = FollowedBack(producers, self._older())
        unproven = "" if is_told else self._why_unproven(shown)
        is_unknown = is_continued and not self._has_before and self._followed.reached_beginning
        lacks_start = is_unknown or bool(unproven)
        self._provenance = Provenance.COMPUTED_FROM_LOCAL_START if lacks_start else Provenance.COMPUTED_WITHIN_WINDOW
        deltas = self._followed.deltas
        self.state = StartState(
            offset, deltas, offset, has_adopted=False, lacks_start=is_unknown, transactions_unknown=unproven
        )

    def _shown(self, read_snapshot: ReadSnapshot) -> np.ndarray:
        """Return the entries of the snapshot file at the window's begin; nobody if none can be read."""
        entries = found_at(self._offset, read_snapshot).entries
        return _NOBODY if entries is None else entries

    def _why_unproven(self, shown: np.ndarray) -> str:
        """Return why nothing proves what is open at the window's begin; "" if the entries of the snapshot there do.

        They must name as open what the log says of the same producers.
        """
        why = f"the scan window begins at {self._offset}, and nothing proves which transactions are open there"
        if not shown.size:
            return why
        ours, theirs = (_open(each)[_TRANSACTION].tolist() for each in (to_entries(self._followed.deltas), shown))
        return "" if set(ours) == set(theirs) else f"{why}: the snapshot file says otherwise than the log"

    def boundaries(self, offsets: Iterable[int], read_snapshot: ReadSnapshot) -> Iterator[Boundary]:
        """Yield the boundaries up to the window's first offset, ascending.

        Each upload proves that its snapshot names every transaction that is open at the segment's end. So a boundary's
        snapshot, the broker's file if it exists, names the transactions that are open where the next segment begins.
        """
        ends = sorted(offset for offset in offsets if offset <= self._offset)
        for end, entries in self._followed.open_entries(ends):
            found = found_at(end, read_snapshot)
            yield Boundary(
                end,
                entries.view,
                self._provenance,
                found.comparison if found.entries is None else _UNVERIFIED,
                self._offset,
                open_now=partial(_transactions, entries if found.entries is None else found.entries),
                file=found.file,
            )

    def _older(self) -> Iterator[tuple[int, np.ndarray]]:
        for segment in reversed(self._partition.segments):
            if segment.base_offset < self._offset:
                runs, end = fold_segment(self._filesystem, segment)
                if end.finding is not None:
                    raise CorruptDataError(
                        f"producers cannot be followed back beyond the window: {end.finding}",
                        hint="tiersnap scan LOGDIR says what is damaged; --scan exact stops at it",
                        at="",
                    )
                yield segment.base_offset, runs[0].deltas
        if (before := self._ask_before()) is not None:
            self._has_before = True
            yield before.offset - 1, before.deltas

    def _not_new(self, base_offset: int, producers: list[int]) -> Iterator[int]:
        """Those that may have been there before: sequence 0 of epoch 0 is the first batch of any producer id."""
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
