"""Requests to a store: until a point in time, and several at once.

    with Deadline(30):
        store.list(…)              # no call of a store that is made here lasts longer than those 30 s

A store's call is bounded by its own limit, by the deadline that it was given, and by the one that it is made in. Calls
that clean up after a failure belong outside the `with`: inside they would be refused as well.
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
"""Requests of a reader that goes on for long; also the connections that are kept to one server."""


class Deadline:
    """Seconds from now, or never (None)."""

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
        """Seconds left, 0 when it has passed, None when there is no limit."""
        return None if self.end == math.inf else max(0.0, self.end - time.monotonic())

    def expire(self) -> None:
        """End it now, for whoever works under it in another thread."""
        self.end = time.monotonic()

    def check(self, doing: str) -> None:
        """Go on, or give up. Raises TransientError: the time is over."""
        if self.remaining() == 0.0:
            raise self.passed(doing)

    def passed(self, doing: str) -> TransientError:
        """The error that says so."""
        return TransientError(
            f"{doing}: not done within {self.seconds or 0:g} s",
            hint="run the same command again: nothing half-done is kept; if it recurs, look at the network to it",
            seconds=self.seconds,
        )


def earliest(*deadlines: Deadline) -> Deadline:
    """The one that ends first."""
    return min(deadlines, key=lambda deadline: deadline.end)


def current() -> Deadline:
    """The deadline that this code runs in."""
    return _current.get()


NO_DEADLINE = Deadline(None)
_current: ContextVar[Deadline] = ContextVar("deadline", default=NO_DEADLINE)


def in_parallel(ask: Callable[[A], R], items: Iterable[A]) -> list[R]:
    """Return what `ask` gives for each item, in their order; raises what it raises first."""
    with ContextPool(REQUESTS_AT_ONCE) as pool:
        return list(pool.map(ask, items))


def in_waves(
    ask: Callable[[A], R], items: Iterable[A], *, is_known: Callable[[A], bool] = lambda _: False
) -> Iterator[list[R]]:
    """Give what `ask` gives, REQUESTS_AT_ONCE items at a time; the caller may end it.

    The longer the caller goes on, the more is asked ahead, up to MOST_AT_ONCE: never more than was taken before, so who
    ends it early has asked for little.

    Args:
        is_known: whether `ask` makes no request for an item: then no thread is worth it.
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
