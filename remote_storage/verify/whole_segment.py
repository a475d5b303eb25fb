"""Verify the complete remote segments of one partition in ascending offset."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts.layout import INDEXES_OF_ENTRIES, IndexType
from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.remote_log.remote_log import differs_from_claim, snapshot_in_claim
from tiersnap.remote_storage.remote_log.remote_segment import (
    RemoteSegment,
    decode_lineage,
    read_indexes,
    read_segment,
)
from tiersnap.remote_storage.remote_log.remote_state import count_lost
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.verify.local_log import LocalComparison
from tiersnap.remote_storage.verify.segment_log import SegmentFault, SegmentLog, combined, read_log
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.formats.index_order import LENGTHS, SegmentExtent, fault_of_order
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest, ComparedWith, RemoteVerdict
from tiersnap.snapshot.gate.trusted import COMPARED
from tiersnap.snapshot.producer_fold import ProducerFold, to_entries
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.snapshot_comparison import compare
from tiersnap.snapshot.units import count_of

_SMALL = 1 << 20  # limit in bytes for indexes that are read in advance, for dozens of segments at once
_ALIKE = "the snapshot has the same bytes as"
Indexes = Mapping[IndexType, bytes | None]
_ReadError = CorruptDataError | ObjectNotFoundError


@dataclass(frozen=True, slots=True)
class ReasonedVerdict:
    """The verdict on a segment, the reason, and the source of the comparison."""

    verdict: RemoteVerdict
    reason: str
    compared_with: ComparedWith = ComparedWith.NOTHING


_COMPLETE = ReasonedVerdict(
    RemoteVerdict.NOT_COMPARED, "all objects exist with the right sizes; the snapshot was not read"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The producer state at an offset, from a sound snapshot."""

    offset: int
    entries: np.ndarray


@dataclass
class _Fold:
    """The replay of the remote log over the offsets [start, end)."""

    start: int
    end: int
    producers: ProducerFold = field(default_factory=ProducerFold)


