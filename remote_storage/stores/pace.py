"""Limit bytes per second: a token bucket whose clock is given, and one per process that sleeps.

The bucket holds at most what one second brings. Who takes more than is there goes into debt and waits until it is paid,
so that bodies of any size pass and the average holds.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.units import human_bytes

LEAST_RATE = 4 << 20
"""Bytes a second. Slower than that a segment of 2 GiB, as large as they may be, would outlast the deadline of an
upload, and others would take its claim for stale."""


@dataclass
class TokenBucket:
    """Tokens are bytes, times are seconds of any clock that does not go back.

    Attributes:
        rate: bytes a second, above 0.
        at: when `tokens` were counted.
    """

    rate: float
    at: float
    tokens: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.rate

    def take(self, size: int, now: float) -> float:
        """Take `size` bytes; returns how many seconds to wait before they are used."""
        self.tokens = min(self.rate, self.tokens + (now - self.at) * self.rate) - size
        self.at = now
        return max(0.0, -self.tokens / self.rate)


class Pace:
    """A bucket that threads share; `wait_for` returns when the bytes may pass."""

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bucket = TokenBucket(rate, clock())
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()

    def wait_for(self, size: int) -> None:
        """Take `size` bytes, after a while if need be."""
        with self._lock:
            seconds = self._bucket.take(size, self._clock())
        if seconds > 0:
            self._sleep(seconds)


def pace_of(rate: int) -> Pace:
    """The pace of this process for a rate; a forked worker has its own."""
    return _pace_of_process(rate, os.getpid())


@functools.lru_cache(maxsize=8)
def _pace_of_process(rate: int, _pid: int) -> Pace:
    return Pace(rate)


def check_rate(rate: int) -> int:
    """The rate, if uploads can keep to it.

    Raises:
        UsageError: it is below LEAST_RATE.
    """
    if rate < LEAST_RATE:
        raise UsageError(
            f"--max-bytes-per-second {human_bytes(rate)}: a large segment would not be there before its claim is stale",
            hint=f"give at least {LEAST_RATE >> 20}MiB",
        )
    return rate


def shares(rate: int, tasks: int) -> tuple[int, int]:
    """Into how many tasks (at most `tasks`) a job's rate is divided, and what each has: at least LEAST_RATE."""
    count = max(1, min(tasks, rate // LEAST_RATE))
    return count, rate // count
