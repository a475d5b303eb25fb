"""A ModelCluster whose topics can be created, written, read and deleted: brokers read old records from `location`.

    cluster = ReadingCluster()
    cluster.location = RemoteLocation(store, layout)   # where brokers read, whatever clients believe

Records are in memory. If copying is enabled and local retention is finite, brokers read the offsets of a finished
remote segment from its log in `location`; without that object they answer UNKNOWN_SERVER_ERROR. A topic that is deleted
takes the objects of its segments in `location` with it.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from tests.reference.model_cluster import At, Message, ModelCluster, ModelConsumer, ModelProducer, ModelTopic
from tests.reference.record_batch import Cursor
from tiersnap.remote_storage.errors import ClusterRefusedError, ObjectNotFoundError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC, SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    uuid_text,
)
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE

_HEADER = 61  # bytes of a batch before its records


@dataclass
class Record(Message):
    """A record of a user topic, or the error that a broker answers in its place."""

    failure: KafkaError | None = None

    def error(self) -> KafkaError | None:
        return self.failure

    def leader_epoch(self) -> int:
        return 0


class ReadingCluster(ModelCluster):
    """See the module."""

    def __init__(self, location: RemoteLocation | None = None) -> None:
        super().__init__()
        self.location = location
        self.written: dict[str, list[bytes]] = defaultdict(list)
        self.refuses = ""  # why no topic can be created

    def create_topic(self, name: str, settings: Mapping[str, str]) -> None:
        def create() -> None:
            if self.refuses:
                raise ClusterRefusedError(self.refuses, code="INVALID_CONFIG")
            topic_id = uuid_text(uuid.uuid4().bytes)
            self.there[name] = ModelTopic(topic_id, {0: 1}, dict(settings), {0: (0, 0)})

        self.request("creation of a topic", create)

    def delete_topic(self, name: str) -> None:
        def delete() -> None:
            partition = self._partition(name)
            del self.there[name]
            for segment in self._finished(partition):
                assert self.location is not None
                self.location.store.delete(self.location.layout.object_keys(segment))

        self.request("deletion of a topic", delete)

    def consumer(self, properties: Mapping[str, object] = MappingProxyType({})) -> Any:
        return _Consumer(self)

    def producer(self, properties: Mapping[str, object]) -> Any:
        return _Producer(self, properties["on_delivery"])

    def write(self, name: str, value: bytes) -> None:
        """Append a record to partition 0 of a topic."""
        self.written[name].append(value)
        self._topic(name).offsets[0] = 0, len(self.written[name])

    def read(self, name: str, offset: int) -> Record:
        """What a consumer is given for an offset of partition 0."""
        own = self._topic(name).own
        is_local = own.get(COPY_DISABLE) == "true" or own.get("local.retention.ms", "-2") == "-2"
        held = [] if is_local else [each for each in self._finished(self._partition(name)) if offset <= each.end_offset]
        value, failure = self.written[name][offset], None
        if held:
            assert self.location is not None
            try:
                data = self.location.store.get(self.location.layout.log_key(held[-1]))
                value = _values(data)[offset - held[-1].start_offset]
            except ObjectNotFoundError:
                failure = KafkaError(KafkaError.UNKNOWN)
        return Record(At(name, 0, offset), value, failure=failure)

    def _partition(self, name: str) -> TopicIdPartition:
        return TopicIdPartition(name, self._topic(name).topic_id, 0)

    def _finished(self, partition: TopicIdPartition) -> Iterator[RemoteLogSegmentMetadata]:
        begun: dict[str, RemoteLogSegmentMetadata] = {}
        for record in self.records(partition):
            if isinstance(record, SegmentRecord):
                begun[record.metadata.id.segment_id] = record.metadata
            elif isinstance(record, SegmentUpdate) and record.state is SegmentState.COPY_SEGMENT_FINISHED:
                yield begun[record.id.segment_id]


def _values(data: bytes) -> list[bytes]:
    """The values of a segment of one batch, uncompressed."""
    cursor, found = Cursor(data[_HEADER:]), []
    for _ in range(int.from_bytes(data[57:_HEADER], "big")):
        body = Cursor(cursor.take(cursor.varint()))
        body.take(1)
        body.varint(), body.varint()
        assert body.varint() == -1, "no key"
        found.append(body.take(body.varint()))
    return found


class _Consumer(ModelConsumer):
    def __init__(self, cluster: ReadingCluster) -> None:
        super().__init__(cluster)
        self._reading, self._at = cluster, None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = list(partitions)
        if wanted[0].topic == METADATA_TOPIC:
            super().assign(wanted)
        else:
            self._at = wanted[0].topic, wanted[0].offset

    def consume(self, count: int, timeout: float) -> list[Message]:
        if self._at is None:
            return super().consume(count, timeout)
        return [self._reading.request("fetch", lambda: self._reading.read(*self._at))]


class _Producer(ModelProducer):
    def produce(self, topic: str, value: bytes, *, partition: int, **more: Any) -> None:
        if topic == METADATA_TOPIC:
            super().produce(topic, value, partition=partition, headers=more.get("headers", ()))
            return
        self._cluster.request("record of a topic", lambda: self._cluster.write(topic, value))
        self._on_delivery(None, Message(At(topic, partition), value))
