"""Check before a JVM starts that there is Java, and that a Spark master answers.

Spark itself waits more than a minute for a master that is not there, and says without Java that a gateway exited.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
from pathlib import Path

from tiersnap.snapshot.errors import MissingExtraError, TransientError, UsageError

_log = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|k8s://.+|spark://.+|sc://.+")
_USUAL_PORT = {"spark": None, "sc": 15002}  # Spark itself demands one for a master


def check_master(master: str) -> None:
    """See that a master is one that Spark knows and, where it is a server, that it answers; "" is the submit's.

    Raises:
        UsageError: no such kind of master, or no port.
        TransientError: nobody answers at any of its addresses, within 5 s each.
    """
    if not master:
        return
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"--master {master!r}: Spark knows no such master",
            hint="local[*], spark://HOST:7077, yarn, k8s://HOST:PORT, or sc://HOST:15002 for Spark Connect",
        )
    scheme, _, rest = master.partition("://")
    if scheme not in _USUAL_PORT:
        return
    troubles = []
    for address in rest.partition("/")[0].partition(";")[0].split(","):
        host, port = _address(master, address, _USUAL_PORT[scheme])
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as error:
            troubles.append(f"{host}:{port}: {error.strerror or error}")
        else:
            _log.debug("a Spark master answers at %s:%d", host, port)
            return
    raise TransientError(
        f"--master {master}: nobody answers: {'; '.join(troubles)}",
        hint="start the Spark master, or leave --master out to run on this host",
    )


def _address(master: str, address: str, usual: int | None) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon and usual is not None:
        return address, usual
    if not (host and port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"--master {master!r}: {address!r} is no HOST:PORT", hint="write it as spark://HOST:7077")
    return host.strip("[]"), int(port)


def check_java() -> None:
    """See that there is a Java that Spark's scripts would start.

    Raises:
        MissingExtraError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = os.access(Path(home) / "bin" / "java", os.X_OK) if home else shutil.which("java") is not None
    if not found:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH, and no JAVA_HOME"
        raise MissingExtraError(
            f"Spark needs Java: {where}",
            hint="install Java 17 or 21; one host needs none: tiersnap tier LOGDIR --remote URI",
        )
