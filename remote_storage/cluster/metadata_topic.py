"""Read `__remote_log_metadata` of a cluster to its end, repeatedly, and write records to it in order.

All records of a user partition are in one partition of this topic. The number of that partition depends on the topic's
partition count, so tiersnap asks the cluster for the count. Only brokers create the topic. If the topic does not exist,
tiersnap writes nothing.

Each record that tiersnap writes has the record header `tiersnap`: "1". Brokers ignore headers
(org.apache.kafka.server.log.remote.metadata.storage.ConsumerTask). With this header, tiersnap distinguishes segments
that it published from segments that brokers uploaded, and need not read claims.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tiersnap.remote_storage.cluster.client import SECONDS, Cluster
from tiersnap.remote_storage.cluster.passing_errors import NO_GROUP
from tiersnap.remote_storage.cluster.permissions import needs_permission, not_described
from tiersnap.remote_storage.cluster.topic_checks import value_of
from tiersnap.remote_storage.errors import (
    BrokerUnavailableError,
    ClusterRefusedError,
    DeliveryFailedError,
    MetadataTopicAbsentError,
    MetadataTopicCompactedError,
)
from tiersnap.remote_storage.metadata import metadata_records
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import (
    METADATA_TOPIC,
    CorruptMetadataRecordError,
    MetadataRecord,
    metadata_partition,
)
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:  # an extra
    from confluent_kafka import KafkaError, Message

_log = logging.getLogger(__name__)

DELIVERY_MS = 60_000
OUR_HEADER = ("tiersnap", b"1")
"""The record header of each record that tiersnap writes."""
_BEGINNING = -2
_TAIL = -2000  # librdkafka's RD_KAFKA_OFFSET_TAIL(n) is _TAIL - n
_FETCH, _FETCH_SECONDS = 1000, 0.1


class MetadataTopic:
    """The `__remote_log_metadata` topic of one cluster."""

    def __init__(self, cluster: Cluster, partition_count: int) -> None:
        self._cluster = cluster
        self.partition_count = partition_count

    @classmethod
    def of(cls, cluster: Cluster) -> MetadataTopic:
        """Return the cluster's metadata topic.

        Raises:
            ClusterRefusedError: this user may not describe the topic.
            MetadataTopicAbsentError: the cluster has no such topic.
        """
        count = cluster.partition_counts().get(METADATA_TOPIC)
        if count is None and cluster.hidden([METADATA_TOPIC]):
            raise not_described(cluster.bootstrap_server, METADATA_TOPIC)
        if count is None:
            raise MetadataTopicAbsentError(
                f"{cluster.bootstrap_server}: the topic {METADATA_TOPIC} does not exist",
                hint="brokers create the topic when they start with remote.log.storage.system.enable=true; tiersnap "
                "never creates it",
            )
        return cls(cluster, count)

    def check_takes_records(self) -> None:
        """Check that the topic accepts tiersnap's records. Callers check this before they pause copying.

        tiersnap writes no keys, and brokers refuse records without keys for a compacted topic (KIP-1266).

        Raises:
            ClusterRefusedError: this user may not write to the topic.
            MetadataTopicCompactedError: the topic is compacted. Not raised if this user may not read the topic's
                configs.
        """
        operations = self._cluster.operations(METADATA_TOPIC)
        if operations and "WRITE" not in operations:
            raise ClusterRefusedError(
                f"{self._cluster.bootstrap_server}: this user may not write to the topic {METADATA_TOPIC}",
                hint=needs_permission(f"WRITE of {METADATA_TOPIC}"),
                code="TOPIC_AUTHORIZATION_FAILED",
            )
        policy = "delete"
        with suppress(ClusterRefusedError):  # without permission to read configs, a refused record shows it later
            policy = value_of(self._cluster.settings(METADATA_TOPIC), "cleanup.policy", policy)
        if "compact" in policy:
            raise MetadataTopicCompactedError(
                f"{METADATA_TOPIC} is compacted, so it refuses the records of tiersnap, which have no keys",
                hint="set the policy with which brokers create this topic: kafka-configs --alter --topic "
                f"{METADATA_TOPIC} --add-config cleanup.policy=delete",
            )

    def partition_of(self, partition: TopicIdPartition) -> int:
        """Return the number of the metadata partition with the records of a user partition."""
        return metadata_partition(partition, self.partition_count)

    def read(self, partitions: Iterable[TopicIdPartition]) -> MetadataReader:
        """Return a reader of the metadata partitions with the records of `partitions`."""
        return MetadataReader(self._cluster, {self.partition_of(partition) for partition in partitions})

    def read_all(self, *, newest: int | None = None) -> MetadataReader:
        """Return a reader of all metadata partitions.

        If `newest` is given, only that many records at the end of each partition are read.
        """
        return MetadataReader(self._cluster, set(range(self.partition_count)), newest=newest)

    def publish(self, records: Iterable[tuple[TopicIdPartition, MetadataRecord]]) -> int:
        """Write records in the given order within each metadata partition.

        Wait until all are acknowledged, and return the number of records.

        If the process is killed, a metadata partition may lack the last records, but has all records before them.

        Raises:
            DeliveryFailedError: a record was not acknowledged. Later records were not sent.
        """
        published = Publication(self._cluster).send(
            (self.partition_of(partition), metadata_records.encode(record)) for partition, record in records
        )
        _log.info("published %d records", published)
        return published


class MetadataReader:
    """A reader of some metadata partitions, and a context manager that closes its consumer.

    If `newest` is given, the reader begins that many records before the end of each partition, and skips older records.
    """

    def __init__(self, cluster: Cluster, metadata_partitions: set[int], *, newest: int | None = None) -> None:
        self.cache = MetadataCache()
        # Log start offset of each metadata partition at the last read.
        self.log_starts = dict.fromkeys(metadata_partitions, 0)
        # Whether the first read began at the log start of each partition.
        self.is_whole = True
        self._newest = newest
        self._cluster = cluster
        self._partitions = metadata_partitions
        self._next = dict.fromkeys(metadata_partitions, 0)
        self._consumer = cluster.consumer({"enable.partition.eof": True, "auto.offset.reset": "earliest"})
        if metadata_partitions:
            from confluent_kafka import TopicPartition

            begin = _BEGINNING
            if newest is not None:
                begin = _TAIL - newest
            self._consumer.assign([TopicPartition(METADATA_TOPIC, each, begin) for each in sorted(metadata_partitions)])

    def read_to_end(self) -> MetadataCache:
        """Read all records up to the current end of each partition into `cache`, and return the cache.

        Raises:
            BrokerUnavailableError: no record arrives for 30 s before the end is reached.
            CorruptMetadataRecordError: this version cannot decode a record.
        """
        ends = {}
        # The consumer could return these offsets, too, but would wait for a fetch of each partition.
        for number, (low, end) in self._cluster.offsets_of_topic(METADATA_TOPIC, self._partitions).items():
            ends[number] = end
            if self._newest is not None and not self._next[number]:
                self.is_whole &= end - low <= self._newest
            self.log_starts[number] = low
            self._next[number] = max(self._next[number], low)
        heard = time.monotonic()
        while any(self._next[number] < end for number, end in ends.items()):
            found = self._consumer.consume(
                _FETCH, _FETCH_SECONDS
            )  # waits _FETCH_SECONDS unless it gets _FETCH messages
            messages = [each for each in found if not _is_of_group(each.error())]
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > SECONDS:
                raise BrokerUnavailableError(
                    f"{self._cluster.bootstrap_server}: the topic {METADATA_TOPIC} returned no record for "
                    f"{SECONDS:.0f} s",
                    hint="run the same command again",
                )
            for message in messages:
                self._take(message)
        return self.cache

    def _take(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None and error.name() != "_PARTITION_EOF":
            raise self._cluster.to_error(f"reading {METADATA_TOPIC}", error, f"READ of {METADATA_TOPIC}")
        assert partition is not None
        assert offset is not None
        # The offset of an end-of-partition event also counts entries that are no records, such as transaction markers.
        self._next[partition] = offset + (error is None)
        if error is not None:
            return
        try:
            record = metadata_records.decode(message.value() or b"")
            self.cache.apply(record, is_ours=OUR_HEADER in (message.headers() or ()))
        except CorruptMetadataRecordError as corrupt:
            where = f"{METADATA_TOPIC}-{partition} offset {offset}"
            raise CorruptMetadataRecordError(f"{where}: {corrupt.message}", hint=corrupt.hint) from corrupt

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def __enter__(self) -> MetadataReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_of_group(error: KafkaError | None) -> bool:
    return error is not None and error.name() == NO_GROUP


class Publication:
    """A producer that writes records in order, without duplicates and without gaps."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._errors: list[KafkaError] = []
        self._delivered = 0
        self._producer = cluster.producer(
            {
                "enable.idempotence": True,
                "acks": "all",
                # If a record fails, the producer stops: it must not write later records without the failed one.
                "enable.gapless.guarantee": True,
                "message.timeout.ms": DELIVERY_MS,
                "linger.ms": 5,
                "on_delivery": self._on_delivery,
            }
        )

    def send(self, records: Iterable[tuple[int, bytes]]) -> int:
        """Send (metadata partition, value) pairs. Wait until all are acknowledged, and return the number of records."""
        sent = 0
        for partition, value in records:
            self._produce(partition, value)
            sent += 1
            if self._errors:
                break
        left = self._producer.flush(DELIVERY_MS / 1000 + 5)
        if self._errors or left:
            why = f"no answer within {DELIVERY_MS // 1000} s"
            if self._errors:
                why = self._errors[0].str()
            raise DeliveryFailedError(
                f"{self._cluster.bootstrap_server}: {METADATA_TOPIC}: {sent - self._delivered} of "
                f"{count_of(sent, 'record')} were not acknowledged: {why}",
                hint="run the same command again: it publishes the missing records",
                acknowledged=self._delivered,
            )
        return sent

    def _produce(self, partition: int, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(METADATA_TOPIC, value, partition=partition, headers=[OUR_HEADER])
            except BufferError:
                self._producer.poll(1)
                continue
            except Exception as error:
                if self._errors:
                    return  # the producer has stopped, and the failed delivery contains the reason
                raise DeliveryFailedError(
                    f"{METADATA_TOPIC}: {error}", hint="run the same command again: it publishes the missing records"
                ) from error
            self._producer.poll(0)
            return

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(error)
        else:
            self._delivered += 1
