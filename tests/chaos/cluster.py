"""The cluster that the storm goes over: three brokers, a controller, remote storage in a directory, four topics."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import ElectionType, IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.broker.harness.ports import free_ports
from tests.broker.harness.waiting import wait_until
from tests.chaos.node import Node, broker, controller
from tests.chaos.schedule import NODES
from tests.chaos.small_disk import SmallDisk

SECONDS = 15.0
SEGMENT_BYTES = 65536

_ENDLESS = {"retention.ms": "-1", "retention.bytes": "-1", "remote.storage.enable": "true"}
_COPIED_BY_US = {**_ENDLESS, "remote.log.copy.disable": "true"}
TOPICS = {
    # Brokers copy, and local logs are short: what consumers read from the start is remote.
    # Ten years: what `unblock` does about a retention that is not endless, and nothing is deleted for its age.
    "copied": {**_ENDLESS, "retention.ms": "315360000000", "local.retention.bytes": str(3 * SEGMENT_BYTES)},
    # tiersnap copies and publishes; at the end brokers go on behind it.
    "published": _COPIED_BY_US,
    # The same, and a replica that lags is made its leader.
    "unclean": _COPIED_BY_US,
    # The same, deleted and made again.
    "again": _COPIED_BY_US,
}
MADE_AGAIN, UNCLEAN, STUCK = "again", "unclean", "copied"


class State(NamedTuple):
    """What the controller says of a topic's partition; leader -1 for none."""

    topic_id: str
    leader: int
    isr: list[int]
    preferred: int


@dataclass
class Cluster:
    """Processes, disks, and what an operator asks of brokers; a context that ends all of it."""

    root: Path
    remote: Path = field(init=False)
    controller: Node = field(init=False)
    brokers: dict[int, Node] = field(default_factory=dict)
    disks: dict[int, SmallDisk] = field(default_factory=dict)
    remote_disk: SmallDisk = field(init=False)
    generations: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Cluster:
        ports = free_ports(4)
        self.remote_disk = SmallDisk(self.root / "remote", 1024)
        self.remote = self.root / "remote" / "tier"
        self.remote.mkdir()
        try:
            self.controller, formatted = controller(self.root / "controller", ports[0])
            self.controller.launch()
            for node_id, port in zip(NODES, ports[1:], strict=True):
                folder = self.root / f"broker-{node_id}"
                self.disks[node_id] = SmallDisk(folder / "small", 384)
                self.brokers[node_id] = broker(folder, formatted, node_id, port, ports[0], self.remote)
                self.brokers[node_id].launch()
            for node in self.brokers.values():
                node.wait()
            wait_until(lambda: len(self._metadata().brokers) == len(NODES), "three brokers", seconds=120)
            for topic in TOPICS:
                self.make(topic)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.brokers.values(), *([self.controller] if hasattr(self, "controller") else [])):
            node.kill()
        for disk in (*self.disks.values(), self.remote_disk):
            disk.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.brokers.values())

    def log_dirs(self, node_id: int) -> list[Path]:
        return list(self.brokers[node_id].disks.log_dirs)

    def folder(self, node_id: int, topic: str) -> Path | None:
        """The replica's folder, None where the broker has none now."""
        with contextlib.suppress(FileNotFoundError):
            return self.brokers[node_id].disks.partition(topic)
        return None

    def make(self, topic: str) -> None:
        """Make a topic of the next generation, led by somebody."""
        config = {**TOPICS[topic], "internal.segment.bytes": str(SEGMENT_BYTES)}
        new = NewTopic(topic, num_partitions=1, replication_factor=len(NODES), config=config)
        self.ask(lambda admin: admin.create_topics([new])[topic])
        self.generations[topic] = self.generations.get(topic, 0) + 1
        wait_until(lambda: self._leader(topic) >= 0, f"{topic} has a leader", seconds=60)

    def delete(self, topic: str) -> None:
        self.ask(lambda admin: admin.delete_topics([topic])[topic])
        wait_until(lambda: topic not in self._metadata().topics, f"{topic} is gone", seconds=60)

    def alter(self, topic: str, settings: dict[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self.ask(lambda admin: admin.incremental_alter_configs([resource])[resource])

    def state(self, topic: str) -> State:
        found = self.ask(lambda admin: admin.describe_topics(TopicCollection([topic]))[topic])
        (partition,) = found.partitions
        leader = partition.leader.id if partition.leader is not None else -1
        topic_id = str(found.topic_id).replace("+", "-").replace("/", "_")
        return State(topic_id, leader, sorted(node.id for node in partition.isr), partition.replicas[0].id)

    def _leader(self, topic: str) -> int:
        with contextlib.suppress(KafkaException, TimeoutError):
            return self.state(topic).leader
        return -1

    def offsets(self, topic: str) -> tuple[int, int, int]:
        """Log start, remote segments included; log end as readers see it; last stable offset."""
        uncommitted, committed = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
        asked = (
            (OffsetSpec.earliest(), uncommitted),
            (OffsetSpec.latest(), uncommitted),
            (OffsetSpec.latest(), committed),
        )
        at = TopicPartition(topic, 0)
        start, end, stable = (
            self.ask(
                lambda admin, spec=spec, isolation=isolation: admin.list_offsets({at: spec}, isolation_level=isolation)[
                    at
                ]
            ).offset
            for spec, isolation in asked
        )
        return start, end, stable

    def trim(self, topic: str, before: int) -> None:
        at = TopicPartition(topic, 0, before)
        self.ask(lambda admin: admin.delete_records([at])[at])

    def elect(self, topic: str, *, unclean: bool = False) -> None:
        """Ask for an election; that none was needed is no error."""
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        with contextlib.suppress(KafkaException):
            self.ask(lambda admin: admin.elect_leaders(kind, [TopicPartition(topic, 0)]))

    def ask(self, request: Any) -> Any:
        """The answer to `request(admin)`, with a client of its own: one that lives long names brokers that have died.

        Raises:
            KafkaException, TimeoutError: none in time, or a refusal.
        """
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "request.timeout.ms": 10_000})
        future: Future[Any] = request(admin)
        return future.result(SECONDS)

    def _metadata(self) -> Any:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=SECONDS)
