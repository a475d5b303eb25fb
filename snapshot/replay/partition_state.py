"""Replay the runs of a partition in offset order, and compute the producer state at each wanted offset.

The state is one table, updated in place, so that the cost depends on the number of deltas and not on segments x
producers. Entries are copied only if they are read. The replay compares each snapshot file with the state at the file's
offset. If a file agrees with the log and also has producers from below the log start, the replay continues with the
file's entries, as a broker does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from tiersnap.snapshot.gate.trusted import COMPARED, Provenance, SnapshotVerdict
from tiersnap.snapshot.producer_fold import NONE, OpenTransactions, ProducerFold, from_entries
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.lost_offsets import LostOffsets
from tiersnap.snapshot.replay.replay_start import CopyState, StartState
from tiersnap.snapshot.replay.segment_runs import Run
from tiersnap.snapshot.replay.snapshot_comparison import NO_FILE, ReadSnapshot, SnapshotFile, compare, found_at


@dataclass(frozen=True, slots=True)
class StoredAt:
    """The object in remote storage that contains a computed snapshot."""

    object_key: Annotated[str, Meta(description="key of the object of the computed snapshot in remote storage")]
    object_crc32c: Annotated[int, Meta(description="CRC-32C of the whole object")]
    entry_count: Annotated[int, Meta(description="number of producers in the computed snapshot")]
    written_by: Annotated[
        int | None, Meta(description="number of the run that wrote the object; null if the object existed before")
    ] = None
    is_mended: Annotated[bool, Meta(description="whether the run in `written_by` replaced a damaged object")] = False


@dataclass(frozen=True, slots=True)
class SnapshotAt:
    """The result for one snapshot offset, as a table stores it."""

    snapshot_offset: Annotated[int, Meta(description="snapshot offset, exclusive")]
    comparison: Comparison  # of the file at this offset; MISSING without a file
    provenance: Annotated[Provenance, Meta(description="origin of the entries of the computed snapshot")]
    folded_from: Annotated[int, Meta(description="offset at which the replay began")]
    file: SnapshotFile = NO_FILE
    open_transactions: Annotated[
        OpenTransactions | None,
        Meta(description="producer id and first offset of each open transaction; null if they are unknown or too many"),
    ] = None
    stored: StoredAt | None = None  # the computed snapshot in object storage; None if there is no such object


@dataclass(slots=True, eq=False)
class Boundary:
    """The producer state at one offset, with the comparison of the snapshot file at that offset; see SnapshotAt."""

    offset: int
    compute: Callable[[], np.ndarray]  # computes the entries on demand; most boundaries do not need them
    provenance: Provenance
    found: Comparison
    folded_from: int
    # ms, largest record timestamp of the segment's part below the offset, -1 without one. Expiry is measured at it.
    max_timestamp: int = NONE
    # Returns the transactions that are open at the offset; call it before the replay continues. None if not all of them
    # are known.
    open_now: Callable[[], OpenTransactions] | None = tuple
    file: SnapshotFile = NO_FILE  # the compared file
    gaps: Callable[[], Iterable[LostOffsets]] = tuple  # returns the gaps between segments below the offset

    @property
    def snapshot(self) -> SnapshotAt:
        """Return the result to store, without its fields for the open transactions and for the stored object."""
        return SnapshotAt(self.offset, self.found, self.provenance, self.folded_from, self.file)

    @property
    def entries(self) -> np.ndarray:
        """Return the computed state: ENTRY_DTYPE, ascending producer id, without expiry.

        If the strict comparison of the file at this offset gave EXTENDS, return the file's entries. Read this property
        before the replay continues.

        Raises:
            RuntimeError: the replay has continued, and the state at this offset is no longer known.
        """
        return self.compute()

    @property
    def open_transactions(self) -> OpenTransactions | None:
        """Return the open transactions; None if they are not all known. Read this before the replay continues."""
        return None if self.open_now is None else self.open_now()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The offset of a batch at which a broker's replay of the log would fail."""

    offset: int
    message: str


NOT_ASKED = "the log begins in remote storage, which was not read (to read it, give --remote)"
NOT_TOLD = "the log begins in remote storage, which does not have the producer state"
NOT_LOCATED = "the log start is unknown (--remote may show it, or --log-start states it)"


