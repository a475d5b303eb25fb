"""A line to a server: each answer comes later. `python -m tests.perf.latency HOST PORT SECONDS` prints its port.

Bytes pass as they are, so that it costs little beside the two ends. Who waits for "100 Continue" waits twice.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast


@contextmanager
def behind(url: str, seconds: float) -> Iterator[str]:
    """The URL of a server as it is reached over such a line, which is a process of its own."""
    host, port = url.removeprefix("http://").split(":")
    command = [sys.executable, "-m", "tests.perf.latency", host, port, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as line:
        try:
            assert line.stdout is not None
            yield f"http://127.0.0.1:{int(line.stdout.readline())}"
        finally:
            line.terminate()


class _End(asyncio.Protocol):
    """One end of a connection; what it receives is written to the other end after a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._received: deque[bytes] = deque()
        self.other: asyncio.Transport | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        if not self._seconds:
            self.flush()
        else:
            asyncio.get_running_loop().call_later(self._seconds, self._pass)

    def flush(self) -> None:
        """Write all of it now, if there is another end."""
        while self._received and self.other is not None:
            self._pass()

    def connection_lost(self, _: Exception | None) -> None:
        self.data_received(b"")

    def _pass(self) -> None:
        data = self._received.popleft()
        if self.other is None or self.other.is_closing():
            return
        if data:
            self.other.write(data)
        else:
            self.other.close()


class _Client(_End):
    def __init__(self, host: str, port: int, delay: float) -> None:
        super().__init__(0.0)
        self._target = host, port, delay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        host, port, delay = self._target
        server = _End(delay)
        server.other = self.transport
        self.other, _ = await asyncio.get_running_loop().create_connection(lambda: server, host, port)
        self.flush()


async def _serve(host: str, port: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Client(host, port, seconds), "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
