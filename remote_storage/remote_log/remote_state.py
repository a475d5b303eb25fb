"""Choose the remote snapshot that a log beginning in remote storage may continue from: the rule of all commands.

A replica that is rebuilt from remote storage knows no producers, and as a leader it uploads its incomplete snapshots.
So the snapshot of a remote segment starts a replay only if one of these holds:

    A claim of ours states that the snapshot was computed, or compared strictly.
    The snapshot agrees with the fold of its own segment in each entry that the segment determines. It also has every
    living producer of an earlier remote snapshot, and later batches explain each difference between the two.

Otherwise the next earlier snapshot is tried, and the remote segments after it are folded on top. If no snapshot is
trusted, the fold begins at offset 0, if remote storage reaches that far. Otherwise the state is unknown.

A producer lives while its transaction is open, or while it is younger than the broker's producer.id.expiration.ms at
the run's now (ProducerStateManager.isProducerExpired). Expired producers may be missing, and extra producers do no
harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tiersnap.snapshot.errors import CorruptDataError, UnknownStateError
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.producer_fold import DELTA_DTYPE, NONE, ProducerFold, from_entries, to_entries
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import ELSEWHERE, RemoteState
from tiersnap.snapshot.replay.snapshot_comparison import compare
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.remote_storage.remote_log.remote_log import RemoteLog


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """A finished remote segment of the log's own lineage, and the snapshot at its end; `end_offset` is exclusive."""

    start_offset: int
    end_offset: int
    segment_id: str

    def __str__(self) -> str:
        return f"the snapshot of remote segment {self.segment_id} at {self.end_offset}"


@dataclass(frozen=True, slots=True)
class Vouching:
    """The snapshot of a remote segment, by its claim."""

    is_ours: bool = False  # a claim of ours names the segment
    provenance: Provenance | None = None  # origin of the snapshot; None unless the claim vouches for it


class _RefusedError(Exception):
    """A snapshot that starts nothing, nor does any between it and `known_at`."""

    def __init__(self, why: str, known_at: int | None = None) -> None:
        super().__init__(why)
        self.known_at = known_at


@dataclass
class _Search:
    offset: int
    snapshots: Sequence[RemoteSnapshot]
    reader: RemoteLog
    expiry: BrokerExpiry

    def __post_init__(self) -> None:
        self._refused: list[str] = []
        self._after, self._after_from = np.empty(0, DELTA_DTYPE), self.offset

    def find(self, log_start_offset: int | None) -> RemoteState:
        believed_below = self.offset
        try:
            for number, each in enumerate(self.snapshots):
                self._fold_back_to(each.end_offset)
                if each.end_offset > believed_below:
                    continue
                try:
                    return self._from(each, self.snapshots[number + 1 :])
                except _RefusedError as refused:
                    self._refused.append(f"{each} {refused}")
                    believed_below = each.end_offset if refused.known_at is None else refused.known_at
            if not log_start_offset:
                self._fold_back_to(0)
                return self._state(np.empty(0, ENTRY_DTYPE), is_complete=True)
        except CorruptDataError as error:
            self._refused.append(error.message)
        except _RefusedError as refused:
            self._refused.append(str(refused))
        told = "; ".join(self._refused) or f"no remote segment of this log ends at {self.offset} or below"
        raise UnknownStateError(told, hint=ELSEWHERE)

    def _fold_back_to(self, offset: int) -> None:
        """Extend the folded deltas down to `offset`, by the remote segments there."""
        if offset < self._after_from:
            fold = ProducerFold()
            fold.combine(self.reader.deltas(offset, self._after_from))
            fold.combine(self._after)
            self._after, self._after_from = fold.deltas(), offset

    def _from(self, snapshot: RemoteSnapshot, earlier: Sequence[RemoteSnapshot]) -> RemoteState:
        vouching = self.reader.vouching(snapshot)
        if vouching.is_ours and vouching.provenance is None:
            raise _RefusedError("starts nothing: its claim does not vouch for it")
        try:
            entries = self.reader.entries(snapshot)
        except CorruptDataError as error:
            raise _RefusedError(f"cannot be read: {error.message}") from error
        if vouching.provenance is None:
            entries = self._agreeing(snapshot, entries)
            before = [each for each in earlier if each.end_offset < snapshot.end_offset]
            self._check_none_lost(entries, snapshot.end_offset, before)
        is_complete = vouching.provenance in (Provenance.BROKER, Provenance.COMPUTED)
        return self._state(entries, is_complete=is_complete)

    def _state(self, entries: np.ndarray, *, is_complete: bool) -> RemoteState:
        fold = ProducerFold(entries.size)
        fold.combine(from_entries(entries))
        if (error := fold.combine(self._after)) >= 0:
            raise _RefusedError(f"cannot be continued: no broker could replay the batch at {error} behind it")
        state = fold.deltas()
        return RemoteState(self.offset, to_entries(state), is_complete, tuple(self._refused))

    def _agreeing(self, snapshot: RemoteSnapshot, entries: np.ndarray) -> np.ndarray:
        """Return the entries, and those of producers that a broker had dropped for their age before it wrote them."""
        own = to_entries(self.reader.deltas(snapshot.start_offset, snapshot.end_offset))
        found = compare(entries, own, history_from=snapshot.start_offset)
        if found.differing or found.unexplained or not found.verdict(self.expiry).is_trusted:
            raise _RefusedError(f"contradicts its own segment: {found.explanation}")
        return _with_others(entries, own)

    def _count_lost(self, older: np.ndarray, latest: np.ndarray, start: int, end: int) -> int:
        lost = count_lost(older, latest, start, self.expiry)
        return lost and count_lost(older, latest, start, self.expiry, self.reader.deltas(start, end))

    def _check_none_lost(self, entries: np.ndarray, snapshot_offset: int, earlier: Sequence[RemoteSnapshot]) -> None:
        """See that each producer that lives is in a later snapshot, and that nothing of it was forgotten there."""
        latest = entries
        for each in earlier:
            try:
                older = self.reader.entries(each)
            except CorruptDataError:
                continue
            if lost := self._count_lost(older, latest, each.end_offset, snapshot_offset):
                raise _RefusedError(
                    f"has lost {count_of(lost, 'producer that lives', 'producers that live')}, known at "
                    f"{each.end_offset}",
                    each.end_offset,
                )
            if self.reader.vouching(each).provenance is not None:
                return
            latest = _with_others(latest, older)