@dataclass
class WholeSegmentCheck:
    """Verifies segments. Callers must pass them in ascending base offset.

    Attributes:
        store: the store of the remote location.
        asked: depth, time and producer expiration of the check.
        claimed: segments that have a claim.
        compared: see PartitionCheck.
        local: comparisons and digests from the local log.
        is_of_log: returns whether a segment is in the lineage.
        digests: digest of each undamaged log that `judge` has read, by segment id.
    """

    store: ObjectStore
    asked: CheckRequest
    claimed: Container[ClaimedSegment]
    compared: Mapping[int, int]
    local: LocalComparison
    is_of_log: Callable[[RemoteSegment], bool]
    digests: dict[str, str] = field(default_factory=dict)
    _known: _Known | None = None
    _skipped: SegmentObjects | None = None
    _fold: _Fold | None = None

    @property
    def _expiry(self) -> BrokerExpiry:
        return BrokerExpiry(self.asked.now, self.asked.producer_expiration)

    def _is_read_ahead(self, copy: RemoteSegment) -> bool:
        is_depth = self.asked.depth is CheckDepth.SNAPSHOTS
        return is_depth and not copy.is_encrypted and _size(copy) <= _SMALL

    def prefetched(self, copy: RemoteSegment | None, wanted: Container[str]) -> Indexes | _ReadError | None:
        """Read the indexes of a segment in advance, and return the indexes or the error. Any thread may call this.

        Return None, and read nothing, if `wanted` lacks the segment, or if the segment is encrypted. Also return None
        if the depth is not `snapshots`, or if the indexes exceed 1 MiB.
        """
        if copy is None or copy.segment_id not in wanted or not self._is_read_ahead(copy):
            return None
        try:
            return read_indexes(self.store, copy)
        except (CorruptDataError, ObjectNotFoundError) as error:
            return error

    def skip(self, attempt: SegmentObjects) -> None:
        """Skip a segment.

        The next call of `judge` may read the snapshot of the skipped segment, to know the producer state at its end.
        """
        self._skipped, self._fold = attempt, None

    def forget(self) -> None:
        """Skip a segment that has no usable snapshot, and end the current replay."""
        self._fold = None

    def judge(self, copy: RemoteSegment, ahead: Indexes | _ReadError | None = None) -> ReasonedVerdict:
        """Return the verdict of a segment.

        Args:
            copy: the segment.
            ahead: the result of `prefetched`.

        Raises:
            TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
        """
        if copy.is_encrypted:
            self.forget()
            return ReasonedVerdict(
                RemoteVerdict.NOT_CHECKABLE, "all objects exist with the right sizes; the plugin encrypted them"
            )
        if self.asked.depth is CheckDepth.METADATA:
            return _COMPLETE
        self._read_skipped()
        told = self._read(copy, ahead, is_of_log=self.is_of_log(copy))
        if not told.verdict.is_sound and told.verdict is not RemoteVerdict.SUSPECT:
            self._fold = None
        return told

    def _read(self, copy: RemoteSegment, ahead: Indexes | _ReadError | None, *, is_of_log: bool) -> ReasonedVerdict:
        faults: list[SegmentFault] = []
        indexes, entries = self._indexes(copy, ahead, faults)
        log = self._log(copy, indexes, faults, is_of_log=is_of_log)
        if entries is None or faults:
            return _of_faults(faults)
        data = indexes[IndexType.PRODUCER_SNAPSHOT] or b""
        told = self._compared(copy, data, entries, log, is_of_log=is_of_log)
        if not is_of_log:
            return told
        if told.verdict.is_sound and not self._is_proven(told):
            told = self._lost(copy, entries, log) or told
        if told.verdict.is_sound and not self._is_behind(copy):
            self._known = _Known(copy.end_offset, entries)
        return told

    def _indexes(
        self, copy: RemoteSegment, ahead: Indexes | _ReadError | None, faults: list[SegmentFault]
    ) -> tuple[Indexes, np.ndarray | None]:
        """Return the indexes and the snapshot's entries; None for a damaged snapshot. Errors are added to `faults`."""
        try:
            if isinstance(ahead, (CorruptDataError, ObjectNotFoundError)):
                raise ahead
            indexes = ahead or read_indexes(self.store, copy)
        except (CorruptDataError, ObjectNotFoundError) as error:
            faults.append(SegmentFault("", error.message, isinstance(error, ObjectNotFoundError)))
            return {}, None
        faults.extend(_out_of_order(copy, indexes))
        try:
            decode_lineage(copy, indexes[IndexType.LEADER_EPOCH] or b"", name="leader epochs")
        except CorruptDataError as error:
            faults.append(SegmentFault("leader epochs", error.message))
        try:
            return indexes, snapshot_file.decode(indexes[IndexType.PRODUCER_SNAPSHOT] or b"", name="snapshot")
        except CorruptDataError as error:
            faults.append(SegmentFault("snapshot", error.message))
            return indexes, None

    def _log(
        self, copy: RemoteSegment, indexes: Indexes, faults: list[SegmentFault], *, is_of_log: bool
    ) -> SegmentLog | None:
        """Read the log if the depth requires it, and continue the replay at depth full. Add errors to `faults`."""
        is_full = self.asked.depth is CheckDepth.FULL
        if not is_full and not self._needs_log(copy):
            return None
        cuts: list[int] = []
        if self._fold is not None:
            cuts.append(self._fold.end)
        compared: Indexes | None = None
        if is_full and indexes:
            compared = indexes
        try:
            log = read_log(self.store, copy, cuts=cuts, indexes=compared, at_start=self._entries_at_start(copy))
        except CorruptDataError as error:
            faults.append(SegmentFault("log", error.message))
            self._fold = None
            return None
        self.digests[copy.segment_id] = log.digest
        faults.extend(_of_other_files(log.faults, faults))
        if self.local.digests.get(copy.segment_id, log.digest) != log.digest:
            faults.append(SegmentFault("log", "log: its batches differ from the local log"))
        if is_full and is_of_log:
            self._go_on(copy, log, faults)
        return log

    def _needs_log(self, copy: RemoteSegment) -> bool:
        """Return whether the snapshot must be compared with the segment's log."""
        return copy.segment_id not in self.local.snapshots and self._may_live(copy)

    def _entries_at_start(self, copy: RemoteSegment) -> np.ndarray | None:
        """Return the producer state (ENTRY_DTYPE) at a segment's base offset; None if unknown."""
        if self._known is not None and self._known.offset == copy.start_offset:
            return self._known.entries
        if copy.start_offset == 0:
            return np.empty(0, ENTRY_DTYPE)
        return None

    def _fold_up_to(self, offset: int) -> _Fold:
        """Return the current replay. If it ends below `offset`, start a new replay at `offset`."""
        if self._fold is None or offset > self._fold.end:
            self._fold = _Fold(offset, offset)
        return self._fold

    def _go_on(self, copy: RemoteSegment, log: SegmentLog, faults: list[SegmentFault]) -> None:
        fold = self._fold_up_to(copy.start_offset)
        if copy.end_offset <= fold.end:
            return
        behind = [run for run in log.runs if run.start_offset >= fold.end]
        error = fold.producers.combine(combined(behind))
        if error >= 0:
            faults.append(SegmentFault("log", f"log: a broker would refuse the batch at offset {error} in a replay"))
        fold.end = copy.end_offset

    def _compared(
        self, copy: RemoteSegment, data: bytes, entries: np.ndarray, log: SegmentLog | None, *, is_of_log: bool
    ) -> ReasonedVerdict:
        """Compare a snapshot with the best source that exists; see partition_check.py."""
        local = self.local.snapshots.get(copy.segment_id)
        if local is not None and local.compared in COMPARED:
            return self._by(local, ComparedWith.LOCAL_LOG)
        if self.compared.get(copy.end_offset) == crc32c(data):
            return ReasonedVerdict(
                RemoteVerdict.MATCHES, f"{_ALIKE} the snapshot that a run compared or computed", ComparedWith.WAREHOUSE
            )
        fold = self._fold
        if fold is not None and fold.end == copy.end_offset and is_of_log:
            state = to_entries(fold.producers.deltas())
            return self._by(compare(entries, state, history_from=fold.start), ComparedWith.REMOTE_LOG)
        if (claimed := self._by_claim(copy, data)) is not None:
            return claimed
        if log is not None:
            return self._by_own(copy, entries, log)
        return _by_itself(copy, entries)

    def _by_own(self, copy: RemoteSegment, entries: np.ndarray, log: SegmentLog) -> ReasonedVerdict:
        """Compare a snapshot with the replay of its own segment."""
        found = compare(entries, to_entries(log.deltas), history_from=copy.start_offset)
        told = self._by(found, ComparedWith.OWN_SEGMENT)
        if not told.verdict.is_sound:
            return told
        why = f"snapshot: agrees with its segment, and has {count_of(entries.size, 'producer')}"
        return replace(told, reason=why)

    def _by(self, found: Comparison, of: ComparedWith) -> ReasonedVerdict:
        expiry = self._expiry
        return ReasonedVerdict(RemoteVerdict(found.verdict(expiry).value), f"snapshot: {found.reason(expiry)}", of)

    def _by_claim(self, copy: RemoteSegment, data: bytes) -> ReasonedVerdict | None:
        """Compare a snapshot with the segment's claim; None if no claim marks it as trusted."""
        claim = copy.claim
        if claim is None and copy.claimed_as in self.claimed:
            try:
                claim = read_claim(self.store, copy.claimed_as)
            except CorruptDataError:
                return None
        claimed = snapshot_in_claim(claim, copy.segment_id)
        if claimed is None:
            return None
        if why := differs_from_claim(data, claimed.crc32c):
            return ReasonedVerdict(RemoteVerdict.CORRUPT, f"snapshot: {why}", ComparedWith.CLAIM)
        return ReasonedVerdict(
            RemoteVerdict.MATCHES, f"{_ALIKE} at its upload ({claimed.provenance})", ComparedWith.CLAIM
        )

    def _may_live(self, copy: RemoteSegment) -> bool:
        """Return whether a producer of the segment may be active now."""
        newest = copy.metadata.max_timestamp
        if newest < 0:
            newest = copy.written_at
        expiration = self.asked.producer_expiration
        return expiration is None or self.asked.now - newest < expiration

    def _is_behind(self, copy: RemoteSegment) -> bool:
        """Return whether a segment ends below the offset of the known producer state.

        This happens if another replica uploaded the segment.
        """
        return self._known is not None and copy.end_offset < self._known.offset

    def _is_proven(self, told: ReasonedVerdict) -> bool:
        """Return whether a snapshot was compared with the local log or a replay of the remote log from offset 0.

        Such a snapshot need not be compared with earlier snapshots.
        """
        is_whole = told.compared_with is ComparedWith.REMOTE_LOG and self._fold is not None and self._fold.start == 0
        return is_whole or told.compared_with is ComparedWith.LOCAL_LOG

    def _lost(self, copy: RemoteSegment, entries: np.ndarray, log: SegmentLog | None) -> ReasonedVerdict | None:
        """Return SUSPECT if a snapshot lacks active producers of an earlier snapshot; None if it lacks none."""
        if self._known is None or self._is_behind(copy):
            return None
        lost = count_lost(self._known.entries, entries, self._known.offset, self._expiry)
        if lost and self._known.offset == copy.start_offset:
            # A marker in the segment may have ended the transaction of an expired producer, which brokers then drop.
            try:
                log = log or read_log(self.store, copy)
            except CorruptDataError as error:
                return ReasonedVerdict(RemoteVerdict.CORRUPT, error.message)
            lost = count_lost(self._known.entries, entries, self._known.offset, self._expiry, log.deltas)
        if not lost:
            return None
        active = count_of(lost, "active producer")
        why = f"snapshot: lacks {active} of the snapshot at offset {self._known.offset}"
        return ReasonedVerdict(RemoteVerdict.SUSPECT, why, ComparedWith.EARLIER_SNAPSHOTS)

    def _read_skipped(self) -> None:
        """Set the known producer state from the snapshot of the last skipped segment."""
        attempt, self._skipped = self._skipped, None
        if attempt is None:
            return
        copy = read_segment(self.store, attempt)
        if not isinstance(copy, RemoteSegment) or copy.is_encrypted:
            return
        if self._is_behind(copy) or not self.is_of_log(copy):
            return
        try:
            data = read_indexes(self.store, copy, (IndexType.PRODUCER_SNAPSHOT,))[IndexType.PRODUCER_SNAPSHOT]
            self._known = _Known(copy.end_offset, snapshot_file.decode(data or b""))
        except (CorruptDataError, ObjectNotFoundError):
            return


