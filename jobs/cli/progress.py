"""Print the progress of a command: one line that is redrawn on a terminal, else a new line every 30 seconds.

Work of less than two seconds prints no progress, and --quiet prints none. The first replay after an installation
compiles the kernels. On a terminal, a message reports the compilation.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from tiersnap.jobs.cli.escaped_text import shown
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.snapshot.log.log_dir import Partition

T = TypeVar("T")
D = TypeVar("D")
FIRST_AFTER_SECONDS = 2.0
_RENEWED_EVERY = 0.5
LINE_EVERY_SECONDS = 30.0
# Values of `what` in commands that replay partitions.
_REPLAYS = frozenset(
    {"collecting", "planning", "repairing", "replaying", "scanning", "simulating", "tiering", "verifying"}
)
_COMPILES = "compiling the replay code for this processor: once per tiersnap release, some seconds"
_CLEAR = "\r\x1b[K"


class Progress:
    """A counter of partitions that prints the progress.

    The methods `watch`, `watch_one` and `watch_done` print progress while the caller iterates. As a context manager,
    the object prints progress for the whole block.

    Args:
        output: prints the lines.
        what: name of the work, such as `scanning`.
        total: number of partitions; None if unknown.
        first_after: seconds until the first line on a terminal.
        line_every: seconds between lines if stderr is no terminal.
    """

    def __init__(
        self,
        output: Output,
        what: str,
        total: int | None = None,
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
        self._teller: threading.Thread | None = None
        # A redrawn line would garble JSON lines on the same terminal.
        self._is_terminal = sys.stderr.isatty() and not (output.format is Format.JSONL and sys.stdout.isatty())

    def __enter__(self) -> Self:
        """Start to print progress; with --quiet print nothing."""
        if not self._output.quiet:
            self._teller = threading.Thread(target=self._tell, daemon=True)
            self._teller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop printing progress."""
        self._ended.set()
        if self._teller is not None:
            self._teller.join()

    def watch(self, partitions: Iterable[tuple[D, Partition]]) -> Iterator[tuple[D, Partition]]:
        """Yield the partitions of several log directories, and count them."""
        return self._each(partitions, lambda each: each[1].name, lambda each: each[1].log_bytes)

    def watch_one(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """Yield the partitions of one log directory, and count them."""
        return self._each(partitions, lambda each: each.name, lambda each: each.log_bytes)

    def watch_done(self, results: Iterable[T]) -> Iterator[T]:
        """Yield results, one per partition, and count them."""
        return self._each(results)

    def _each(
        self,
        items: Iterable[T],
        name_of: Callable[[T], str] = lambda _: "",
        size_of: Callable[[T], int] = lambda _: 0,
    ) -> Iterator[T]:
        """Yield each item, and count the item as done when the caller requests the next one."""
        if self._is_terminal and self._what in _REPLAYS:
            self._tell_compilation()
        with nullcontext() if self._teller else self:
            for each in items:
                name = name_of(each)
                self._current = f", now {name}" if name else ""
                yield each
                self._done += 1
                self._bytes += size_of(each)
                self._current = ""

    def _tell_compilation(self) -> None:
        from tiersnap.snapshot.kernels.cache import holds_replay

        if not holds_replay():
            self._output.talk(_COMPILES)

    def __str__(self) -> str:
        """Return the progress line."""
        said = f"{time.monotonic() - self._started:.0f} s{self._current}"
        if self._total is None and not self._done:
            return f"{self._what}: {said}"
        size = ""
        if self._bytes:
            size = f", {human_bytes(self._bytes)}"
        done = count_of(self._done, "partition")
        if self._total is not None:
            done = f"{self._done} of {count_of(self._total, 'partition')}"
        return f"{self._what}: {done}{size} in {said}"

    def _tell(self) -> None:
        if not self._is_terminal:
            while not self._ended.wait(self._line_every):
                self._output.talk(str(self))
            return
        if self._ended.wait(self._first_after):
            return
        self._output.clear = _CLEAR
        while True:
            sys.stderr.write(_CLEAR + shown(str(self)))
            sys.stderr.flush()
            if self._ended.wait(_RENEWED_EVERY):
                break
        self._output.clear = ""
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
