"""Ask leaders for leader epochs with OffsetForLeaderEpoch. Copy tasks find remote segments by these epochs.

The client in this module does not support SASL. If a leader cannot be asked, tiersnap reads `leader-epoch-checkpoint`
in the leader's log directory instead. The batches of a log are no substitute: after a restore into another cluster they
contain epochs that the leader's cache lacks. librdkafka does not offer the request, so this module opens its own
socket:

    request   int32 length | int16 api key 23 | int16 version 3 | int32 correlation id | string client id
              int32 replica id -1 | array of: string topic | array of: int32 partition
                                                                       int32 current leader epoch -1 (not checked)
                                                                       int32 leader epoch
    response  int32 length | int32 correlation id
              int32 throttle, ms | array of: string topic | array of: int16 error | int32 partition
                                                                       int32 leader epoch | int64 end offset

A string is its int16 length and its UTF-8 bytes. An array is its int32 count and its elements. Brokers from 2.3 to 4.x
support version 3, which has no tagged fields. The client supports PLAINTEXT and SSL (PEM files, librdkafka's options).
"""

from __future__ import annotations

import logging
import shlex
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.errors import (
    BrokerUnavailableError,
    ClusterRefusedError,
    LeaderEpochLineageError,
    UnknownTopicError,
)
from tiersnap.remote_storage.metadata.segment_metadata import EndOffsetFor, TopicIdPartition, end_offset_for
from tiersnap.snapshot.log.log_dir import LEADER_EPOCHS, LogDir, open_log_dir
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
    """Return whether the client properties ask for PLAINTEXT or SSL. RawConnection does not support SASL."""
    return properties.get("security.protocol", "plaintext").lower() in {"plaintext", "ssl"}


class RawConnection:
    """A connection to one broker, and a context manager that closes it.

    If the broker closed the connection, a request reconnects once.

    Brokers close idle connections after ten minutes (connections.max.idle.ms), and all connections when they stop.

    Raises:
        BrokerUnavailableError: no connection, or no answer. All methods raise it.
        ClusterRefusedError: the TLS handshake failed, or the answer contains an error.
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
            raise ClusterRefusedError(
                f"{self._name}: {error}", hint="check the properties ssl.* in the file of --command-config"
            ) from error

    def end_offset_for(self, topic: str, partition: int, epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below `epoch` in the leader's epoch cache, and its exclusive end offset."""
        body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">iiii", 1, partition, -1, epoch)
        answer = self._ask(body)
        name = topic.encode("utf-8")
        try:
            _, *told, error, number, answered, end = struct.unpack_from(f">iih{len(name)}sihiiq", answer)
        except struct.error:  # the answer is too short
            told, number = [], -1
        if (told, number) != ([1, len(name), name, 1], partition):
            raise BrokerUnavailableError(
                f"{self._name}: leader epochs of {topic}-{partition}: the answer of "
                f"{count_of(len(answer), 'byte')} is incomplete, or belongs to another partition",
                hint="run the same command again; if this recurs, check whether the address is a Kafka broker's",
            )
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
            try:
                answer = self._exchange(request)
            except (ConnectionError, ssl.SSLError):
                _log.debug("%s closed the connection, trying once more", self._name)
                self.close()
                self._socket = self._connect()
                answer = self._exchange(request)
        except OSError as error:
            raise self._unavailable(error) from error
        if struct.unpack_from(">i", answer) != (self._correlation,):
            raise BrokerUnavailableError(f"{self._name}: the answer belongs to another request")
        return answer[4:]

    def _exchange(self, request: bytes) -> bytes:
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", self._read(4))
        if not 4 <= length <= _LONGEST:
            raise BrokerUnavailableError(f"{self._name}: no Kafka broker sends an answer of {count_of(length, 'byte')}")
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

    def __exit__(self, *_: object) -> None:
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


