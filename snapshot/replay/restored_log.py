"""Write the small files of a restored log: indexes and snapshots, rebuilt from its segments.

Remote indexes and snapshots are not trusted. One pass over each segment checks the CRC-32C of every batch and writes:

    .index .timeindex   the indexes that a broker's recovery would rebuild from the segment
    .txnindex           rebuilt in the same way; without it, read_committed would show aborted records. If the remote
                        index also has transactions that began below the log start, the remote index is used
    .snapshot           at each base offset after the first and at the log end: the remote snapshot if all its entries
                        agree with the log, else the fold of the log

The log ends with an empty active segment at its end offset. So every restored segment is closed, and the last snapshot
is at a base offset. Even after an unclean start, a broker reads only batches that were checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import starmap

import numpy as np

from tiersnap.snapshot.errors import CorruptDataError, CorruptIndexError
from tiersnap.snapshot.formats import indexes, snapshot_file, transaction_index
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.index_rebuild import IndexRebuild
from tiersnap.snapshot.log.leader_epochs import EpochCheck
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.producer_fold import NONE
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.partition_replay import replay_partition
from tiersnap.snapshot.replay.restored_kinds import RestoredFiles, RestoredTransaction
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment
from tiersnap.snapshot.units import count_of

_SHUN = (
    "if another remote segment has the same offsets, restore without this one: tiersnap restore … --without SEGMENT_ID"
)


@dataclass(frozen=True, slots=True)
class TierParts:
    """The remote objects of one segment.

    An object is None if it is missing, or if the segment was cut and the object does not match the remaining part.
    """

    name: str  # the source of the segment, for messages
    offset_index: bytes | None = None
    time_index: bytes | None = None
    transaction_index: bytes | None = None
    snapshot: bytes | None = None  # at the segment's next base offset


@dataclass
class RestoredLog:
    """The result of `replay_restored`."""

    log_end_offset: int = 0
    open_transactions: tuple[RestoredTransaction, ...] = ()
    files: RestoredFiles = field(default_factory=RestoredFiles)

    @property
    def last_stable_offset(self) -> int:
        """Return the exclusive last stable offset of a log whose high watermark is at its end."""
        return min([self.log_end_offset, *(opened.first_offset for opened in self.open_transactions)])


Put = Callable[[str, bytes | None], None]


def replay_restored(
    filesystem: FileSystem,
    partition: Partition,
    leader_epochs: LeaderEpochs,
    *,
    fetch: Callable[[Segment], TierParts],
    put: Put,
    empty_state: bool = False,
    expiry: BrokerExpiry,
) -> RestoredLog:
    """Check a restored log, and write its small files.

    Args:
        partition: closed segments, and the empty active segment at the log end. Other files of the partition are not
            read.
        fetch: called for each closed segment, ascending; when it returns, the segment's `.log` file must exist.
        put: called with the name and content of each file. A content of None means that this file must not exist.
        empty_state: whether the snapshot at the log end gets only the result of `only_open_transactions`.
        expiry: a remote snapshot may lack producers that have expired by these rules.

    Raises:
        CorruptDataError: a batch is damaged, a broker's replay would fail, or batches contradict the last offset or
            leader epochs in the metadata of their segment.
    """
    return _Pass(filesystem, partition, leader_epochs, fetch, put, empty_state).run(expiry)


def only_open_transactions(entries: np.ndarray) -> np.ndarray:
    """Return the entries (ENTRY_DTYPE) with an open transaction, without their last batches.

    With these entries, a broker recognizes no retry and refuses no sequence, but read_committed still hides the records
    of open transactions. With an empty snapshot, read_committed would show them.
    """
    kept = entries[entries["current_txn_first_offset"] >= 0].copy()
    kept["last_sequence"] = kept["last_offset"] = NONE
    kept["offset_delta"] = 0
    return kept


def _open_transactions(deltas: np.ndarray) -> list[RestoredTransaction]:
    """Return the open transactions of deltas (DELTA_DTYPE), by ascending first offset."""
    opened = deltas[deltas["txn_first_offset"] >= 0]
    rows = opened[["producer_id", "producer_epoch", "txn_first_offset"]].tolist()
    return sorted(starmap(RestoredTransaction, rows), key=lambda each: each.first_offset)


@dataclass
class _Pass:
    filesystem: FileSystem
    partition: Partition
    leader_epochs: LeaderEpochs
    fetch: Callable[[Segment], TierParts]
    put: Put
    empty_state: bool

    def __post_init__(self) -> None:
        self._epoch_check = EpochCheck(self.leader_epochs)
        self._history_from = self.partition.segments[0].base_offset
        self._ongoing = np.empty(0, transaction_index.ONGOING_TXN_DTYPE)
        self._snapshot: bytes | None = None  # the remote snapshot at the next base offset
        self._pending: bytes | None = None
        self._found = RestoredLog()

    def run(self, expiry: BrokerExpiry) -> RestoredLog:
        found, end = self._found, self.partition.segments[-1].base_offset
        replay, boundaries = replay_partition(self.partition, self._read_runs, lambda _: self._snapshot)
        for boundary in boundaries:
            verdict, reason = boundary.found.verdict(expiry), boundary.found.explanation
            # Decide by the strict comparison, which uses no clock, so that each restore of these segments writes the
            # same files.
            data = self._snapshot if boundary.found.is_start else None
            if data is None:
                data = snapshot_file.encode(boundary.entries)
                found.files.rebuilt_snapshots.append((boundary.offset, reason))
            if verdict in (SnapshotVerdict.SUSPECT, SnapshotVerdict.CORRUPT):
                found.files.doubts.append(f"the remote snapshot at offset {boundary.offset} is {verdict}: {reason}")
            largest = int(boundary.entries["producer_id"].max(initial=-1))
            found.files.largest_producer_id = max(found.files.largest_producer_id, largest)
            if boundary.offset == end:
                entries = boundary.entries
                if self.empty_state:
                    entries = only_open_transactions(entries)
                    data = snapshot_file.encode(entries)
                found.files.producers = int(entries.size)
            self.put(snapshot_file.file_name(boundary.offset), data)
            found.files.snapshots += 1
        if replay.refusal is not None:
            raise CorruptDataError(f"{self.partition.name}: {replay.refusal.message}")
        found.log_end_offset = end
        if replay.closed_state is not None:
            found.open_transactions = tuple(_open_transactions(replay.closed_state.deltas))
        return found

    def _read_runs(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd]:
        self._snapshot, self._pending = self._pending, None
        if segment.next_base_offset is None:
            stem = f"{segment.base_offset:020d}"
            for suffix in ("log", "index", "timeindex"):
                self.put(f"{stem}.{suffix}", b"")
            return fold_segment(self.filesystem, segment, cuts=cuts)
        tier = self.fetch(segment)
        rebuild, aborted = IndexRebuild(segment.base_offset), []

        def on_rows(rows: np.ndarray) -> None:
            rebuild.add(rows)
            found, self._ongoing = transaction_index.rebuild(rows, self._ongoing)
            aborted.append(found)
            self._check_epochs(rows, tier.name)

        runs, end = fold_segment(self.filesystem, segment, cuts=cuts, on_rows=on_rows)
        if end.finding is not None:
            finding = end.finding
            raise CorruptDataError(
                f"{tier.name}: {finding.finding_kind} at byte {max(finding.position, 0)}: {finding.message}",
                hint=_SHUN,
                base_offset=segment.base_offset,
            )
        if end.last_offset + 1 < segment.next_base_offset == self.partition.segments[-1].base_offset:
            raise CorruptDataError(
                f"{tier.name}: the last offset is {end.last_offset}, but the metadata of the segment says "
                f"{segment.next_base_offset - 1}: the log would end above its last record",
                hint=f"{_SHUN}; or let the log end below this segment with --until",
                base_offset=segment.base_offset,
            )
        if end.last_offset + 1 < segment.next_base_offset:
            self._found.files.doubts.append(
                f"{tier.name}: the segment ends at offset {end.last_offset}, but the next segment begins at "
                f"{segment.next_base_offset}"
            )
        if end.has_gaps:
            self._found.files.doubts.append(f"{tier.name}: records are missing inside the segment, as after compaction")
        self._put_indexes(segment, tier, rebuild, end)
        self._put_transactions(segment, tier, np.concatenate(aborted) if aborted else None)
        self._pending = tier.snapshot
        return runs, end

    def _check_epochs(self, rows: np.ndarray, name: str) -> None:
        known = rows["partition_leader_epoch"]
        self._found.files.largest_leader_epoch = max(self._found.files.largest_leader_epoch, int(known.max(initial=-1)))
        wrong = self._epoch_check.first_wrong(rows)
        if wrong is not None:
            raise CorruptDataError(
                f"{name}: the batch at offset {wrong.base_offset} has leader epoch {wrong.written}, but the "
                f"metadata of the segment says {wrong.expected}",
                hint=_SHUN,
            )

    def _put_indexes(self, segment: Segment, tier: TierParts, rebuild: IndexRebuild, end: SegmentEnd) -> None:
        base, stem = segment.base_offset, f"{segment.base_offset:020d}"
        offsets, times = rebuild.finish()
        made = [
            indexes.encode_offset_index(offsets, base_offset=base),
            indexes.encode_time_index(times, base_offset=base),
        ]
        if end.legacy_count:
            # Entries of magic 0 and 1 are not decoded, so only the remote indexes have their positions.
            if tier.offset_index is None or tier.time_index is None:
                raise CorruptDataError(
                    f"{tier.name}: the segment cannot be cut, because it has entries of magic 0 or 1"
                )
            indexes.decode_offset_index(tier.offset_index, base_offset=base, name=f"{tier.name}: offset index")
            indexes.decode_time_index(tier.time_index, base_offset=base, name=f"{tier.name}: time index")
            made = [tier.offset_index, tier.time_index]
        for suffix, theirs, ours in zip(
            ("index", "timeindex"), (tier.offset_index, tier.time_index), made, strict=True
        ):
            self._found.files.rebuilt_indexes += theirs is not None and theirs != ours
            self.put(f"{stem}.{suffix}", ours)

    def _put_transactions(self, segment: Segment, tier: TierParts, aborted: np.ndarray | None) -> None:
        ours = np.empty(0, transaction_index.ABORTED_TXN_DTYPE) if aborted is None else aborted
        data = transaction_index.encode(ours) if ours.size else None
        name = f"{tier.name}: transaction index"
        try:
            theirs = transaction_index.decode(tier.transaction_index or b"", base_offset=segment.base_offset, name=name)
            if self._knows_more(theirs, ours):
                data = tier.transaction_index
            elif tier.offset_index is not None and not np.array_equal(theirs, ours):
                self._found.files.doubts.append(
                    f"{name}: the remote index has {count_of(theirs.size, 'aborted transaction')}, which differ "
                    f"from the {ours.size} in the log"
                )
        except CorruptIndexError as error:
            self._found.files.doubts.append(error.message)
        self._found.files.transaction_indexes += data is not None
        self.put(f"{segment.base_offset:020d}.txnindex", data)

    def _knows_more(self, theirs: np.ndarray, ours: np.ndarray) -> bool:
        """Return whether `theirs` equals `ours` plus transactions that began below the first segment."""
        from_below = theirs["first_offset"] < self._history_from
        if not from_below.any():
            return False
        # The log may contain the later part of such a transaction, which ends with the same marker.
        same_marker = np.isin(ours["last_offset"], theirs["last_offset"][from_below])
        names = ["producer_id", "first_offset", "last_offset"]
        return np.array_equal(theirs[~from_below][names], ours[~same_marker][names])
