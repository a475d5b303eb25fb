"""A command killed before each of its changes to a folder: `python -m tests.reference.killed FOLDER COPIES WORDS...`.

For N = 1, 2, ... FOLDER is copied to COPIES/N and `tiersnap WORDS` runs on the copy (`{}` in WORDS is its path), in a
process that sends itself SIGKILL as it is about to do its Nth open for writing, link, rename, removal or change of
mode. Ends when the command gets through, and prints how often it was killed.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
from pathlib import Path

CHANGES = {"os.link", "os.rename", "os.remove", "os.chmod", "os.chown", "os.mkdir"}  # CPython's audit events


def run_to_the_end_or_change(number: int, words: list[str]) -> int:
    """Exit code of the command, if it is not killed at its change of that number."""
    from tiersnap.jobs.main import run

    left = number

    def on_event(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(args[2], int) and bool(args[2] & (os.O_WRONLY | os.O_RDWR))
        if event in CHANGES or writes:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)
    return run(words)


def main(folder: Path, copies: Path, words: list[str]) -> int:
    # Imported and its kernels loaded before the processes part: each would spend seconds on it.
    from tiersnap.jobs.main import run

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        run(["repair", str(folder)])

    number = 0
    while True:
        number += 1
        copy = copies / str(number)
        shutil.copytree(folder, copy)
        child = os.fork()
        if child == 0:
            os._exit(run_to_the_end_or_change(number, [word.replace("{}", str(copy)) for word in words]))
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            print(number - 1)
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
