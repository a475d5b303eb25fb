"""Brokers beside the one that is also the controller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.broker.harness.broker import Broker
from tests.broker.harness.disks import Disks, kraft_disks
from tests.broker.harness.ports import free_ports
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import SECONDS, SEGMENT_BYTES, admin_client
from tests.broker.harness.waiting import wait_until


def broker_disks(root: Path, version: str, node: int) -> Disks:
    """Empty disks for a node that is a broker and no controller."""
    return kraft_disks(
        root,
        version,
        settings={"process.roles": "broker", "node.id": str(node), "listeners": "PLAINTEXT://127.0.0.1:1"},
    )


class FurtherBroker(Broker):
    """Broker `node` of a cluster whose controller is `first`, which runs."""

    def __init__(
        self,
        disks: Disks,
        version: str,
        node: int,
        first: Broker,
        tier: LocalTier | None = None,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        clients, other = free_ports(2)
        assert first._ports is not None
        settings = {
            **(settings or {}),
            "process.roles": "broker",
            "node.id": str(node),
            "listeners": f"PLAINTEXT://127.0.0.1:{clients}",
            "controller.quorum.voters": f"1@127.0.0.1:{first._ports[1]}",
        }
        super().__init__(disks, version, tier=tier, settings=settings)
        self._ports = clients, other


def leader_and_isr(broker: Broker, topic: str) -> tuple[int, list[int]]:
    """Leader and in-sync replicas of the topic's partition 0, as `broker` knows them."""
    partition = admin_client(broker).list_topics(topic, timeout=5).topics[topic].partitions[0]
    return partition.leader, sorted(partition.isrs)


def create_led_by(first: Broker, topic: str, node: int, configs: Mapping[str, str]) -> None:
    """Create a topic on broker 1 and on `node`, which leads it, and wait until both are in sync."""
    key = "internal.segment.bytes" if first.version.startswith("4.") else "segment.bytes"
    config = {key: str(SEGMENT_BYTES), "retention.ms": "-1", **configs}
    admin = admin_client(first)
    wanted = NewTopic(topic, num_partitions=1, replica_assignment=[[node, 1]], config=config)
    admin.create_topics([wanted])[topic].result(SECONDS)
    wait_until(lambda: leader_and_isr(first, topic) == (node, [1, node]), "both are in sync", seconds=60)


def elect(first: Broker, topic: str, node: int) -> None:
    """Let `node` lead, which is the preferred leader."""
    wait_until(lambda: leader_and_isr(first, topic)[1] == [1, node], "it is in sync", seconds=60)
    if leader_and_isr(first, topic)[0] != node:
        admin = admin_client(first)
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(SECONDS)
    wait_until(lambda: leader_and_isr(first, topic)[0] == node, "it leads", seconds=60)
