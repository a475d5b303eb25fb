"""The two requests that no client at hand will send: Produce with given bytes, and DescribeProducers.

Produce v7 is not flexible and accepted from 2.7 to 4.x, so one encoding serves every broker. DescribeProducers v0 is
flexible (compact strings and arrays, tagged fields); brokers have it since 2.8.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType

from tests.broker.harness.broker import Broker
from tests.broker.harness.log_batches import Batch

PRODUCE, PRODUCE_VERSION = 0, 7
DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS_VERSION = 61, 0
TIMEOUT_MS = 15_000
NO_TAGS = b"\x00"


class Connection:
    """One TCP connection to a broker; a request, then its response."""

    def __init__(self, broker: Broker) -> None:
        self._socket = socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_MS / 1000)
        self._correlation = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, api: int, version: int, body: bytes, *, flexible: bool = False) -> Reader:
        """Send one request and return its response behind the header."""
        self._correlation += 1
        header = struct.pack(">hhi", api, version, self._correlation) + _string("tests") + NO_TAGS * flexible
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (length,) = struct.unpack(">i", self._read(4))
        reader = Reader(self._read(length))
        (answered,) = reader.take(">i")
        if answered != self._correlation:
            raise AssertionError(f"response {answered} to request {self._correlation}")
        if flexible:
            reader.tags()
        return reader

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise AssertionError("the broker closed the connection")
            data += part
        return bytes(data)


class Reader:
    """A cursor over a response."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        fields = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return fields

    def string(self) -> str:
        (length,) = self.take(">h")
        return self._text(length)

    def unsigned_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def compact_string(self) -> str:
        """Text of a compact nullable string, empty for null."""
        return self._text(self.unsigned_varint() - 1)

    def tags(self) -> None:
        for _ in range(self.unsigned_varint()):
            self.unsigned_varint()
            self._at += self.unsigned_varint()

    def _text(self, length: int) -> str:
        start, self._at = self._at, self._at + max(length, 0)
        return self._data[start : self._at].decode()


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _compact_string(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def produce(
    connection: Connection, topic: str, partition: int, records: bytes, *, transactional_id: str | None = None
) -> tuple[int, int]:
    """Send `records` (one batch) with acks=-1; returns (error code, base offset).

    Args:
        transactional_id: brokers refuse a transactional batch without one, and believe any that the client may use.
    """
    name = struct.pack(">h", -1) if transactional_id is None else _string(transactional_id)
    body = name + struct.pack(">hi", -1, TIMEOUT_MS)
    body += struct.pack(">i", 1) + _string(topic) + struct.pack(">iii", 1, partition, len(records)) + records
    response = connection.ask(PRODUCE, PRODUCE_VERSION, body)
    response.take(">i")
    response.string()
    _, _, error, base_offset, _, _ = response.take(">iihqqq")
    return error, base_offset


@dataclass
class Resent:
    """What the broker did with batches it had been sent before."""

    duplicates: int = 0  # acknowledged with the old base offset
    appended: int = 0
    refused: dict[int, int] = field(default_factory=dict)  # error code -> batches


def resend(broker: Broker, topic: str, again: Iterable[Batch], *, partition: int = 0) -> Resent:
    """Send every batch of `again` byte for byte as its client had sent it, and count what became of it."""
    resent = Resent()
    with Connection(broker) as connection:
        for batch in again:
            error, base_offset = produce(connection, topic, partition, batch.as_sent())
            if error:
                resent.refused[error] = resent.refused.get(error, 0) + 1
            elif base_offset == batch.base_offset:
                resent.duplicates += 1
            else:
                resent.appended += 1
    return resent


@dataclass(frozen=True)
class ActiveProducer:
    """One producer as the leader knows it, unset fields -1 (the epochs are int32 here)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


def describe_producers(broker: Broker, topic: str, *, partition: int = 0) -> list[ActiveProducer]:
    """Every producer the leader of a partition knows, by producer id; brokers 2.8 and later.

    Raises:
        AssertionError: the broker answered with an error.
    """
    body = b"\x02" + _compact_string(topic) + b"\x02" + struct.pack(">i", partition) + NO_TAGS + NO_TAGS
    with Connection(broker) as connection:
        response = connection.ask(DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS_VERSION, body, flexible=True)
    response.take(">i")
    response.unsigned_varint()
    response.compact_string()
    response.unsigned_varint()
    _, error = response.take(">ih")
    message = response.compact_string()
    if error:
        raise AssertionError(f"DescribeProducers {topic}-{partition}: error {error} {message}")
    found = []
    for _ in range(response.unsigned_varint() - 1):
        found.append(ActiveProducer(*response.take(">qiiqiq")))
        response.tags()
    return sorted(found, key=lambda each: each.producer_id)
