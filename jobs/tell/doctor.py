"""What `doctor` shows: the host as one screen, and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from tiersnap.jobs.old_options.place_proof import Compared
from tiersnap.jobs.output import Format, Output
from tiersnap.jobs.shown import shown
from tiersnap.jobs.tell.failures import tell_failures
from tiersnap.jobs.tell.missing_objects import as_records, lines_of, next_step
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer
from tiersnap.snapshot.host.summary import Examined, Host
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.units import count_of, human_bytes

MOST_TOLD = 3


def show(output: Output, host: Host, answers: Sequence[ProbeAnswer], compared: Compared | None) -> None:
    """The screen, or the document in the JSON forms.

    Args:
        host: with no log directories where none was named.
        answers: of a store; none where none was named.
        compared: with the records of a cluster; None where none was named.
    """
    if output.format is not Format.TABLE:
        output.document(as_dict(host, answers, compared), errors=host.errors)
        return
    for name, lines in sections(host, answers, compared).items():
        for number, line in enumerate(lines):
            click.echo(f"{'' if number else name:<9}{shown(line)}")
    tell_failures(output, host.errors, len(host.errors))


def sections(host: Host, answers: Sequence[ProbeAnswer], compared: Compared | None) -> dict[str, list[str]]:
    """Lines by what they are about, in the order of the screen."""
    of_remote = {"remote": [_answer_line(each) for each in answers]} if answers else {}
    of_remote |= {} if compared is None else {"records": list(lines_of(compared))}
    mending = [] if compared is None else list(next_step(compared))
    if not host.log_dirs:
        return of_remote | ({"next": mending} if mending else {})
    return {
        "broker": list(_broker(host)),
        "version": [host.version()],
        "disks": [_disk_line(each) for each in host.log_dirs],
        "running": list(_running(host)),
        "blocked": list(_blocks(host)),
        **of_remote,
        "next": [*mending, *host.next_steps()],
        "check": [host.check()],
    }


def as_dict(host: Host, answers: Sequence[ProbeAnswer], compared: Compared | None) -> dict[str, object]:
    """The same as data; `bytes` are of `.log` files."""
    has_host = bool(host.log_dirs)
    mending = [] if compared is None else list(next_step(compared))
    return {
        "log_dirs": [_row(each) for each in host.log_dirs],
        "version": host.version() if has_host else "",
        "remote": [{**asdict(each), "verdict": str(each.verdict)} for each in answers],
        "records": None if compared is None else as_records(compared),
        "findings": [finding.as_dict() for finding in host.findings],
        "next": [*mending, *(host.next_steps() if has_host else ())],
        "check": host.check() if has_host else "",
    }


def _row(each: Examined) -> dict[str, object]:
    return {
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
        "lost_indexes": each.listed.lost_indexes,
        "continued": each.listed.continued,
    }


def _broker(host: Host) -> Iterator[str]:
    known = host.brokers
    for node, cluster, is_kraft in sorted(known, key=str):
        yield f"node {node} of cluster {cluster} ({'KRaft' if is_kraft else 'ZooKeeper'})"
    if not known:
        yield "no meta.properties: a copy of a disk, or no broker's"
    if len(known) > 1:
        yield "THESE ARE DISKS OF MORE THAN ONE BROKER: name those of one"


def _running(host: Host) -> Iterator[str]:
    if host.pids:
        names = [f"process {pid}" if pid else "a process of another container" for pid in host.pids]
        yield f"yes: {', '.join(names)} holds .lock"
    for each in host.log_dirs:
        if each.lock_unknown:
            yield f"not to be told for {each.uri}: {each.lock_unknown}"
    if not host.pids and not any(each.lock_unknown for each in host.log_dirs):
        unclean = [each.uri for each in host.log_dirs if not each.is_clean]
        says = f"; not stopped cleanly, its next start recovers {', '.join(unclean)}" if unclean else ""
        yield f"no: nobody holds .lock{says}"


def _blocks(host: Host) -> Iterator[str]:
    for verdict, number in host.blocked.most_common():
        yield f"{count_of(number, 'segment')}: {verdict}"
    if host.missing and Verdict.MISSING_SNAPSHOT not in host.blocked:
        yield f"{count_of(host.missing, 'snapshot is', 'snapshots are')} missing"
    if host.lost_indexes:
        yield f"{count_of(host.lost_indexes, 'partition has', 'partitions have')} lost an .index"
    waiting = sum(each.listed.blocked_bytes for each in host.log_dirs)
    if waiting:
        yield f"{human_bytes(waiting)} wait for that"
    for each in host.log_dirs:
        if each.disk.is_read_only:
            yield f"{each.uri}: its file system is mounted read-only"
    findings = host.findings
    yield from map(str, findings[:MOST_TOLD])
    if len(findings) > MOST_TOLD:
        yield f"… and {count_of(len(findings) - MOST_TOLD, 'finding')} more: tiersnap scan"
    if not (waiting or findings or host.missing or host.lost_indexes):
        yield "nothing, by the names of the files; whether they are right, scan tells"


def _disk_line(each: Examined) -> str:
    disk = each.disk
    kind = " ".join(filter(None, (disk.device, disk.kind)))
    full = ", NEARLY FULL" if disk.is_nearly_full else ""
    return (
        f"{each.uri}: {disk.percent_full} % full{full}, {disk.says_free()} of {human_bytes(disk.total)} free on "
        f"{disk.mount} ({kind}); {count_of(each.listed.partitions, 'partition')}, {human_bytes(each.listed.bytes)}"
    )


def _answer_line(answer: ProbeAnswer) -> str:
    said = f"{answer.probe}: {answer.verdict}, {answer.message}"
    return f"{said}; {answer.next_step}" if answer.next_step else said
