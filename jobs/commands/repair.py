"""`tiersnap repair`: rebuild the missing snapshots of one host, without Spark or Java."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import again, command_place
from tiersnap.jobs.cli.option_types import LocalPath
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.sentences import of_not_compared, of_unknown_beginnings, with_remote
from tiersnap.jobs.cli.situation_options import log_dirs_options
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.repair.repair_action import PlannedFile, PlannedSnapshot, RepairAction
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.snapshot.repair.log_dirs import HostRepair
    from tiersnap.snapshot.repair.partition import OpenFiles

# Actions without a next step, and their reasons. `repair` prints them, so that its counts add up to the number of rows.
_LEFT_ALONE = {
    "STRAY": "no segment begins at their offsets, and the broker deletes them at its next start",
    "NEVER_TIERED": "their topics are compacted or internal, and brokers do not tier such topics",
}


@dataclass(frozen=True, slots=True)
class RepairedSnapshot:
    """A snapshot that `repair` writes or reports. Snapshots that are already right are only counted."""

    COLUMNS: ClassVar = {
        "partition": "partition",
        "offset": "offset",
        "action": "action",
        "producers": "producers",
        "provenance": "provenance",
        "why": "reason",
    }
    log_dir: str
    partition: str
    snapshot: PlannedSnapshot

    @property
    def why(self) -> str:
        """Return the reason for the action."""
        return self.snapshot.reason


@dataclass(frozen=True, slots=True)
class RepairedFile:
    """A damaged or missing index, leader-epoch-checkpoint or partition.metadata that `repair` writes or reports."""

    log_dir: str
    partition: str
    planned: PlannedFile

    @property
    def offset(self) -> int | None:
        """Return the base offset of the index's segment; None if the file is no index."""
        return self.planned.base_offset

    @property
    def why(self) -> str:
        """Return the name of the file, and the reason for the action."""
        return f"{self.planned.file}: {self.planned.reason}"


@command(RepairedSnapshot, RepairedFile)
@log_dirs_options
@click.option("--out", type=LocalPath(file_okay=False), help="Write the files below this directory, not into LOGDIR.")
@click.option(
    "--all", "every_boundary", is_flag=True, help="Write a snapshot for the end of every segment; needs --out."
)
@opt.expiration_option
@opt.as_of_option
@click.option("--replace", is_flag=True, help="Replace files of the broker that are CORRUPT or SUSPECT.")
@click.option(
    "--above-newest", is_flag=True, help="Write snapshots also above the newest snapshot that the broker can load."
)
@opt.topic_ids_option
@opt.cluster_options("Running broker of the cluster. repair asks it for topic ids that LOGDIR lost.")
@opt.selection_options
@opt.crc_option
@opt.broker_expiry_options
@opt.apply_option("Write to LOGDIR; the broker must be stopped.")
@opt.remote_view_options(opt.OF_BEGINNINGS, click.option)
@opt.log_start_option
def repair(
    output: Output,
    log_dirs: tuple[str, ...],
    out: Path | None,
    every_boundary: bool,
    expiration: int | None,
    as_of: int | None,
    replace: bool,
    above_newest: bool,
    topic_ids: Path | None,
    cluster: opt.Cluster | None,
    selection: opt.Selection,
    check_crc: bool,
    broker_expiry: opt.BrokerExpiry,
    apply: bool,
    view: opt.RemoteView,
    log_starts: opt.LogStarts,
) -> int:
    """Rebuild the producer snapshots that LOGDIR lacks. Replay the segments as a broker does.

    tiersnap repair /var/lib/kafka/data
    tiersnap repair --server-properties /etc/kafka/server.properties --apply
    tiersnap repair /var/lib/kafka/data --out rebuilt --all

    LOGDIR is an entry of log.dirs. Give all disks of the broker in one call: separate them with blanks or commas, or
    use a glob. By default the directories come from --server-properties, or from the settings of the running broker.

    The command prints the plan. --apply writes the files to LOGDIR. --out DIR writes them to DIR/<topic>-<partition>/,
    and does not change LOGDIR.

    If a log begins in remote storage, give --remote: it provides the producer state at the first local segment. Without
    --remote, snapshots of such a log are neither verified nor written.

    You can repeat the command: it keeps files that are right. If the command is killed, it leaves only complete files.

    The command also repairs other files after a power loss. The topic id in partition.metadata comes from --topic-ids,
    from --bootstrap-server or from __cluster_metadata in LOGDIR. Leader epochs and indexes come from the batches. The
    command writes such a file if it is missing or empty. It replaces a wrong file only with --replace.
    """
    from tiersnap.jobs.cli.text_files import read_topic_ids
    from tiersnap.jobs.situation.known_topic_ids import KnownTopicIds
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.log_start import with_stated
    from tiersnap.snapshot.log.refuse_log_dir import refuse_log_dir
    from tiersnap.snapshot.log.selection import count, open_log_dirs, refuse_twice, selected_of, twice
    from tiersnap.snapshot.repair.files import elsewhere, in_place, nowhere
    from tiersnap.snapshot.repair.log_dirs import HostRepair, all_locked
    from tiersnap.snapshot.repair.other_files import FileRepair
    from tiersnap.snapshot.repair.repair_plan import PlanOptions
    from tiersnap.snapshot.replay.folds_ahead import FoldsAhead

    _check_out(out, apply=apply, every_boundary=every_boundary)
    expires = opt.expiry(expiration, as_of, broker_expiry)
    if out is not None:
        refuse_log_dir(out, "--out")
    opened = with_stated(open_log_dirs(log_dirs), log_starts)
    if out is None:
        refuse_twice(opened)
    elif both := next(twice(opened, selection), None):
        raise UsageError(
            f"{both[0]} exists in two of the log directories, but --out has only one folder per partition",
            hint="repair one log directory at a time",
        )
    options = PlanOptions(expires, broker_expiry.expiration, every_boundary, replace, above_newest)
    open_files: OpenFiles = nowhere
    if out is not None:
        open_files = partial(elsewhere, out, replace)
    elif apply:
        open_files = in_place
    writes = apply or out is not None
    progress = Progress(output, "repairing" if writes else "planning", count(opened, selection))
    beginnings = view.beginnings(broker_expiry)
    with all_locked(opened) if apply else nullcontext(), FoldsAhead(check_crc=check_crc) as folds:
        ids = KnownTopicIds(read_topic_ids(topic_ids), cluster, opened)
        files = None if out is not None else FileRepair(replace, ids.find, apply=apply)
        job = HostRepair(opened, options, check_crc, beginnings, files=files)

        def rows() -> Iterator[RepairedSnapshot | RepairedFile]:
            partitions = progress.watch(folds.listed(selected_of(opened, selection)))
            for each, part, plan, others in job.plans(partitions, open_files, folds):
                for planned in plan:
                    if planned.action is not RepairAction.KEEP:
                        yield RepairedSnapshot(each.uri, part.name, planned)
                for other in others:
                    yield RepairedFile(each.uri, part.name, other)

        kind: type[Any] = RepairedSnapshot
        output.rows(kind, rows(), several=len(opened) > 1, findings=job.findings, errors=job.errors)
    for error in job.errors:
        output.warn(error.message)
        if error.hint:
            output.warn(f"  {error.hint}")
    for each in opened:
        for other in each.log_dir.others:
            output.talk(f"left alone: {other.name} ({other.state})")
    output.talk(*_written(job, writes=writes, in_place=apply), *_waiting(job), *job.undone)
    return exit_code_of(job.problems())


