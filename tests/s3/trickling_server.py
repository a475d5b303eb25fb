"""A server that answers a byte at a time, or not at all: silence alone does not betray it."""

import socket
import ssl
import threading
import time
from contextlib import suppress

PAUSE = 0.05  # seconds between two bytes; below every read timeout


class TricklingServer:
    """How it is slow: "silent", "headers" (a byte of them now and then), "body" (headers at once), "deaf" (reads not).

    `close` says Connection: close, so that the client forgets the connection once it has the headers.
    `outlasted` is set if a client waited for all of an answer, or for the 30 s of a silent server.
    """

    def __init__(self, how: str, *, close: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.how, self.close, self._tls = how, close, tls
        self.requests = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends = threading.Event()
        self.outlasted = threading.Event()
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> "TricklingServer":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
        with connection, suppress(OSError):
            if self.how == "deaf":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                self._hold()
                return
            connection.recv(65536)
            self.requests += 1
            if self.how == "silent":
                self._hold()
                return
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nLast-Modified: Sun, 22 Nov 2026 01:00:00 GMT\r\n"
            head += b'ETag: "x"\r\n' + (b"Connection: close\r\n" if self.close else b"")
            if self.how == "body":
                connection.sendall(head + b"\r\n")
                self._trickle(connection, b"x" * 1_000_000)
            else:
                self._trickle(connection, head + b"".join(b"X-More-%d: x\r\n" % n for n in range(90)))

    def _hold(self) -> None:
        if not self._ends.wait(30):
            self.outlasted.set()

    def _trickle(self, connection: socket.socket, data: bytes) -> None:
        for byte in data:
            if self._ends.is_set():
                return
            connection.sendall(bytes([byte]))
            time.sleep(PAUSE)
        self.outlasted.set()
