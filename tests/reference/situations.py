"""What a broker's host may be found in, laid out with copies of bundled logs; docs/exit-codes.md has a row for each.

Below a folder `topic-…` the topic `orders` is named like that folder, and has an id of its own: such hosts may share
remote storage and a run.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import stat
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.small_disk import SmallDisk
from tests.reference.broker_lock import broker
from tests.reference.command import tiersnap
from tests.reference.metadata_replica import finished_in, published, write_replica
from tests.reference.poisoned_tier import poisoned_tier
from tests.reference.small_log import file_of

LOGS = Path(__file__).parents[1] / "data" / "kafka-3.9.1" / "logs"
OTHER_LOGS = Path(__file__).parents[1] / "data" / "kafka-4.1.1" / "logs"
NOW = ("--now", "2026-11-21T12:45:00Z")
WITHOUT_PRODUCERS = bytes.fromhex("000148674bc700000000")
TOPIC, PARTITION, BASES, END = "orders", "orders-0", (0, 261, 519), 745
_OF_DISK = ("meta.properties", ".kafka_cleanshutdown", "__transaction_state-*", "*-offset-checkpoint")


class CannotBeLaidOutError(Exception):
    """Raised where this process may not do what a situation needs."""


@dataclass(frozen=True)
class Site:
    """A host as it is found.

    Attributes:
        log_dirs: all entries of the broker's log.dirs.
        remote: its remote storage, a directory.
        obeys_modes: it is looked at by a process for which the modes of files count.
    """

    log_dirs: tuple[Path, ...]
    remote: Path
    obeys_modes: bool = False


LayOut = Callable[[Path], AbstractContextManager[Site]]
SITUATIONS: dict[str, LayOut] = {}


def situation(name: str) -> Callable[[Callable[[Path], Iterator[Site]]], LayOut]:
    """Register what lays it out below a new folder; the first line of its docstring says what it is."""

    def register(lay_out: Callable[[Path], Iterator[Site]]) -> LayOut:
        SITUATIONS[name] = contextmanager(lay_out)
        return SITUATIONS[name]

    return register


def disk_of(at: Path, *partitions: str, name: str = "disk") -> Path:
    """A log directory with these partitions and what lies beside them."""
    disk = at / name
    disk.mkdir()
    for pattern in (*_OF_DISK, *partitions):
        for source in LOGS.glob(pattern):
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, disk / source.name)
    if topic_of(at) != TOPIC:
        _rename(disk, topic_of(at))
    return disk


def topic_of(at: Path) -> str:
    """The name of the topic that is `orders` in the bundled logs."""
    return at.name if at.name.startswith("topic-") else TOPIC


def _rename(disk: Path, topic: str) -> None:
    for folder in disk.glob(f"{TOPIC}-*"):
        topic_id = urlsafe_b64encode(hashlib.md5(topic.encode(), usedforsecurity=False).digest()).decode()[:22]
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        folder.rename(disk / folder.name.replace(TOPIC, topic))
    for path in disk.glob("*-offset-checkpoint"):
        path.write_text(path.read_text().replace(f"{TOPIC} ", f"{topic} "))


def site(at: Path, *log_dirs: Path, obeys_modes: bool = False) -> Site:
    """With remote storage that holds nothing, where it holds nothing yet."""
    (at / "remote").mkdir(exist_ok=True)
    return Site(log_dirs, at / "remote", obeys_modes)


def orders(at: Path) -> Path:
    """A sound log directory, and the folder of its partition within."""
    return disk_of(at, PARTITION) / f"{topic_of(at)}-0"


def tiered(at: Path, log_dir: Path) -> None:
    """Upload all closed segments."""
    ran = tiersnap("tier", log_dir, "--remote", at / "remote", *NOW, "--replace", "--apply")
    assert ran.exit_code == 0, ran.err


@situation("healthy")
def healthy(at: Path) -> Iterator[Site]:
    """The snapshots are right, nothing is tiered, the broker is stopped"""
    yield site(at, orders(at).parent)


@situation("running")
def running(at: Path) -> Iterator[Site]:
    """As *healthy*, but the broker runs"""
    log_dir = orders(at).parent
    (log_dir / ".lock").touch()
    with broker(log_dir):
        yield site(at, log_dir)


@situation("fresh")
def fresh(at: Path) -> Iterator[Site]:
    """A new broker: `meta.properties` and nothing else"""
    (at / "disk").mkdir()
    shutil.copy(LOGS / "meta.properties", at / "disk")
    yield site(at, at / "disk")


@situation("controller")
def controller(at: Path) -> Iterator[Site]:
    """A controller: only `__cluster_metadata-0`"""
    (at / "disk" / "__cluster_metadata-0").mkdir(parents=True)
    shutil.copy(LOGS / "meta.properties", at / "disk")
    yield site(at, at / "disk")


@situation("one empty disk")
def one_empty_disk(at: Path) -> Iterator[Site]:
    """Healthy, with a second disk that has no partition yet"""
    (at / "empty").mkdir()
    shutil.copy(LOGS / "meta.properties", at / "empty")
    yield site(at, orders(at).parent, at / "empty")


@situation("disk not mounted")
def disk_not_mounted(at: Path) -> Iterator[Site]:
    """Healthy, with a second disk that has no `meta.properties`"""
    (at / "empty").mkdir()
    yield site(at, orders(at).parent, at / "empty")


@situation("unreadable folder")
def unreadable_folder(at: Path) -> Iterator[Site]:
    """This user may not list the partition's folder"""
    folder = orders(at)
    folder.chmod(0)
    try:
        yield site(at, folder.parent, obeys_modes=True)
    finally:
        folder.chmod(stat.S_IRWXU)


