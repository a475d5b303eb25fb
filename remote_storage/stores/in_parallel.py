"""Several requests at once, for what needs many small ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")
REQUESTS_AT_ONCE = 8
MOST_AT_ONCE = 32
"""Requests of a reader that goes on for long; also the connections that are kept to one server."""


def in_parallel(ask: Callable[[A], R], items: Iterable[A]) -> list[R]:
    """Return what `ask` gives for each item, in their order; raises what it raises first."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        return list(pool.map(ask, items))


def in_waves(ask: Callable[[A], R], items: Iterable[A]) -> Iterator[list[R]]:
    """Give what `ask` gives, REQUESTS_AT_ONCE items at a time; the caller may end it.

    The longer the caller goes on, the more is asked ahead, up to MOST_AT_ONCE: never more than was taken before, so who
    ends it early has asked for little.
    """
    left, pending, taken = iter(items), deque[Future[R]](), 0
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        try:
            while True:
                ahead = max(REQUESTS_AT_ONCE, min(taken, MOST_AT_ONCE))
                pending.extend(pool.submit(ask, item) for item in islice(left, ahead - len(pending)))
                if not pending:
                    return
                yield [pending.popleft().result() for _ in range(min(REQUESTS_AT_ONCE, len(pending)))]
                taken += REQUESTS_AT_ONCE
        finally:
            for asked in pending:
                asked.cancel()
