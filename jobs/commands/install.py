"""`tiersnap install`: copy snapshots from remote storage, where a run stored them, to a broker host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import click

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import again, command_place
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.sentences import tell_failures
from tiersnap.remote_storage.restore.install_outcome import InstallOutcome, PlannedInstall
from tiersnap.snapshot.gate.next_steps import REPAIR, VERIFY_REMOTE
from tiersnap.snapshot.gate.printed_steps import Place
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.remote_storage.restore.install import Installation

_SENTENCES = {
    "NOT_COMPARED": "exist, and could not be compared with the log",
    "NEEDS_REPLACE": "exist and are wrong; to replace them, add --replace",
    "ABOVE_NEWEST": "are above the newest snapshot that the broker can load. To write these snapshots, add "
    "--above-newest: at its next start the broker then loads the highest snapshot",
    "UNVERIFIED": "exist, and this user may not read them: run this command as the user that runs the broker",
    "NOT_STORED": "are needed on this host, but no run stored them in remote storage",
    "NOT_VOUCHED": "are from a run that did not finish: repeat that run, or compute the snapshots on this host with "
    "tiersnap repair",
    "CORRUPT": "are damaged in remote storage",
    "DISAGREES": "contradict the log on this host and are not installed: they belong to another log, or were "
    "damaged before the upload",
    "STRAY": "have the state STRAY: no segment begins at their offsets, and the broker deletes them at its next start",
    "NEVER_TIERED": "belong to compacted or internal topics, which brokers never tier",
    "NOT_ALIGNED": "are stored, but no segment on this host begins at their offsets",
    "NOT_REACHED": "are stored, but the log on this host is damaged below their offsets",
}
_STEPS = {"NOT_COMPARED": VERIFY_REMOTE, **dict.fromkeys(("NOT_STORED", "NOT_VOUCHED", "CORRUPT", "DISAGREES"), REPAIR)}


@dataclass(frozen=True, slots=True)
class InstalledSnapshot:
    """A snapshot that `install` writes or reports. Snapshots that are already right are only counted."""

    COLUMNS: ClassVar = ("partition", "offset", "action", "producers", "provenance", "run_id", "reason")
    partition: str
    planned: PlannedInstall


@command(InstalledSnapshot)
@click.option(
    "--remote",
    required=True,
    help="Remote location of the run that stored the snapshots: s3://bucket/prefix, or a directory.",
)
@click.option("--to", "logdir", required=True, help="Entry of the broker's log.dirs.")
@opt.topic_option
@click.option("--replace", is_flag=True, help="Replace snapshot files that are CORRUPT or SUSPECT.")
@click.option(
    "--above-newest",
    is_flag=True,
    help="Write snapshots also above the newest snapshot that the broker can load.",
)
@click.option(
    "--compare/--no-compare",
    default=True,
    show_default=True,
    help="Replay the log, and compare each existing file with the log.",
)
@opt.crc_option
@opt.broker_expiry_options
@opt.store_options
@opt.apply_option("Write to the log directory; the broker must be stopped.")
def install(
    output: Output,
    remote: str,
    logdir: str,
    topic: opt.TopicPattern,
    replace: bool,
    above_newest: bool,
    compare: bool,
    check_crc: bool,
    broker_expiry: opt.BrokerExpiry,
    stores: opt.StoreSettings,
    apply: bool,
) -> int:
    """Copy producer snapshots from remote storage, where `tiersnap run` stored them, to a broker host.

    tiersnap install --remote s3://bucket/tiers --to /var/lib/kafka/data
    tiersnap install --remote s3://bucket/tiers --to /var/lib/kafka/data --apply

    Prints the plan; --apply writes the files. The rules of `repair` apply. In addition, the manifest of the run must
    name the stored snapshot. The snapshot must have the topic id of the log on this host, and agree with this log.

    You can repeat the command: it keeps files that are right. If the command is killed, it leaves only complete files.
    """
    from tiersnap.remote_storage.restore.install import Installation
    from tiersnap.remote_storage.stores.open_store import open_store
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.lock import locked
    from tiersnap.snapshot.log.log_dir import open_log_dir
    from tiersnap.snapshot.log.selection import NamedLogDir, Selection, count
    from tiersnap.snapshot.repair.repair_plan import PlanOptions
    from tiersnap.snapshot.replay.expiry import Expiry

    store = open_store(remote, stores, writes=False)
    log_dir = open_log_dir(logdir)
    options = PlanOptions(
        Expiry(None, broker_expiry.now), broker_expiry.expiration, replace=replace, above_newest=above_newest
    )
    total = count([NamedLogDir(logdir, log_dir)], Selection(topic))
    watch = Progress(output, "installing" if apply else "planning", total).watch_one
    job = Installation(store, log_dir, logdir, topic, options, compares=compare, check_crc=check_crc, watch=watch)
    with locked(job.path) if apply else nullcontext():
        output.rows(InstalledSnapshot, _rows(job, apply=apply), findings=job.findings, errors=job.errors)
    tell_failures(output, job.errors)
    output.talk(*_lines(job, command_place([logdir]), apply=apply))
    output.warn(*job.undone, *job.other_ids)
    return exit_code_of(job.problems())


def _rows(job: Installation, *, apply: bool) -> Iterator[InstalledSnapshot]:
    """Yield a row for each snapshot that is not kept. With `apply`, write the snapshot first."""
    for partition, planned in job.plans(write=apply):
        for each in planned:
            if each.action is not InstallOutcome.KEEP:
                yield InstalledSnapshot(partition.name, each)


def _lines(job: Installation, place: Place, *, apply: bool) -> Iterator[str]:
    """Yield the counts of written and kept snapshots. Then yield a message and next step for each other outcome."""
    outcomes = job.outcomes
    count, kept = outcomes[InstallOutcome.WRITE] + outcomes[InstallOutcome.REPLACE], outcomes[InstallOutcome.KEEP]
    if apply:
        yield f"{count_of(count, 'snapshot is', 'snapshots are')} written, {kept} existing ones were right already"
    elif count:
        yield f"{count_of(count, 'snapshot')} to write, {kept} existing ones are right; nothing was written yet"
        yield f"next: stop the broker, then {again('--apply')}"
    else:
        yield f"nothing to write: {count_of(kept, 'existing snapshot is', 'existing snapshots are')} right"
    for outcome, sentence in _SENTENCES.items():
        if not (number := outcomes[InstallOutcome(outcome)]):
            continue
        step = ""
        if outcome in _STEPS:
            step = f": {place.text(_STEPS[outcome])}"
        yield f"snapshots: {number} {sentence}{step}"
