"""Where in a log each producer was seen: gathered run by run while the log is folded, whatever folds it.

Whether a state that began empty at an offset knows a producer, and what it knows of it, follows from where the
producer's batches and markers lie to that offset. So one pass over the runs answers for every offset at which a run
begins, and no state is computed twice.
"""

from __future__ import annotations

import numpy as np

from tiersnap.snapshot.kernels.fold import KEEP
from tiersnap.snapshot.replay.producer_state import NONE
from tiersnap.snapshot.replay.segment_fold import Run

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
    """Where each producer was seen, while the runs go by in ascending order.

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
