"""Fold the segments that a replay will need next in other threads, on the cores of this host.

A replay takes segments in ascending order, and each fold depends only on its segment. So the next segments, also of
the next partitions, are folded while the replay compares, writes and prints. Results, order and errors are the same as
with one thread.

It uses threads instead of processes: the compiled walk runs without the interpreter's lock, deltas need not be copied,
and no process can survive its parent. Processes took as long for large segments, and 1.4 times the CPU for small ones.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Self

from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.replay.partition_replay import cut_offsets, inside
from tiersnap.snapshot.replay.segment_runs import FoldedSegment, fold_segment

if TYPE_CHECKING:
    from tiersnap.snapshot.log.selection import NamedLogDir

_SMALL_BYTES = 8 << 20  # up to this sum of sizes, any number of segments is folded ahead


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One fold; equal ones have equal results."""

    segment: Segment
    cuts: tuple[int, ...]


class FoldsAhead:
    """A `FoldSegment` for expected partitions on local disks; it folds any other segment when asked.

    As a context it ends its threads: a fold that runs then ends within 32 MiB.
    """

    def __init__(self, *, check_crc: bool = True, threads: int | None = None) -> None:
        """Fold with so many threads; by default one for each core that the process may use."""
        self._check_crc = check_crc
        self._threads = threads or usable_cores()
        self._stop = Event()
        self._pool: ThreadPoolExecutor | None = None
        # In the order of the expected requests: `_begun` first.
        self._begun: deque[tuple[_Wanted, Future[FoldedSegment]]] = deque()
        self._begun_bytes = 0
        self._waiting: deque[_Wanted] = deque()
        self._expected: set[_Wanted] = set()

    def __enter__(self) -> Self:
        """Begin; threads start when they are needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def listed(self, partitions: Iterable[tuple[NamedLogDir, Partition]]) -> Iterator[tuple[NamedLogDir, Partition]]:
        """Yield the partitions, and expect each of them; one partition for each core is listed ahead.

        Raises:
            TiersnapError: the listing failed; it is raised after the partitions that were listed before.
        """
        ahead: deque[tuple[NamedLogDir, Partition]] = deque()
        failure: TiersnapError | None = None
        try:
            for named, partition in partitions:
                self.expect(named.log_dir.filesystem, partition)
                ahead.append((named, partition))
                if self._threads < 2 or len(ahead) > self._threads:
                    yield ahead.popleft()
        except TiersnapError as error:
            failure = error
        yield from ahead
        if failure is not None:
            raise failure

    def expect(self, filesystem: FileSystem, partition: Partition) -> None:
        """Fold the segments of a partition ahead, from the first requested one on."""
        if self._threads < 2 or not filesystem.is_local:
            return
        offsets = cut_offsets(partition)
        for segment in partition.segments:
            wanted = _Wanted(segment, tuple(inside(offsets, segment)))
            if wanted not in self._expected:
                self._expected.add(wanted)
                self._waiting.append(wanted)

    def __call__(
        self, filesystem: FileSystem, segment: Segment, *, cuts: Sequence[int], check_crc: bool
    ) -> FoldedSegment:
        """See FoldSegment."""
        wanted = _Wanted(segment, tuple(cuts))
        if wanted not in self._expected or check_crc is not self._check_crc:
            return fold_segment(filesystem, segment, cuts=cuts, check_crc=check_crc)
        self._skip_to(wanted)
        self._begin(filesystem)
        _, fold = self._begun.popleft()
        self._forget(wanted)
        self._begin(filesystem)
        return fold.result()

    def _skip_to(self, wanted: _Wanted) -> None:
        """Drop the folds before a wanted one: the replay passed them over."""
        while self._begun and self._begun[0][0] != wanted:
            passed, fold = self._begun.popleft()
            fold.cancel()
            self._forget(passed)
        while not self._begun and self._waiting[0] != wanted:
            self._expected.discard(self._waiting.popleft())

    def _forget(self, begun: _Wanted) -> None:
        self._begun_bytes -= begun.segment.log.size
        self._expected.discard(begun)

    def _begin(self, filesystem: FileSystem) -> None:
        """Begin as many folds as there are cores, and more of small segments."""
        while self._waiting and (len(self._begun) < self._threads or self._begun_bytes < _SMALL_BYTES):
            wanted = self._waiting.popleft()
            self._pool = self._pool or ThreadPoolExecutor(self._threads, thread_name_prefix="fold")
            fold = self._pool.submit(
                fold_segment,
                filesystem,
                wanted.segment,
                cuts=wanted.cuts,
                check_crc=self._check_crc,
                stop=self._stop,
            )
            self._begun.append((wanted, fold))
            self._begun_bytes += wanted.segment.log.size
