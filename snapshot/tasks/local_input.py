"""The carry's input for a host: nothing but the log directory, decoded on the spot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.partition_replay import cut_offsets, inside
from tiersnap.snapshot.replay.segment_fold import Run, fold_segment
from tiersnap.snapshot.tasks.decode_segments import end_values


class LocalInput:
    """What PartitionInput gives, without tables: no facts of earlier carries, and decodes made when they are asked for.

    Attributes:
        listed: the row of LISTED.
    """

    def __init__(
        self, filesystem: FileSystem, partition: Partition, listed: dict[str, Any], *, check_crc: bool = True
    ) -> None:
        self.listed = listed
        self.facts: list[dict[str, Any]] = []
        self._filesystem, self._check_crc = filesystem, check_crc
        self._segments = {segment.base_offset: segment for segment in partition.segments}
        self._cuts = cut_offsets(partition)
        self._begins_at = 0

    def window(self) -> Iterator[tuple[int, np.ndarray]]:
        """Nothing: a host scans all that it holds."""
        return iter(())

    def begin_at(self, offset: int) -> None:
        """Decode no segment below the offset."""
        self._begins_at = offset

    def decode(self, base_offset: int) -> tuple[Mapping[str, Any], Iterator[Run]] | None:
        """How the decode of a segment ended, as a row of SEGMENTS has it, and its runs; None below the beginning."""
        if base_offset < self._begins_at:
            return None
        segment = self._segments[base_offset]
        cuts = inside(self._cuts, segment)
        runs, end = fold_segment(self._filesystem, segment, cuts=cuts, check_crc=self._check_crc)
        return {"size_bytes": end.size, "crc_checked": end.crc_checked, **end_values(end)}, iter(runs)