class ReplayState:
    """The state of one partition during its replay."""

    def __init__(
        self,
        *,
        log_start: int,
        cleaned_below: int | None = None,
        start: StartState | None = None,
        is_continued: bool = False,
        is_asked: bool = False,
        is_unlocated: bool = False,
    ) -> None:
        """Create the state at which the replay begins.

        Without `start`, the replay begins at the first segment, without producers.

        Args:
            log_start: base offset of the first segment.
            cleaned_below: first offset that compaction has not passed; None if compaction never ran.
            start: the state to start from, or None.
            is_continued: whether the batches below the first segment are in remote storage. If so, and without `start`,
                no computed snapshot may be written.
            is_asked: whether remote storage was asked for the state, and did not have it.
            is_unlocated: whether the log start offset is unknown; `is_continued` is then True.
        """
        self._producers = ProducerFold()
        self._step = 0
        self.folded_from = log_start
        self.history_from = log_start
        self._is_window = False
        self.is_continued = is_continued
        self._unknown = "" if start is None else start.transactions_unknown
        self.lacks_start = is_continued if start is None else start.lacks_start or bool(start.transactions_unknown)
        self._is_asked, self._is_unlocated, self._is_broker = is_asked, is_unlocated, False
        self._refused = ""
        self.lost: LostOffsets | None = None
        self._cleaned_below = cleaned_below or 0
        self.has_adopted = False
        self.refusal: Refusal | None = None
        self._max_timestamp = NONE
        if start is not None:
            self._producers.combine(start.deltas)
            self.history_from = start.history_from
            self.folded_from = max(log_start, start.history_from)
            self._is_window = start.history_from > log_start
            self.has_adopted = start.has_adopted

    @property
    def provenance(self) -> Provenance:
        """Return the provenance of the current entries."""
        if self.lacks_start:
            return Provenance.COMPUTED_FROM_LOCAL_START
        if self.folded_from == 0 or self.has_adopted:
            return Provenance.COMPUTED
        if self._is_window:
            return Provenance.COMPUTED_WITHIN_WINDOW
        if self.is_continued:
            return Provenance.COMPUTED_FROM_SNAPSHOT
        return Provenance.COMPUTED_FROM_LOG_START

    def begin(self, *, read_snapshot: ReadSnapshot) -> None:
        """Start from the snapshot file at the first local offset, as a broker does, if no other state is known."""
        self._is_broker = True
        if not self.lacks_start:
            return
        found = self.boundary(self.folded_from, read_snapshot=read_snapshot).found
        if found.compared is SnapshotVerdict.MATCHES:
            self.lacks_start = False

    def take(self, copy: CopyState) -> None:
        """Continue from the snapshot at a remote segment's end, as a follower does.

        Ignore the snapshot if the log contradicts it.

        The snapshot may lack producers that had expired when it was written. The state keeps these producers.
        """
        if not self.lacks_start:
            return
        ours, is_cleaned = self._producers.entries(), self._is_cleaned(copy.offset)
        found = compare(copy.entries, ours, history_from=self.history_from, is_cleaned=is_cleaned)
        if copy.is_believed(found):
            lacking = ours[~np.isin(ours["producer_id"], copy.entries["producer_id"], assume_unique=True)]
            self._go_on_from(np.concatenate([copy.entries, lacking]))
        else:
            self._refused = f", and the remote snapshot at offset {copy.offset} cannot be used: {found.explanation}"

    def lose(self, lost: LostOffsets) -> None:
        """Continue after lost offsets with an unknown state.

        Only a snapshot file that names a batch in the lost offsets restores the state.
        """
        self._producers = ProducerFold()
        self._step += 1
        self.lost, self.history_from = lost, lost.next
        self.lacks_start, self.has_adopted = True, False

    def advance(self, run: Run) -> bool:
        """Fold the next run. Return False if a broker's replay would fail in it; the state is then invalid."""
        self._step += 1
        error = self._producers.combine(run.deltas)
        self._max_timestamp = run.max_timestamp
        if error >= 0:
            message = (
                f"the batch at offset {error} is not transactional, but its producer has an open transaction: a "
                "broker cannot open this partition (InvalidTxnStateException)"
            )
            self.refusal = Refusal(error, message)
        return self.refusal is None

    def boundary(self, offset: int, *, read_snapshot: ReadSnapshot) -> Boundary:
        """Return the state at `offset`, and the comparison of the snapshot file at this offset with the state.

        If the strict comparison gives EXTENDS, the replay continues with the file's entries. If the state at the first
        local offset is unknown, the file's entries are not used: the file may lack the same producers as this state.
        """
        entries = self._entries_here()
        found = found_at(offset, read_snapshot)
        comparison, theirs = found.comparison, found.entries
        if theirs is not None:
            history_from = 0 if self.has_adopted else self.history_from
            comparison = compare(theirs, entries(), history_from=history_from, is_cleaned=self._is_cleaned(offset))
        if comparison.compared is SnapshotVerdict.EXTENDS and theirs is not None and self._may_adopt(theirs):
            # A file that strictly EXTENDS the log has every computed producer.
            self._go_on_from(theirs)
            self.has_adopted = True
            entries = self._entries_here()
        elif self.lacks_start and offset > self.folded_from:
            comparison = self._without_start(comparison)
        return Boundary(
            offset,
            entries,
            self.provenance,
            comparison,
            self.folded_from,
            self._max_timestamp,
            self._producers.open_transactions,
            found.file,
        )

    def _entries_here(self) -> Callable[[], np.ndarray]:
        """Return a function that computes the current entries.

        The function raises RuntimeError after the replay has continued.
        """
        step = self._step
        known: np.ndarray | None = None

        def entries() -> np.ndarray:
            nonlocal known
            if known is None:
                if self._step != step:
                    raise RuntimeError("boundary: entries are no longer known: the replay has continued")
                known = self._producers.entries()
            return known

        return entries

    def _is_cleaned(self, offset: int) -> bool:
        """Return whether compaction has passed all batches below `offset`."""
        return offset <= self._cleaned_below

    def _may_adopt(self, theirs: np.ndarray) -> bool:
        """Return whether the replay may continue with the entries of a file.

        After lost offsets, the file must name a batch in them. If the state at the first local offset is unknown, only
        a replay that imitates a broker (AS_BROKER) continues with a file's entries.
        """
        if self.lost is None:
            return self._is_broker or not self.lacks_start
        return self.lost.is_known_to(theirs)

    def _go_on_from(self, entries: np.ndarray) -> None:
        self._producers = ProducerFold(entries.size)
        self._producers.combine(from_entries(entries))
        self.lacks_start = False
        self._step += 1

    def _without_start(self, found: Comparison) -> Comparison:
        """Return the comparison of a file with a state that lacks the log's beginning. So a match proves nothing.

        The file may lack the same producers as the fold, because a broker that lost all snapshots writes such files.
        """
        why = self._why_start_is_unknown()
        if found.compared not in COMPARED - {SnapshotVerdict.CORRUPT}:
            return replace(found, explanation=f"{found.explanation}; tiersnap cannot compute this snapshot: {why}")
        if self.lost is not None:
            return Comparison(
                SnapshotVerdict.UNVERIFIED, f"not comparable: {why}, and the file names no batch with these offsets"
            )
        explanation = f"not compared: {why}"
        if not found.compared.is_trusted:
            explanation = f"{found.explanation}; the other entries were {explanation}"
        strict = SnapshotVerdict.UNVERIFIED if self._was_asked else SnapshotVerdict.NOT_COMPARED
        return replace(found, compared=strict, explanation=explanation)

    @property
    def _was_asked(self) -> bool:
        """Return whether remote storage was asked for the state at the start, and did not provide it."""
        return self._is_asked or bool(self._refused)

    def _why_start_is_unknown(self) -> str:
        if self.lost is not None:
            return str(self.lost)
        if self._unknown:
            return self._unknown
        if self._is_unlocated:
            return NOT_LOCATED
        if self._was_asked:
            return f"{NOT_TOLD}{self._refused}"
        return NOT_ASKED

    def first_open_offset(self) -> int:
        """Return the first offset of the oldest open transaction, or -1."""
        return self._producers.first_open_offset()

    def state(self, offset: int) -> StartState:
        """Return a copy of the state, from which a later replay may start."""
        return StartState(offset, self._producers.deltas(), self.history_from, self.has_adopted)


def replay_runs(
    state: ReplayState,
    runs: Iterable[Run],
    wanted: Iterable[int],
    *,
    read_snapshot: ReadSnapshot,
    log_end: int,
) -> Iterator[Boundary]:
    """Advance `state` over the runs, and yield the boundaries at the wanted offsets, ascending.

    Args:
        runs: ascending; a run begins at every wanted offset below the log end.
        read_snapshot: returns the bytes of the snapshot file at an offset, None without a file; may raise OSError.
        log_end: exclusive end offset of the last run.
    """
    pending = sorted(wanted)

    def take(limit: int) -> Iterator[Boundary]:
        while pending and pending[0] <= limit:
            offset = pending.pop(0)
            yield state.boundary(offset, read_snapshot=read_snapshot)

    for run in runs:
        yield from take(run.start_offset)
        if not state.advance(run):
            return
    yield from take(log_end)
