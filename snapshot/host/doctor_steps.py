"""The next steps on a broker host, in order, and the commands that check their result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tiersnap.snapshot.gate import next_steps
from tiersnap.snapshot.gate.exit_code import OtherProblem
from tiersnap.snapshot.gate.printed_steps import Place, Step, commands
from tiersnap.snapshot.gate.step_template import Hole, NextStep
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.host.summary import Examined, Host
from tiersnap.snapshot.log.disk import BLOCK, deleted_bytes, ways_to_free
from tiersnap.snapshot.units import count_of, human_bytes, human_duration

# Bytes per second: assumed rates of a replay, as in `simulate --risk`, and of a 1 Gbit/s network.
_READ_RATE, _UPLOAD_RATE = 500_000_000, 100_000_000
_OR_REPAIR = NextStep("or write the snapshots while the broker is stopped: tiersnap runbook 'A stuck partition'")
_START_ALL = NextStep(
    "start the broker; then repeat these steps on the hosts of the other replicas, before those brokers become leaders"
)
_STOP = NextStep("stop the broker, because it reads snapshots only when it starts")
_RETENTION_CHECK = "within 5 minutes (log.retention.check.interval.ms)"
_LOCAL_RETENTION = NextStep(
    "lower local.retention.ms of topics with TIERED segments for a while (kafka-configs --alter): the broker deletes "
    f"the local files of these segments {_RETENTION_CHECK}. Consumers then read the segments from remote storage"
)
_DELETE_RECORDS = NextStep(
    "if the disk is still full, lower retention.ms of the largest topic for a while (kafka-configs --alter): the "
    f"broker then DELETES RECORDS {_RETENTION_CHECK}"
)


def doctor_steps(host: Host, place: Place, before: frozenset[str]) -> Iterator[Step]:
    """Yield the next steps. If the log directories belong to several brokers, yield a `doctor` command for each broker.

    Args:
        before: the commands of the steps that are printed above these steps; "" stands for a step without a command.
    """
    if len(host.brokers) > 1:
        for uris in host.brokers.values():
            yield replace(place, values={**place.values, Hole.LOG_DIRS: uris}).render(next_steps.DOCTOR)
        return
    yield from map(place.render, _steps(host, place, before))


def _steps(host: Host, place: Place, before: frozenset[str]) -> Iterator[NextStep]:
    curing = list(_curing(host, place, before))
    yield from curing
    if host.findings or not (before or curing):
        yield from _closer_looks(host, place)
    if _is_full_and_running(host):
        yield _DELETE_RECORDS


def checks(host: Host, place: Place) -> Iterator[Step]:
    """Yield the commands that check the result of the steps."""
    doctor, scan, note = next_steps.DOCTOR_REMOTE, next_steps.SCAN_REMOTE, "exit code 0"
    if not place.knows(Hole.REMOTE):
        doctor, scan = next_steps.DOCTOR, next_steps.SCAN
        note = "exit code 0 expected; add --bootstrap-server to see which segments `tiersnap unblock` tiered"
    yield place.render(replace(doctor, note=note))
    yield place.render(replace(scan, note="exit code 0"))
    if host.blocked:
        yield Step("the metric RemoteCopyLagBytes of the broker falls", "", True)


def _curing(host: Host, place: Place, before: frozenset[str]) -> Iterator[NextStep]:
    """Yield the steps that solve the host's problems."""
    if _is_full_and_running(host):
        yield from _without_room_here(host)
    yield from _room(host)
    yield from _files(host, place)
    if host.lost_producers:
        yield from _without_producers(host)
    yield from _verdicts(host, place, before)
    yield from _remote(host, is_freed=bool(before))


def _is_full_and_running(host: Host) -> bool:
    return bool(host.pids) and any(map(_lacks_room, host.log_dirs))


