"""`tiersnap repair`: the missing snapshots of one host, without Spark or Java."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import log_dirs_argument, partition_option
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.gate.examine import Examination, examine
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.hands_off import refuse_log_dir
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, count, open_log_dirs, selected_of, twice
from tiersnap.snapshot.repair.files import elsewhere, in_place, nowhere
from tiersnap.snapshot.repair.plan import PlannedSnapshot, Planner, PlanOptions, RepairAction, Write
from tiersnap.snapshot.repair.space import on_disk, says_space
from tiersnap.snapshot.state.partition_replay import snapshot_reader


@click.command()
@log_dirs_argument("LOGDIR")
@click.option("--out", type=LocalPath(file_okay=False), help="Write below this directory instead.")
@click.option("--all", "every_boundary", is_flag=True, help="With --out: every boundary, also those that have a file.")
@params.expiration_option
@params.as_of_option
@click.option("--replace", is_flag=True, help="Also replace files that are CORRUPT or SUSPECT.")
@click.option("--above-newest", is_flag=True, help="Also write above the newest snapshot that is there.")
@params.topic_option
@partition_option
@params.crc_option
@params.producer_expiration_option
@params.now_option
@click.option("--apply", is_flag=True, help="Write into LOGDIR; the broker must be stopped.")
@params.output_option
@click.pass_obj
def repair(
    output: Output,
    log_dirs: tuple[str, ...],
    out: Path | None,
    every_boundary: bool,
    expiration: int | None,
    as_of: int | None,
    replace: bool,
    above_newest: bool,
    topic: re.Pattern[str] | None,
    partitions: tuple[TopicPartition, ...],
    check_crc: bool,
    producer_expiration: int | None,
    now: int,
    apply: bool,
) -> int:
    """Rebuild the producer snapshots that LOGDIR lacks, by replaying its segments as a broker does.

    LOGDIR is an entry of log.dirs; several may be given, with blanks or commas between them, or as a glob: all disks
    of the broker in one call. Shows the plan. --apply writes it into LOGDIR, --out DIR writes it to
    DIR/<topic>-<partition>/ and leaves LOGDIR alone. Running it again does nothing twice; killed anywhere, it leaves
    whole files only.
    """
    if apply and out is not None:
        raise UsageError("--apply writes into LOGDIR and --out elsewhere: give one of them")
    if every_boundary and out is None:
        raise UsageError("--all writes boundaries that have a file already: give --out DIR to write them elsewhere")
    expiry = params.expiry(expiration, as_of, now, producer_expiration)
    options = PlanOptions(expiry, producer_expiration, every_boundary, replace, above_newest)
    if out is not None:
        refuse_log_dir(out, "--out")
    opened, selection = open_log_dirs(log_dirs), Selection(topic, frozenset(partitions))
    progress = Progress(output, "repairing" if apply or out else "planning", count(opened, selection))

    def plan(open_files: OpenFiles) -> Iterator[Repair]:
        return _plan_all(progress.watch(selected_of(opened, selection)), options, check_crc, open_files)

    if apply:
        with ExitStack() as locks:
            # All of them first: a broker holds the locks of all its disks, and half a repair helps nobody.
            for each in opened:
                locks.enter_context(locked(_local(each)))
            return _report(output, opened, plan(in_place), wrote=True)
    if out is not None:
        if name := twice(opened, selection):
            raise UsageError(f"{name} is in two of the log directories: --out has one place for it", hint="repair each")
        return _report(output, opened, plan(partial(elsewhere, out, replace)), wrote=True)
    return _report(output, opened, plan(nowhere), wrote=False)


Repair = tuple[NamedLogDir, Examination, list[PlannedSnapshot]]
OpenFiles = Callable[[Partition], AbstractContextManager[Write | None]]


def _plan_all(
    partitions: Iterator[tuple[NamedLogDir, Partition]],
    options: PlanOptions,
    check_crc: bool,
    open_files: OpenFiles,
) -> Iterator[Repair]:
    for each, partition in partitions:
        filesystem = each.log_dir.filesystem
        read_snapshot = snapshot_reader(filesystem, partition)
        with open_files(partition) as write:
            planner = Planner(partition, options, read_snapshot, write)
            examination = examine(filesystem, partition, check_crc=check_crc, on_boundary=planner)
        yield each, examination, planner.planned


def _is_local(each: NamedLogDir) -> bool:
    return bool(each.log_dir.filesystem.type_name == "local")


def _local(each: NamedLogDir) -> Path:
    if not _is_local(each):
        raise UsageError(f"{each.uri}: --apply needs a local directory", hint="write elsewhere with --out DIR")
    return Path(each.log_dir.path)


def _report(output: Output, opened: Sequence[NamedLogDir], repairs: Iterator[Repair], *, wrote: bool) -> int:
    actions: Counter[RepairAction] = Counter()
    needed: Counter[str] = Counter()
    findings: list[Finding] = [finding for each in opened for finding in each.log_dir.findings]
    undone: list[str] = []

    def rows() -> Iterator[dict[str, object]]:
        for each, examination, plan in repairs:
            findings.extend(examination.findings)
            undone.extend(undone_at_start(examination.partition))
            for planned in plan:
                actions[planned.action] += 1
                if planned.action.writes:
                    needed[each.uri] += on_disk(planned.size)
                if planned.action is not RepairAction.KEEP:
                    yield {"log_dir": each.uri, **_row(examination.partition.name, planned)}

    columns = ("partition", "offset", "action", "producers", "provenance", "reason")
    where = ("log_dir",) if len(opened) > 1 else ()
    output.rows("repair", rows(), columns=(*where, *columns), findings=findings)
    for each in opened:
        for other in each.log_dir.others:
            output.talk(f"left alone: {other.name} ({other.state})")
    count, kept = actions[RepairAction.WRITE] + actions[RepairAction.REPLACE], actions[RepairAction.KEEP]
    if wrote:
        output.talk(f"{count} snapshots are in place, {kept} were right already")
    elif count:
        output.talk(f"{count} snapshots to write, {kept} are right already; nothing was written")
        for each in opened:
            if needed[each.uri] and _is_local(each):
                output.talk(says_space(needed[each.uri], _local(each)))
        names = shlex.join(each.uri for each in opened)
        output.talk(f"next: stop the broker, then tiersnap repair {names} --apply (with the same options)")
    else:
        output.talk(f"nothing to write: {kept} snapshots are right already")
    if wrong := actions[RepairAction.NEEDS_REPLACE]:
        output.talk(f"{wrong} snapshots are not to be trusted: give --replace to replace them")
    if unread := actions[RepairAction.UNVERIFIED]:
        output.talk(f"{unread} snapshots could not be read: run as the user that runs the broker")
    if above := actions[RepairAction.ABOVE_NEWEST]:
        output.talk(
            f"{above} lie above the newest snapshot that the broker can load, and the highest of them would become its "
            "live state: give --above-newest to write them; or start the broker, which makes those of the last two "
            "segments, stop it and repair again"
        )
    for message in undone:
        output.talk(message)
    return _exit_code(actions, findings, undone)


def undone_at_start(partition: Partition) -> Iterator[str]:
    """What to say when the next start of a broker will delete snapshots, those just written among them."""
    for segment in partition.segments:
        if segment.offset_index is None and not segment.is_active:
            yield (
                f"{partition.name}: segment {segment.base_offset} has no .index. At its next start the broker makes it "
                "again and deletes every snapshot above it but the last ones: start it once, stop it, then repair"
            )
            return


def _exit_code(actions: Counter[RepairAction], findings: list[Finding], undone: list[str]) -> ExitCode:
    if any(finding.kind is not FindingKind.PERMISSION_DENIED for finding in findings):
        return ExitCode.DATA_CORRUPT
    if findings or actions[RepairAction.UNVERIFIED]:
        return ExitCode.PARTIAL
    waits = any(count for action, count in actions.items() if action.waits)
    return ExitCode.GATE_REFUSED if waits or undone else ExitCode.OK


def _row(partition: str, planned: PlannedSnapshot) -> dict[str, object]:
    return {
        "partition": partition,
        "offset": planned.offset,
        "bytes": planned.size,
        "action": planned.action,
        "producers": planned.entry_count,
        "provenance": planned.provenance,
        "found": planned.found,
        "reason": planned.reason,
    }