_BEYOND = (1 << 63) - 1
Lineage = Callable[[TopicIdPartition, int], EndOffsetFor]
"""Maps a partition and the id of its leader to a function that returns the end offset of a leader epoch."""


def dirs_for_epochs(cluster: Cluster, log_dirs: Iterable[str]) -> Sequence[str]:
    """Return the log directories for `open_lineage`. Empty if the client can ask the leaders themselves."""
    if can_speak(cluster.properties):
        return ()
    return tuple(log_dirs)


@contextmanager
def open_lineage(cluster: Cluster, log_dirs: Iterable[str]) -> Iterator[Lineage]:
    """Yield a lineage that reads the given log directories. If there are none, the lineage asks the leaders.

    The end of the `with` block closes all connections. The lineage raises UnknownTopicError if no log directory has the
    partition with this topic id. It raises LeaderEpochLineageError if the leader-epoch-checkpoint lost epochs, or if
    this client cannot ask leaders.
    """
    opened = [open_log_dir(uri) for uri in log_dirs]
    if opened:
        yield partial(_of_log_dirs, opened)
    elif can_speak(cluster.properties):
        with ExitStack() as connections:
            yield _Leaders(cluster, connections).of
    else:
        yield partial(_of_unasked_leader, cluster)


@dataclass
class _Leaders:
    """A lineage that asks leaders. It keeps one connection per leader, and asks for an epoch only once."""

    cluster: Cluster
    stack: ExitStack
    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    connections: dict[int, RawConnection] = field(default_factory=dict)

    def of(self, partition: TopicIdPartition, leader: int) -> EndOffsetFor:
        return cache(lambda epoch: self._connection(leader).end_offset_for(partition.topic, partition.partition, epoch))

    def _connection(self, broker: int) -> RawConnection:
        if broker not in self.connections:
            self.brokers = self.brokers or self.cluster.brokers()
            if broker not in self.brokers:
                raise BrokerUnavailableError(
                    f"{self.cluster.bootstrap_server}: broker {broker} is the leader of a partition, but is not "
                    "in the cluster's list of brokers",
                    hint="run the same command again once the partition has a leader",
                )
            connection = RawConnection(*self.brokers[broker], self.cluster.properties)
            self.connections[broker] = self.stack.enter_context(connection)
        return self.connections[broker]


def _of_log_dirs(log_dirs: Iterable[LogDir], partition: TopicIdPartition, leader: int) -> EndOffsetFor:
    """Return a function that reads the partition's `leader-epoch-checkpoint`. The newest epoch has no end (_BEYOND)."""
    for log_dir in log_dirs:
        if str(partition) in log_dir.folders:
            found = log_dir.partition(str(partition))
            if found.topic_id != partition.topic_id:
                raise UnknownTopicError(
                    f"{found.path}: the topic id is {found.topic_id} here, but {partition.topic_id} in the cluster",
                    hint="give a log directory of this cluster as LOGDIR",
                )
            if found.epochs_lost_below:
                raise LeaderEpochLineageError(
                    f"{found.path}: {LEADER_EPOCHS} lacks leader epochs of the log",
                    hint=f"stop the broker, then: tiersnap repair {shlex.quote(log_dir.path)} --apply",
                )
            return end_offset_for(found.leader_epochs or (), _BEYOND)
    raise UnknownTopicError(f"no LOGDIR has {partition}", hint="give the log directories of the leader as LOGDIR")


def _of_unasked_leader(cluster: Cluster, partition: TopicIdPartition, leader: int) -> EndOffsetFor:

    def refuse(epoch: int) -> tuple[int, int]:
        raise LeaderEpochLineageError(
            f"{partition}: tiersnap cannot ask leader {leader} for leader epoch {epoch}: tiersnap sends this request "
            f"only without SASL, but security.protocol is {cluster.properties['security.protocol']}",
            hint="run the command with LOGDIR on the leader's host, where tiersnap reads leader-epoch-checkpoint "
            "instead",
        )

    return refuse
