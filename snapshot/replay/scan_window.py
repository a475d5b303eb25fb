"""The scan within the expiration (KIP-952): which producers a window of the log shows, and which only in part.

A producer that was last heard of before the window has expired, and a snapshot may leave it out. One that the window
shows in part must be followed back: where it begins with a marker, the last data batch lies before; where it begins
with transactional data, the transaction may have begun before. It is followed until what was found is complete, which
may be at the beginning of the log.

UNSEEN says what no scan of the window can find. A producer whose first batch in the window is not transactional is
taken for one that never was: producer ids are given to a transactional id, or to none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tiersnap.snapshot.kernels.fold import CLEAR, SET
from tiersnap.snapshot.replay.producer_state import DELTA_DTYPE, ProducerFold, to_entries

# Sentences for the plan; docs/scan-window.md says more.
UNSEEN = (
    "a transaction that hangs since before the window and shows nothing in it: the broker's last stable offset may be "
    "lower",
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


def is_partial(deltas: np.ndarray) -> np.ndarray:
    """Mask of the deltas (DELTA_DTYPE) whose entries depend on what came before their run."""
    has_batch = np.isin(deltas["batch_action"], (SET, CLEAR))
    may_have_begun_before = (deltas["txn_first_offset"] >= 0) & (deltas["has_marker"] == 0)
    partial: np.ndarray = ~has_batch | may_have_begun_before
    return partial


class FirstSeen:
    """Where the window's runs, ascending, show each producer for the first time.

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
    """What the segments before the window tell of the producers that it shows in part.

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
        """Of all that was found, as one run that ends where the window begins."""
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


def _combined(runs: Iterable[np.ndarray]) -> np.ndarray:
    producers = ProducerFold()
    for deltas in runs:
        producers.combine(deltas)
    return producers.deltas()
