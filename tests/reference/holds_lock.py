"""Hold the file that the last word names, `--lock=PATH`, until a line comes; see broker_process."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

with Path(sys.argv[-1].removeprefix("--lock=")).open("a+") as held:
    fcntl.lockf(held, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.readline()
