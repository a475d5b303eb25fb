"""Ctrl-C and SIGTERM: both raise, so that running code cleans up, and neither prints a traceback.

SIGTERM raises a KeyboardInterrupt, too, and gets the same cleanup as Ctrl-C. Python drops an exception that is raised
inside a finalizer or a callback; then the signal is sent once more.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_AGAIN_S = 0.05  # until the finalizer has ended


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM."""


def raise_interrupts() -> None:
    """Let both signals raise in the main thread of this process; Ctrl-C stays ignored if it was, as under nohup."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see `jobs.start`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _raise_again


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


def _raise_again(dropped: UnraisableHookArgs) -> None:
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    number = signal.SIGTERM if isinstance(dropped.exc_value, Terminated) else signal.SIGINT
    again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def interruption_of(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt that an error came of, None if it came of none.

    py4j, interrupted while it waits for Java, gives up its connection, and the next call fails.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return error
        error = error.__cause__ or error.__context__
    return None


def is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return whether a record of the log has no traceback of an interrupt, which py4j logs as an error."""
    return not record.exc_info or interruption_of(record.exc_info[1]) is None
