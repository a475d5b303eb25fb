"""The leader epochs in the headers of batches, compared with those that a log's leader-epoch-checkpoint tells.

A broker looks for a remote offset under the leader epoch of its own log, and finds a segment by the epochs that were
published with it. So epochs that are not those of the batches hide the records, or show those of another log.

    batch at or behind the first entry   its epoch is that of the last entry at or below its base offset
    batch below the first entry          nothing is told: the log start moved on, and older epochs were forgotten
    epoch -1, magic 0 and 1              nobody wrote an epoch

Follows org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache: an epoch that wrote nothing leaves at most an
entry with the start offset of the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs

_UNTOLD = -1


@dataclass(frozen=True, slots=True)
class WrongEpoch:
    """A batch under another leader epoch than was told.

    Attributes:
        written: epoch in the batch's header.
        told: epoch of the last entry at or below `base_offset`.
    """

    base_offset: int
    written: int
    told: int


class EpochCheck:
    """The warnings given for one log, or for some of its offsets."""

    def __init__(self, epochs: LeaderEpochs) -> None:
        """`epochs`: (epoch, start offset), ascending; none tell nothing."""
        entries = np.array(epochs, np.int64).reshape(-1, 2)
        self._starts = np.ascontiguousarray(entries[:, 1])
        self._told = np.concatenate([np.array([_UNTOLD], np.int64), entries[:, 0]])

    def first_wrong(self, rows: np.ndarray) -> WrongEpoch | None:
        """The first of v2 batches (RECORD_BATCH_DTYPE, offsets ascending, at least one) that contradicts."""
        offsets, written = rows["base_offset"], rows["partition_leader_epoch"]
        first, last = np.searchsorted(self._starts, offsets[[0, -1]], side="right")
        # Nearly always one epoch wrote all of them.
        told = self._told[first] if first == last else self._told[self._starts.searchsorted(offsets, side="right")]
        wrong = (written != told) & (written >= 0) & (told >= 0)
        if not wrong.any():
            return None
        at = int(wrong.argmax())
        return WrongEpoch(int(offsets[at]), int(written[at]), int(np.broadcast_to(told, wrong.shape)[at]))