def _can_unblock(host: Host) -> bool:
    """Return whether `unblock` can free the segments that wait for snapshots."""
    return bool(host.pids) and host.missing > 0 and host.can_pause_copying


def _without_room_here(host: Host) -> Iterator[NextStep]:
    """Yield the steps that write no file on the full disk. After these steps, local retention frees space."""
    if _can_unblock(host):
        yield _unblock(host)
    if host.in_remote[Verdict.TIERED]:
        yield _LOCAL_RETENTION


def _without_producers(host: Host) -> Iterator[NextStep]:
    """Yield the steps for a replica that lost active producers."""
    if host.pids:
        yield _STOP
    yield from next_steps.steps_of(OtherProblem.REPLICA_WITHOUT_PRODUCERS)
    yield NextStep("start the broker")


def _closer_looks(host: Host, place: Place) -> Iterator[NextStep]:
    """Yield the commands that find further problems.

    `doctor` prints these commands if it has no other step, or if files are damaged.
    """
    if host.continued:
        begin = count_of(host.continued, "log begins", "logs begin")
        yield replace(
            next_steps.VERIFY_REMOTE, note=f"{begin} in remote storage; doctor does not compare their snapshots"
        )
    yield replace(next_steps.SCAN, note="also reads the content of the segments")
    can_ask = place.knows(Hole.CLUSTER) and place.knows(Hole.REMOTE)
    if can_ask and not host.asked_remote:
        yield replace(next_steps.DOCTOR_CLUSTER, note="also finds hung uploads, and replicas that lost producers")


def _files(host: Host, place: Place) -> Iterator[NextStep]:
    """Yield the steps that restore lost indexes and missing snapshots."""
    if host.lost_below_log_start:
        yield NextStep(
            "before the next start of the broker, move away the files of segments below the log start that have no "
            ".index. Otherwise the broker deletes all later snapshots when it starts. To see the file names:",
            next_steps.REPAIR.argv,
        )
    if host.lost_indexes:
        once = "start the broker once and stop it"
        if host.pids:
            once = "stop the broker, start it and stop it again"
        yield NextStep(
            f"{once}: at its start, the broker rebuilds lost indexes, and deletes later snapshots of these partitions"
        )
        yield replace(next_steps.DOCTOR, note="then run doctor again, and follow the new next steps")
    elif host.missing:
        yield from _missing(host, place)


def _remote(host: Host, *, is_freed: bool) -> Iterator[NextStep]:
    """Yield the steps for segments in remote storage.

    Args:
        is_freed: whether an earlier step makes a stuck copy task work again. IN_REMOTE segments are then failed
            attempts of that task.
    """
    if host.in_remote[Verdict.UPLOADED]:
        yield replace(next_steps.PUBLISH, note="publishes the UPLOADED segments")
    if host.in_remote[Verdict.IN_REMOTE] and not is_freed:
        yield replace(
            next_steps.DOCTOR_CLUSTER,
            note="reads the records, which show whether brokers know the IN_REMOTE segments",
        )
    if host.unlocated:
        yield _locating(host)


def _missing(host: Host, place: Place) -> Iterator[NextStep]:
    """Yield two ways to add missing snapshots: `unblock` with a running broker, and `repair` with a stopped broker.

    If the printed `unblock` command is complete, the `repair` step refers to the runbook instead of printing a command.
    """
    reads = f"reads {_takes(sum(each.listed.bytes for each in host.log_dirs), _READ_RATE)}"
    is_freed = _can_unblock(host)
    if is_freed:
        yield _unblock(host)
    if is_freed and place.knows(Hole.CLUSTER) and place.knows(Hole.REMOTE):
        yield _OR_REPAIR
        return
    plan, apply = next_steps.REPAIR, next_steps.REPAIR_APPLY
    if host.continued:
        plan, apply = next_steps.REPAIR_REMOTE, next_steps.REPAIR_REMOTE_APPLY
    words = "or repair while the broker is stopped; to see the plan:" if is_freed else ""
    yield replace(plan, words=words, note=f"prints the plan; {reads}")
    if host.pids:
        yield _STOP
    yield replace(apply, note="writes the missing snapshots, while the broker is stopped")
    yield _START_ALL


