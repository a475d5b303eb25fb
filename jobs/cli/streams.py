"""The log on stderr, and errors of writes to stdout.

The log has text lines for people, or one JSON object per line for programs. Secrets are masked. A write to stdout
fails if its reader has ended (`… | head`), or if the disk is full.
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

# At DEBUG these loggers print tokens and settings of requests, or one line per compiled instruction.
_TALKATIVE = ("botocore", "boto3", "s3transfer", "urllib3", "py4j", "numba")


class LogFormat(StrEnum):
    """Values of --log-format."""

    TEXT = "text"
    JSON = "json"


class _Text(logging.Formatter):
    """Formats `2026-11-22 09:15:02,120 WARNING tiersnap.jobs.commands.run: message`; only tracebacks add lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line, with an escaped and masked message."""
        record.message = shown(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line and the traceback, both masked."""
        # Another handler may have stored a traceback with secrets in the record.
        return masked(super().format(record))


class _Json(logging.Formatter):
    """Formats `{"time", "level", "logger", "message", "process"}`, and `"exception"` if the record has an exception."""

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
    """The log handler of tiersnap. If a process runs several commands, each command replaces only this handler."""


def configure(level: str, log_format: LogFormat) -> None:
    """Log to stderr. Drop log records below `level`, a name such as `info`."""
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        if isinstance(handler, _Handler):
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
    """Mask secrets in the tracebacks of uncaught errors."""
    sys.excepthook = _masked_traceback


def guarded(command: Callable[[], int]) -> int:
    """Run `command` and return its exit code. If the reader of stdout ended, return BROKEN_PIPE.

    If a write to stdout fails for another reason, such as a full disk, print the error and return its exit code.

    Raises:
        OSError: `command` raised it, and it does not come from stdout.
    """
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
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
    """Return whether the error comes from stdout: whether writing one more line fails with the same errno."""
    # The buffer may have dropped the refused text, so flushing the old text proves nothing.
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as again:
        return again.errno == error.errno
    return False


def _give_up_stdout() -> None:
    """Redirect stdout to the null device. Otherwise Python would flush the buffer at exit, and fail again."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), number)
