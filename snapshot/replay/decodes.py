"""Where a replay takes the decodes of a partition's segments from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.replay.segment_fold import Run, fold_segment


class DecodeSource(Protocol):
    """Gives the decodes of one partition; asked in ascending order, each at most once."""

    def begin_at(self, offset: int) -> None:
        """Give no decode of a segment below the offset."""
        ...

    def window(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (base offset, deltas) of the decodes in a scan window, ascending, ahead of the first `decode`."""
        ...

    def decode(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd] | None:
        """Return the runs of a segment, read once and lazily, and how its file ended; None below the beginning.

        Args:
            cuts: ascending offsets inside the segment at which a new run must begin.
        """
        ...


@dataclass
class LocalDecodes:
    """Decodes of the segment files themselves, made when they are asked for."""

    filesystem: FileSystem
    check_crc: bool = True
    _begins_at: int = 0

    def begin_at(self, offset: int) -> None:
        """See DecodeSource."""
        self._begins_at = offset

    def window(self) -> Iterator[tuple[int, np.ndarray]]:
        """Nothing: a host scans all that it holds."""
        return iter(())

    def decode(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd] | None:
        """See DecodeSource."""
        if segment.base_offset < self._begins_at:
            return None
        return fold_segment(self.filesystem, segment, cuts=cuts, check_crc=self.check_crc)
