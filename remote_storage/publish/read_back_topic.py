"""Create, write, read and delete the topic of a read-back; see read_back.py."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import DELIVERY_MS
from tiersnap.remote_storage.cluster.passing_errors import PASSING
from tiersnap.remote_storage.cluster.topic_checks import value_of
from tiersnap.remote_storage.cluster.topics import Topic, TopicConfig
from tiersnap.remote_storage.errors import (
    BrokerUnavailableError,
    ClusterRefusedError,
    DeliveryFailedError,
    TopicRefusedError,
)
from tiersnap.remote_storage.locks.read_back_record import PROBE_TOPIC
from tiersnap.remote_storage.metadata.topic_configs import (
    AS_TOTAL,
    COPY_DISABLE,
    LOCAL_RETENTION,
    REMOTE_STORAGE,
    RETENTION_BYTES,
    RETENTION_MS,
    UNLIMITED,
)

if TYPE_CHECKING:  # an optional dependency
    from confluent_kafka import Consumer, KafkaError, Message

_log = logging.getLogger(__name__)

PROBE_RETENTION = "315360000113"
"""The `retention.ms` that marks topics of a read-back: ten years plus 113 ms."""
OLD_RECORDS = 3
AGE_MS = 7_200_000
_LOCAL_RETENTION_MS = 3_600_000  # less than AGE_MS
_SETTINGS = {
    REMOTE_STORAGE: "true",
    COPY_DISABLE: "true",
    "cleanup.policy": "delete",
    RETENTION_MS: PROBE_RETENTION,
    RETENTION_BYTES: UNLIMITED,
    **dict.fromkeys(LOCAL_RETENTION, AS_TOTAL),
    "segment.ms": "1000",
    "segment.jitter.ms": "0",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str((1 << 63) - 1),
}
_COPYING = {COPY_DISABLE: "false", "local.retention.ms": str(_LOCAL_RETENTION_MS)}
# Broker configs that determine when a local segment is deleted, with their defaults in ms.
_INTERVALS = (("log.retention.check.interval.ms", "300000"), ("remote.log.manager.task.interval.ms", "30000"))
_NAME = re.compile(rf"{PROBE_TOPIC}([0-9]{{10}})-[0-9a-f]{{8}}")
_LEFT_OVER_SECONDS = 3600  # a read-back takes some minutes at most
_VALUE = b"tiersnap asks which remote location brokers read"
_SECONDS, _MORE_SECONDS, _POLL_SECONDS = 30.0, 30.0, 0.5


class FirstRecord(Enum):
    """The result of reading offset 0."""

    NONCE = "NONCE"
    LOCAL = "LOCAL"  # the record from the local log, or from the broker's own upload
    FAILED = "FAILED"  # the broker cannot read the published segment
    NOTHING = "NOTHING"  # no answer in time, or a transient error


@dataclass(frozen=True)
class ReadBackTopic:
    """A topic with one partition. Methods raise the same errors as those of Cluster."""

    cluster: Cluster
    name: str

    @classmethod
    def new(cls, cluster: Cluster) -> ReadBackTopic:
        """Return a topic with a new name. The topic does not exist yet."""
        return cls(cluster, f"{PROBE_TOPIC}{int(time.time()):010d}-{secrets.token_hex(4)}")

    @classmethod
    def left_over(cls, cluster: Cluster) -> Iterator[ReadBackTopic]:
        """Yield the read-back topics that killed runs created more than an hour ago."""
        for topic in cluster.topics(list(cls._old_names(cluster))).values():
            settings = cluster.settings(topic.name)
            has_mark = settings.get(RETENTION_MS) == TopicConfig(PROBE_RETENTION, is_own=True)
            if has_mark and list(topic.leaders) == [0] and cls._end(cluster, topic.name) <= OLD_RECORDS + 1:
                yield cls(cluster, topic.name)

    @staticmethod
    def _old_names(cluster: Cluster) -> Iterator[str]:
        for name in cluster.partition_counts():
            found = _NAME.fullmatch(name)
            if found and time.time() - int(found[1]) > _LEFT_OVER_SECONDS:
                yield name

    @staticmethod
    def _end(cluster: Cluster, name: str) -> int:
        return cluster.log_offsets([(name, 0)])[name, 0][1]

    def create(self) -> Topic:
        """Create the topic with copying disabled, and wait for its leader.

        Raises:
            TopicRefusedError: the cluster does not know these configs, or this user may not create topics.
            BrokerUnavailableError: the topic has no leader after 30 s.
        """
        try:
            self.cluster.create_topic(self.name, _SETTINGS)
        except ClusterRefusedError as error:
            raise TopicRefusedError(error.message, hint=error.hint) from error
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            topic = self.cluster.topics([self.name]).get(self.name)
            if topic is not None and topic.leaders.get(0, -1) >= 0:
                return topic
            time.sleep(_POLL_SECONDS)
        raise self._unavailable("the topic has no leader")

    def write(self, now: int) -> None:
        """Write the old records, then one record with the timestamp `now` (ms), so that the broker rolls a new segment.

        Raises:
            DeliveryFailedError: a record was not acknowledged.
        """
        for timestamp in (*[now - AGE_MS] * OLD_RECORDS, now):
            errors: list[KafkaError] = []
            producer = self.cluster.producer(
                {
                    "acks": "all",
                    "message.timeout.ms": DELIVERY_MS,
                    "on_delivery": lambda error, _, errors=errors: errors.append(error) if error else None,
                }
            )
            producer.produce(self.name, _VALUE, partition=0, timestamp=timestamp)
            left = producer.flush(DELIVERY_MS / 1000 + 5)
            if errors or left:
                why = "no answer"
                if errors:
                    why = errors[0].str()
                raise DeliveryFailedError(f"{self.name}: a record was not acknowledged: {why}")
        _log.debug("wrote %d records to %s", OLD_RECORDS + 1, self.name)

    def enable_copying(self) -> None:
        """Enable copying, and let local retention delete the old records."""
        self.cluster.change_settings(self.name, _COPYING)

    def patience(self, leader: int) -> float:
        """Return the longest time (s) that a leader needs to delete the local segment and to read remote storage."""
        settings = self.cluster.broker_settings(leader)
        intervals = sum(int(value_of(settings, *each)) for each in _INTERVALS)
        return 2 * intervals / 1000 + _MORE_SECONDS

    def delete(self) -> None:
        """Delete the topic if it exists."""
        if self.cluster.topics([self.name]):
            self.cluster.delete_topic(self.name)

    def leader_epoch(self, consumer: Consumer) -> int:
        """Return the leader epoch of the record at offset 0."""
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            message = self._ask(consumer)
            if message is not None and message.error() is None and (epoch := message.leader_epoch()) is not None:
                return epoch
        raise self._unavailable("no record of the topic can be read")

    def first(self, consumer: Consumer, nonce: bytes) -> FirstRecord:
        """Read offset 0 once, and return the result."""
        message = self._ask(consumer)
        if message is None:
            return FirstRecord.NOTHING
        error = message.error()
        if error is None:
            return FirstRecord.NONCE if message.value() == nonce else FirstRecord.LOCAL
        _log.debug("%s offset 0: %s", self.name, error.str())
        if error.name() in PASSING:
            return FirstRecord.NOTHING
        if error.name() != "UNKNOWN":  # UNKNOWN_SERVER_ERROR is a broker's answer for a missing object
            raise self.cluster.to_error(f"reading {self.name}", error, f"READ of {self.name}")
        return FirstRecord.FAILED

    def _ask(self, consumer: Consumer) -> Message | None:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition(self.name, 0, 0)])
        found = consumer.consume(1, 1.0)
        return next(iter(found), None)

    def _unavailable(self, why: str) -> BrokerUnavailableError:
        server = self.cluster.bootstrap_server
        return BrokerUnavailableError(f"{server}: {self.name}: {why}", hint="run the same command again")
