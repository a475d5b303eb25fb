"""A point in time after which an operation gives up."""

from __future__ import annotations

import time

from tiersnap.snapshot.errors import TransientError

DEFAULT_UPLOAD_SECONDS = 900.0


class Deadline:
    """Seconds from now, or never; checked between requests, so a request under way may overrun by its own timeout."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """Seconds left, 0 when it has passed, None when there is no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def check(self, doing: str) -> None:
        """Go on, or give up.

        Raises:
            TransientError: the time is over.
        """
        if self.remaining() == 0.0:
            raise TransientError(
                f"{doing}: not done within {self.seconds:g} s",
                hint="run the same command again: nothing half-done is kept; raise the upload timeout if it recurs",
                seconds=self.seconds,
            )


NO_DEADLINE = Deadline(None)
