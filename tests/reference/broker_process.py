"""A process that holds `.lock` of a log directory, and was started as a broker is: with a server.properties."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Its name stands where the main class of a broker does.
_MAIN = Path(__file__).with_name("holds_lock.py")


@contextmanager
def started_broker(log_dir: Path, *words: str | Path, directory: Path | None = None) -> Iterator[int]:
    """Its process id; `words` are its server.properties and what follows, `directory` its working directory."""
    with subprocess.Popen(
        [sys.executable, "-I", _MAIN, *map(str, words), f"--lock={log_dir / '.lock'}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=directory,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.communicate("\n", timeout=60)
