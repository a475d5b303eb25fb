"""A command with all processes that it leaves: `python -m tests.perf.whole_command COMMAND…`.

PySpark does not wait for its JVM, so the CPU of the JVM would not count as that of a child. Linux gives this process
the orphans of the command, and it waits for them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> int:
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("prctl refused to make this process the parent of orphans")
    code = subprocess.run(command, check=False).returncode
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
