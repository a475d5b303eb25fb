"""The commands as a user types them, each with the store and the cluster of the hand that runs it: see installed.

Each returns its exit code. What a command is told besides is what no fault changes: the remote place, a log directory,
a grace.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.protocol.logs import BASES, PARTITION, segment_bytes
from tests.protocol.world import Hand, World
from tests.reference.model_cluster import CLUSTER_ID
from tiersnap.jobs.main import run
from tiersnap.snapshot.errors import ExitCode

REMOTE, CLUSTER = ("--remote", "s3://bucket"), ("--bootstrap-server", "model:9092")


def type_command(*words: object) -> ExitCode:
    """Run a command line, quietly."""
    return ExitCode(run(["-q", "--output", "jsonl", "--log-level", "error", *map(str, words)]))


def now_of(world: World) -> tuple[str, str]:
    """The option that names the world's time."""
    return "--now", datetime.fromtimestamp(world.store.time // 1000, UTC).isoformat()


def tier(world: World, hand: Hand, host: str, *words: str, asks: bool = False) -> ExitCode:
    """`tiersnap tier` on one of the hosts, with other `words` as well; if it `asks`, of the cluster."""
    cluster = CLUSTER if asks else ()
    return type_command("tier", world.disks[host], *REMOTE, *cluster, *now_of(world), *words, "--apply")


def publish(world: World, hand: Hand) -> ExitCode:
    """`tiersnap publish`; leader epochs are those of the leader's log directory."""
    return type_command("publish", *CLUSTER, *REMOTE, "--unproven", world.disks["a"], "--apply")


def mend(world: World, hand: Hand) -> ExitCode:
    """`tiersnap mend` with the leader's log; segments that brokers do not read go."""
    words = (*CLUSTER, "--unproven", "--delete-bad")
    return type_command("mend", *words, "--depth", "full", *REMOTE, world.disks["a"], *now_of(world), "--apply")


def verify(world: World, hand: Hand, *, asks: bool = False) -> ExitCode:
    """`tiersnap verify` of remote storage, without a log; if it `asks`, of the cluster."""
    return type_command("verify", *REMOTE, *(CLUSTER if asks else ()), *now_of(world))


def unblock(world: World, hand: Hand) -> ExitCode:
    """`tiersnap unblock` on the leader's host."""
    return type_command("unblock", *CLUSTER, *REMOTE, "--unproven", world.disks["a"], *now_of(world), "--apply")


def remove_orphans(world: World, hand: Hand) -> ExitCode:
    """`tiersnap maintain remove-orphans`, of what is a day old."""
    return type_command("maintain", "remove-orphans", *CLUSTER, *REMOTE, "--apply")


def restore(world: World, hand: Hand, *, asks: bool) -> ExitCode:
    """`tiersnap restore` to a new disk; what is restored must be the log.

    If it `asks`, of the cluster; else what was never published is restored, too, and the cluster is named if the store
    lost what says it.
    """
    disk = world.folder / f"restored-{hand.run_id}"
    disk.mkdir()
    (disk / "meta.properties").write_text(f"#\nversion=1\ncluster.id={CLUSTER_ID}\nnode.id=1\ndirectory.id=y\n")
    cluster = CLUSTER if asks else ("--unpublished",)
    if not asks and not any(key.endswith("/cluster.json") for key in world.store.objects):
        cluster += ("--cluster-id", CLUSTER_ID)
    code = type_command("restore", *REMOTE, "--to", disk, "--topic", PARTITION.topic, *cluster, "--apply")
    if code is ExitCode.OK:
        check_restored(disk / "orders-0")
    return code


def check_restored(folder: Path) -> None:
    """The files are the log from one of its segments on."""
    files = sorted(path for path in folder.glob("*.log") if path.stat().st_size)
    first = int(files[0].stem)
    wanted = b"".join(segment_bytes(base) for base in BASES if base >= first)
    assert first in BASES
    assert wanted.startswith(b"".join(path.read_bytes() for path in files))
