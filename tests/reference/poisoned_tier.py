"""A real log, tiered by a leader that was rebuilt from the tier: its later snapshots know nobody from before.

A follower that is rebuilt begins with nobody at the end of a remote segment (3.9.1, 4.1.1, 4.4.0), and as a leader it
tiers what it knows. The log is one of tests/data, and Kafka's own snapshots are the answer.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.reference.log_builder import offsets_text
from tests.reference.tiered import LOCAL, folded_snapshots, tier
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition

DATA = Path(__file__).parent.parent / "data"
TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
EMPTY = bytes.fromhex("000148674bc700000000")
NOW = ("--now", "2026-11-21T12:45:00Z")


@dataclass(frozen=True)
class PoisonedTier:
    """What a host and its remote storage hold.

    Attributes:
        name: of the partition.
        expected: Kafka's snapshots of the whole log by offset.
        tiered: those that lie in the tier, by offset.
        remote: as the brokers' plugin left it.
        logs: the log directory of the rebuilt replica after local retention, as it was stopped.
        left: the snapshot files in it by offset.
    """

    name: str
    expected: dict[int, bytes]
    tiered: dict[int, bytes]
    remote: Path
    logs: Path
    left: dict[int, bytes]

    @property
    def folder(self) -> Path:
        """Of the partition."""
        return self.logs / self.name

    def snapshots(self) -> dict[int, bytes]:
        """Files of the partition by offset."""
        return {int(path.stem): path.read_bytes() for path in self.folder.glob("*.snapshot")}


def poisoned_tier(
    at: Path, name: str, *, rebuilt: int | None, local_from: int, layout: str = "aiven", remote: Path | None = None
) -> PoisonedTier:
    """Lay all of it out below a new folder, or the tier at `remote`.

    Args:
        rebuilt: index of the segment that a rebuilt replica began with; None for a leader that never was.
        local_from: index of the first segment that is left here; those before it are tiered.
    """
    whole = _copied(DATA / "kafka-2.7.2/logs" / name, at / "whole" / name)
    expected = _snapshots(DATA / "kafka-2.7.2/expected" / name)
    bases = sorted(int(path.stem) for path in whole.glob("*.log"))
    tiered = {base: expected[base] for base in bases[1 : local_from + 1]}
    if rebuilt is not None:
        later = _copied(whole, at / "later" / name, bases[rebuilt:])
        known = folded_snapshots(read_partition(LOCAL, str(later), Checkpoints()))
        tiered |= {offset: data for offset, data in known.items() if offset in tiered}
    store = DirectoryStore(remote or at / "remote")
    tier(whole, store, layout=open_layout(layout), bases=set(bases[:local_from]), snapshots=tiered)
    logs = at / "logs"
    replica = _copied(whole, logs / name, bases[local_from:])
    own = folded_snapshots(read_partition(LOCAL, str(replica), Checkpoints()))
    left = {bases[local_from]: EMPTY, **own} if rebuilt is not None else {o: expected[o] for o in own}
    for offset, data in left.items():
        (replica / f"{offset:020d}.snapshot").write_bytes(data)
    topic, _, partition = name.rpartition("-")
    end = max(expected)
    for file, offset in (("replication", end), ("log-start", 0), ("recovery-point", end)):
        (logs / f"{file}-offset-checkpoint").write_text(offsets_text({(topic, int(partition)): offset}))
    return PoisonedTier(name, expected, tiered, store.root, logs, left)


def _copied(source: Path, target: Path, bases: list[int] | None = None) -> Path:
    """A copy of a partition's folder without its snapshots, or with these segments alone."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.snapshot"))
    for path in target.glob("0*.*") if bases is not None else ():
        if int(path.stem) not in (bases or ()):
            path.unlink()
    (target / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    return target


def _snapshots(folder: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in folder.glob("*.snapshot")}
