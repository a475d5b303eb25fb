"""Fold one segment into runs of producer deltas. A new run begins at each offset whose producer state is needed.

Two kinds of these offsets may be inside a segment. At the high watermark, the open transactions determine the last
stable offset. At the offset of a snapshot file, the file is compared with the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Protocol

import numpy as np

from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.kernels.batch import NO_CUT
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd, SegmentScan
from tiersnap.snapshot.producer_fold import ProducerFold


@dataclass(frozen=True, slots=True)
class Run:
    """The deltas (DELTA_DTYPE) of one segment's batches from `start_offset` to the start of the next run."""

    start_offset: int
    deltas: np.ndarray
    # ms, largest timestamp of the segment's entries up to the end of this run; -1 without one.
    max_timestamp: int


class _Runs:
    """A `Folding` that collects the runs of one segment during a scan."""

    def __init__(self, start_offset: int, cuts: Sequence[int], stop: Event | None) -> None:
        self.done: list[Run] = []
        self.cuts = list(cuts)
        self._stop = stop
        self._start_offset = start_offset
        self.producers = ProducerFold()

    @property
    def stop_at(self) -> int:
        if self._stop is not None and self._stop.is_set():
            raise TransientError("fold: cancelled")
        return self.cuts[0] if self.cuts else NO_CUT

    def cut(self, max_timestamp: int) -> None:
        self.done.append(Run(self._start_offset, self.producers.deltas(), max_timestamp))
        if self.cuts:
            self._start_offset, self.producers = self.cuts.pop(0), ProducerFold()


FoldedSegment = tuple[list[Run], SegmentEnd]


def fold_segment(
    filesystem: FileSystem,
    segment: Segment,
    *,
    cuts: Sequence[int] = (),
    check_crc: bool = True,
    on_rows: Callable[[np.ndarray], None] | None = None,
    stop: Event | None = None,
) -> FoldedSegment:
    """Scan and fold one segment.

    Args:
        cuts: ascending offsets; each one inside the segment starts a new run.
        on_rows: called with each array of decoded rows, which is valid only during the call.
        stop: if it is set, the fold stops after the current window of the file.

    Returns:
        The runs, of which the first one starts at the base offset, and the result of the scan.

    Raises:
        TransientError: `stop` was set during the fold.
    """
    limit = segment.next_base_offset
    inside = [cut for cut in cuts if cut > segment.base_offset and (limit is None or cut < limit)]
    runs = _Runs(segment.base_offset, inside, stop)
    scan = SegmentScan.of(filesystem, segment, check_crc=check_crc, keep_rows=on_rows is not None, folding=runs)
    for rows in scan:
        if on_rows is not None:
            on_rows(rows)
    log_end = scan.end.last_offset + 1 if limit is None else limit
    left = [cut for cut in runs.cuts if cut <= log_end]
    runs.cut(scan.end.max_timestamp)
    for cut in left:
        runs.done.append(Run(cut, ProducerFold().deltas(), scan.end.max_timestamp))
    return runs.done, scan.end


class FoldSegment(Protocol):
    """A function that folds one segment as `fold_segment` does."""

    def __call__(
        self, filesystem: FileSystem, segment: Segment, *, cuts: Sequence[int], check_crc: bool
    ) -> FoldedSegment:
        """Return the runs of the segment, and the result of its scan."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowDecode:
    """The decoded batches of one segment, for a replay with `--scan window`. They may be only a part of the segment."""

    base_offset: int
    log_end: int  # exclusive end offset of the segment's batches
    deltas: np.ndarray  # DELTA_DTYPE, ascending in producer id


class DecodeSource(Protocol):
    """A source of the decoded segments of one partition.

    The replay requests segments in ascending order, each at most once.
    """

    def begin_at(self, offset: int) -> None:
        """Skip segments below this offset from now on."""

    def window(self) -> Iterator[WindowDecode]:
        """Yield the decoded segments of a scan window, ascending; a segment may have several parts.

        Call this method before `decode`.
        """

    def decode(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd] | None:
        """Return the runs of a segment, and the result of its scan; None for a skipped segment.

        The runs may be computed during the iteration.

        Args:
            cuts: ascending offsets inside the segment at which a new run must begin.
        """


@dataclass
class LocalDecodes:
    """A DecodeSource that decodes local segment files on demand."""

    filesystem: FileSystem
    check_crc: bool = True
    fold: FoldSegment = fold_segment
    _begins_at: int = 0

    def begin_at(self, offset: int) -> None:
        """See DecodeSource."""
        self._begins_at = offset

    def window(self) -> Iterator[WindowDecode]:
        """Return an empty iterator, because a host scans all its segments."""
        return iter(())

    def decode(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd] | None:
        """See DecodeSource."""
        if segment.base_offset < self._begins_at:
            return None
        return self.fold(self.filesystem, segment, cuts=cuts, check_crc=self.check_crc)
