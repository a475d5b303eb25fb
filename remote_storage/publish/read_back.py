"""Prove that brokers read a remote location: let a broker return a record that exists only there.

tiersnap creates a topic with copying disabled. It writes a few old records. One new record then makes the broker close
their segment. tiersnap builds a remote segment with the same offsets, in which each record has a random value, the
nonce. It uploads and publishes this segment. Then it enables copying and sets a local retention that the old records
exceed, so the broker deletes its local segment. A consumer at offset 0 then gets one of these:

    the nonce           exists only in this location, so brokers read this location
    errors              the broker searches for the segment in another location
    the first records   from the local segment, or from the broker's own upload: no evidence

Finally tiersnap deletes the topic and its objects. Before it creates the topic, it writes the topic name to the
location. If the run is killed, the next run deletes the leftovers. A read-back needs Kafka 3.9 or later in KRaft mode:
other brokers refuse the topic's configs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.topics import Topic
from tiersnap.remote_storage.errors import ClusterRefusedError, DeliveryFailedError, TopicRefusedError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.layout import StoredState
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.read_back_record import ReadBackStore
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.publish.location_proof import Evidence, EvidenceKind, EvidenceOutcome
from tiersnap.remote_storage.publish.read_back_segment import NonceSegment
from tiersnap.remote_storage.publish.read_back_topic import AGE_MS, OLD_RECORDS, FirstRecord, ReadBackTopic
from tiersnap.remote_storage.stores.probe import check_conditions
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.units import human_duration

_log = logging.getLogger(__name__)

_DELETION_SECONDS, _POLL_SECONDS = 10.0, 0.5
_FAILING_SECONDS = 10.0  # errors that last longer count as permanent
_RENEWED_EACH_SECONDS = 20.0
SETTLE_SECONDS = 2.0  # time for the leader to read the published records before its copy task starts
_KIND = EvidenceKind.READ_BACK
_NEEDS = "--prove needs Kafka 3.9 or later in KRaft mode, and the permissions to create, write, read and delete a topic"


@dataclass(frozen=True)
class ReadBack:
    """A read-back at one location. The caller must call `records.find` first."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    location: RemoteLocation
    records: ReadBackStore
    digest: str | None  # digest of the brokers' configuration, stored with a proof; None if unknown
    talk: Callable[[str], None]  # reports slow steps

    def evidence(self) -> Evidence:
        """Read a record back and store the proof. The topic and its objects are deleted even after an error.

        Raises:
            ReadBackHeldError: another run has a read-back at this location.
            TransientError: brokers or the store do not answer.
        """
        self.records.check_not_held()
        for left in ReadBackTopic.left_over(self.cluster):
            self.talk(f"{left.name}: deleting the topic that a killed run left")
            self.clean(left)
        check_conditions(self.location.store)
        topic = ReadBackTopic.new(self.cluster)
        self.records.begin(topic.name)
        seconds = _DELETION_SECONDS
        try:
            found = self._found(topic)
            if found.outcome is EvidenceOutcome.CONTRADICTS:
                seconds = 0.0  # brokers delete objects in another location, so do not wait for them
        finally:
            is_clean = self.clean(topic, seconds)
            if is_clean:  # otherwise the next run deletes the leftovers
                self.records.drop()
        if found.is_proof and is_clean and self.digest is not None:
            self.records.keep(self.digest)
        return found

    def _found(self, topic: ReadBackTopic) -> Evidence:
        try:
            return self._read_back(topic, topic.create())
        except TopicRefusedError as refused:
            return Evidence(_KIND, EvidenceOutcome.SILENT, f"{_NEEDS}: {refused.message}")
        except (ClusterRefusedError, DeliveryFailedError) as error:
            return Evidence(_KIND, EvidenceOutcome.SILENT, f"--prove: no record was read back: {error.message}")

    def clean(self, topic: ReadBackTopic, seconds: float = _DELETION_SECONDS) -> bool:
        """Delete a read-back topic and its objects in this location. Return whether everything was deleted.

        Args:
            topic: the topic of this read-back or of a killed run.
            seconds: how long to wait for brokers to delete the objects first.
        """
        is_deleted = True
        try:
            topic.delete()
        except TiersnapError as error:
            is_deleted = False
            _log.warning("could not delete %s: %s", topic.name, error.message)
            self.talk(f"the topic {topic.name} could not be deleted: {error.message}")
            self.talk(f"kafka-topics --delete --topic {topic.name}")
        deadline = time.monotonic() + seconds
        while (left := self._objects(topic)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        failures = self.location.store.delete(left)
        for failure in failures:
            _log.warning("could not delete %s%s: %s", self.location.store.uri, failure.key, failure.reason)
        return is_deleted and not failures

    def _objects(self, topic: ReadBackTopic) -> list[str]:
        beginning = keys.topic(topic.name, local=self.location.is_local)
        return [found.key for found in self.location.store.list(beginning)]

    def _read_back(self, topic: ReadBackTopic, made: Topic) -> Evidence:
        now = int(time.time() * 1000)
        topic.write(now)
        partition, leader = TopicIdPartition(topic.name, made.topic_id, 0), made.leaders[0]
        with closing(topic.cluster.consumer()) as consumer:
            epoch = topic.leader_epoch(consumer)
            segment = NonceSegment.of(partition, leader, epoch, count=OLD_RECORDS, timestamp=now - AGE_MS)
            self.records.renew()
            metadata = segment.upload(self.location)
            self._publish(metadata)
            time.sleep(SETTLE_SECONDS)
            topic.enable_copying()
            seconds = topic.patience(leader)
            waits = human_duration(int(seconds * 1000))
            self.talk(f"waiting up to {waits} until brokers read a record back from {self.location.store.uri}")
            return self._wait(lambda: topic.first(consumer, segment.nonce), metadata, seconds)

    def _publish(self, metadata: RemoteLogSegmentMetadata) -> None:
        partition, now = metadata.id.topic_id_partition, int(time.time() * 1000)
        finished = SegmentUpdate(metadata.id, metadata.broker_id, now, SegmentState.COPY_SEGMENT_FINISHED)
        self.metadata_topic.publish([(partition, SegmentRecord(metadata)), (partition, finished)])

    def _wait(self, ask: Callable[[], FirstRecord], metadata: RemoteLogSegmentMetadata, seconds: float) -> Evidence:
        """Read offset 0 until the answer is evidence or `seconds` have passed."""
        began = renewed = time.monotonic()
        failing_since = None
        while (now := time.monotonic()) < began + seconds:
            if now > renewed + _RENEWED_EACH_SECONDS:
                self.records.renew()
                renewed = now
            answer = ask()
            if answer is FirstRecord.NONCE:
                return Evidence(_KIND, EvidenceOutcome.PROVES, "brokers read a record back from the location")
            if answer is FirstRecord.LOCAL:
                failing_since = None
            elif answer is FirstRecord.FAILED:
                failing_since = failing_since or now
            if failing_since and now > failing_since + _FAILING_SECONDS and self._is_there(metadata):
                said = "brokers cannot read the record that tiersnap stored in this location and published for --prove"
                return Evidence(_KIND, EvidenceOutcome.CONTRADICTS, said)
            time.sleep(_POLL_SECONDS)
        waited = human_duration(int(seconds * 1000))
        return Evidence(_KIND, EvidenceOutcome.SILENT, f"brokers read no record back from the location within {waited}")

    def _is_there(self, metadata: RemoteLogSegmentMetadata) -> bool:
        return self.location.layout.inspect(self.location.store, metadata) is StoredState.COMPLETE
