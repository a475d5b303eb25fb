"""A process that holds `.lock` of a log directory as a broker does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLD = "import fcntl,sys; f=open(sys.argv[1],'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); input()"


@contextmanager
def broker(log_dir: Path, *more: str) -> Iterator[int]:
    """Its process id; `more` ends its command line."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(log_dir / ".lock"), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.communicate("\n", timeout=60)
