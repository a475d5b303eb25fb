"""The lines of `doctor` about a host: its broker, disks and log directories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tiersnap.jobs.cli.sentences import of_unlocated
from tiersnap.jobs.commands.doctor.cluster import first_lines
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES
from tiersnap.snapshot.host.waiting import WaitingPartition
from tiersnap.snapshot.units import count_of, human_bytes, human_duration

if TYPE_CHECKING:
    from tiersnap.snapshot.host.summary import Examined, Host

_MOST_FINDINGS = 3
_FAR_MS = 365 * 86_400_000


def lines_of_host(host: Host, blocking: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines of each section, in the order of the screen; `blocking` are obstacles to copying."""
    disks: list[str] = []
    for each in host.log_dirs:
        disks += _disk_lines(host, each)
    return {
        "blocked": [*blocking, *_blocks(host, has_others=bool(blocking))],
        "broker": list(_broker(host)),
        "version": [host.version()],
        "disks": disks,
        "running": list(_running(host)),
        "tiered": list(host.in_remote_lines()),
    }


def _broker(host: Host) -> Iterator[str]:
    known = host.brokers
    for node, cluster, is_kraft in sorted(known, key=str):
        yield f"node {node} of cluster {cluster} ({'KRaft' if is_kraft else 'ZooKeeper'})"
    if not known:
        yield _without_broker(host)
    if len(known) > 1:
        yield "THESE DISKS BELONG TO MORE THAN ONE BROKER: give only the log.dirs of one broker"


def _without_broker(host: Host) -> str:
    for log_dir in host.log_dirs:
        for finding in log_dir.listed.findings:
            if finding.path.endswith(f"/{META_PROPERTIES}"):
                return f"unknown: {finding.message}"
    return "no meta.properties: a copy of a broker's disk, or no log directory of a broker"


def _running(host: Host) -> Iterator[str]:
    unknown = [f"unknown for {each.uri}: {each.lock_unknown}" for each in host.log_dirs if each.lock_unknown]
    if host.pids:
        yield f"yes: {', '.join(map(_process, host.pids))} holds the lock file .lock"
    elif not unknown:
        yield _stopped(host)
    yield from unknown


def _process(pid: int) -> str:
    return f"process {pid}" if pid else "a process of another container"


def _stopped(host: Host) -> str:
    unclean = [each.uri for each in host.log_dirs if not each.is_clean]
    said = "no: no process holds the lock file .lock"
    if unclean:
        said += f"; the broker was not stopped cleanly, and its next start recovers {', '.join(unclean)}"
    return said


def _blocks(host: Host, *, has_others: bool) -> Iterator[str]:
    from tiersnap.snapshot.gate.verdict import RANK, Verdict

    for verdict in sorted(host.blocked, key=RANK.__getitem__):
        yield f"{count_of(host.blocked[verdict], 'segment')}: {verdict}"
    if host.missing and Verdict.MISSING_SNAPSHOT not in host.blocked:
        yield f"{count_of(host.missing, 'snapshot is', 'snapshots are')} missing"
    if host.lost_indexes:
        yield f"{count_of(host.lost_indexes, 'partition has', 'partitions have')} segments without an .index file"
    yield from of_unlocated(host.unlocated, remote=not host.asked_remote)
    waiting = host.waiting()
    yield from _waiting(waiting)
    for each in host.log_dirs:
        if each.disk.is_read_only:
            yield f"{each.uri}: the file system is mounted read-only"
    findings = host.findings
    yield from map(str, findings[:_MOST_FINDINGS])
    if len(findings) > _MOST_FINDINGS:
        yield f"… and {count_of(len(findings) - _MOST_FINDINGS, 'finding')} more: tiersnap scan prints all"
    if unpublished := host.in_remote[Verdict.UPLOADED]:
        yield (
            f"{count_of(unpublished, 'segment')}: {Verdict.UPLOADED}: tiersnap uploaded them, and no "
            "COPY_SEGMENT_FINISHED record of them is known"
        )
    if not any((has_others, waiting, findings, host.missing, host.lost_indexes, host.unlocated, unpublished)):
        yield "nothing, judged by the names of the files; tiersnap scan also reads their content"


def _waiting(partitions: Sequence[WaitingPartition]) -> Iterator[str]:
    if partitions:
        yield f"{human_bytes(sum(each.bytes for each in partitions))} of segments wait to be tiered"
    yield from first_lines(partitions, _line_of_waiting, "partition")


def _line_of_waiting(at: WaitingPartition) -> str:
    return f"{at.partition}: {count_of(at.segments, 'segment')}, {human_bytes(at.bytes)}, {at.verdict}"


def lines_of_replicas(host: Host) -> Iterator[str]:
    """Yield a line for each of the first MOST_LINES replicas without producers. The last line counts the others."""
    return first_lines(host.lost_producers, lambda replica: replica[2].says(replica[1]), "replica")


def _disk_lines(host: Host, each: Examined) -> Iterator[str]:
    disk, full_in = each.disk, host.full_in(each.disk)
    kind = " ".join(filter(None, (disk.device, disk.kind)))
    full = ", NEARLY FULL" if disk.is_nearly_full else ""
    yield (
        f"{each.uri}: {disk.percent_full} % full{full}, {disk.says_free()} of {human_bytes(disk.total)} free on "
        f"{disk.mount} ({kind}); {count_of(each.listed.partitions, 'partition')}, {human_bytes(each.listed.bytes)}"
    )
    if full_in is not None and full_in < _FAR_MS:
        rate = human_bytes(host.bytes_per_day(disk))
        yield f"full in {human_duration(full_in)} if brokers keep writing {rate} a day and nothing is deleted"
