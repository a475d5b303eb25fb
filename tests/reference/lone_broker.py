"""A broker on a socket, whose cluster has a second one that is down.

It answers ApiVersions, Metadata and ListOffsets, in their first versions. The topic `orders` has two partitions: this
broker leads the first, and the broker that is down the second. Nothing listens on the port of that one.

    request   int32 length | int16 api key | int16 version | int32 correlation id | string client id | …
    response  int32 length | int32 correlation id | …
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LOG_END = 7
_HOST = "127.0.0.1"
_LIST_OFFSETS, _METADATA, _API_VERSIONS = 2, 3, 18
_NEWEST = {_LIST_OFFSETS: 1, _METADATA: 1, _API_VERSIONS: 0, 32: 0, 60: 0}
_UNSUPPORTED_VERSION = 35


@dataclass(frozen=True)
class LoneBroker:
    """Ports of the broker that answers, and of the one that is down."""

    port: int
    port_of_dead: int

    def answer(self, api: int, version: int) -> bytes:
        """Return the answer to a request, without its header."""
        if api == _API_VERSIONS:
            ranges = b"".join(struct.pack(">hhh", key, 0, newest) for key, newest in _NEWEST.items())
            return struct.pack(">hi", _UNSUPPORTED_VERSION if version else 0, len(_NEWEST)) + ranges
        if api == _LIST_OFFSETS:
            return _array(1) + _string("orders") + _array(1) + struct.pack(">ihqq", 0, 0, -1, LOG_END)
        ports = (self.port, self.port_of_dead)
        brokers = [
            struct.pack(">i", at + 1) + _string(_HOST) + struct.pack(">ih", port, -1) for at, port in enumerate(ports)
        ]
        partitions = [struct.pack(">hii", 0, at, at + 1) + 2 * (_array(1) + struct.pack(">i", at + 1)) for at in (0, 1)]
        topic = struct.pack(">h", 0) + _string("orders") + b"\0" + _array(2) + b"".join(partitions)
        return _array(2) + b"".join(brokers) + struct.pack(">i", 1) + _array(1) + topic


def _array(count: int) -> bytes:
    return struct.pack(">i", count)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@contextmanager
def lone_broker() -> Iterator[LoneBroker]:
    """Answer until the context ends."""
    with socket.create_server((_HOST, 0)) as server, socket.socket() as dead:
        dead.bind((_HOST, 0))  # and does not listen
        broker = LoneBroker(server.getsockname()[1], dead.getsockname()[1])
        threading.Thread(target=_accept, args=(server, broker), daemon=True).start()
        yield broker


def _accept(server: socket.socket, broker: LoneBroker) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, broker), daemon=True).start()


def _serve(connection: socket.socket, broker: LoneBroker) -> None:
    with connection, connection.makefile("rb") as requests:
        while len(head := requests.read(4)) == 4:
            api, version, correlation = struct.unpack_from(">hhi", requests.read(*struct.unpack(">i", head)))
            body = broker.answer(api, version)
            connection.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)
