"""Map tiersnap's exit code to the end of a task, without Airflow."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import Enum, auto

from tiersnap.snapshot.errors import ExitCode

_ENDED = re.compile(r"Error code is: (?P<code>-?[0-9]+)")


class Ending(Enum):
    """The end of a task, or its next try."""

    DONE = auto()
    WAIT = auto()
    FAIL = auto()
    AGAIN = auto()


_ENDINGS: dict[int, Ending] = {
    # The job came to its end, and to run it again at once would find the same.
    **dict.fromkeys((ExitCode.OK, ExitCode.GATE_REFUSED, ExitCode.DATA_CORRUPT, ExitCode.PARTIAL), Ending.DONE),
    ExitCode.TRANSIENT: Ending.WAIT,
    ExitCode.USAGE: Ending.FAIL,
}


def exit_code_in(said: str) -> int:
    """The exit code that spark-submit's error names; UNEXPECTED where it names none."""
    found = _ENDED.search(said)
    return int(found["code"]) if found else int(ExitCode.UNEXPECTED)


def ending_of(code: int) -> Ending:
    """Return how the task goes on after an exit code."""
    return _ENDINGS.get(code, Ending.AGAIN)


def is_over(since: datetime, now: datetime, wait_at_most: timedelta) -> bool:
    """Return whether a task that has waited since then waits no longer."""
    return now - since >= wait_at_most
