"""Start copy attempts of the next segments of a partition while earlier segments become visible.

A started attempt claims its segment and sends all objects except the last one, so readers do not see the segment yet.
Attempts are completed one by one, in ascending offset: check objects and claim, make the segment visible, finish the
claim. So even if the process is killed, at most one segment of the partition is visible with an unfinished claim.
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
"""Limit of started attempts. Each sends one request at a time, except for the parts of a large log."""
_LOOKS_AHEAD = 2
"""Number of later segments that are checked in advance. A check needs as many requests as a completion: two."""
BYTES_AT_ONCE = 64 << 20
"""Limit of the log bytes of started attempts, which may all be in memory.

A larger log is sent by the calling thread.
"""


class Ahead:
    """Starts copy attempts of a partition in advance. `close` undoes attempts that were not completed.

    Args:
        job: the partition and the remote location.
        segments: the segments that are not in remote storage, ascending.
    """

    def __init__(self, job: TierJob, segments: Iterable[PlannedSegment]) -> None:
        self._job = job
        self._waiting = deque(segments)
        self._begun: dict[int, _Begun] = {}
        self._looked: dict[int, Future[None]] = {}
        self._pool = ContextPool(SEGMENTS_AT_ONCE, thread_name_prefix="tiersnap-segment")

    def attempt(self, segment: PlannedSegment) -> Ended:
        """Upload a segment, or complete its started attempt. Call this in ascending offset."""
        begun = self._take(segment)
        looked = self._looked.pop(segment.base_offset, None)
        if isinstance(begun, CopyAttempt):
            self._look_at_next()
            begun = begun.complete(begun.look if looked is None else looked.result)
        if begun.lost is not None:
            self._looked.clear()  # another process uploads too, so check each segment just before it becomes visible
        return begun

    def close(self) -> None:
        """Undo the started attempts. Do not wait for a server that does not answer."""
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
        if segment.base_offset not in self._begun:  # its log is too large, or this is a second attempt
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
        """Start checks of the next segments if their objects were sent."""
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
