"""AlterReplicaLogDirs, which no client at hand sends: version 1 is not flexible and the oldest that 4.x takes."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

_API, _VERSION, _CORRELATION = 34, 1, 1
_SECONDS = 15.0


def move_replica(port: int, topic: str, log_dir: Path) -> int:
    """Tell a broker to move its replica of partition 0 to another log directory; returns Kafka's error code."""
    body = (
        struct.pack(">i", 1) + _string(str(log_dir)) + struct.pack(">i", 1) + _string(topic) + struct.pack(">ii", 1, 0)
    )
    request = struct.pack(">hhi", _API, _VERSION, _CORRELATION) + _string("chaos") + body
    with socket.create_connection(("127.0.0.1", port), _SECONDS) as connection:
        connection.settimeout(_SECONDS)
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (length,) = struct.unpack(">i", answer.read(4))
            response = answer.read(length)
    (error,) = struct.unpack(">h", response[-2:])
    return int(error)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
