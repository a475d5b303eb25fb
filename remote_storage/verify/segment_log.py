"""Fetch and replay the log of one remote segment, and compare it with its indexes and leader epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiersnap.remote_storage.layouts.layout import INDEXES_OF_ENTRIES, IndexType
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.segment_bytes import fetched_segment
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats import transaction_index
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.leader_epochs import EpochCheck, WrongEpoch
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.producer_fold import ProducerFold
from tiersnap.snapshot.repair.index_check import FoundIndexes, IndexCheck
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class SegmentFault:
    """An error of one object of a segment."""

    file: str  # log, snapshot, leader epochs or the name of an index; "" if the error is about several objects
    message: str
    is_missing: bool = False  # whether the object does not exist


@dataclass(frozen=True, slots=True)
class SegmentLog:
    """The result of reading a segment's log.

    Attributes:
        runs: the state deltas of consecutive offset ranges; a new Run begins at each of the `cuts` of `read_log`.
        digest: digest over all batch headers, see kernels.digest.
        faults: errors of indexes and leader epochs.
    """

    runs: Sequence[Run]
    digest: str
    faults: tuple[SegmentFault, ...] = ()

    @property
    def deltas(self) -> np.ndarray:
        """Return the state deltas (DELTA_DTYPE) of the whole segment."""
        return combined(self.runs)


def combined(runs: Sequence[Run]) -> np.ndarray:
    """Return the state deltas (DELTA_DTYPE) of all runs together. Each Run must begin where the previous one ends."""
    fold = ProducerFold()
    for run in runs:
        fold.combine(run.deltas)
    return fold.deltas()


def read_log(
    store: ObjectStore,
    copy: RemoteSegment,
    *,
    cuts: Sequence[int] = (),
    indexes: Mapping[IndexType, bytes | None] | None = None,
    at_start: np.ndarray | None = None,
) -> SegmentLog:
    """Fetch a log, and check the CRC-32C and leader epoch of every batch, and the indexes.

    Args:
        store: the store of the remote location.
        copy: the remote segment.
        cuts: ascending offsets; a new Run of the result begins at each of them.
        indexes: indexes to compare with the batches; None compares none.
        at_start: the producer state at the segment's first offset (ENTRY_DTYPE); None if unknown.

    Raises:
        CorruptDataError: the log object does not exist, or a batch is damaged.
    """
    epochs, wrong = EpochCheck(copy.leader_epochs), list[WrongEpoch]()

    def on_rows(rows: np.ndarray) -> None:
        if rows.size and not wrong and (found := epochs.first_wrong(rows)) is not None:
            wrong.append(found)

    with fetched_segment(store, copy) as segment:
        runs, end = fold_segment(LOCAL, segment, cuts=cuts, on_rows=on_rows)
        if end.finding is not None:
            raise CorruptDataError(
                f"log: {end.finding.finding_kind} at byte {max(end.finding.position, 0)}: {end.finding.message}"
            )
        faults = list(map(_of_epoch, wrong))
        if indexes is not None:
            for name, why in _wrong_indexes(segment, indexes, at_start).items():
                is_missing = indexes[INDEXES_OF_ENTRIES[name]] is None
                faults.append(SegmentFault(name, f"{name}: {why}", is_missing))
    return SegmentLog(runs, end.digest, tuple(faults))


def _of_epoch(wrong: WrongEpoch) -> SegmentFault:
    return SegmentFault(
        "log",
        f"log: the batch at offset {wrong.base_offset} has leader epoch {wrong.written}, but the metadata says "
        f"{wrong.expected}",
    )


def _wrong_indexes(
    segment: Segment, indexes: Mapping[IndexType, bytes | None], at_start: np.ndarray | None
) -> Mapping[str, str]:
    found = FoundIndexes(indexes[IndexType.OFFSET], indexes[IndexType.TIMESTAMP], indexes[IndexType.TRANSACTION])
    opened = None
    if at_start is not None:
        opened = transaction_index.ongoing_transactions(at_start)
    check = IndexCheck(segment.base_offset, found, opened)
    with Path(segment.log.path).open("rb") as file:
        while piece := file.read(_PIECE):
            check.update(memoryview(piece))
    return check.finish().rebuilt