def _check_out(out: Path | None, *, apply: bool, every_boundary: bool) -> None:
    if apply and out is not None:
        raise UsageError("--apply writes into LOGDIR, and --out writes elsewhere: give only one of them")
    if every_boundary and out is None:
        raise UsageError("--all would write files that already exist in LOGDIR: add --out DIR to write them elsewhere")


def _written(repair: HostRepair, *, writes: bool, in_place: bool) -> Iterator[str]:
    count, files = map(_count_written, (repair.actions, repair.file_actions))
    yield from _snapshots(repair, count, writes=writes, has_files=files > 0)
    if files:
        state = "written" if writes else "to write; nothing was written yet"
        yield f"{_of_small_files(files)} {state}"
    if count + files and not repair.undone:
        yield from _next_of(repair, writes=writes, in_place=in_place)
    yield from _unwritten(repair, in_place=in_place)


def _of_small_files(count: int) -> str:
    return f"{count_of(count, 'index, checkpoint or metadata file', 'index, checkpoint and metadata files')}:"


def _count_written(actions: Mapping[RepairAction, int]) -> int:
    return actions[RepairAction.WRITE] + actions[RepairAction.REPLACE]


def _next_of(repair: HostRepair, *, writes: bool, in_place: bool) -> Iterator[str]:
    """Yield the next step after a plan with files to write, or after the files were written."""
    from tiersnap.snapshot.gate.next_steps import DOCTOR

    if not writes:
        yield f"next: stop the broker, then {again('--apply')}"
    elif in_place and not repair.errors:
        doctor = command_place([each.uri for each in repair.log_dirs]).text(DOCTOR)
        yield f"next: start the broker, repair the hosts of the other replicas in the same way, then {doctor}"


