"""Logging to stderr, and failures of stdout.

The log has lines for people, or a JSON object on each line for programs, and no secrets. A write to stdout fails if its
reader has ended (`… | head`), or its disk is full.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from tiersnap.jobs.cli.escaped_text import shown
from tiersnap.jobs.cli.interrupts import is_no_interrupt
from tiersnap.jobs.cli.output import Output
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.masking import masked

# Below INFO these loggers write tokens and settings of requests and commands, or a line for each instruction.
_TALKATIVE = ("botocore", "boto3", "s3transfer", "urllib3", "py4j", "numba")


class LogFormat(StrEnum):
    """Values of --log-format."""

    TEXT = "text"
    JSON = "json"


class _Text(logging.Formatter):
    """`2026-11-22 09:15:02,120 WARNING tiersnap.jobs.commands.run: message`, in one line but for a traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line, with an escaped and masked message."""
        record.message = shown(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line and the traceback, which another handler may have formatted already."""
        return masked(super().format(record))


class _Json(logging.Formatter):
    """Formats `{"time", "level", "logger", "message", "process", "exception"}`; `exception` only if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": at,
            "level": record.levelname,
            "logger": record.name,
            "message": masked(record.getMessage()),
            "process": record.process,
        }
        if record.exc_info:
            line["exception"] = masked(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """tiersnap's handler: a second command in one process replaces it, and keeps the handlers of others."""


def configure(level: str, log_format: LogFormat) -> None:
    """Log to stderr from `level` (a name, as `info`) on."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(handler)
    ours = _Handler(sys.stderr)
    ours.setFormatter(_Json() if log_format is LogFormat.JSON else _Text())
    ours.addFilter(is_no_interrupt)
    root.addHandler(ours)
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.INFO, root.level))


def _masked_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(masked("".join(traceback.format_exception(kind, error, trace))))


def mask_tracebacks() -> None:
    """Make Python print uncaught errors without secrets."""
    sys.excepthook = _masked_traceback


def guarded(command: Callable[[], int]) -> int:
    """Return the exit code of the command; if stdout failed, BROKEN_PIPE, or the code of the error that is printed.

    An OSError that does not come from stdout is raised.
    """
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_stdout()
        return int(ExitCode.BROKEN_PIPE)
    except SystemExit as ended:  # click exits with 0 after a completion, and with another code after a broken pipe
        return int(ExitCode.BROKEN_PIPE if ended.code else ExitCode.OK)
    except OSError as error:
        if not _is_of_stdout(error):
            raise
        _give_up_stdout()
        from tiersnap.snapshot.atomic_file import cannot_write

        refused = cannot_write(Path("stdout"), error)
        Output().error_text(refused)
        return int(refused.exit_code)
    return code


def _is_of_stdout(error: OSError) -> bool:
    """Return whether the error comes from stdout: another line fails for the same reason.

    A line is written for the test, because the refused text may have left the buffer.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as again:
        return again.errno == error.errno
    return False


def _give_up_stdout() -> None:
    """Give up stdout: its buffer would be written when the process ends, and fail once more."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), number)
