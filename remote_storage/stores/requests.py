"""Deadlines of requests to a store, and several requests in parallel.

    with Deadline(30):
        store.list(…)              # all calls of a store in this block end within 30 s

Three limits bound a call of a store: the store's own limit for one call, the `deadline` argument of the call, and the
deadline of the `with` block. Calls that clean up after a failure must be outside the block, because after the deadline
every call in the block fails.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar, Token
from itertools import islice
from typing import TypeVar

from tiersnap.snapshot.context_pool import ContextPool
from tiersnap.snapshot.errors import TransientError

A = TypeVar("A")
R = TypeVar("R")
DEFAULT_UPLOAD_SECONDS = 900.0
REQUESTS_AT_ONCE = 8
MOST_AT_ONCE = 32
"""Most parallel requests of one reader, and the size of the connection pool for one server."""


class Deadline:
    """A point in time. None as seconds means no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.end = math.inf if seconds is None else time.monotonic() + seconds  # of the monotonic clock
        self._tokens: list[Token[Deadline]] = []

    def __enter__(self) -> Deadline:
        self._tokens.append(_current.set(earliest(self, _current.get())))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())

    def remaining(self) -> float | None:
        """Return the remaining seconds, 0 after the deadline, None without a limit."""
        if self.end == math.inf:
            return None
        return max(0.0, self.end - time.monotonic())

    def expire(self) -> None:
        """Move the deadline to now, for all threads that use this object."""
        self.end = time.monotonic()

    def check(self, doing: str) -> None:
        """Raise TransientError if the deadline has passed. `doing` names the work in the message."""
        if self.remaining() == 0.0:
            raise self.passed(doing)

    def passed(self, doing: str) -> TransientError:
        """Return the error that the deadline has passed."""
        return TransientError(
            f"{doing}: not finished within {self.seconds or 0:g} s",
            hint="run the same command again; if this recurs, check the network to the store",
            seconds=self.seconds,
        )


def earliest(*deadlines: Deadline) -> Deadline:
    """Return the deadline with the earliest end."""
    return min(deadlines, key=lambda deadline: deadline.end)


def current() -> Deadline:
    """Return the deadline of the innermost `with Deadline` block, or NO_DEADLINE outside of any block."""
    return _current.get()


NO_DEADLINE = Deadline(None)
_current: ContextVar[Deadline] = ContextVar("deadline", default=NO_DEADLINE)


def in_parallel(ask: Callable[[A], R], items: Iterable[A]) -> list[R]:
    """Return the results of `ask` in the order of the items, or raise the first error."""
    with ContextPool(REQUESTS_AT_ONCE) as pool:
        return list(pool.map(ask, items))


def in_waves(
    ask: Callable[[A], R], items: Iterable[A], *, is_known: Callable[[A], bool] = lambda _: False
) -> Iterator[list[R]]:
    """Yield lists of results of `ask`, at most REQUESTS_AT_ONCE in a list, in the order of the items.

    Requests start before the caller needs their results. The more results a caller has taken, the more requests start
    in advance, up to MOST_AT_ONCE. So a caller that stops early causes few requests.

    Args:
        is_known: returns whether `ask` can answer for an item without a request. The calling thread then calls `ask`.
    """
    left, pending, taken = iter(items), deque[Future[R]](), 0
    with ContextPool(MOST_AT_ONCE) as pool:
        try:
            while True:
                ahead = max(REQUESTS_AT_ONCE, min(taken, MOST_AT_ONCE))
                for item in islice(left, ahead - len(pending)):
                    pending.append(_answered(ask, item) if is_known(item) else pool.submit(ask, item))
                if not pending:
                    return
                yield [pending.popleft().result() for _ in range(min(REQUESTS_AT_ONCE, len(pending)))]
                taken += REQUESTS_AT_ONCE
        finally:
            for asked in pending:
                asked.cancel()


def _answered(ask: Callable[[A], R], item: A) -> Future[R]:
    answer: Future[R] = Future()
    answer.set_result(ask(item))
    return answer
