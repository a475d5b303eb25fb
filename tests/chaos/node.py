"""The processes of a chaos cluster: a controller, and brokers with two log directories each."""

from __future__ import annotations

import base64
import itertools
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.broker.harness.disks import CLUSTER_ID, Disks, kraft_disks
from tests.broker.harness.ports import listens
from tests.broker.harness.process import JavaProcess
from tests.broker.harness.settings import broker_settings, write_properties
from tests.broker.harness.waiting import wait_until
from tests.chaos.clock import Clock

VERSION = "4.3.1"
CONTROLLER_ID = 100
START_SECONDS = 180.0
_starts = itertools.count(1)

# Checkpoints and checks come often, so that a run of minutes sees what production sees in hours; what is kept of a log
# start across a kill is Kafka's own matter, and this makes its window small.
BROKER = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "6000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    # A broker whose clock is slow takes what clients write.
    "log.message.timestamp.after.max.ms": str(2 * 86_400_000),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.manager.task.interval.ms": "2000",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}


class Formatted(NamedTuple):
    """Disks as the one run of StorageTool left them; those of other nodes are copies, with ids of their own."""

    disks: Disks

    def copy(self, root: Path, node_id: int, data: tuple[str, ...]) -> Disks:
        """Disks of a node with the log directories `data`, the first of them for the metadata log."""
        disks = Disks(root, "kraft", data)
        for number, folder in enumerate(disks.log_dirs):
            shutil.copytree(self.disks.log_dir, folder)
            directory_id = base64.urlsafe_b64encode(bytes([node_id, number] * 8)).decode().rstrip("=")
            ids = {"version": "1", "cluster.id": CLUSTER_ID, "node.id": str(node_id), "directory.id": directory_id}
            write_properties(folder / "meta.properties", ids)
            if number:
                (folder / "bootstrap.checkpoint").unlink()
        return disks


@dataclass
class Node:
    """One process on disks of its own, started again on the same port."""

    node_id: int
    disks: Disks
    settings: dict[str, str]
    port: int
    heap_megabytes: int
    process: JavaProcess | None = field(default=None)
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(self.disks.root / "clock")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.running

    def start(self) -> None:
        """Start, and return when it listens."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start, and do not wait."""
        run = f"{self.node_id}-{next(_starts)}"
        output = self.disks.output_dir
        path = write_properties(output / f"{run}.properties", self.settings)
        log, heap, clock = output / f"{run}.log", self.heap_megabytes, self.clock.environment
        self.process = JavaProcess(VERSION, "kafka.Kafka", [str(path)], log, heap_megabytes=heap, environment=clock)

    def wait(self) -> None:
        """Until it listens.

        Raises:
            ProcessEndedError, NotInTimeError: it does not.
        """

        def listening() -> bool:
            assert self.process is not None
            self.process.ensure_running()
            return listens(self.port)

        wait_until(listening, f"node {self.node_id} listens", seconds=START_SECONDS)

    def stop(self) -> None:
        """Stop cleanly, or kill what takes longer than 40 s: a copier that fails holds a broker for 30 s."""
        if self.process is not None:
            try:
                self.process.stop(40)
            except Exception:  # subprocess.TimeoutExpired, and then it was killed
                self.process.kill()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


def controller(root: Path, port: int) -> tuple[Node, Formatted]:
    """The one controller, and its disks."""
    own = {"process.roles": "controller", "node.id": str(CONTROLLER_ID), "listeners": f"CONTROLLER://127.0.0.1:{port}"}
    own["controller.quorum.voters"] = f"{CONTROLLER_ID}@127.0.0.1:{port}"
    formatted = Formatted(kraft_disks(root / "formatted", VERSION, settings=own))
    disks = formatted.copy(root, CONTROLLER_ID, ("data",))
    settings = broker_settings(disks, (0, port), {**own, "remote.log.storage.system.enable": "true"})
    return Node(CONTROLLER_ID, disks, settings, port, 192), formatted


def broker(root: Path, formatted: Formatted, node_id: int, port: int, controller_port: int, remote: Path) -> Node:
    """A broker with the log directories d1, with the metadata log, and d2 on what is a small disk where it can be."""
    own = {"process.roles": "broker", "node.id": str(node_id), "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    own["controller.quorum.voters"] = f"{CONTROLLER_ID}@127.0.0.1:{controller_port}"
    disks = formatted.copy(root, node_id, ("d1", "small/d2"))
    settings = broker_settings(disks, (port, 0), {**BROKER, **own, "rsm.config.dir": str(remote)})
    return Node(node_id, disks, settings, port, 320)