def _unblock(host: Host) -> NextStep:
    """Return the step that frees stuck partitions while their broker runs."""
    uploads = _takes(sum(each.listed.blocked_bytes for each in host.log_dirs), _UPLOAD_RATE)
    note = (
        f"makes stuck partitions tier again while the broker runs; uploads {uploads}; needs no disk space on this host"
    )
    return replace(next_steps.UNBLOCK, note=note)


def _verdicts(host: Host, place: Place, before: frozenset[str]) -> Iterator[NextStep]:
    """Yield the steps for blocking verdicts except MISSING_SNAPSHOT.

    Steps whose command is printed already are omitted.
    """
    if host.blocked[Verdict.TOPIC_ID_UNKNOWN] and _is_kraft(host):
        yield NextStep(
            "start no broker before partition.metadata has the topic's id: the broker would rename the "
            "partition's folder and start with an empty one"
        )
    for verdict in host.blocked:
        if verdict is not Verdict.MISSING_SNAPSHOT:
            yield from _clearing(verdict, place, before)


def _clearing(verdict: Verdict, place: Place, before: frozenset[str]) -> Iterator[NextStep]:
    first, *others = next_steps.steps_of(verdict)
    if before.isdisjoint(commands(place.steps(verdict))):
        yield replace(first, words=f"{verdict}: {first.words}".rstrip())
        yield from others


def _is_kraft(host: Host) -> bool:
    return any(each.meta is not None and each.meta.is_kraft for each in host.log_dirs)


def _locating(host: Host) -> NextStep:
    """Return the step that finds an unknown log start."""
    begins = count_of(len(host.unlocated), "log begins", "logs begin")
    stated = ("--log-start", f"{next(iter(host.unlocated))}=OFFSET")
    if host.asked_remote:
        argv = (*next_steps.DOCTOR_REMOTE.argv, *stated)
        return NextStep("", argv, "remote storage does not show the log start: replace OFFSET by the log start")
    return replace(next_steps.DOCTOR_REMOTE, note=f"finds where {begins}; or state the log start: {' '.join(stated)}")


def _room(host: Host) -> Iterator[NextStep]:
    """Yield the steps that free a full disk.

    These steps precede all steps that write to the disk, because a write to a full disk would stop the broker.
    `unblock` does not write to the disk.
    """
    for each in host.log_dirs:
        if _lacks_room(each):
            yield NextStep(f"{each.uri}: the disk is full: {_room_needed(host, each)}")
            yield from map(NextStep, ways_to_free(each.disk, deleted_bytes(Path(each.path))))


def _room_needed(host: Host, log_dir: Examined) -> str:
    if _can_unblock(host):
        return "if `tiersnap unblock` frees too little space:"
    needed = _needed(log_dir)
    first = "free some space before the next steps"
    if needed:
        first = f"free at least {human_bytes(needed)} for {count_of(log_dir.missing, 'snapshot')} before the next steps"
    return f"{first}, and more for new records"


def _needed(log_dir: Examined) -> int:
    """Return the least bytes that the missing snapshots take on disk: one block per file."""
    return log_dir.missing * BLOCK


def _lacks_room(log_dir: Examined) -> bool:
    """Return whether the disk is full, or lacks space for the missing snapshots."""
    return log_dir.disk.is_full or _needed(log_dir) > log_dir.disk.writable


def _takes(count: int, rate: int) -> str:
    """Return a text with the number of bytes (`count`), and with the time that a command takes for them.

    The time includes one second for the start of the command.

    Args:
        rate: bytes per second.
    """
    return f"{human_bytes(count)}, about {human_duration(1000 * (1 + count // rate))}"
