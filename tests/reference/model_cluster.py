"""A cluster as tiersnap's client sees it, in memory: topics, settings, log offsets and `__remote_log_metadata`.

    cluster = ModelCluster()
    cluster.create(PARTITION, log_dir, settings={COPY_DISABLE: "true"})
    MetadataTopic.of(cluster).publish(...)       # what brokers then read: cluster.records(PARTITION)

It stands for brokers and librdkafka's clients, so MetadataTopic, its readers and its producers are the product's own.
`request` is given the name of each request of a client and what does it; it may do something before, behind or instead.
`view` gives a client with a `request` of its own. `before_append` is called with each record that a client sends,
before it is there; `swallow` says which records are acknowledged and lost. So many times as `hides_newest` says, who
reads behind a producer does not see its last record yet. Leader epochs are asked of the leaders' log directories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, TopicPartition

from tests.reference.log_records import records_from
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topics import Topic, TopicConfig
from tiersnap.remote_storage.errors import ClusterRefusedError
from tiersnap.remote_storage.metadata import metadata_records
from tiersnap.remote_storage.metadata.metadata_records import (
    METADATA_TOPIC,
    MetadataRecord,
    PartitionDelete,
    SegmentRecord,
    metadata_partition,
)
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE, REMOTE_STORAGE

Header = tuple[str, bytes]
Request = Callable[[str, Callable[[], Any]], Any]
STORAGE_MANAGER = "remote.log.storage.manager.class.name"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
METADATA_PARTITIONS = 3
DEFAULTS = {
    "cleanup.policy": "delete",
    COPY_DISABLE: "false",
    REMOTE_STORAGE: "true",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
}
ENDLESS = {COPY_DISABLE: "true", "retention.ms": "-1"}
"""Settings of a topic to which `publish` may write."""


class At(NamedTuple):
    """A TopicPartition of confluent-kafka."""

    topic: str
    partition: int
    offset: int = 0


@dataclass
class Message:
    """A record as a consumer gets it."""

    at: At
    content: bytes | None
    told: Sequence[Header] = ()
    keyed: bytes | None = None
    stamp: tuple[int, int] = (0, -1)

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return self.at.partition

    def offset(self) -> int:
        return self.at.offset

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return self.keyed

    def timestamp(self) -> tuple[int, int]:
        return self.stamp

    def headers(self) -> Sequence[Header]:
        return self.told


class GroupRefusal(Message):
    """What librdkafka gives a consumer whose user may not use its group; it reads on what was assigned to it."""

    def __init__(self) -> None:
        super().__init__(At("", -1), None)

    def error(self) -> KafkaError:  # type: ignore[override]
        return KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)


@dataclass
class ModelTopic:
    """One user topic: leaders by partition, its own settings, and log start and end by partition."""

    topic_id: str
    leaders: dict[int, int] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)


class ModelCluster(Cluster):
    """See the module."""

    def __init__(self) -> None:
        self.bootstrap_server = "model:9092"
        self.properties = {"security.protocol": "SASL_SSL"}  # leaders cannot be asked for epochs: log directories are
        self.there: dict[str, ModelTopic] = {}
        self.of_records = ModelTopic("")  # __remote_log_metadata
        self.log: dict[int, list[tuple[bytes, Sequence[Header]]]] = defaultdict(list)
        self.before_append: Callable[[MetadataRecord], object] = lambda _: None
        self.swallow: Callable[[MetadataRecord], bool] = lambda _: False
        self.request: Request = lambda _, action: action()
        self.of_brokers = {"remote.log.manager.task.interval.ms": "1000"}
        self.leader_epoch = 0  # of all partitions; a restart of the broker ends it
        self.hides_newest = 0
        self.stable: dict[tuple[str, int], int] = {}  # last stable offsets that are not the log end
        self.leader_folder: Path | None = None  # the whole log of a topic that clients read
        self.read_to: dict[int, int] = {}  # by the newest consumer
        self.produced = False
        self.read_only: set[str] = set()  # topics that this user may not write to
        self.unseen: set[str] = set()  # topics that this user may not describe
        self.refuses_groups = False  # this user may not use consumer groups

    def create(
        self, partition: TopicIdPartition, *, end: int, start: int = 0, settings: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic, or another partition of it, led by broker 1."""
        topic = self.there.setdefault(partition.topic, ModelTopic(partition.topic_id or ""))
        topic.leaders[partition.partition] = 1
        topic.offsets[partition.partition] = start, end
        topic.own.update(settings or {})

    def append(self, record: MetadataRecord) -> None:
        """Write a record, as a broker."""
        self.log[self._partition_of(record)].append((metadata_records.encode(record), ()))

    def records(self, partition: TopicIdPartition) -> Iterator[MetadataRecord]:
        """What the topic says of a partition, in its order."""
        for value, _ in self.log[metadata_partition(partition, METADATA_PARTITIONS)]:
            record = _decoded(value)
            if _of(record) == partition:
                yield record

    def _partition_of(self, record: MetadataRecord) -> int:
        return metadata_partition(_of(record), METADATA_PARTITIONS)

    def view(self, request: Request) -> ModelCluster:
        """A client of the same cluster."""
        client = copy(self)
        client.request = request
        return client

    # What clients ask.

    def cluster_id(self) -> str:
        return self.request("cluster id", lambda: CLUSTER_ID)

    def partition_counts(self) -> dict[str, int]:
        there = {METADATA_TOPIC: METADATA_PARTITIONS}
        there |= {name: len(each.leaders) for name, each in self.there.items()}
        return self.request(
            "list of topics", lambda: {name: count for name, count in there.items() if name not in self.unseen}
        )

    def brokers(self) -> dict[int, tuple[str, int]]:
        return self.request("list of brokers", lambda: {1: ("model", 9092)})

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        wanted = sorted(set(names))

        def found() -> dict[str, Topic]:
            there = {name: self.there[name] for name in wanted if name in self.there and name not in self.unseen}
            return {name: Topic(name, each.topic_id, dict(each.leaders)) for name, each in there.items()}

        return self.request("topics", found)

    def absent(self, names: Iterable[str]) -> frozenset[str]:
        wanted = set(names)
        return self.request("topics by name", lambda: frozenset(wanted - self.there.keys()))

    def hidden(self, names: Iterable[str]) -> frozenset[str]:
        wanted = set(names)
        return self.request("topics by name", lambda: frozenset(wanted & self.unseen))

    def operations(self, topic: str) -> frozenset[str]:
        return frozenset({"READ", "WRITE"} - ({"WRITE"} if topic in self.read_only else set()))

    def settings(self, topic: str) -> dict[str, TopicConfig]:
        def found() -> dict[str, TopicConfig]:
            own = self._topic(topic).own
            return {name: TopicConfig(own.get(name, value), name in own) for name, value in DEFAULTS.items()}

        return self.request("settings", found)

    def broker_settings(self, broker: int) -> dict[str, TopicConfig]:
        return self.request(
            "broker settings", lambda: {name: TopicConfig(value, False) for name, value in self.of_brokers.items()}
        )

    def change_settings(self, topic: str, values: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        def change() -> None:
            own = self._topic(topic).own
            for name, value in values.items() if not validate_only else ():
                own.pop(name, None)
                if value is not None:
                    own[name] = value

        self.request("change of settings", change)

    def log_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        wanted = list(partitions)
        return self.request("offsets", lambda: {each: self._topic(each[0]).offsets[each[1]] for each in wanted})

    def stable_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {each: self.stable.get(each, end) for each, (_, end) in self.log_offsets(partitions).items()}

    def leader_epochs(self, topic: str, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        wanted = list(numbers)
        return self.request("leader epochs", lambda: dict.fromkeys(wanted, (1, self.leader_epoch)))

    def offsets_of_topic(self, topic: str, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        wanted = list(numbers)
        return self.request("ends of a topic", lambda: {number: (0, self._end_of(number)) for number in wanted})

    def _end_of(self, number: int) -> int:
        end = len(self.log[number])
        if self.produced and self.hides_newest and self.read_to.get(number, 0) < end:
            self.hides_newest -= 1
            return self.read_to.get(number, 0)
        return end

    def ask(self, what: str, call: Callable[[], Any]) -> Any:
        return call()

    def consumer(self, properties: Mapping[str, object] = MappingProxyType({})) -> Any:
        return ModelConsumer(self)

    def producer(self, properties: Mapping[str, object]) -> Any:
        return ModelProducer(self, properties["on_delivery"])

    def fetch(self, at: TopicPartition) -> list[Message]:
        """The record that a consumer of a user topic is given."""
        if self.leader_folder is None:
            raise ClusterRefusedError(f"reading {at.topic}: TOPIC_AUTHORIZATION_FAILED", code="29")
        found = next(records_from(self.leader_folder, at.offset), None)
        if found is None:
            return []
        kind = TIMESTAMP_LOG_APPEND_TIME if found.is_append_time else TIMESTAMP_CREATE_TIME
        stamp = (kind, found.timestamp)
        return [Message(At(at.topic, at.partition, found.offset), found.value, keyed=found.key, stamp=stamp)]

    def _topic(self, name: str) -> ModelTopic:
        if name == METADATA_TOPIC:
            return self.of_records
        if name not in self.there:
            raise ClusterRefusedError(f"{name}: UNKNOWN_TOPIC_OR_PART", code="UNKNOWN_TOPIC_OR_PART")
        return self.there[name]


class ModelConsumer:
    """confluent-kafka's Consumer of the metadata topic."""

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster
        self._next: dict[int, int] = {}
        self._read: TopicPartition | None = None  # of a user topic
        self._is_refused = False

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = list(partitions)
        self._read = next((each for each in wanted if each.topic != METADATA_TOPIC), None)
        if self._read is not None:
            return
        self._next = {each.partition: self._begin(each) for each in wanted}
        self._cluster.read_to = self._next

    def _begin(self, at: TopicPartition) -> int:
        """Where a consumer begins: librdkafka counts from the end below -2000, else it is the beginning here."""
        end = len(self._cluster.log[at.partition])
        return max(0, end + at.offset + 2000) if at.offset < -2000 else 0

    def consume(self, count: int, timeout: float) -> list[Message]:
        if self._cluster.refuses_groups and not self._is_refused:
            self._is_refused = True
            return [GroupRefusal()]
        if self._read is not None:
            return self._cluster.request("fetch", partial(self._cluster.fetch, self._read))
        messages = []
        for partition, offset in self._next.items():
            for number, (value, headers) in enumerate(self._cluster.log[partition][offset:], offset):
                messages.append(Message(At(METADATA_TOPIC, partition, number), value, headers))
                self._next[partition] = number + 1
        return messages

    def close(self) -> None:
        pass


class ModelProducer:
    """confluent-kafka's Producer: each record is there, or the client has ended, when `produce` returns."""

    def __init__(self, cluster: ModelCluster, on_delivery: Any) -> None:
        self._cluster, self._on_delivery = cluster, on_delivery

    def produce(self, topic: str, value: bytes, *, partition: int, headers: Sequence[Header] = ()) -> None:
        self._cluster.request("record", lambda: self._append(value, partition, headers))
        self._on_delivery(None, Message(At(topic, partition), value))

    def _append(self, value: bytes, partition: int, headers: Sequence[Header]) -> None:
        record = metadata_records.decode(value)
        self._cluster.produced = True
        self._cluster.before_append(record)
        if not self._cluster.swallow(record):
            self._cluster.log[partition].append((value, tuple(headers)))

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return 0


@cache
def _decoded(value: bytes) -> MetadataRecord:
    return metadata_records.decode(value)


def _of(record: MetadataRecord) -> TopicIdPartition:
    if isinstance(record, PartitionDelete):
        return record.partition
    return (record.metadata if isinstance(record, SegmentRecord) else record).id.topic_id_partition
