"""stdout that does not take what is written: its reader has gone (`… | head`), or its disk is full."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tiersnap.jobs.output import Output
from tiersnap.snapshot.errors import ExitCode


def guarded(command: Callable[[], int]) -> int:
    """Return the exit code of the command, or what stdout makes of it: BROKEN_PIPE in silence, an error in a sentence.

    Raises:
        OSError: it is none of stdout.
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
