"""What outlives a broker: its data directories, and ZooKeeper's. Copied freely, so that one log serves many tests."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.broker.harness.process import JavaProcess
from tests.broker.harness.settings import write_properties

Mode = Literal["zookeeper", "kraft"]
CLUSTER_ID = "tiersnap-broker-testsA"  # base64url of 16 bytes; one that starts with '-' is taken for an option
OTHER_CLUSTER_ID = "another-broker-testsAQ"


@dataclass(frozen=True)
class Disks:
    """The disks of one single-node cluster, below `root`; `data` are the entries of `log.dirs`, relative to it."""

    root: Path
    mode: Mode
    data: tuple[str, ...] = ("data",)

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        return tuple(self.root / name for name in self.data)

    @property
    def log_dir(self) -> Path:
        """The first log directory, in KRaft also that of the metadata log."""
        return self.log_dirs[0]

    @property
    def zookeeper_dir(self) -> Path:
        return self.root / "zookeeper"

    @property
    def output_dir(self) -> Path:
        """Where brokers on these disks leave their output and their `server.properties`."""
        return self.root / "output"

    def partition(self, topic: str, partition: int = 0) -> Path:
        """The partition's folder, in whichever log directory it is.

        Raises:
            FileNotFoundError: no log directory has it.
        """
        for log_dir in self.log_dirs:
            if (log_dir / f"{topic}-{partition}").is_dir():
                return log_dir / f"{topic}-{partition}"
        raise FileNotFoundError(f"{topic}-{partition} in none of {', '.join(map(str, self.log_dirs))}")

    def has_partition(self, topic: str, partition: int = 0) -> bool:
        return any((log_dir / f"{topic}-{partition}").is_dir() for log_dir in self.log_dirs)

    def copy_to(self, root: Path) -> Disks:
        """The same disks again at `root`, times kept; only while no broker runs on them."""
        shutil.copytree(self.root, root, ignore=shutil.ignore_patterns(self.output_dir.name, ".lock"))
        return Disks(root, self.mode, self.data)


def backup_of(log_dir: Path, to: Path) -> Path:
    """A copy of a log directory, made while a broker may run: what is uploaded from it may go anywhere."""
    shutil.rmtree(to, ignore_errors=True)
    with suppress(shutil.Error):  # a file was replaced meanwhile
        shutil.copytree(log_dir, to, ignore=shutil.ignore_patterns(".lock"))
    return to


def zookeeper_disks(root: Path) -> Disks:
    """Empty disks for a broker with a ZooKeeper of its own."""
    disks = Disks(root, "zookeeper")
    for folder in (*disks.log_dirs, disks.zookeeper_dir):
        folder.mkdir(parents=True)
    return disks


def kraft_disks(
    root: Path,
    version: str,
    *,
    data: tuple[str, ...] = ("data",),
    cluster_id: str = CLUSTER_ID,
    settings: Mapping[str, str] | None = None,
) -> Disks:
    """Disks formatted by Kafka `version`'s own StorageTool for one node that is broker and controller."""
    disks = Disks(root, "kraft", data)
    for folder in disks.log_dirs:
        folder.mkdir(parents=True)
    minimal = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:2",
        "log.dirs": ",".join(map(str, disks.log_dirs)),
        "metadata.log.dir": str(disks.log_dir),
        **(settings or {}),
    }
    path = write_properties(disks.output_dir / "format.properties", minimal)
    tool = JavaProcess(
        version,
        "kafka.tools.StorageTool",
        ["format", "-t", cluster_id, "-c", str(path)],
        disks.output_dir / "format.log",
    )
    if tool.wait(60) != 0:
        raise AssertionError(f"kafka-storage format {version}: {tool.log.tail()}")
    return disks
