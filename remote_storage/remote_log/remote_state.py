"""Choose the remote snapshot from which a replay may start. All commands use the following rule.

A replica that is rebuilt from remote storage loses its producers. As leader it uploads incomplete snapshots. So the
snapshot of a remote segment starts a replay only under one of two conditions:

    Our claim states that tiersnap computed the snapshot, or that it compared every entry with the log.
    The snapshot agrees with the replay of its own segment. It also has every active producer of the earlier remote
    snapshots. If a producer's entry differs from its entry in an earlier snapshot, the batches between the two
    snapshots explain the change.

If a snapshot is refused, the next earlier snapshot is tried. The remote segments after the accepted snapshot are
replayed. If no snapshot is trusted, the replay starts at offset 0, provided that the remote log begins there. Otherwise
the state is unknown.

A producer is active if it has an open transaction, or if its last timestamp is within the broker's
producer.id.expiration.ms (ProducerStateManager.isProducerExpired). A snapshot may omit expired producers, and it may
have additional producers.
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
    """The producer snapshot of a finished remote segment. Its snapshot offset is the exclusive `end_offset`."""

    start_offset: int
    end_offset: int
    segment_id: str

    def __str__(self) -> str:
        return f"the snapshot of remote segment {self.segment_id} at offset {self.end_offset}"


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """The facts that our claim contains about a remote segment's snapshot."""

    is_ours: bool = False  # a claim of ours names the segment
    provenance: Provenance | None = None  # origin of the snapshot; None if the claim does not mark it as trusted


class _RefusedError(Exception):
    """Raised to refuse a snapshot. If `known_at` is given, snapshots above that offset are refused, too."""

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
        told = "; ".join(self._refused) or f"no remote segment of this log ends at offset {self.offset} or below"
        raise UnknownStateError(told, hint=ELSEWHERE)

    def _fold_back_to(self, offset: int) -> None:
        """Extend the replay of remote segments down to `offset`."""
        if offset < self._after_from:
            fold = ProducerFold()
            fold.combine(self.reader.deltas(offset, self._after_from))
            fold.combine(self._after)
            self._after, self._after_from = fold.deltas(), offset

    def _from(self, snapshot: RemoteSnapshot, earlier: Sequence[RemoteSnapshot]) -> RemoteState:
        claim_facts = self.reader.claim_facts(snapshot)
        if claim_facts.is_ours and claim_facts.provenance is None:
            raise _RefusedError("cannot start a replay, because the claim of its segment does not mark it as trusted")
        try:
            entries = self.reader.entries(snapshot)
        except CorruptDataError as error:
            raise _RefusedError(f"cannot be read: {error.message}") from error
        if claim_facts.provenance is None:
            entries = self._agreeing(snapshot, entries)
            before = [each for each in earlier if each.end_offset < snapshot.end_offset]
            self._check_none_lost(entries, snapshot.end_offset, before)
        is_complete = claim_facts.provenance in (Provenance.BROKER, Provenance.COMPUTED)
        return self._state(entries, is_complete=is_complete)

    def _state(self, entries: np.ndarray, *, is_complete: bool) -> RemoteState:
        fold = ProducerFold(entries.size)
        fold.combine(from_entries(entries))
        if (error := fold.combine(self._after)) >= 0:
            raise _RefusedError(
                f"cannot start a replay, because a broker would refuse the later batch at offset {error}"
            )
        state = fold.deltas()
        return RemoteState(self.offset, to_entries(state), is_complete, tuple(self._refused))

    def _agreeing(self, snapshot: RemoteSnapshot, entries: np.ndarray) -> np.ndarray:
        """Compare the snapshot's entries with the replay of its segment, and raise _RefusedError if they disagree.

        Return the entries, plus the segment's producers that the snapshot omits because they had expired.
        """
        own = to_entries(self.reader.deltas(snapshot.start_offset, snapshot.end_offset))
        found = compare(entries, own, history_from=snapshot.start_offset)
        if found.differing or found.unexplained or not found.verdict(self.expiry).is_trusted:
            raise _RefusedError(f"contradicts its own segment: {found.explanation}")
        return _with_others(entries, own)

    def _count_lost(self, older: np.ndarray, latest: np.ndarray, start: int, end: int) -> int:
        lost = count_lost(older, latest, start, self.expiry)
        return lost and count_lost(older, latest, start, self.expiry, self.reader.deltas(start, end))

    def _check_none_lost(self, entries: np.ndarray, snapshot_offset: int, earlier: Sequence[RemoteSnapshot]) -> None:
        """Raise _RefusedError if the entries lack, or contradict, an active producer of an earlier snapshot."""
        latest = entries
        for each in earlier:
            try:
                older = self.reader.entries(each)
            except CorruptDataError:
                continue
            if lost := self._count_lost(older, latest, each.end_offset, snapshot_offset):
                raise _RefusedError(
                    f"lacks {count_of(lost, 'active producer')} of the snapshot at offset {each.end_offset}",
                    each.end_offset,
                )
            if self.reader.claim_facts(each).provenance is not None:
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
    """Return the producer state of the log at the exclusive `offset`.

    Args:
        snapshots: the snapshots at or below `offset`, in descending end offset.
        log_start_offset: from the log-start-offset-checkpoint; None if unknown.

    Raises:
        UnknownStateError: remote storage does not determine the state.
    """
    return _Search(offset, snapshots, reader, expiry).find(log_start_offset)


def _with_others(entries: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return `entries`, plus the entries of further producers in `others`; ascending producer id."""
    lacking = others.compress(~np.isin(others["producer_id"], entries["producer_id"], assume_unique=True))
    if not lacking.size:
        return entries
    both = np.concatenate([entries, lacking])
    return both.take(np.argsort(both["producer_id"]))


def count_lost(
    older: np.ndarray, latest: np.ndarray, offset: int, expiry: BrokerExpiry, deltas: np.ndarray | None = None
) -> int:
    """Return the number of active producers in `older` that `latest` lacks or contradicts.

    `older` and `latest` are ENTRY_DTYPE, ascending producer id.

    Args:
        offset: snapshot offset of `older`.
        deltas: DELTA_DTYPE of the batches between the two states. If given, only producers that are still active after
            these batches are counted. If None, all producers that were active at `offset` are counted.
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
    """Return a mask of `older`: True if batches from `offset` on may have led to the producer's entry in `latest`.

    `older` and `latest` are ENTRY_DTYPE, ascending producer id. `older` is the state at `offset`.
    """
    place = np.searchsorted(latest["producer_id"], older["producer_id"])
    is_there = place < latest.size
    is_there[is_there] = latest["producer_id"][place[is_there]] == older["producer_id"][is_there]
    followed = is_there.copy()
    followed[is_there] = _may_follow(older.compress(is_there), latest.take(place[is_there]), offset)
    return followed


def _may_follow(older: np.ndarray, later: np.ndarray, offset: int) -> np.ndarray:
    """Return a mask of producers: True if batches from `offset` on may explain the change from `older` to `later`.

    The arrays are ENTRY_DTYPE, and have one entry per producer in the same order.

    Kafka's rules are in ProducerAppendInfo. A marker with a new producer epoch clears the last batch in the entry. Only
    a marker ends a transaction. A marker sets the coordinator epoch.
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
