"""Topics through the admin client: creating, altering, and the offsets at their ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.broker.harness.broker import Broker
from tests.broker.harness.waiting import wait_until

SEGMENT_BYTES = 65536
SECONDS = 20.0


def admin_client(broker: Broker) -> AdminClient:
    """An admin client; to be held until its futures are done, or they fail with "Handle is terminating"."""
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def create_topic(
    broker: Broker,
    topic: str,
    *,
    partitions: int = 1,
    segment_bytes: int = SEGMENT_BYTES,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create `topic` with small segments and endless retention, and wait for its leaders."""
    # 4.x refuses segments below 1 MiB, but not under the name that its own tests use.
    segment_key = "internal.segment.bytes" if broker.version.startswith("4.") else "segment.bytes"
    config = {segment_key: str(segment_bytes), "retention.ms": "-1", **(configs or {})}
    admin = admin_client(broker)
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(SECONDS)
    wait_for_leader(broker, topic, partitions=partitions)
    for partition in range(partitions):
        # The controller names the leader before the broker has made the folder.
        wait_until(lambda at=partition: broker.disks.has_partition(topic, at), f"{topic}-{partition} has a folder")


def create_topic_in(broker: Broker, log_dir: Path, prefix: str, **options: Any) -> str:
    """Create `<prefix>-1`, `<prefix>-2`, ... until the broker places one in `log_dir`; returns its name."""
    for number in range(1, 20):
        topic = f"{prefix}-{number}"
        create_topic(broker, topic, **options)
        if broker.disks.partition(topic).parent == log_dir:
            return topic
    raise AssertionError(f"no topic placed in {log_dir}")


def wait_for_leader(broker: Broker, topic: str, *, partitions: int = 1) -> None:
    """Until every partition of `topic` has a leader, which after a restart takes some seconds."""
    admin = admin_client(broker)

    def led() -> bool:
        try:
            known = admin.list_topics(topic, timeout=2).topics[topic].partitions
        except KafkaException:
            return False
        return len(known) == partitions and all(each.leader >= 0 and each.error is None for each in known.values())

    wait_until(led, f"{topic} has leaders", seconds=SECONDS)


def alter_topic(broker: Broker, topic: str, configs: Mapping[str, str]) -> None:
    """Set `configs` on `topic`, the others kept.

    Raises:
        KafkaException: what the broker refuses, for instance with INVALID_CONFIG.
    """
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = admin_client(broker)
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)


def topic_id(broker: Broker, topic: str) -> str:
    """The topic id as Kafka prints it: 22 characters of base64url (librdkafka takes the other alphabet)."""
    admin = admin_client(broker)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(SECONDS)
    return str(described.topic_id).replace("+", "-").replace("/", "_")


def delete_records(broker: Broker, topic: str, before: int, *, partition: int = 0) -> None:
    """DeleteRecords: move the log start offset to `before`."""
    at = TopicPartition(topic, partition, before)
    admin = admin_client(broker)
    admin.delete_records([at])[at].result(SECONDS)


def log_start(broker: Broker, topic: str, *, partition: int = 0) -> int:
    """First offset that a consumer can ask for, remote segments included."""
    return _offset(broker, topic, partition, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)


def log_end(broker: Broker, topic: str, *, partition: int = 0) -> int:
    """Exclusive end of the log as read_uncommitted sees it (librdkafka's own default would give the LSO)."""
    return _offset(broker, topic, partition, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


def last_stable(broker: Broker, topic: str, *, partition: int = 0) -> int:
    """The last stable offset, exclusive: where read_committed ends."""
    return _offset(broker, topic, partition, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)


def _offset(broker: Broker, topic: str, partition: int, spec: OffsetSpec, isolation: IsolationLevel) -> int:
    at = TopicPartition(topic, partition)
    admin = admin_client(broker)

    def ask() -> tuple[int] | None:
        try:
            listed = admin.list_offsets({at: spec}, isolation_level=isolation, request_timeout=SECONDS)
            return (int(listed[at].result(SECONDS).offset),)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_LEADER_EPOCH:
                raise
            return None  # the leader has yet to hear of the epoch that the client knows

    (offset,) = wait_until(ask, f"{topic}-{partition} tells its offsets")
    return offset
