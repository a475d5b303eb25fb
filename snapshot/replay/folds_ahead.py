"""Fold segments ahead of a replay in other threads, on the cores of this host.

A replay takes segments in ascending order, and each fold depends only on its segment. So other threads fold the next
segments while the replay compares, writes and prints. Results, order and errors are the same as with one thread.

Threads are used instead of processes: the compiled walk runs without the interpreter's lock, deltas need not be copied,
and no worker can outlive its parent. Processes were not faster for large segments, and used 1.4 times the CPU for small
ones.
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

_SMALL_BYTES = 8 << 20  # below this total size, any number of segments is folded ahead


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A requested fold. Equal requests have equal results."""

    segment: Segment
    cuts: tuple[int, ...]


class FoldsAhead:
    """A FoldSegment that folds segments in other threads before the replay requests them.

    It folds segments ahead if `expect` announced them and they are on a local disk. It folds other segments when they
    are requested. The threads end when the context exits. A fold that is running then stops after at most 32 MiB.
    """

    def __init__(self, *, check_crc: bool = True, threads: int | None = None) -> None:
        """Use `threads` threads. The default is one thread for each core that this process may use."""
        self._check_crc = check_crc
        self._threads = threads or usable_cores()
        self._stop = Event()
        self._pool: ThreadPoolExecutor | None = None
        # Both queues are in the order of the expected requests; `_begun` comes before `_waiting`.
        self._begun: deque[tuple[_Wanted, Future[FoldedSegment]]] = deque()
        self._begun_bytes = 0
        self._waiting: deque[_Wanted] = deque()
        self._expected: set[_Wanted] = set()

    def __enter__(self) -> Self:
        """Return self. Threads start when they are needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def listed(self, partitions: Iterable[tuple[NamedLogDir, Partition]]) -> Iterator[tuple[NamedLogDir, Partition]]:
        """Yield the partitions. List some partitions ahead, and call `expect` for each of them.

        Raises:
            TiersnapError: the listing failed. The partitions that were listed before the failure are yielded first.
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
        """Announce that the replay will request the segments of this partition, so that they are folded ahead."""
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
        """Cancel the folds that precede the wanted one in the queues. The replay has skipped their segments."""
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
        """Start as many folds as there are threads, and more if the segments are small."""
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
