"""Requests to S3 that end at their deadline, even if the server sends a byte from time to time.

Each received byte restarts the read timeout of botocore. Therefore a watchdog thread watches the calls of this process.
When a call's deadline passes, the watchdog shuts the socket, which wakes the waiting thread. botocore then tries to
repeat the request, and a hook of this module refuses that. A call may exceed its deadline by one retry pause of
botocore.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool, AWSHTTPSConnection, AWSHTTPSConnectionPool
from botocore.client import BaseClient

from tiersnap.remote_storage.stores.requests import Deadline, current, earliest

_SLOWEST = 256 * 1024  # bytes per second; a slower body exceeds the deadline of its call
_thread = threading.local()


class Call:
    """A running call of one thread. The watchdog shuts its connection when `deadline` has passed."""

    def __init__(self, seconds: float, doing: str, whole: Deadline) -> None:
        self.doing = doing
        self._whole = whole
        self._own = Deadline(seconds)
        self.is_cut = False
        # The socket is kept here, because http.client drops it if the server is going to close the connection.
        self.socket: socket.socket | None = None

    def extend(self, size: int) -> None:
        """Extend the call's own deadline by the time that `size` bytes take at _SLOWEST (256 KiB/s)."""
        self._own = Deadline((self._own.remaining() or 0.0) + size / _SLOWEST)

    @property
    def deadline(self) -> Deadline:
        """Return the earlier of two deadlines: the call's own and the caller's.

        The caller may move its own deadline to now at any time, with `Deadline.expire`.
        """
        return earliest(self._own, self._whole)

    def check(self) -> None:
        """Raise TransientError if the watchdog cut the call, or if the deadline has passed."""
        if self.is_cut:
            raise self.deadline.passed(self.doing)
        self.deadline.check(self.doing)

    def cut(self) -> None:
        """Shut the socket, to wake the thread that waits for the server."""
        self.is_cut = True
        if self.socket is not None:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


@contextmanager
def bounded(seconds: float, doing: str, *, size: int = 0, deadline: Deadline | None = None) -> Iterator[Call]:
    """Limit the time of one request of this thread.

    Args:
        seconds: the limit for a request without a body.
        size: bytes of the body. The time that they take at _SLOWEST (256 KiB/s) is added to the limit.
        deadline: a further limit. None means the deadline of the `with Deadline` block.

    Raises:
        TransientError: the deadline has passed.
    """
    if deadline is None:
        deadline = current()
    call = Call(seconds + size / _SLOWEST, doing, deadline)
    call.check()
    outer, _thread.call = getattr(_thread, "call", None), call
    watchdog = _watchdog(os.getpid())
    watchdog.add(call)
    try:
        yield call
    except Exception as error:
        if call.is_cut:
            raise call.deadline.passed(doing) from error
        raise
    finally:
        watchdog.remove(call)
        _thread.call = outer
    if call.is_cut:  # the bytes that were read may be incomplete
        raise call.deadline.passed(doing)


def obey_deadlines(client: BaseClient) -> None:
    """Make a client use connections whose sockets the watchdog can shut.

    botocore has no public access to a connection, so this function uses private attributes. `boto3` is pinned to
    releases that pass a test of this function.
    """
    pools = client._endpoint.http_session._pool_classes_by_scheme  # botocore creates pools on demand, also for proxies
    pools.update({"http": _Pool, "https": _TlsPool})
    client.meta.events.register("before-send.s3", _before_send)
    client.meta.events.register_first("needs-retry.s3", _before_retry)


def _before_send(**_: object) -> None:
    call = getattr(_thread, "call", None)
    if call is not None:
        call.check()


def _before_retry(**_: object) -> None:
    """Raise TransientError if the watchdog cut the call, so that botocore does not pause for a retry.

    botocore calls this hook after every answer, even after a success.
    """
    call = getattr(_thread, "call", None)
    if call is not None and call.is_cut:
        call.check()


class _Watched:
    """A connection that passes its socket to the thread's Call."""

    sock: socket.socket | None

    def request(self, *args: object, **options: object) -> object:
        call = getattr(_thread, "call", None)
        if call is not None:
            call.socket = self.sock
        return super().request(*args, **options)  # type: ignore[misc]

    def connect(self) -> None:
        call = getattr(_thread, "call", None)
        if call is None:
            super().connect()  # type: ignore[misc]
            return
        try:
            super().connect()  # type: ignore[misc]
        finally:
            plain, call.socket = call.socket, self.sock
            if plain is not None and plain is not self.sock:
                plain.close()
        call.check()  # the deadline may have passed before the socket existed

    def _new_conn(self) -> socket.socket:
        made: socket.socket = super()._new_conn()  # type: ignore[misc]
        call = getattr(_thread, "call", None)
        if call is not None:
            # A TLS handshake takes over `made`, and exposes no socket until the handshake ends.
            call.socket = made.dup()
        return made


class _Connection(_Watched, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _TlsConnection(_Watched, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(AWSHTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _Connection


class _TlsPool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _TlsConnection


class _Watchdog:
    """A thread that cuts the calls whose deadline has passed. The thread starts with the first call."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: set[Call] = set()
        self._wakes = float("inf")
        self._thread: threading.Thread | None = None

    def add(self, call: Call) -> None:
        with self._changed:
            self._calls.add(call)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="tiersnap-deadlines", daemon=True)
                self._thread.start()
            if call.deadline.end < self._wakes:  # rare: a later call usually has a later deadline
                self._changed.notify()

    def remove(self, call: Call) -> None:
        with self._changed:
            self._calls.discard(call)

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                expired = [call for call in self._calls if call.deadline.end <= now]
                for call in expired:
                    self._calls.discard(call)
                    call.cut()
                if not self._calls:
                    self._wakes = float("inf")
                    self._changed.wait()
                    continue
                # `Deadline.expire` does not notify this thread, so it checks once a second while calls exist.
                self._wakes = min(now + 1.0, *(call.deadline.end for call in self._calls))
                self._changed.wait(max(0.0, self._wakes - now))


@functools.lru_cache(maxsize=1)
def _watchdog(_pid: int) -> _Watchdog:
    return _Watchdog()  # a forked process does not have its parent's threads
