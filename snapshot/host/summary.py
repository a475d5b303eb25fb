"""Sum up the facts about all log directories of a broker host."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiersnap.snapshot.errors import TiersnapError, UsageError
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.gate.verdict import MEANING, RANK, Verdict
from tiersnap.snapshot.host.diagnosis import (
    DAY_MS,
    SegmentCounts,
    at_least,
    missing_snapshots,
    read_meta_properties,
)
from tiersnap.snapshot.host.running_broker import Holder, lock_holder
from tiersnap.snapshot.host.scanned import Inventory
from tiersnap.snapshot.host.waiting import WaitingPartition
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE
from tiersnap.snapshot.log.disk import MountedDisk, disk_of
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start_past_end import read_past_end
from tiersnap.snapshot.log.selection import NamedLogDir, named_findings
from tiersnap.snapshot.log.stray_partitions import stray_partitions
from tiersnap.snapshot.units import count_of

_FIRST_WITH_PAUSE = (3, 9)


@dataclass
class Examined:
    """The facts about one log directory."""

    uri: str
    path: str
    is_clean: bool
    meta: MetaProperties | None  # None without a readable meta.properties
    disk: MountedDisk
    holder: Holder | None  # the process that holds .lock; None without one, or if it is unknown
    lock_unknown: str  # why the holder is unknown, or ""
    listed: SegmentCounts
    missing: int = 0  # number of missing snapshots that `repair` would write

    @property
    def release(self) -> str:
        """Return the release of the broker that holds .lock; "" if unknown."""
        return (self.holder and self.holder.version) or ""


def examined(each: NamedLogDir, now: int) -> Examined:
    """Return the facts about a log directory without its partitions: cluster, disk, and the process that holds `.lock`.

    Args:
        now: ms since the epoch.

    Raises:
        UsageError: the directory is on another host.
    """
    if not each.log_dir.filesystem.is_local:
        raise UsageError(
            f"{each.uri}: the directory is not on this host", hint="to read remote log directories, use tiersnap scan"
        )
    path, unknown, holder = Path(each.log_dir.path), "", None
    try:
        holder = lock_holder(path)
    except OSError as error:
        unknown = error.strerror or str(error)
    meta, finding = read_meta_properties(each.log_dir.filesystem, each.log_dir)
    listed = SegmentCounts(now=now)
    if finding is not None:
        listed.findings.append(finding)
    return Examined(each.uri, each.log_dir.path, each.log_dir.is_clean, meta, disk_of(path), holder, unknown, listed)


@dataclass(frozen=True)
class Host:
    """The facts about all log directories of one host."""

    log_dirs: Sequence[Examined]
    asked_remote: bool = False  # whether remote storage was read
    errors: Sequence[TiersnapError] = ()  # failures of remote storage
    # Replicas that lost producers: (log directory, partition, lost producers).
    lost_producers: Sequence[tuple[str, str, LostProducers]] = ()

    @classmethod
    def of(
        cls,
        log_dirs: Iterable[NamedLogDir],
        partitions: Iterable[tuple[NamedLogDir, Partition]],
        inventory: Inventory | None = None,
        *,
        now: int,
    ) -> Host:
        """Return the facts about a host, from the names and sizes of the files in its log directories.

        Args:
            inventory: the remote segments; None if remote storage is not read.
            now: ms since the epoch.

        Raises:
            UsageError: a directory is on another host.
        """
        named = list(log_dirs)
        found = {each.uri: examined(each, now) for each in named}
        for each, finding in (*named_findings(named), *stray_partitions(named)):
            found[each.uri].listed.findings.append(finding)
        lost_producers = []
        for each, partition in partitions:
            tiered = NOTHING_REMOTE if inventory is None else inventory.coverage(partition)
            found[each.uri].listed.add(partition, tiered)
            if (past := read_past_end(each.log_dir.filesystem, partition)) is not None:
                found[each.uri].listed.findings.append(past)
            found[each.uri].missing += missing_snapshots(partition, tiered)
            if (
                inventory is not None
                and (lost := inventory.lost_producers(each.log_dir.filesystem, partition)) is not None
            ):
                lost_producers.append((each.uri, partition.name, lost))
        return cls(tuple(found.values()), lost_producers=lost_producers)

    @property
    def blocked(self) -> Counter[Verdict]:
        """Return the number of blocked closed segments by verdict."""
        return sum((each.listed.blocked for each in self.log_dirs), Counter())

    def waiting(self) -> list[WaitingPartition]:
        """Return the partitions with blocked segments, by verdict (worst first), then by name."""
        found: list[WaitingPartition] = []
        for each in self.log_dirs:
            found += each.listed.waiting
        return sorted(found, key=lambda waiting: (RANK[waiting.verdict], waiting.partition))

    @property
    def in_remote(self) -> Counter[Verdict]:
        """Return the number of closed segments in remote storage by verdict."""
        return sum((each.listed.in_remote for each in self.log_dirs), Counter())

    def in_remote_lines(self) -> Iterator[str]:
        """Yield a line for each verdict on segments in remote storage."""
        for verdict, number in self.in_remote.most_common():
            yield f"{count_of(number, 'segment')}: {verdict}: {MEANING[verdict]}"

    @property
    def missing(self) -> int:
        """Return the number of missing snapshots."""
        return sum(each.missing for each in self.log_dirs)

    @property
    def continued(self) -> int:
        """Return the number of partitions whose log begins in remote storage."""
        return sum(each.listed.log_starts.continued for each in self.log_dirs)

    @property
    def unlocated(self) -> dict[str, str]:
        """Return, by partition name, why the log start is unknown."""
        found: dict[str, str] = {}
        for each in self.log_dirs:
            found.update(each.listed.log_starts.unlocated)
        return found

    @property
    def lost_indexes(self) -> int:
        """Return the number of partitions with a closed segment without an .index."""
        return sum(each.listed.lost_indexes for each in self.log_dirs)

    @property
    def lost_below_log_start(self) -> int:
        """Return the number of partitions in which a segment below the log start has no .index."""
        return sum(each.listed.lost_below_log_start for each in self.log_dirs)

    @property
    def findings(self) -> list[Finding]:
        """Return the findings about damaged and unreadable files."""
        found: list[Finding] = []
        for each in self.log_dirs:
            found += each.listed.findings
        return found

    @property
    def pids(self) -> list[int]:
        """Return the ids of the processes that hold a .lock; 0 stands for a process of another container."""
        return sorted({each.holder.pid for each in self.log_dirs if each.holder})

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that decide the exit code."""
        yield from self.findings
        yield from self.errors
        yield from +self.blocked
        if self.missing:
            yield Verdict.MISSING_SNAPSHOT
        if self.lost_indexes or self.lost_below_log_start:
            yield OtherProblem.LOST_INDEX
        if self.lost_producers:
            yield OtherProblem.REPLICA_WITHOUT_PRODUCERS
        if self.unlocated:
            yield Verdict.UNKNOWN_LOG_START

    def version(self) -> str:
        """Return the broker's release, from its process or else from its files."""
        if versions := {each.release for each in self.log_dirs if each.release}:
            return f"{', '.join(sorted(versions))} (from the jar of the running process)"
        return self._version_by_files()

    def _version_by_files(self) -> str:
        meta = next((each.meta for each in self.log_dirs if each.meta), None)
        return at_least(meta, has_topic_ids=any(each.listed.has_topic_ids for each in self.log_dirs))

    @property
    def can_pause_copying(self) -> bool:
        """Return whether the brokers know remote.log.copy.disable (KIP-950, since 3.9 in KRaft mode).

        If the brokers' releases are unknown, return True. If a broker then turns out not to know the config, `unblock`
        asks the user to restart the leader.
        """
        for each in self.log_dirs:
            if each.meta is not None and not each.meta.is_kraft:
                return False
            if not each.release:
                continue
            release = tuple(map(int, re.findall("[0-9]+", each.release)))
            if release < _FIRST_WITH_PAUSE:
                return False
        return True

    @property
    def brokers(self) -> dict[tuple[int | None, str, bool], list[str]]:
        """Return the log directories by broker. A key is (node id, cluster id, whether the broker is in KRaft mode)."""
        found: dict[tuple[int | None, str, bool], list[str]] = {}
        for each in self.log_dirs:
            if each.meta is not None:
                found.setdefault((each.meta.node_id, each.meta.cluster_id, each.meta.is_kraft), []).append(each.uri)
        return found

    def bytes_per_day(self, disk: MountedDisk) -> int:
        """Return the bytes per day that brokers write to a disk."""
        return sum(each.listed.bytes_per_day for each in self.log_dirs if each.disk.mount == disk.mount)

    def full_in(self, disk: MountedDisk) -> int | None:
        """Return the ms until a disk is full if nothing is deleted; None if no broker runs or none wrote recently."""
        rate = self.bytes_per_day(disk)
        if not self.pids or not rate:
            return None
        return disk.free * DAY_MS // rate
