"""`server.properties` of a single-node broker that starts fast, and ZooKeeper's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.broker.harness.disks import Disks

# One node, small topics, nothing waited for; no default of storage, producers or transactions is touched.
_SMALL = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "8388608",
}
_KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "4000",  # what a start after kill -9 waits for
    "share.coordinator.state.topic.replication.factor": "1",
}
ZOOKEEPER_TICK_MS = 500


def broker_settings(disks: Disks, ports: tuple[int, int], extra: Mapping[str, str]) -> dict[str, str]:
    """Settings for `disks`; `ports` are (clients, controller or ZooKeeper)."""
    clients, other = ports
    settings = dict(_SMALL)
    settings["log.dirs"] = ",".join(map(str, disks.log_dirs))
    settings["listeners"] = f"PLAINTEXT://127.0.0.1:{clients}"
    if disks.mode == "kraft":
        settings |= _KRAFT
        settings["listeners"] += f",CONTROLLER://127.0.0.1:{other}"
        settings["controller.quorum.voters"] = f"1@127.0.0.1:{other}"
        settings["metadata.log.dir"] = str(disks.log_dir)
    else:
        settings["broker.id"] = "1"
        settings["zookeeper.connect"] = f"127.0.0.1:{other}"
        settings["zookeeper.session.timeout.ms"] = str(6 * ZOOKEEPER_TICK_MS)
    return settings | dict(extra)


def zookeeper_settings(disks: Disks, port: int) -> dict[str, str]:
    return {
        "dataDir": str(disks.zookeeper_dir),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "tickTime": str(ZOOKEEPER_TICK_MS),
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
