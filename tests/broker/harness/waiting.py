"""Waiting for something to become true by asking again, never by sleeping for as long as it usually takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotInTimeError(AssertionError):
    """Raised when a condition did not become true within its time."""


def wait_until(condition: Callable[[], T | None], what: str, *, seconds: float = 30.0, every: float = 0.1) -> T:
    """First truthy value of `condition`, asked every `every` seconds for at most `seconds`.

    Raises:
        NotInTimeError: naming `what` and the last value, when the time is over.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotInTimeError(f"not within {seconds:.0f} s: {what} (last: {value!r})")
        time.sleep(every)
