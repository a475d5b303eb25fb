"""A topic that is made to see where a broker tiers it, and deleted again.

    <name>-<seconds since the epoch>-<8 hex digits>

One partition with two records, the second of which closes the segment of the first. The topic says by its
`retention.ms` that it is a probe; only such a topic, with no more records, is ever deleted here.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.remote_storage.cluster.client import Cluster, Topic, TopicConfig
from tiersnap.remote_storage.cluster.copy_progress import quiet_seconds
from tiersnap.remote_storage.cluster.metadata_topic import DELIVERY_MS, MetadataTopic
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError, DeliveryFailedError
from tiersnap.remote_storage.layouts.layout import StoredState
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.metadata.topic_configs import REMOTE_STORAGE, RETENTION_MS
from tiersnap.remote_storage.publish.location_proof import Evidence, EvidenceKind, EvidenceOutcome
from tiersnap.snapshot.errors import TiersnapError, UsageError

if TYPE_CHECKING:  # an extra
    from confluent_kafka import KafkaError

_log = logging.getLogger(__name__)

PROBE_RETENTION = "3600113"
"""An hour and a bit, in ms: a `retention.ms` that no topic but a probe has."""
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_LEFT_OVER_SECONDS = 3600  # a probe takes some minutes at most
_SEGMENT_MS = 1000
_LEADER_SECONDS, _MORE_SECONDS, _POLL_SECONDS = 30.0, 15.0, 0.5
_SETTINGS = {
    REMOTE_STORAGE: "true",
    "cleanup.policy": "delete",
    RETENTION_MS: PROBE_RETENTION,
    "segment.ms": str(_SEGMENT_MS),
    "segment.jitter.ms": "0",
    "message.timestamp.type": "CreateTime",
}
# Of brokers since 4.4 (KIP-1241), which may keep a segment to themselves for a while: copy at once.
_LAG = {"remote.copy.lag.ms": "0", "remote.copy.lag.bytes": "-1"}
_KIND = EvidenceKind.PROBE_TOPIC


@dataclass(frozen=True)
class ProbeTopic:
    """A probe of one store."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    location: RemoteLocation
    name: str  # what the topic's name begins with
    talk: Callable[[str], None]  # told what is done, and what takes a while

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"--probe-topic {self.name[:80]}: no topic name of at most 200 characters")

    def evidence(self) -> Evidence:
        """Make the topic, let its broker tier it, look for the segment, and delete the topic, whatever happens.

        Raises:
            TransientError: brokers or the store do not answer.
        """
        self.delete_left_over()
        topic = f"{self.name}-{int(time.time())}-{secrets.token_hex(4)}"
        try:
            self.cluster.create_topic(topic, self._settings())
        except ClusterRefusedError as error:
            return Evidence(_KIND, EvidenceOutcome.SILENT, f"no probe topic can be made: {error.message}")
        except BaseException:  # its answer may be what was lost
            self._delete(topic)
            raise
        try:
            return self._look(topic)
        except (ClusterRefusedError, DeliveryFailedError) as error:
            return Evidence(_KIND, EvidenceOutcome.SILENT, f"the probe topic {topic} cannot be used: {error.message}")
        finally:
            self._delete(topic)

    def delete_left_over(self) -> None:
        """Delete the topics that probes of this name left an hour ago or earlier, as where they were killed."""
        pattern = re.compile(rf"{re.escape(self.name)}-([0-9]{{10}})-[0-9a-f]{{8}}")
        matches = filter(None, map(pattern.fullmatch, self.cluster.partition_counts()))
        old = [found[0] for found in matches if time.time() - int(found[1]) > _LEFT_OVER_SECONDS]
        for topic in self.cluster.topics(old).values():
            if self._is_probe(topic):
                self.talk(f"{topic.name}: deleting the probe topic that an earlier run left")
                self._delete(topic.name)

    def _is_probe(self, topic: Topic) -> bool:
        settings = self.cluster.settings(topic.name)
        if list(topic.leaders) != [0] or settings.get(RETENTION_MS) != TopicConfig(PROBE_RETENTION, is_own=True):
            return False
        return self.cluster.log_offsets([(topic.name, 0)])[topic.name, 0][1] <= 2

    def _settings(self) -> dict[str, str]:
        broker = next(iter(self.cluster.brokers()))
        with suppress(ClusterRefusedError):
            if "log.remote.copy.lag.ms" in self.cluster.broker_settings(broker):
                return _SETTINGS | _LAG
        return _SETTINGS

    def _look(self, name: str) -> Evidence:
        topic = self._led(name)
        partition = TopicIdPartition(name, topic.topic_id, 0)
        self._write(name)
        seconds = quiet_seconds(self.cluster, topic.leaders.values()) + _MORE_SECONDS
        self.talk(f"waiting up to {seconds:.0f} s until the probe topic {name} is tiered")
        segment = self._tiered(partition, seconds)
        if segment is None:
            return Evidence(
                _KIND, EvidenceOutcome.SILENT, f"the probe topic {name} was not tiered within {seconds:.0f} s"
            )
        key = self.location.log_uri(segment)
        if self.location.layout.inspect(self.location.store, segment) is StoredState.COMPLETE:
            return Evidence(
                _KIND, EvidenceOutcome.HOLDS, f"the leader of the probe topic {name} tiered it there: {key}"
            )
        told = f"the leader of the probe topic {name} tiered it, and its segment is not there: {key}"
        return Evidence(_KIND, EvidenceOutcome.CONTRADICTS, told)

    def _led(self, name: str) -> Topic:
        deadline = time.monotonic() + _LEADER_SECONDS
        while True:
            topic = self.cluster.topics([name]).get(name)
            if topic is not None and topic.leaders.get(0, -1) >= 0:
                return topic
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"{self.cluster.bootstrap_server}: the probe topic {name} has no leader",
                    hint="run the same command again",
                )
            time.sleep(_POLL_SECONDS)

    def _write(self, name: str) -> None:
        """Write the two records; by their times the second one comes too late for the segment of the first."""
        errors: list[KafkaError] = []
        producer = self.cluster.producer({"acks": "all", "message.timeout.ms": DELIVERY_MS})
        now = int(time.time() * 1000)
        for timestamp in (now - 10 * _SEGMENT_MS, now):
            producer.produce(
                name,
                b"tiersnap asks where this is tiered",
                partition=0,
                timestamp=timestamp,
                on_delivery=lambda error, _: errors.append(error) if error is not None else None,
            )
            # In one batch both would be of one segment.
            left = producer.flush(DELIVERY_MS / 1000 + 5)
            if errors or left:
                why = errors[0].str() if errors else "no answer"
                raise DeliveryFailedError(f"{name}: a record was not acknowledged: {why}")
        _log.debug("wrote two records to %s", name)

    def _tiered(self, partition: TopicIdPartition, seconds: float) -> RemoteLogSegmentMetadata | None:
        deadline = time.monotonic() + seconds
        with self.metadata_topic.read([partition]) as reader:
            while True:
                cache = reader.read_to_end()
                found = next(cache.in_state(partition, SegmentState.COPY_SEGMENT_FINISHED), None)
                if found is not None or time.monotonic() > deadline:
                    return found
                time.sleep(_POLL_SECONDS)

    def _delete(self, name: str) -> None:
        try:
            self.cluster.delete_topic(name)
        except TiersnapError as error:
            _log.warning("could not delete %s: %s", name, error.message)
            self.talk(
                f"the probe topic {name} could not be deleted ({error.message}): kafka-topics --delete --topic {name}"
            )