def _snapshots(repair: HostRepair, count: int, *, writes: bool, has_files: bool) -> Iterator[str]:
    kept = repair.actions[RepairAction.KEEP]
    right = count_of(kept, "existing snapshot is", "existing snapshots are")
    beginnings, not_compared = repair.beginnings, repair.actions[RepairAction.NOT_COMPARED]
    is_complete = not any((beginnings.unknown, beginnings.unlocated, not_compared))
    if writes and count:
        yield f"{count_of(count, 'snapshot is', 'snapshots are')} written, {kept} existing ones were right already"
    elif count:
        yield f"{count_of(count, 'snapshot')} to write, {kept} existing ones are right; nothing was written yet"
        yield from _needed_room(repair)
    elif repair.errors:
        yield f"nothing was written; {right} right"
    elif has_files:
        yield f"{right} right"
    elif kept or is_complete:
        yield f"nothing to write: {right} right"


def _needed_room(repair: HostRepair) -> Iterator[str]:
    from tiersnap.snapshot.repair.log_dirs import is_local

    for each in repair.log_dirs:
        if repair.needed[each.uri] and is_local(each):
            yield from _room(repair.needed[each.uri], Path(each.log_dir.path))


def _unwritten(repair: HostRepair, *, in_place: bool) -> Iterator[str]:
    for each in repair.log_dirs:
        if unwritten := repair.unwritten[each.uri]:
            yield f"{each.uri}: {count_of(unwritten, 'snapshot was', 'snapshots were')} not written: the disk is full"
            if in_place:
                yield from _room(repair.lacking[each.uri], Path(each.log_dir.path))
                yield f"next: {again()}"


def _room(needed: int, log_dir: Path) -> Iterator[str]:
    """Yield a message with the needed and the free bytes. If too few bytes are free, yield ways to free more."""
    from tiersnap.snapshot.log.disk import deleted_bytes, disk_of, says_space, ways_to_free

    yield says_space(needed, log_dir)
    disk = disk_of(log_dir)
    if needed > disk.writable:
        yield from ways_to_free(disk, deleted_bytes(log_dir))


def _waiting(repair: HostRepair) -> Iterator[str]:
    if wrong := repair.actions[RepairAction.NEEDS_REPLACE]:
        yield f"{count_of(wrong, 'snapshot is', 'snapshots are')} wrong; to replace them: {again('--replace')}"
    if wrong := repair.file_actions[RepairAction.NEEDS_REPLACE]:
        yield f"{_of_small_files(wrong)} wrong; to replace: {again('--replace')}"
    if lost := repair.file_actions[RepairAction.NOT_TOLD]:
        yield f"{_of_small_files(lost)} lost, and repair found no source of the content"
    if unread := repair.actions[RepairAction.UNVERIFIED]:
        yield f"{count_of(unread, 'snapshot')} could not be read: run this command as the user that runs the broker"
    if unknown := repair.actions[RepairAction.NO_START]:
        yield from _without_start(repair, unknown)
    if count := repair.actions[RepairAction.NOT_COMPARED]:
        yield of_not_compared(count, with_remote(), is_certain=not repair.beginnings.unlocated)
    yield from of_unknown_beginnings(repair.beginnings)
    if above := repair.actions[RepairAction.ABOVE_NEWEST]:
        yield (
            f"{count_of(above, 'snapshot is', 'snapshots are')} not written: their offsets are above the newest "
            "snapshot that the broker can load. Either start the broker, which then writes the last two snapshots; "
            "stop the broker, and repair again. Or add --above-newest to write these snapshots: at its next start the "
            "broker then loads the highest snapshot"
        )
    for name, why in _LEFT_ALONE.items():
        action = RepairAction(name)
        if left := repair.actions[action]:
            yield f"{count_of(left, 'snapshot is', 'snapshots are')} {action}: {why}"


def _without_start(repair: HostRepair, count: int) -> Iterator[str]:
    """Yield the reason why `count` snapshots cannot be computed: the producer state before them is unknown."""
    from tiersnap.snapshot.log.log_dir import LOG_START_OFFSETS

    for each in repair.log_dirs:
        if not each.log_dir.checkpoints.log_starts_are_known:
            yield (
                f"{each.uri}: {LOG_START_OFFSETS} cannot be read, so the log starts are unknown. Start the broker: the "
                "broker writes the file again within a minute. Then stop the broker, and repair again"
            )
    if any(finding.finding_kind is FindingKind.OFFSETS_MISSING for finding in repair.findings):
        yield (
            f"{count_of(count, 'snapshot')} cannot be computed: an earlier segment is lost; copy that segment "
            "from another replica"
        )
        return
    reason = (
        f"{count_of(count, 'snapshot')} cannot be computed: the producer state before the first local segment is "
        "unknown on this host"
    )
    if repair.beginnings.find is not None:
        yield f"{reason}, and remote storage does not have it either"
    elif repair.beginnings.unlocated:
        yield f"{reason}; next: {with_remote()}"
    else:
        yield f"{reason}, but remote storage may have it; next: {with_remote()}"
