"""`tiersnap repair`: the missing snapshots of one host, without Spark or Java."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import click
from pyarrow import fs

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.gate.examine import Examination, examine
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.hands_off import refuse_log_dir
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.log_dir import LogDir, Partition, open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.repair.files import elsewhere, in_place, nowhere
from tiersnap.snapshot.repair.plan import Action, PlannedSnapshot, Planner, PlanOptions, Write
from tiersnap.snapshot.state.partition_replay import snapshot_reader


@click.command()
@click.argument("logdir", envvar="TIERSNAP_SOURCE")
@click.option("--out", type=LocalPath(file_okay=False), help="Write below this directory instead.")
@click.option("--all", "every_boundary", is_flag=True, help="With --out: every boundary, also those that have a file.")
@params.expiration_option
@params.as_of_option
@click.option("--replace", is_flag=True, help="Also replace files that are CORRUPT or SUSPECT.")
@click.option("--above-newest", is_flag=True, help="Also write above the newest snapshot that is there.")
@params.topic_option
@params.crc_option
@params.producer_expiration_option
@params.now_option
@click.option("--apply", is_flag=True, help="Write into LOGDIR; the broker must be stopped.")
@params.output_option
@click.pass_obj
def repair(
    output: Output,
    logdir: str,
    out: Path | None,
    every_boundary: bool,
    expiration: int | None,
    as_of: int | None,
    replace: bool,
    above_newest: bool,
    topic: re.Pattern[str] | None,
    check_crc: bool,
    producer_expiration: int | None,
    now: int,
    apply: bool,
) -> int:
    """Rebuild the producer snapshots that LOGDIR lacks, by replaying its segments as a broker does.

    Shows the plan. --apply writes it into LOGDIR, --out DIR writes it to DIR/<topic>-<partition>/ and leaves LOGDIR
    alone. Running it again does nothing twice; killed anywhere, it leaves whole files only.
    """
    if apply and out is not None:
        raise UsageError("--apply writes into LOGDIR and --out elsewhere: give one of them")
    if every_boundary and out is None:
        raise UsageError("--all writes boundaries that have a file already: give --out DIR to write them elsewhere")
    expiry = params.expiry(expiration, as_of, now, producer_expiration)
    options = PlanOptions(expiry, producer_expiration, every_boundary, replace, above_newest)
    if out is not None:
        refuse_log_dir(out, "--out")
    log_dir = open_log_dir(logdir)

    def plan(open_files: OpenFiles) -> Iterator[Repair]:
        partitions = selected(log_dir, logdir, topic)
        return _plan_all(log_dir.filesystem, partitions, options, check_crc, open_files)

    if apply:
        with locked(_local(logdir, log_dir)):
            return _report(output, logdir, log_dir, plan(in_place), wrote=True)
    if out is not None:
        return _report(output, logdir, log_dir, plan(partial(elsewhere, out, replace)), wrote=True)
    return _report(output, logdir, log_dir, plan(nowhere), wrote=False)


Repair = tuple[Examination, list[PlannedSnapshot]]
OpenFiles = Callable[[Partition], AbstractContextManager[Write | None]]


def _plan_all(
    filesystem: fs.FileSystem,
    partitions: Iterator[Partition],
    options: PlanOptions,
    check_crc: bool,
    open_files: OpenFiles,
) -> Iterator[Repair]:
    for partition in partitions:
        read_snapshot = snapshot_reader(filesystem, partition)
        with open_files(partition) as write:
            planner = Planner(partition, options, read_snapshot, write)
            examination = examine(filesystem, partition, check_crc=check_crc, on_boundary=planner)
        yield examination, planner.planned


def _local(uri: str, log_dir: LogDir) -> Path:
    if log_dir.filesystem.type_name != "local":
        raise UsageError(f"{uri}: --apply needs a local directory", hint="write elsewhere with --out DIR")
    return Path(log_dir.path)


def _report(output: Output, logdir: str, log_dir: LogDir, repairs: Iterator[Repair], *, wrote: bool) -> int:
    actions: Counter[Action] = Counter()
    findings: list[Finding] = [*log_dir.findings]
    undone: list[str] = []

    def rows() -> Iterator[dict[str, object]]:
        for examination, plan in repairs:
            findings.extend(examination.findings)
            undone.extend(undone_at_start(examination.partition))
            for planned in plan:
                actions[planned.action] += 1
                if planned.action is not Action.KEEP:
                    yield _row(examination.partition.name, planned)

    columns = ("partition", "offset", "action", "producers", "provenance", "reason")
    output.rows("repair", rows(), columns=columns, findings=findings)
    for other in log_dir.others:
        output.talk(f"left alone: {other.name} ({other.state})")
    count, kept = actions[Action.WRITE] + actions[Action.REPLACE], actions[Action.KEEP]
    if wrote:
        output.talk(f"{count} snapshots are in place, {kept} were right already")
    elif count:
        output.talk(f"{count} snapshots to write, {kept} are right already; nothing was written")
        output.talk(f"next: stop the broker, then tiersnap repair {logdir} --apply (with the same options)")
    else:
        output.talk(f"nothing to write: {kept} snapshots are right already")
    if actions[Action.NEEDS_REPLACE]:
        output.talk(f"{actions[Action.NEEDS_REPLACE]} snapshots are not to be trusted: give --replace to replace them")
    if actions[Action.UNVERIFIED]:
        output.talk(f"{actions[Action.UNVERIFIED]} snapshots could not be read: run as the user that runs the broker")
    if actions[Action.ABOVE_NEWEST]:
        output.talk(
            f"{actions[Action.ABOVE_NEWEST]} lie above the newest snapshot that the broker can load, and the highest "
            "of them would become its live state: give --above-newest to write them; or start the broker, which makes "
            "those of the last two segments, stop it and repair again"
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


def _exit_code(actions: Counter[Action], findings: list[Finding], undone: list[str]) -> ExitCode:
    if any(finding.kind is not FindingKind.PERMISSION_DENIED for finding in findings):
        return ExitCode.DATA_CORRUPT
    if findings or actions[Action.UNVERIFIED]:
        return ExitCode.PARTIAL
    waits = any(count for action, count in actions.items() if action.waits)
    return ExitCode.GATE_REFUSED if waits or undone else ExitCode.OK


def _row(partition: str, planned: PlannedSnapshot) -> dict[str, object]:
    return {
        "partition": partition,
        "offset": planned.offset,
        "action": planned.action,
        "producers": planned.entry_count,
        "provenance": planned.provenance,
        "found": planned.found,
        "reason": planned.reason,
    }
