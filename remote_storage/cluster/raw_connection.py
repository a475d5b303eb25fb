"""The one request that librdkafka does not offer: OffsetForLeaderEpoch, on a socket of its own.

    request   int32 length | int16 api key 23 | int16 version 3 | int32 correlation id | string client id
              int32 replica id -1 | array of: string topic | array of: int32 partition
                                                                       int32 current leader epoch -1 (not checked)
                                                                       int32 leader epoch
    response  int32 length | int32 correlation id
              int32 throttle, ms | array of: string topic | array of: int16 error | int32 partition
                                                                       int32 leader epoch | int64 end offset

A string is its int16 length and UTF-8, an array its int32 count and elements. Version 3 is not flexible and known to
brokers from 2.3 to 4.x. Security protocols PLAINTEXT and SSL (PEM files, as librdkafka names them); SASL is not spoken.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from collections.abc import Mapping
from types import TracebackType

from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError
from tiersnap.snapshot.units import count_of

_log = logging.getLogger(__name__)

_API, _VERSION, _HEADER_CLIENT = 23, 3, "tiersnap"
_SECONDS = 15.0
_LONGEST = 1 << 20
_RETRIABLE = {
    3: "unknown topic or partition",
    5: "no leader",
    6: "not the leader",
    9: "replica not available",
    56: "its log directory is offline",
}


def can_speak(properties: Mapping[str, str]) -> bool:
    """Return whether the client properties need nothing but PLAINTEXT or SSL."""
    return properties.get("security.protocol", "plaintext").lower() in {"plaintext", "ssl"}


class RawConnection:
    """One connection to one broker, made anew once where the broker has closed it; a context that closes it.

    Brokers close what was idle for ten minutes (connections.max.idle.ms), and whatever is open when they restart.

    Raises:
        BrokerUnavailableError: no connection or no answer; also from every method.
        ClusterRefusedError: no TLS with that broker, or an error in the answer.
    """

    def __init__(self, host: str, port: int, properties: Mapping[str, str]) -> None:
        self._host, self._port, self._properties = host, port, properties
        self._name = f"{host}:{port}"
        self._correlation = 0
        self._socket = self._connect()

    def _connect(self) -> socket.socket:
        try:
            plain = socket.create_connection((self._host, self._port), _SECONDS)
        except OSError as error:
            raise self._unavailable(error) from error
        _log.debug("connected to %s", self._name)
        if self._properties.get("security.protocol", "plaintext").lower() != "ssl":
            return plain
        try:
            return _ssl_context(self._properties).wrap_socket(plain, server_hostname=self._host)
        except (OSError, ssl.SSLError) as error:
            plain.close()
            raise ClusterRefusedError(f"{self._name}: {error}", hint="see ssl.* in --command-config") from error

    def end_offset_for(self, topic: str, partition: int, epoch: int) -> tuple[int, int]:
        """Ask the leader's epoch cache for `epoch`: (largest epoch not above it, its exclusive end offset)."""
        body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">iiii", 1, partition, -1, epoch)
        answer = self._ask(body)
        _, _, length = struct.unpack_from(">iih", answer)
        (error, _, answered, end) = struct.unpack_from(">hiiq", answer, 10 + length + 4)
        if error in _RETRIABLE:
            raise BrokerUnavailableError(
                f"{self._name}: leader epochs of {topic}-{partition}: {_RETRIABLE[error]}",
                hint="run the same command again",
            )
        if error:
            raise ClusterRefusedError(f"{self._name}: leader epochs of {topic}-{partition}: error {error}")
        return int(answered), int(end)

    def _ask(self, body: bytes) -> bytes:
        self._correlation += 1
        request = struct.pack(">hhi", _API, _VERSION, self._correlation) + _string(_HEADER_CLIENT) + body
        try:
            answer = self._exchange(request)
        except (ConnectionError, ssl.SSLError):
            _log.debug("%s closed the connection, trying once more", self._name)
            self.close()
            self._socket = self._connect()
            try:
                answer = self._exchange(request)
            except OSError as error:
                raise self._unavailable(error) from error
        except OSError as error:
            raise self._unavailable(error) from error
        if struct.unpack_from(">i", answer) != (self._correlation,):
            raise BrokerUnavailableError(f"{self._name}: an answer to another request")
        return answer[4:]

    def _exchange(self, request: bytes) -> bytes:
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", self._read(4))
        if not 4 <= length <= _LONGEST:
            raise BrokerUnavailableError(f"{self._name}: an answer of {count_of(length, 'byte')} is not Kafka's")
        return self._read(length)

    def _unavailable(self, error: OSError) -> BrokerUnavailableError:
        return BrokerUnavailableError(f"{self._name}: {error}", hint="run the same command again")

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            data += part
        return bytes(data)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ssl_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password"))
    return context


def _string(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack(">h", len(data)) + data
