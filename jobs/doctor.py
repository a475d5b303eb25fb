"""`tiersnap doctor`: the state of a broker host on one screen, and what to type."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tiersnap.jobs import doctor_remote
from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import log_dirs_argument
from tiersnap.jobs.options.once import once
from tiersnap.jobs.options.remote import s3_options
from tiersnap.jobs.output import Format, Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.shown import shown
from tiersnap.remote_storage.probe.answer import ProbeAnswer
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.gate.readiness import NEXT_STEP, Verdict
from tiersnap.snapshot.host.diagnosis import Listed, at_least, missing_snapshots, read_meta_properties
from tiersnap.snapshot.host.disk import Disk, disk_of
from tiersnap.snapshot.host.running import Holder, lock_holder
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, count, open_log_dirs, selected_of
from tiersnap.snapshot.units import human_bytes

FULL_PERCENT = 90
MOST_TOLD = 3


@dataclass
class Examined:
    """One log directory."""

    uri: str
    is_clean: bool
    meta: MetaProperties | None
    disk: Disk
    holder: Holder | None
    lock_unknown: str
    listed: Listed
    missing: int = 0


@click.command()
@log_dirs_argument("LOGDIR", required=False)
@once("--remote", help="Ask remote storage as well, or alone: s3://bucket/prefix, or a directory.")
@s3_options
@params.output_option
@click.pass_obj
def doctor(output: Output, log_dirs: tuple[str, ...], remote: str | None, s3: S3Settings) -> int:
    """Say on one screen which broker this is, whether it runs, how full its disks are, what blocks, and what to type.

    LOGDIR are all entries of the broker's log.dirs, with blanks or commas between them, or as a glob. Only names and
    small files are read, so it takes seconds whatever the size of the disks; `scan` reads the segments. Exits 5 when
    something is damaged, 6 when something may not be read, 4 when segments wait, 0 otherwise.

    --remote asks a store for what tiersnap relies on: conditional writes, checksums, Object Lock, lifecycle rules, its
    clock. It writes under claims/probe- alone and removes that. Exits 2 when the store is not to be trusted as it is.
    """
    if not log_dirs and remote is None:
        raise UsageError("nothing to look at", hint="name the entries of log.dirs, or --remote s3://bucket/prefix")
    answers = doctor_remote.asked(remote, s3)
    host = Host(_look(output, log_dirs) if log_dirs else (), answers)
    if output.format is Format.TABLE:
        for name, lines in host.sections().items():
            for number, line in enumerate(lines):
                click.echo(f"{'' if number else name:<9}{shown(line)}")
    else:
        output.document("doctor", host.as_dict())
    return host.exit_code


def _look(output: Output, log_dirs: tuple[str, ...]) -> tuple[Examined, ...]:
    opened = open_log_dirs(log_dirs)
    progress = Progress(output, "listing", count(opened, Selection()))
    found = {each.uri: _examined(each) for each in opened}
    for each, partition in progress.watch(selected_of(opened, Selection())):
        found[each.uri].listed.add(partition)
        found[each.uri].missing += missing_snapshots(partition)
    return tuple(found.values())


def _examined(each: NamedLogDir) -> Examined:
    if each.log_dir.filesystem.type_name != "local":
        raise UsageError(f"{each.uri}: not of this host", hint="tiersnap scan reads log directories anywhere")
    path, unknown, holder = Path(each.log_dir.path), "", None
    try:
        holder = lock_holder(path)
    except OSError as error:
        unknown = error.strerror or str(error)
    meta, finding = read_meta_properties(each.log_dir.filesystem, each.log_dir)
    listed = Listed(findings=[*each.log_dir.findings, *([] if finding is None else [finding])])
    return Examined(each.uri, each.log_dir.is_clean, meta, disk_of(path), holder, unknown, listed)


@dataclass(frozen=True)
class Host:
    """All that was found, in words and as data."""

    log_dirs: Sequence[Examined]
    remote: Sequence[ProbeAnswer] = ()

    @property
    def _blocked(self) -> Counter[Verdict]:
        return sum((each.listed.blocked for each in self.log_dirs), Counter())

    @property
    def _missing(self) -> int:
        return sum(each.missing for each in self.log_dirs)

    @property
    def _findings(self) -> list[Finding]:
        return [finding for each in self.log_dirs for finding in each.listed.findings]

    @property
    def _is_running(self) -> bool:
        return any(each.holder is not None for each in self.log_dirs)

    @property
    def exit_code(self) -> ExitCode:
        """5 for damage, 6 for what may not be read, 4 for segments that wait."""
        kinds = {finding.kind is FindingKind.PERMISSION_DENIED for finding in self._findings}
        if False in kinds:
            return ExitCode.DATA_CORRUPT
        if kinds:
            return ExitCode.PARTIAL
        if self._blocked or self._missing:
            return ExitCode.GATE_REFUSED
        return doctor_remote.exit_code_of(self.remote)

    def sections(self) -> dict[str, list[str]]:
        """Lines by what they are about, in the order of the screen."""
        of_remote = {"remote": doctor_remote.lines(self.remote)} if self.remote else {}
        return (
            of_remote
            if not self.log_dirs
            else {
                "broker": list(self._broker()),
                "version": [self._version()],
                "disks": [_disk_line(each) for each in self.log_dirs],
                "running": list(self._running()),
                "blocked": list(self._blocks()),
                **of_remote,
                "next": list(self._next()),
                "check": [self._check()],
            }
        )

    def as_dict(self) -> dict[str, object]:
        """The same as data; `bytes` are of `.log` files."""
        return {
            "log_dirs": [
                {
                    "log_dir": each.uri,
                    "cluster_id": None if each.meta is None else each.meta.cluster_id,
                    "node_id": None if each.meta is None else each.meta.node_id,
                    "directory_id": None if each.meta is None else each.meta.directory_id,
                    "is_clean": each.is_clean,
                    "is_running": None if each.lock_unknown else each.holder is not None,
                    "pid": None if each.holder is None else each.holder.pid,
                    "version": None if each.holder is None else each.holder.version,
                    "mount": each.disk.mount,
                    "disk_bytes": each.disk.total,
                    "free_bytes": each.disk.free,
                    "partitions": each.listed.partitions,
                    "segments": each.listed.segments,
                    "bytes": each.listed.bytes,
                    "blocked": {str(verdict): number for verdict, number in each.listed.blocked.items()},
                    "blocked_bytes": each.listed.blocked_bytes,
                    "missing_snapshots": each.missing,
                }
                for each in self.log_dirs
            ],
            "version": self._version() if self.log_dirs else "",
            "remote": doctor_remote.rows(self.remote),
            "findings": [finding.as_dict() for finding in self._findings],
            "next": list(self._next()) if self.log_dirs else [],
            "check": self._check() if self.log_dirs else "",
        }

    @property
    def _arguments(self) -> str:
        return shlex.join(each.uri for each in self.log_dirs)

    def _broker(self) -> Iterator[str]:
        known = {(each.meta.node_id, each.meta.cluster_id, each.meta.is_kraft) for each in self.log_dirs if each.meta}
        for node, cluster, is_kraft in sorted(known, key=str):
            yield f"node {node} of cluster {cluster} ({'KRaft' if is_kraft else 'ZooKeeper'})"
        if not known:
            yield "no meta.properties: a copy of a disk, or no broker's"
        if len(known) > 1:
            yield "THESE ARE DISKS OF MORE THAN ONE BROKER: name those of one"

    def _version(self) -> str:
        versions = {each.holder.version for each in self.log_dirs if each.holder and each.holder.version}
        if versions:
            return f"{', '.join(sorted(versions))} (the jar of the running process)"
        meta = next((each.meta for each in self.log_dirs if each.meta), None)
        return at_least(meta, has_topic_ids=any(each.listed.has_topic_ids for each in self.log_dirs))

    def _running(self) -> Iterator[str]:
        pids = sorted({each.holder.pid for each in self.log_dirs if each.holder})
        if pids:
            names = [f"process {pid}" if pid else "a process of another container" for pid in pids]
            yield f"yes: {', '.join(names)} holds .lock"
        for each in self.log_dirs:
            if each.lock_unknown:
                yield f"not to be told for {each.uri}: {each.lock_unknown}"
        if not pids and not any(each.lock_unknown for each in self.log_dirs):
            unclean = [each.uri for each in self.log_dirs if not each.is_clean]
            says = f"; not stopped cleanly, its next start recovers {', '.join(unclean)}" if unclean else ""
            yield f"no: nobody holds .lock{says}"

    def _blocks(self) -> Iterator[str]:
        for verdict, number in self._blocked.most_common():
            yield f"{number} segments: {verdict}"
        if self._missing and Verdict.MISSING_SNAPSHOT not in self._blocked:
            yield f"{self._missing} snapshots are missing"
        waiting = sum(each.listed.blocked_bytes for each in self.log_dirs)
        if waiting:
            yield f"{human_bytes(waiting)} wait for that"
        for each in self.log_dirs:
            if each.disk.is_read_only:
                yield f"{each.uri}: its file system is mounted read-only"
        findings = self._findings
        yield from map(str, findings[:MOST_TOLD])
        if len(findings) > MOST_TOLD:
            yield f"… and {len(findings) - MOST_TOLD} findings more: tiersnap scan"
        if not waiting and not findings and not self._missing:
            yield "nothing, by the names of the files; whether they are right, scan tells"

    def _next(self) -> Iterator[str]:
        if self._missing:
            plan = f"tiersnap repair {self._arguments}"
            yield f"{plan}   shows what it would write"
            if self._is_running:
                yield "stop the broker: it reads snapshots only when it starts"
            yield f"{plan} --apply"
            yield "start the broker; the same on the hosts of the other replicas, before they lead"
        for verdict in self._blocked:
            if verdict is not Verdict.MISSING_SNAPSHOT:
                yield f"{verdict}: {NEXT_STEP[verdict]}"
        if not self._missing or self._findings:
            yield f"tiersnap scan {self._arguments}   reads the segments as well"

    def _check(self) -> str:
        return f"tiersnap scan {self._arguments} ends with exit code 0; the broker's RemoteCopyLagBytes falls"


def _disk_line(each: Examined) -> str:
    disk = each.disk
    kind = " ".join(filter(None, (disk.device, disk.kind)))
    full = ", NEARLY FULL" if disk.percent_full >= FULL_PERCENT else ""
    return (
        f"{each.uri}: {disk.percent_full} % full{full}, {human_bytes(disk.free)} of {human_bytes(disk.total)} free on "
        f"{disk.mount} ({kind}); {each.listed.partitions} partitions, {human_bytes(each.listed.bytes)}"
    )
