"""A client of a cluster's admin protocol: topics, configs, offsets. Needs the extra `kafka`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from tiersnap.remote_storage.cluster.passing_errors import NO_CONNECTION, PASSING
from tiersnap.remote_storage.cluster.permissions import needs_permission
from tiersnap.remote_storage.cluster.topics import Topic, TopicConfig
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.errors import MissingExtraError, TiersnapError, UsageError
from tiersnap.snapshot.installed import with_extra

if TYPE_CHECKING:  # an extra: imported by the methods that use it
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import (
        AdminClient,
        BrokerMetadata,
        ClusterMetadata,
        ConfigEntry,
        ConfigResource,
        ListOffsetsResultInfo,
        OffsetSpec,
        TopicDescription,
    )

_log = logging.getLogger(__name__)

SECONDS = 30.0
_FIRST_SECONDS = 10.0  # limit for the first answer: the address may be wrong
# No request of tiersnap may create a topic implicitly. librdkafka logs nothing, because the errors name a wrong host.
_DEFAULTS: dict[str, object] = {"allow.auto.create.topics": False, "log_level": 0}
# With sparse connections, librdkafka reconnects to a stopped leader without a pause, 5,000 times per second.
# reconnect.backoff.ms limits only permanent connections.
_ADMIN: dict[str, object] = {"enable.sparse.connections": False}
_CONSUMER: dict[str, object] = {
    "group.id": "tiersnap",  # librdkafka requires an id; tiersnap neither subscribes nor commits
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_uncommitted",
}
_BATCH = 500
_AGAIN_SECONDS = 0.5
_GONE = "a broker stopped, or a partition has no leader yet: run the same command again"
_NEVER_ANSWERED = "check the broker's address and the login in --command-config, then run the same command again"
_DENIED = {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}
T = TypeVar("T")


class Cluster:
    """Requests to one cluster. The first request connects.

    All methods raise BrokerUnavailableError if no broker answers, and ClusterRefusedError if a broker refuses.

    Raises:
        MissingExtraError: confluent-kafka is not installed.
    """

    def __init__(self, bootstrap_server: str, properties: Mapping[str, str] | None = None) -> None:
        self.bootstrap_server = bootstrap_server
        self.properties = dict(properties or {})
        _check_installed()
        self._admin: AdminClient | None = None
        self._last_trouble = ""
        self._has_answered = False

    def consumer(self, properties: Mapping[str, object] = MappingProxyType({})) -> Consumer:
        """Return a consumer that commits no offsets. The caller must assign partitions to the consumer.

        Raises:
            UsageError: librdkafka has no such property.
        """
        from confluent_kafka import Consumer

        return self._new(Consumer, {**_CONSUMER, **properties})

    def producer(self, properties: Mapping[str, object]) -> Producer:
        """Return a producer. Raises UsageError: librdkafka has no such property."""
        from confluent_kafka import Producer

        return self._new(Producer, properties)

    def _new(self, make: Callable[[dict[str, object]], T], properties: Mapping[str, object]) -> T:
        from confluent_kafka import KafkaException

        try:
            return make({**_DEFAULTS, **self.properties, "bootstrap.servers": self.bootstrap_server, **properties})
        except KafkaException as error:
            said = _error_of(error).str()
            for value in filter(None, self.properties.values()):
                said = said.replace(value, "***")  # a value may be a misplaced password
            raise UsageError(f"client properties: {said}", hint="use librdkafka's names in --command-config") from error

    def _metadata(self, what: str, topic: str | None = None) -> ClusterMetadata:
        seconds = _FIRST_SECONDS
        if self._has_answered:
            seconds = SECONDS
        return self.ask(what, lambda: self._client().list_topics(topic, timeout=seconds))

    def cluster_id(self) -> str:
        """Return the id of the cluster, which is also in the `meta.properties` of its brokers."""
        return str(self._metadata("cluster id").cluster_id)

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of every topic that this user may describe, by topic name."""
        topics = self._metadata("list of topics").topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def brokers(self) -> dict[int, tuple[str, int]]:
        """Return the advertised host and port of every broker, by broker id."""
        brokers: dict[int, BrokerMetadata] = self._metadata("list of brokers").brokers
        return {number: (str(broker.host), int(broker.port)) for number, broker in brokers.items()}

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return the topics of `names` that exist and that this user may describe, by name."""
        from confluent_kafka import TopicCollection

        there = self.partition_counts()
        wanted = sorted(set(names) & there.keys())
        found: dict[str, Topic] = {}
        for start in range(0, len(wanted), _BATCH):
            collection = TopicCollection(wanted[start : start + _BATCH])
            described = self._client().describe_topics(collection, request_timeout=SECONDS)
            for name, future in described.items():
                topic: TopicDescription = self._result(f"topic {name}", future, f"DESCRIBE of {name}")
                leaders: dict[int, int] = {}
                for each in topic.partitions:
                    leaders[each.id] = -1
                    if each.leader is not None:
                        leaders[each.id] = each.leader.id
                found[name] = Topic(name, _kafka_uuid(str(topic.topic_id)), leaders)
        return found

    def absent(self, names: Iterable[str]) -> frozenset[str]:
        """Return the `names` of topics that certainly do not exist.

        Topics that this user may not describe are not returned, because they may exist.
        """
        from confluent_kafka import KafkaError

        wanted = set(names)
        if not wanted:
            return frozenset()
        there = self._metadata("list of topics").topics
        if METADATA_TOPIC not in there:
            return frozenset()  # this broker's list may be incomplete
        return self._answered(wanted - there.keys(), KafkaError.UNKNOWN_TOPIC_OR_PART)

    def hidden(self, names: Iterable[str]) -> frozenset[str]:
        """Return the `names` of topics that this user may not describe, whether or not they exist."""
        from confluent_kafka import KafkaError

        return self._answered(names, KafkaError.TOPIC_AUTHORIZATION_FAILED)

    def _answered(self, names: Iterable[str], code: int) -> frozenset[str]:
        """Request each topic by name, and return the topics for which a broker answers with the error `code`."""
        found = set()
        for name in names:
            error = self._metadata(f"topic {name}", name).topics[name].error
            if error is not None and error.code() == code:
                found.add(name)
        return frozenset(found)

    def operations(self, topic: str) -> frozenset[str]:
        """Return the operations that this user may do on a topic, such as "WRITE".

        Empty if the broker does not report them.
        """
        from confluent_kafka import TopicCollection

        described = self._client().describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=SECONDS
        )
        found: TopicDescription = self._result(f"topic {topic}", described[topic], f"DESCRIBE of {topic}")
        return frozenset(each.name for each in found.authorized_operations or ())

    def settings(self, topic: str) -> dict[str, TopicConfig]:
        """Return all configs of a topic, by config name."""
        return self._settings(_resource("TOPIC", topic), f"settings of {topic}", f"DESCRIBE_CONFIGS of {topic}")

    def broker_settings(self, broker: int) -> dict[str, TopicConfig]:
        """Return all configs of a broker, by config name."""
        what = f"settings of broker {broker}"
        return self._settings(_resource("BROKER", str(broker)), what, "DESCRIBE_CONFIGS of the cluster")

    def change_settings(self, topic: str, values: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Set configs of a topic in one request, all or none. The value None deletes the config of the topic."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

        entries = []
        for name, value in values.items():
            operation = AlterConfigOpType.SET
            if value is None:
                operation = AlterConfigOpType.DELETE
            entries.append(ConfigEntry(name, value or "", incremental_operation=operation))
        resource = _resource("TOPIC", topic, entries)
        futures = self._client().incremental_alter_configs(
            [resource], request_timeout=SECONDS, validate_only=validate_only
        )
        self._result(f"settings of {topic}", futures[resource], f"ALTER_CONFIGS of {topic}")
        if validate_only:
            _log.debug("validated settings of %s: %s", topic, sorted(values))
        else:
            _log.debug("changed settings of %s: %s", topic, sorted(values))

    def create_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Create a topic with one partition and the cluster's default replication factor."""
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(name, 1, -1, config=dict(settings))
        made = self._client().create_topics([topic], request_timeout=SECONDS)
        self._result(f"topic {name}", made[name], f"CREATE of {name}")
        _log.info("created the topic %s", name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        deleted = self._client().delete_topics([name], request_timeout=SECONDS)
        self._result(f"topic {name}", deleted[name], f"DELETE of {name}")
        _log.info("deleted the topic %s", name)

    def log_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Return (log start offset, log end offset) of each partition.

        The start may be in a remote segment; the end is exclusive.
        """
        from confluent_kafka.admin import OffsetSpec

        wanted = list(partitions)
        starts, ends = self._offsets(wanted, OffsetSpec.earliest()), self._offsets(wanted, OffsetSpec.latest())
        return {partition: (starts[partition], ends[partition]) for partition in wanted}

    def leader_epochs(self, topic: str, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return (leader, leader epoch) of the partitions `numbers` of a topic, by number. -1 means unknown.

        If a broker restarts, the partitions that it leads get new leader epochs.
        """
        from confluent_kafka.admin import OffsetSpec

        leaders = self.topics([topic])[topic].leaders
        found = self._list_offsets(list(product([topic], numbers)), OffsetSpec.latest())
        return {number: (leaders.get(number, -1), _epoch_of(info)) for (_, number), info in found.items()}

    def log_starts(self, leaders: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        """Return the log start offset of each partition that has a leader. The offset may be in a remote segment.

        In `leaders`, -1 means that the partition has no leader.
        """
        led = {(each.topic, each.partition): each for each, leader in leaders.items() if leader >= 0}
        return {led[at]: start for at, (start, _) in self.log_offsets(led).items()}

    def stable_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the last stable offset (exclusive) of each partition, as its leader reports it."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(list(partitions), OffsetSpec.latest(), is_stable=True)

    def offsets_of_topic(self, topic: str, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return (log start offset, log end offset) of the partitions `numbers` of a topic, by number.

        The end is exclusive.

        While brokers restart or partitions have no leader, repeat the request for at most SECONDS.
        """
        wanted = list(product([topic], numbers))
        deadline, is_stale = time.monotonic() + SECONDS, False
        while True:
            try:
                if is_stale:
                    self.partition_counts()  # refreshes the client's metadata: leaders and their epochs
                found = self.log_offsets(wanted)
            except BrokerUnavailableError as error:
                if time.monotonic() > deadline:
                    raise
                _log.debug("asking again: %s", error.message)
                is_stale = True
                time.sleep(_AGAIN_SECONDS)
            else:
                return {number: offsets for (_, number), offsets in found.items()}

    def _offsets(
        self, partitions: list[tuple[str, int]], spec: OffsetSpec, *, is_stable: bool = False
    ) -> dict[tuple[str, int], int]:
        found = self._list_offsets(partitions, spec, is_stable=is_stable)
        for (topic, number), info in found.items():
            if info.offset < 0:  # if a leader does not answer in time, librdkafka returns -1001 and no error
                raise BrokerUnavailableError(
                    f"{self.bootstrap_server}: the leader of {topic}-{number} returns no offsets", hint=_GONE
                )
        return {partition: int(info.offset) for partition, info in found.items()}

    def _list_offsets(
        self, partitions: list[tuple[str, int]], spec: OffsetSpec, *, is_stable: bool = False
    ) -> dict[tuple[str, int], ListOffsetsResultInfo]:
        from confluent_kafka import IsolationLevel, TopicPartition

        level = IsolationLevel.READ_UNCOMMITTED
        if is_stable:
            level = IsolationLevel.READ_COMMITTED
        found: dict[tuple[str, int], ListOffsetsResultInfo] = {}
        for start in range(0, len(partitions), _BATCH):
            wanted = {TopicPartition(*each): spec for each in partitions[start : start + _BATCH]}
            listed = self._client().list_offsets(wanted, isolation_level=level, request_timeout=SECONDS)
            for at, future in listed.items():
                what = f"offsets of {at.topic}-{at.partition}"
                found[at.topic, at.partition] = self._result(what, future, f"DESCRIBE of {at.topic}")
        return found

    def _settings(self, resource: ConfigResource, what: str, needs: str) -> dict[str, TopicConfig]:
        from confluent_kafka.admin import ConfigSource

        described = self._client().describe_configs([resource], request_timeout=SECONDS)
        entries: dict[str, ConfigEntry] = self._result(what, described[resource], needs)
        own: object = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {name: TopicConfig(entry.value, entry.source == own) for name, entry in entries.items()}

    def _client(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        # Keep the client: futures fail after their client is deleted.
        if self._admin is None:
            # The type stubs of AdminClient lack callbacks.
            self._admin = self._new(lambda config: AdminClient({**_ADMIN, **config}), {"error_cb": self._on_trouble})  # type: ignore[dict-item]
            _log.debug("a client of %s", self.bootstrap_server)
        return self._admin

    def _on_trouble(self, error: KafkaError) -> None:
        # Keep the reason for a failed connection, because the errors of requests do not contain it.
        if error.name() != "_ALL_BROKERS_DOWN":
            self._last_trouble = error.str()

    def ask(self, what: str, call: Callable[[], T], needs: str = "") -> T:
        """Return the result of `call`, which uses confluent-kafka. Translate a KafkaException with `to_error`."""
        from confluent_kafka import KafkaException

        try:
            found = call()
        except KafkaException as error:
            raise self.to_error(what, _error_of(error), needs) from error
        self._has_answered = True
        return found

    def _result(self, what: str, future: Future[T], needs: str = "") -> T:
        try:
            return self.ask(what, lambda: future.result(SECONDS + 5), needs)
        except TimeoutError as error:
            raise BrokerUnavailableError(f"{self.bootstrap_server}: no answer to the request: {what}") from error

    def to_error(self, what: str, error: KafkaError, needs: str = "") -> TiersnapError:
        """Return a KafkaError as a TiersnapError. `needs` is a permission for the hint, such as "READ of orders"."""
        name = error.name()
        if name in PASSING or error.retriable():
            self._client().poll(0)
            why, hint = error.str(), _NEVER_ANSWERED
            if name in NO_CONNECTION and self._last_trouble:
                why = self._last_trouble
            if self._has_answered:
                hint = _GONE
            return BrokerUnavailableError(f"{self.bootstrap_server}: {what}: {why}", hint=hint)
        hint = "the log of the broker contains the reason"
        if needs and name in _DENIED:
            hint = needs_permission(needs)
        return ClusterRefusedError(f"{self.bootstrap_server}: {what}: {name}: {error.str()}", hint=hint, code=name)


def _epoch_of(info: ListOffsetsResultInfo) -> int:
    return -1 if info.leader_epoch is None else int(info.leader_epoch)


def _kafka_uuid(text: str) -> str:
    # librdkafka uses the other base64 alphabet.
    return text.rstrip("=").replace("+", "-").replace("/", "_")


def _error_of(exception: Exception) -> KafkaError:
    found: KafkaError = exception.args[0]
    return found


def _resource(kind: str, name: str, entries: list[ConfigEntry] | None = None) -> ConfigResource:
    from confluent_kafka.admin import ConfigResource, ResourceType

    return ConfigResource(ResourceType[kind], name, incremental_configs=entries)


def _check_installed() -> None:
    try:
        import confluent_kafka.admin  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "confluent_kafka":
            raise
        raise MissingExtraError("requests to a cluster need confluent-kafka", hint=with_extra("kafka")) from error
