"""Is a broker running on a log directory, and which process is it?

A broker holds a POSIX lock on `.lock` for as long as it runs (kafka.log.LogManager, kafka's server.util.FileLock).
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tiersnap.snapshot.log.lock import holder_of

# The jar of the server on a class path: kafka_2.13-3.9.1.jar, kafka-server-4.1.1.jar.
_JAR = re.compile(rb"/kafka(?:_2\.[0-9]+|-server)-(?P<version>[0-9]+(?:\.[0-9]+){1,3}[\w.+-]*?)\.jar")


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of the lock.

    Attributes:
        pid: 0 where it is a process of another container.
        version: of the broker, from the class path of its process; None where that cannot be told.
    """

    pid: int
    version: str | None


def lock_holder(log_dir: Path) -> Holder | None:
    """Return who holds `.lock` of a log directory; None if nobody does, or no broker ever ran there.

    Raises:
        OSError: as `holder_of`.
    """
    pid = holder_of(log_dir)
    return None if pid is None else Holder(pid, broker_version(pid))


def broker_version(pid: int) -> str | None:
    """Version of the Kafka jar that a process was started with; None where there is none or it may not be seen."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        environment = Path(f"/proc/{pid}/environ").read_bytes() if b"kafka" in command else b""
    except OSError:
        return None
    # A long class path is given in the environment or by a glob, which the JVM has opened by now.
    opened = b"\0".join(_opened(pid)) if b"kafka" in command else b""
    found = _JAR.search(b"/" + command) or _JAR.search(environment) or _JAR.search(opened)
    return None if found is None else found["version"].decode("ascii", "replace")


def _opened(pid: int) -> list[bytes]:
    """Names of the files that a process has open, as far as this user may see them."""
    opened = []
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed since it was listed
                opened.append(os.fsencode(link.readlink()))
    return opened
