"""How far a command is: a line that renews itself on a terminal, and a line every 30 seconds anywhere else.

Nothing is said of what takes less than two seconds, nor with --quiet.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tiersnap.jobs.command_line.output import Format, Output
from tiersnap.jobs.command_line.shown import shown
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.units import count_of, human_bytes

T = TypeVar("T")
FIRST_AFTER_SECONDS = 2.0
_RENEWED_EVERY = 0.5
LINE_EVERY_SECONDS = 30.0
_CLEAR = "\r\x1b[K"


class Progress:
    """Watches partitions go by.

    Args:
        what: is done to them, as `scanning`.
        total: how many there are.
        first_after, line_every: seconds, on a terminal and anywhere else.
    """

    def __init__(
        self,
        output: Output,
        what: str,
        total: int,
        *,
        first_after: float = FIRST_AFTER_SECONDS,
        line_every: float = LINE_EVERY_SECONDS,
    ) -> None:
        self._output, self._what, self._total = output, what, total
        self._first_after, self._line_every = first_after, line_every
        self._done = self._bytes = 0
        self._current = ""
        self._started = time.monotonic()
        self._ended = threading.Event()
        # Rows that go by on the same terminal would be torn apart by a line that renews itself.
        self._is_terminal = sys.stderr.isatty() and not (output.format is Format.JSONL and sys.stdout.isatty())

    def watch(self, partitions: Iterable[tuple[NamedLogDir, Partition]]) -> Iterator[tuple[NamedLogDir, Partition]]:
        """Hand each partition of several log directories on."""
        return self._each(partitions, lambda each: each[1])

    def watch_one(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """Hand each partition of one log directory on."""
        return self._each(partitions, lambda each: each)

    def watch_done(self, results: Iterable[T]) -> Iterator[T]:
        """Count the results for partitions that somebody else goes through."""
        return self._each(results, lambda _: None)

    def _each(self, items: Iterable[T], partition_of: Callable[[T], Partition | None]) -> Iterator[T]:
        """Hand each item on; it counts as done when the next one is asked for."""
        if self._output.quiet:
            yield from items
            return
        teller = threading.Thread(target=self._tell, daemon=True)
        teller.start()
        try:
            for each in items:
                partition = partition_of(each)
                self._current = "" if partition is None else f", now {partition.name}"
                yield each
                self._done += 1
                self._bytes += 0 if partition is None else sum(segment.log.size for segment in partition.segments)
        finally:
            self._ended.set()
            teller.join()

    def __str__(self) -> str:
        """The line."""
        seconds = time.monotonic() - self._started
        size = f", {human_bytes(self._bytes)}" if self._bytes else ""
        return (
            f"{self._what}: {self._done} of {count_of(self._total, 'partition')}{size} in "
            f"{seconds:.0f} s{self._current}"
        )

    def _tell(self) -> None:
        if not self._is_terminal:
            while not self._ended.wait(self._line_every):
                self._output.talk(str(self))
            return
        if self._ended.wait(self._first_after):
            return
        while True:
            sys.stderr.write(_CLEAR + shown(str(self)))
            sys.stderr.flush()
            if self._ended.wait(_RENEWED_EVERY):
                break
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
