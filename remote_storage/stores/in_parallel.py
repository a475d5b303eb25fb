"""Several requests at once, for what needs many small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")
REQUESTS_AT_ONCE = 8


def in_parallel(ask: Callable[[A], R], items: Iterable[A]) -> list[R]:
    """Return what `ask` gives for each item, in their order; raises what it raises first."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        return list(pool.map(ask, items))


def in_waves(ask: Callable[[A], R], items: Sequence[A]) -> Iterator[list[R]]:
    """Give what `ask` gives, as many items at a time as there are requests at once; the caller may end it."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for start in range(0, len(items), REQUESTS_AT_ONCE):
            yield list(pool.map(ask, items[start : start + REQUESTS_AT_ONCE]))