@situation("garbled checkpoint")
def garbled_checkpoint(at: Path) -> Iterator[Site]:
    """`replication-offset-checkpoint` contains no offsets"""
    log_dir = orders(at).parent
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\norders")
    yield site(at, log_dir)


@situation("missing checkpoint")
def missing_checkpoint(at: Path) -> Iterator[Site]:
    """`replication-offset-checkpoint` does not exist, but partitions do"""
    log_dir = orders(at).parent
    (log_dir / "replication-offset-checkpoint").unlink()
    yield site(at, log_dir)


@situation("full disk")
def full_disk(at: Path) -> Iterator[Site]:
    """No byte is free, and a snapshot is missing"""
    disk = SmallDisk(at / "disk", 4)
    try:
        if not disk.is_small:
            raise CannotBeLaidOutError("only root mounts a small disk")
        shutil.copytree(disk_of(at, PARTITION, name="source"), disk.folder, dirs_exist_ok=True)
        file_of(disk.folder / f"{topic_of(at)}-0", BASES[1], ".snapshot").unlink()
        disk.fill()
        with (disk.folder / "rest").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        yield site(at, disk.folder)
    finally:
        disk.close()


@situation("running cleaner")
def running_cleaner(at: Path) -> Iterator[Site]:
    """The broker runs, and its log cleaner is at work"""
    folder = orders(at)
    for suffix in (".log.cleaned", ".index.cleaned", ".log.swap", ".log.deleted"):
        file_of(folder, BASES[1], suffix).touch()
    (folder.parent / ".lock").touch()
    with broker(folder.parent):
        yield site(at, folder.parent)


@situation("killed cleaner")
def killed_cleaner(at: Path) -> Iterator[Site]:
    """The broker was killed while its log cleaner was at work"""
    folder = orders(at)
    file_of(folder, BASES[1], ".log.swap").touch()
    (folder.parent / ".kafka_cleanshutdown").unlink()
    yield site(at, folder.parent)


@situation("unclean stop")
def unclean_stop(at: Path) -> Iterator[Site]:
    """The broker was killed; its files are complete"""
    log_dir = orders(at).parent
    (log_dir / ".kafka_cleanshutdown").unlink()
    yield site(at, log_dir)


@situation("missing snapshot")
def missing_snapshot(at: Path) -> Iterator[Site]:
    """A closed segment has no snapshot, but a later segment has one"""
    folder = orders(at)
    file_of(folder, BASES[1], ".snapshot").unlink()
    yield site(at, folder.parent)


@situation("no snapshots")
def no_snapshots(at: Path) -> Iterator[Site]:
    """The partition has no snapshot at all"""
    folder = orders(at)
    for offset in (*BASES[1:], END):
        file_of(folder, offset, ".snapshot").unlink()
    yield site(at, folder.parent)


@situation("suspect snapshot")
def suspect_snapshot(at: Path) -> Iterator[Site]:
    """A snapshot has no producers, but the log has some"""
    folder = orders(at)
    file_of(folder, BASES[1], ".snapshot").write_bytes(WITHOUT_PRODUCERS)
    yield site(at, folder.parent)


@situation("corrupt snapshot")
def corrupt_snapshot(at: Path) -> Iterator[Site]:
    """A snapshot that no broker can read"""
    folder = orders(at)
    file_of(folder, BASES[1], ".snapshot").write_bytes(b"\x00\x01")
    yield site(at, folder.parent)


@situation("damaged segment")
def damaged_segment(at: Path) -> Iterator[Site]:
    """A batch of a closed segment does not match its CRC"""
    folder = orders(at)
    with file_of(folder, BASES[1], ".log").open("r+b") as file:
        file.seek(30_000)
        file.write(b"\xff" * 8)
    yield site(at, folder.parent)


@situation("lost index")
def lost_index(at: Path) -> Iterator[Site]:
    """A closed segment has no `.index`"""
    folder = orders(at)
    file_of(folder, BASES[0], ".index").unlink()
    yield site(at, folder.parent)