def _out_of_order(copy: RemoteSegment, indexes: Indexes) -> Iterator[SegmentFault]:
    """Yield an error for each index with a wrong size or unordered entries."""
    times, largest = indexes[IndexType.TIMESTAMP] or b"", None
    # If the largest timestamp is 0, the time index has one entry, because its timestamps ascend. It is no padding.
    if copy.metadata.max_timestamp == 0 and len(times) == LENGTHS["time index"] and times.startswith(bytes(8)):
        largest = 0
    extent = SegmentExtent(copy.start_offset, copy.end_offset - 1, copy.metadata.segment_size, largest)
    for name, index in INDEXES_OF_ENTRIES.items():
        data = indexes[index]
        if data is not None and (fault := fault_of_order(name, data, extent)):
            yield SegmentFault(name, f"{name}: {fault}")


def _size(copy: RemoteSegment) -> int:
    return sum(place[1] for place in (copy.places or {}).values() if place is not None)


def _of_other_files(faults: Iterable[SegmentFault], told: Iterable[SegmentFault]) -> list[SegmentFault]:
    """Return the faults of files that have no fault in `told` yet."""
    files = {fault.file for fault in told}
    return [fault for fault in faults if fault.file not in files]


def _of_faults(faults: Sequence[SegmentFault]) -> ReasonedVerdict:
    verdict = RemoteVerdict.CORRUPT
    if faults and all(fault.is_missing for fault in faults):
        verdict = RemoteVerdict.MISSING
    return ReasonedVerdict(verdict, "; ".join(fault.message for fault in faults))


def _by_itself(copy: RemoteSegment, entries: np.ndarray) -> ReasonedVerdict:
    """Return the verdict of a snapshot that cannot be compared with any source.

    The verdict is SUSPECT if the snapshot contains an offset at or above the end of the segment.
    """
    reached = int(max(entries[name].max(initial=-1) for name in ("last_offset", "current_txn_first_offset")))
    if reached >= copy.end_offset:
        why = f"snapshot: an entry has offset {reached}, but the segment ends at offset {copy.end_offset - 1}"
        return ReasonedVerdict(RemoteVerdict.SUSPECT, why, ComparedWith.NOTHING)
    why = "the snapshot lacks no active producer. The segment was not read, because its producers have expired"
    return ReasonedVerdict(RemoteVerdict.NOT_COMPARED, why, ComparedWith.EARLIER_SNAPSHOTS)
