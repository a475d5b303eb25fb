"""The log on stderr, lines for people or an object a line for programs, neither with a secret; and a stdout that fails.

stdout does not take what is written when its reader has gone (`… | head`), or its disk is full.
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

# What they log of requests and commands below this level holds tokens and settings, or an instruction a line.
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
        """The line."""
        record.message = shown(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """The line and the traceback; another handler may have made its text already."""
        return masked(super().format(record))


class _Json(logging.Formatter):
    """`{"time", "level", "logger", "message", "process", "exception"}`; the last only where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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
    """Ours, so that a second command in one process replaces it and leaves those of others alone."""


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
    """Let Python show an error that nobody caught without secrets."""
    sys.excepthook = _masked_traceback


def guarded(command: Callable[[], int]) -> int:
    """Return the exit code of the command, or what stdout makes of it: BROKEN_PIPE in silence, an error in a sentence.

    An OSError that is none of stdout is raised.
    """
    if sys.stdout is None:  # closed by whoever started the process
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_stdout()
        return int(ExitCode.BROKEN_PIPE)
    except SystemExit as ended:  # click ends a completion with 0, and what a broken pipe stopped otherwise
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
    """Return whether stdout refuses another line for the same reason; what was refused may have left its buffer."""
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
