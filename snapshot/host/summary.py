"""A broker host: what was found in its log directories, together, and what to type about it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiersnap.snapshot.errors import TiersnapError, UsageError
from tiersnap.snapshot.exactly_once.simulate.kinds import Forgotten
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.gate.commands import Place
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.gate.next_step import Hole
from tiersnap.snapshot.gate.verdict import MEANING, Verdict
from tiersnap.snapshot.host.diagnosis import DAY_MS, SegmentCounts, at_least, missing_snapshots, read_meta_properties
from tiersnap.snapshot.host.disk import BLOCK, MountedDisk, deleted_bytes, disk_of, ways_to_free
from tiersnap.snapshot.host.running import Holder, lock_holder
from tiersnap.snapshot.host.scanned import Inventory
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir, named_findings
from tiersnap.snapshot.log.stray_partitions import stray_partitions
from tiersnap.snapshot.units import count_of, human_bytes, human_duration

# Bytes a second: of a replay, as in `simulate --risk`, and of a line of 1 Gbit/s.
_READ_RATE, _UPLOAD_RATE = 500_000_000, 100_000_000


@dataclass
class Examined:
    """One log directory."""

    uri: str
    path: str
    is_clean: bool
    meta: MetaProperties | None  # None without a readable meta.properties
    disk: MountedDisk
    holder: Holder | None  # who holds .lock; None where nobody does, or where that is not to be told
    lock_unknown: str  # why it is not to be told; empty otherwise
    listed: SegmentCounts
    missing: int = 0  # number of snapshots that `repair` would find missing


def examined(each: NamedLogDir, now: int) -> Examined:
    """A log directory without its partitions: whose it is, on which disk, and whether a broker holds it.

    Args:
        now: epoch ms.

    Raises:
        UsageError: it is not of this host.
    """
    if not each.log_dir.filesystem.is_local:
        raise UsageError(f"{each.uri}: not of this host", hint="tiersnap scan reads log directories anywhere")
    path, unknown, holder = Path(each.log_dir.path), "", None
    try:
        holder = lock_holder(path)
    except OSError as error:
        unknown = error.strerror or str(error)
    meta, finding = read_meta_properties(each.log_dir.filesystem, each.log_dir)
    listed = SegmentCounts(now=now, findings=[] if finding is None else [finding])
    return Examined(each.uri, each.log_dir.path, each.log_dir.is_clean, meta, disk_of(path), holder, unknown, listed)


@dataclass(frozen=True)
class Host:
    """All log directories of one host."""

    log_dirs: Sequence[Examined]
    # Remote storage that was asked what is tiered, with the options that say how it is reached, for a shell; "" if none
    # was.
    remote: str = ""
    errors: Sequence[TiersnapError] = ()  # why it does not say what it holds
    # Where the broker that runs keeps remote segments, likewise; "" if its settings do not tell.
    broker_remote: str = ""
    broker_server: str = ""  # the options that name it as a server, for a shell; "" likewise
    forgotten: Sequence[tuple[str, str, Forgotten]] = ()  # what replicas forgot, with their log directory and partition

    @classmethod
    def of(
        cls,
        log_dirs: Iterable[NamedLogDir],
        partitions: Iterable[tuple[NamedLogDir, Partition]],
        inventory: Inventory | None = None,
        *,
        now: int,
    ) -> Host:
        """Look at the directories and take in their partitions, of which only names and sizes count.

        Args:
            inventory: of remote storage. It is asked which segments it holds, and what replicas forgot.
            now: epoch ms.

        Raises:
            UsageError: a directory is not of this host.
        """
        named = list(log_dirs)
        found = {each.uri: examined(each, now) for each in named}
        for each, finding in (*named_findings(named), *stray_partitions(named)):
            found[each.uri].listed.findings.append(finding)
        forgotten = []
        for each, partition in partitions:
            tiered = NOTHING_REMOTE if inventory is None else inventory.coverage(partition)
            found[each.uri].listed.add(partition, tiered)
            found[each.uri].missing += missing_snapshots(partition, tiered)
            if inventory is not None and (lost := inventory.forgotten(each.log_dir.filesystem, partition)) is not None:
                forgotten.append((each.uri, partition.name, lost))
        return cls(tuple(found.values()), forgotten=forgotten)

    @property
    def blocked(self) -> Counter[Verdict]:
        """Closed segments by what stands in their way."""
        return sum((each.listed.blocked for each in self.log_dirs), Counter())

    @property
    def in_remote(self) -> Counter[Verdict]:
        """Closed segments that remote storage holds, by verdict."""
        return sum((each.listed.in_remote for each in self.log_dirs), Counter())

    def in_remote_lines(self) -> Iterator[str]:
        """Yield a line for each verdict of segments that remote storage holds."""
        for verdict, number in self.in_remote.most_common():
            yield f"{count_of(number, 'segment')}: {verdict}: {MEANING[verdict]}"

    @property
    def missing(self) -> int:
        """Number of missing snapshots."""
        return sum(each.missing for each in self.log_dirs)

    @property
    def continued(self) -> int:
        """Number of partitions whose log begins in remote storage: only with that their snapshots can be judged."""
        return sum(each.listed.continued for each in self.log_dirs)

    @property
    def unlocated(self) -> dict[str, str]:
        """Return why nothing tells where a log begins, by partition."""
        return {name: why for each in self.log_dirs for name, why in each.listed.unlocated.items()}

    @property
    def lost_indexes(self) -> int:
        """Number of partitions that have lost an .index."""
        return sum(each.listed.lost_indexes for each in self.log_dirs)

    @property
    def lost_below_log_start(self) -> int:
        """Number of partitions that have lost an .index below the log start."""
        return sum(each.listed.lost_below_log_start for each in self.log_dirs)

    @property
    def findings(self) -> list[Finding]:
        """Return what is damaged or may not be read."""
        return [finding for each in self.log_dirs for finding in each.listed.findings]

    @property
    def pids(self) -> list[int]:
        """Processes that hold a .lock; 0 stands for one of another container."""
        return sorted({each.holder.pid for each in self.log_dirs if each.holder})

    def problems(self) -> Iterator[Problem]:
        """Yield what was met."""
        yield from self.findings
        yield from self.errors
        yield from +self.blocked
        if self.missing:
            yield Verdict.MISSING_SNAPSHOT
        if self.lost_indexes or self.lost_below_log_start:
            yield OtherProblem.LOST_INDEX
        if self.forgotten:
            yield OtherProblem.REPLICA_WITHOUT_PRODUCERS
        if self.unlocated:
            yield Verdict.UNKNOWN_LOG_START

    def version(self) -> str:
        """The broker's release, by its process or else by its files."""
        versions = {each.holder.version for each in self.log_dirs if each.holder and each.holder.version}
        if versions:
            return f"{', '.join(sorted(versions))} (the jar of the running process)"
        meta = next((each.meta for each in self.log_dirs if each.meta), None)
        return at_least(meta, has_topic_ids=any(each.listed.has_topic_ids for each in self.log_dirs))

    @property
    def brokers(self) -> dict[tuple[int | None, str, bool], list[str]]:
        """Directories by the broker that they are of: node id, cluster id, whether it is in KRaft mode."""
        found: dict[tuple[int | None, str, bool], list[str]] = {}
        for each in self.log_dirs:
            if each.meta is not None:
                found.setdefault((each.meta.node_id, each.meta.cluster_id, each.meta.is_kraft), []).append(each.uri)
        return found

    def bytes_per_day(self, disk: MountedDisk) -> int:
        """Return what brokers write to a disk."""
        return sum(each.listed.bytes_per_day for each in self.log_dirs if each.disk.mount == disk.mount)

    def full_in(self, disk: MountedDisk) -> int | None:
        """Return in how many ms a disk is full if nothing is deleted; None if no broker runs, or none wrote of late."""
        rate = self.bytes_per_day(disk) if self.pids else 0
        return disk.free * DAY_MS // rate if rate else None

    def next_steps(self) -> Iterator[str]:
        """Yield the next steps, a command and what it takes per line; each broker by itself if there are several."""
        if len(self.brokers) > 1:
            for uris in self.brokers.values():
                yield f"tiersnap doctor {shlex.join(uris)}"
            return
        is_running = any(each.holder is not None for each in self.log_dirs)
        yield from self._room()
        if self.lost_below_log_start:
            yield (
                "before any start, move the files of segments away that lie below the log start and have no .index "
                f"(tiersnap repair {self._arguments} names them): a broker that starts deletes all later snapshots"
            )
        if self.lost_indexes:
            once = "stop the broker, start it and stop it again" if is_running else "start the broker once and stop it"
            yield f"{once}: it makes lost indexes again, and deletes later snapshots of these partitions as it does"
            yield f"tiersnap doctor {self._arguments}   again: what is missing by then"
        elif self.missing:
            yield from self._repair_steps(is_running=is_running)
        if self.forgotten:
            if is_running:
                yield "stop the broker before it leads what it has forgotten: it reads snapshots only when it starts"
            yield f"tiersnap repair {self._arguments} --remote {self._remote} --replace --apply"
            yield "start the broker"
        uris = [each.uri for each in self.log_dirs]
        place = Place(
            ("tier", *uris, "--remote", Hole.REMOTE), {Hole.LOG_DIRS: uris, Hole.REMOTE: ("s3://bucket/prefix",)}
        )
        if self.blocked[Verdict.TOPIC_ID_UNKNOWN] and any(each.meta and each.meta.is_kraft for each in self.log_dirs):
            yield "start no broker before partition.metadata has the topic's id: it would set the partition aside"
        for verdict in self.blocked:
            if verdict is not Verdict.MISSING_SNAPSHOT:
                yield f"{verdict}: {place.clears(verdict)}"
        server = self.broker_server or "--bootstrap-server HOST:PORT"
        if self.in_remote[Verdict.UPLOADED]:
            yield f"tiersnap publish {server} --remote {self._remote} --apply   tells brokers what is UPLOADED"
        if self.in_remote[Verdict.IN_REMOTE]:
            asks = f"tiersnap doctor {self._arguments} --remote {self._remote} {server}"
            yield f"{asks}   its records tell whether brokers know what is IN_REMOTE"
        if self.unlocated:
            yield from self._locating()
        if self.continued:
            begin = count_of(self.continued, "log begins", "logs begin")
            yield f"tiersnap verify {self._arguments} --remote {self._remote}   {begin} there: not compared here"
        if self.findings or not (self.missing or self.lost_indexes):
            yield f"tiersnap scan {self._arguments}   reads the segments as well"
        if self.broker_server and self.broker_remote and not self.remote:
            asks = f"tiersnap doctor {self._arguments} --remote {self.broker_remote} {self.broker_server}"
            yield f"{asks}   no stop; also names copies that hang, and replicas that forgot producers"

    def _repair_steps(self, *, is_running: bool) -> Iterator[str]:
        """Yield the ways to the missing snapshots: `unblock` beside a running broker, and `repair` with a stop."""
        reads = f"reads {_takes(sum(each.listed.bytes for each in self.log_dirs), _READ_RATE)}"
        if is_running:
            server = self.broker_server or "--bootstrap-server HOST:PORT"
            uploads = _takes(sum(each.listed.blocked_bytes for each in self.log_dirs), _UPLOAD_RATE)
            yield (
                f"tiersnap unblock {self._arguments} {server} --remote {self._remote} --apply   no stop; frees stuck "
                f"partitions; uploads {uploads}; without --apply: its plan"
            )
        asked = f" --remote {self._remote}" if self.continued else ""
        plan = f"{'or with a stop: ' if is_running else ''}tiersnap repair {self._arguments}{asked}"
        yield f"{plan}   no stop; {reads}; shows what it would write"
        if is_running:
            yield "stop the broker: it reads snapshots only when it starts"
        yield f"tiersnap repair {self._arguments}{asked} --apply   the broker is stopped; {reads}"
        yield "start the broker; the same on the hosts of the other replicas, before they lead"

    def _locating(self) -> Iterator[str]:
        """Yield how to tell where logs begin whose start is unknown; remote storage that was asked does not."""
        begins = count_of(len(self.unlocated), "log begins", "logs begin")
        stated = f"--log-start {next(iter(self.unlocated))}=OFFSET"
        if self.remote:
            yield f"tiersnap doctor {self._arguments} {stated}   states where it begins; remote storage does not tell"
        else:
            asks = f"tiersnap doctor {self._arguments} --remote {self._remote}"
            yield f"{asks}   tells where {begins}; or {stated} states it"

    def _room(self) -> Iterator[str]:
        """Yield what must be freed before anything else is done; a broker that finds no room stops."""
        for each in self.log_dirs:
            needed = each.missing * BLOCK  # a file takes one at least
            if each.disk.is_full or needed > each.disk.writable:
                names = f" for {count_of(each.missing, 'snapshot')}" if each.missing else ""
                first = f"free at least {human_bytes(needed)}{names} first" if needed else "free some first"
                yield f"{each.uri}: full, {first}, and what the topics write until the rest is done"
                yield from ways_to_free(each.disk, deleted_bytes(Path(each.path)))

    def checks(self) -> Iterator[str]:
        """Yield how to see that it is done: one command a line, as in `next_steps`."""
        remote = self.remote or self.broker_remote
        names = f"{self._arguments} --remote {remote}" if remote else self._arguments
        unasked = "" if remote else "; after unblock: with --bootstrap-server, which tells what is tiered"
        yield f"tiersnap doctor {names}   ends with 0{unasked}"
        yield f"tiersnap scan {names}   ends with 0, too"
        if self.blocked:
            yield "the broker's RemoteCopyLagBytes falls"

    @property
    def _remote(self) -> str:
        return self.remote or self.broker_remote or "s3://bucket/prefix"

    @property
    def _arguments(self) -> str:
        return shlex.join(each.uri for each in self.log_dirs)


def _takes(count: int, rate: int) -> str:
    """Return bytes and how long they take, with a second for the start."""
    return f"{human_bytes(count)}, about {human_duration(1000 * (1 + count // rate))}"
