"""Begin copy attempts at the next segments of a partition while earlier segments become visible.

A begun segment is claimed and sent, but not visible. Segments are completed one by one, in ascending offset: check the
objects in the store, check the claim, make the segment visible, finish the claim. So at most one segment of a partition
is visible and unfinished, even if the process is killed. A begun segment is only a claim and objects, and no reader
takes these objects for a segment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

from tiersnap.remote_storage.stores.requests import Deadline
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.copy_attempt import CopyAttempt, Ended, begin_attempt
from tiersnap.remote_storage.upload.tier_job import TierJob
from tiersnap.snapshot.context_pool import ContextPool

SEGMENTS_AT_ONCE = 6
"""Limit of begun segments; each has one request under way, besides the parts of a large log."""
_LOOKS_AHEAD = 2
"""Segments that are checked early. A check takes two requests, as many as the completion of a segment."""
BYTES_AT_ONCE = 64 << 20
"""Limit for the logs of begun segments, which may all be in memory. The calling thread sends a larger log in parts."""


class Ahead:
    """Copy attempts at the segments of a partition; `close` undoes begun attempts that were not completed.

    Args:
        segments: segments that were not in remote storage when the partition was listed; ascending.
    """

    def __init__(self, job: TierJob, segments: Iterable[PlannedSegment]) -> None:
        self._job = job
        self._waiting = deque(segments)
        self._begun: dict[int, _Begun] = {}
        self._looked: dict[int, Future[None]] = {}
        self._pool = ContextPool(SEGMENTS_AT_ONCE, thread_name_prefix="tiersnap-segment")

    def attempt(self, segment: PlannedSegment) -> Ended:
        """Copy a segment, or complete its begun attempt; call it only after all segments before it."""
        begun = self._take(segment)
        looked = self._looked.pop(segment.base_offset, None)
        if isinstance(begun, CopyAttempt):
            self._look_at_next()
            begun = begun.complete(begun.look if looked is None else looked.result)
        if begun.lost is not None:
            self._looked.clear()  # another attempt is at work, so each segment needs a new check at its turn
        return begun

    def close(self) -> None:
        """Undo the begun attempts, without waiting for a server that does not answer."""
        with ExitStack() as each:
            each.callback(self._pool.shutdown)
            for begun in self._begun.values():
                begun.deadline.expire()
                if not begun.future.cancel():
                    each.callback(begun.give_up)

    def _take(self, segment: PlannedSegment) -> CopyAttempt | Ended:
        is_next = bool(self._waiting) and self._waiting[0] is segment
        if is_next:
            self._fill(())
        if segment.base_offset not in self._begun:  # it is large, or was attempted before
            if is_next:
                self._waiting.popleft()
            return begin_attempt(self._job, segment, Deadline(self._job.tierer.timeout))
        taken = self._begun[segment.base_offset].future.result()
        del self._begun[segment.base_offset]
        self._fill((segment,))
        return taken

    def _fill(self, taken: Iterable[PlannedSegment]) -> None:
        held = [*taken, *(each.segment for each in self._begun.values())]
        size = sum(segment.log.size for segment in held)
        while self._waiting and len(held) < SEGMENTS_AT_ONCE:
            size += self._waiting[0].log.size
            if size > BYTES_AT_ONCE:
                return
            segment = self._waiting.popleft()
            held.append(segment)
            deadline = Deadline(self._job.tierer.timeout)
            begun = self._pool.submit(begin_attempt, self._job, segment, deadline)
            self._begun[segment.base_offset] = _Begun(segment, deadline, begun)

    def _look_at_next(self) -> None:
        """Begin to check the next segments while this one becomes visible, if they were sent."""
        for following in islice(self._begun.values(), _LOOKS_AHEAD):
            offset, future = following.segment.base_offset, following.future
            if offset in self._looked or not future.done() or future.exception() is not None:
                continue
            attempt = future.result()
            if isinstance(attempt, CopyAttempt):
                self._looked[offset] = self._pool.submit(attempt.look)


@dataclass(frozen=True, slots=True)
class _Begun:
    segment: PlannedSegment
    deadline: Deadline
    future: Future[CopyAttempt | Ended]

    def give_up(self) -> None:
        attempt = self.future.result()
        if isinstance(attempt, CopyAttempt):
            attempt.give_up()