@situation("damaged index")
def damaged_index(at: Path) -> Iterator[Site]:
    """The last entry of a closed segment's time index is 0, as after a power loss"""
    folder = orders(at)
    times = file_of(folder, BASES[0], ".timeindex")
    times.write_bytes(times.read_bytes()[:-12] + bytes(12))
    yield site(at, folder.parent)


@situation("lost leader epochs")
def lost_leader_epochs(at: Path) -> Iterator[Site]:
    """`leader-epoch-checkpoint` has 0 bytes, as after a power loss"""
    folder = orders(at)
    (folder / "leader-epoch-checkpoint").write_bytes(b"")
    yield site(at, folder.parent)


@situation("lost topic id")
def lost_topic_id(at: Path) -> Iterator[Site]:
    """`partition.metadata` has 0 bytes, as after a power loss"""
    folder = orders(at)
    (folder / "partition.metadata").write_bytes(b"")
    yield site(at, folder.parent)


@situation("stray partition")
def stray_partition(at: Path) -> Iterator[Site]:
    """A KRaft broker renamed a replica with records to `…-stray`"""
    folder = orders(at)
    shutil.copytree(folder, folder.with_name(f"payments-0.{'0' * 32}-stray"))
    yield site(at, folder.parent)


@situation("on two disks")
def on_two_disks(at: Path) -> Iterator[Site]:
    """Two disks of the broker have the same partition"""
    yield site(at, orders(at).parent, disk_of(at, PARTITION, name="second"))


@situation("no topic id")
def no_topic_id(at: Path) -> Iterator[Site]:
    """The partition has no `partition.metadata`, as before Kafka 2.8"""
    folder = orders(at)
    (folder / "partition.metadata").unlink()
    yield site(at, folder.parent)


@situation("hanging transaction")
def hanging_transaction(at: Path) -> Iterator[Site]:
    """A transaction hangs, because its producer id belongs to no transactional id. Later segments wait"""
    log_dir = disk_of(at, "hanging-0")
    for folder in log_dir.glob("__transaction_state-*"):  # of another cluster
        shutil.rmtree(folder)
        shutil.copytree(OTHER_LOGS / folder.name, folder)
    yield site(at, log_dir)


@situation("uploaded")
def all_uploaded(at: Path) -> Iterator[Site]:
    """tiersnap has uploaded all closed segments. Without a cluster it cannot know whether they are published"""
    log_dir = orders(at).parent
    tiered(at, log_dir)
    yield site(at, log_dir)


@situation("tiered")
def all_tiered(at: Path) -> Iterator[Site]:
    """All closed segments are on disk and in remote storage, and are published"""
    with SITUATIONS["uploaded"](at) as found:
        write_replica(found.log_dirs[0], published(finished_in(found.remote)))
        yield found


@situation("local retention")
def local_retention(at: Path) -> Iterator[Site]:
    """As *tiered*, but local retention deleted the oldest segments on disk"""
    folder = orders(at)
    tiered(at, folder.parent)
    for path in folder.glob(f"{BASES[0]:020d}.*"):
        path.unlink()
    # Where the log begins; brokers write it of each log with remote storage (LogManager.checkpointLogStartOffsets).
    (folder.parent / "log-start-offset-checkpoint").write_text(f"0\n1\n{topic_of(at)} 0 {BASES[0]}\n")
    yield site(at, folder.parent)


@situation("unknown log start")
def unknown_log_start(at: Path) -> Iterator[Site]:
    """As *local retention*, but no checkpoint has the log start offset"""
    with SITUATIONS["local retention"](at) as found:
        (found.log_dirs[0] / "log-start-offset-checkpoint").unlink()
        yield found


@situation("rebuilt replica")
def rebuilt_replica(at: Path) -> Iterator[Site]:
    """A broker rebuilt a replica from remote storage. The replica lacks the producers of the remote segments"""
    yield rebuilt(at, local_from=2)


@situation("replica without producers")
def replica_without_producers(at: Path) -> Iterator[Site]:
    """As *rebuilt replica*, but all closed segments are tiered"""
    yield rebuilt(at, local_from=3)


def rebuilt(at: Path, local_from: int) -> Site:
    """What a rebuilt replica left, from a segment on."""
    laid = poisoned_tier(at, "orders-0", rebuilt=2, local_from=local_from)
    for name in ("meta.properties", *(f"__transaction_state-{number}" for number in range(3))):
        copy = shutil.copytree if (LOGS / name).is_dir() else shutil.copy
        copy(LOGS / name, laid.logs / name)
    return Site((laid.logs,), laid.remote)


@situation("freed by unblock")
def freed_by_unblock(at: Path) -> Iterator[Site]:
    """Snapshots were missing; `unblock` tiered the segments with computed snapshots while the broker ran"""
    folder = orders(at)
    file_of(folder, BASES[1], ".snapshot").unlink()
    tiered(at, folder.parent)
    (folder.parent / ".lock").touch()
    with broker(folder.parent):
        yield site(at, folder.parent)
