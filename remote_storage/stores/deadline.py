"""A point in time after which an operation gives up.

    with Deadline(30):
        store.list(…)              # no call of a store that is made here lasts longer than those 30 s

A store's call is bounded by its own limit, by the deadline that it was given, and by the one that it is made in. Calls
that clean up after a failure belong outside the `with`: inside they would be refused as well.
"""

from __future__ import annotations

import math
import time
from contextvars import ContextVar, Token

from tiersnap.snapshot.errors import TransientError

DEFAULT_UPLOAD_SECONDS = 900.0


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
