"""The batch at one position of a log file."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.regular_file import open_regular

_START = struct.Struct(">qiibIhi")  # baseOffset, batchLength, leader epoch, magic, crc, attributes, lastOffsetDelta
_SMALLEST_SIZE = 14


@dataclass(frozen=True, slots=True)
class ProbedBatch:
    """Offsets of a batch, both inclusive."""

    base_offset: int
    last_offset: int


class LogProbe:
    """Looks at single batches of an open file; a context manager."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    def __enter__(self) -> LogProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def batch_at(self, position: int) -> ProbedBatch | None:
        """The batch that begins at `position`, None when no whole one can begin there."""
        if position < 0:
            return None
        data = os.pread(self._descriptor, _START.size, position)
        if len(data) < _START.size:
            return None
        base_offset, length, _, magic, _, _, delta = _START.unpack(data)
        if length < _SMALLEST_SIZE or position + rb.LOG_OVERHEAD + length > self._size:
            return None
        return ProbedBatch(base_offset, base_offset + (delta if magic >= 2 else 0))


def open_log_probe(path: Path) -> LogProbe:
    """Open a `.log` file for probing."""
    return LogProbe(open_regular(path, follow=True))