def find_state(
    offset: int,
    snapshots: Sequence[RemoteSnapshot],
    reader: RemoteLog,
    *,
    log_start_offset: int | None,
    expiry: BrokerExpiry,
) -> RemoteState:
    """Return the state of the log at `offset`.

    Args:
        snapshots: the snapshots at `offset` and below, in descending end offset.
        log_start_offset: of the whole log; None if no checkpoint has it.

    Raises:
        UnknownStateError: remote storage does not determine the state.
    """
    return _Search(offset, snapshots, reader, expiry).find(log_start_offset)


def _with_others(entries: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the entries, and those of `others` for producers that they lack; ascending producer id."""
    lacking = others.compress(~np.isin(others["producer_id"], entries["producer_id"], assume_unique=True))
    if not lacking.size:
        return entries
    both = np.concatenate([entries, lacking])
    return both.take(np.argsort(both["producer_id"]))


def count_lost(
    older: np.ndarray, latest: np.ndarray, offset: int, expiry: BrokerExpiry, deltas: np.ndarray | None = None
) -> int:
    """Return the number of living producers whose older entry `latest` lacks or contradicts.

    Both states are ENTRY_DTYPE, ascending producer id.

    Args:
        offset: offset of the older state.
        deltas: DELTA_DTYPE of the batches between the two states. A producer that expires by them does not live. None
            if they were not read: then every producer that lived at `offset` counts.
    """
    living = expiry.live(older)
    lost = living.compress(~is_followed(living, latest, offset))
    if deltas is None or not lost.size:
        return int(lost.size)
    fold = ProducerFold(lost.size)
    fold.combine(from_entries(lost))
    fold.combine(deltas.compress(np.isin(deltas["producer_id"], lost["producer_id"])))
    return int(expiry.live(to_entries(fold.deltas())).size)


def is_followed(older: np.ndarray, latest: np.ndarray, offset: int) -> np.ndarray:
    """Return the mask of the older entries that batches from `offset` on can have turned into those of `latest`.

    Both are ENTRY_DTYPE, ascending producer id; `older` is the state at `offset`.
    """
    place = np.searchsorted(latest["producer_id"], older["producer_id"])
    is_there = place < latest.size
    is_there[is_there] = latest["producer_id"][place[is_there]] == older["producer_id"][is_there]
    followed = is_there.copy()
    followed[is_there] = _may_follow(older.compress(is_there), latest.take(place[is_there]), offset)
    return followed


def _may_follow(older: np.ndarray, later: np.ndarray, offset: int) -> np.ndarray:
    """Return the mask of pairs (of one producer each) whose fields are the same, or set by a batch from `offset` on.

    The rules are those of ProducerAppendInfo: only a marker of another epoch empties the last batch, only a marker ends
    a transaction, and after a marker the coordinator epoch is known.
    """
    had_marker = later["coordinator_epoch"] >= 0
    same_batch = older["last_offset"] == later["last_offset"]
    for name in ("last_sequence", "offset_delta"):
        same_batch &= (older["last_offset"] < 0) | (older[name] == later[name])
    emptied = (later["last_offset"] < 0) & (later["producer_epoch"] != older["producer_epoch"])
    batch = same_batch | emptied | (later["last_offset"] >= offset)
    older_transaction = np.maximum(older["current_txn_first_offset"], NONE)
    transaction = np.maximum(later["current_txn_first_offset"], NONE)
    ended = had_marker & ((transaction < 0) | (transaction >= offset))
    begun = (older_transaction < 0) & (transaction >= offset)
    followed: np.ndarray = batch & ((transaction == older_transaction) | ended | begun)
    followed &= had_marker | (older["coordinator_epoch"] < 0)
    return followed
