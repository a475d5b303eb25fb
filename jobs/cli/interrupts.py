"""Handlers for Ctrl-C and SIGTERM. Each signal raises a KeyboardInterrupt, so that `finally` blocks clean up.

Neither signal prints a traceback. If a signal arrives in a finalizer or a callback, Python ignores the exception. In
that case this module sends the signal again.
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

_AGAIN_S = 0.05  # delay before the signal is sent again, so that the finalizer has ended


class Terminated(KeyboardInterrupt):
    """The exception that SIGTERM raises."""


def raise_interrupts() -> None:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt in the main thread.

    If the parent process ignores SIGINT, as nohup does, this process keeps ignoring it.
    """
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
    """Return the interrupt that caused an error; None for any other cause.

    An interrupt closes py4j's connection to Java, and the next call over this connection fails with another error.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return error
        error = error.__cause__ or error.__context__
    return None


def is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return False for a log record with the traceback of an interrupt; py4j logs interrupts as errors."""
    return not record.exc_info or interruption_of(record.exc_info[1]) is None
