"""`tiersnap install`: the snapshots that a run stored, back to a broker host."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.repair import undone_at_start
from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.install_plan import (
    InstallOutcome,
    InstallPlanner,
    PlannedInstall,
    StoredPartition,
    without_folding,
)
from tiersnap.remote_storage.layouts.keys import NO_TOPIC_ID, ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.gate.examine import examine
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.log_dir import LogDir, Partition, open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.repair.files import in_place, nowhere
from tiersnap.snapshot.repair.plan import PlanOptions
from tiersnap.snapshot.state.expiry import Expiry
from tiersnap.snapshot.state.partition_replay import snapshot_reader


@click.command()
@click.option("--from", "remote", required=True, help="Where a run stored them: s3://bucket/prefix, or a directory.")
@click.option("--to", "logdir", required=True, help="An entry of the broker's log.dirs.")
@params.topic_option
@click.option("--replace", is_flag=True, help="Also replace files that are CORRUPT or SUSPECT.")
@click.option("--above-newest", is_flag=True, help="Also write above the newest snapshot that the broker can load.")
@click.option(
    "--compare/--no-compare", default=True, show_default=True, help="Compare each with the log, by folding it."
)
@params.crc_option
@params.producer_expiration_option
@params.now_option
@s3_options
@click.option("--apply", is_flag=True, help="Write into the log directory; the broker must be stopped.")
@params.output_option
@click.pass_obj
def install(
    output: Output,
    remote: str,
    logdir: str,
    topic: re.Pattern[str] | None,
    replace: bool,
    above_newest: bool,
    compare: bool,
    check_crc: bool,
    producer_expiration: int | None,
    now: int,
    s3: S3Settings,
    apply: bool,
) -> int:
    """Bring the producer snapshots that `tiersnap run` stored to the broker host that lacks them.

    Shows the plan; --apply writes it. The rules are those of `repair`, and a stored snapshot must be the one that the
    run's manifest names, of the same topic id, and say what the log says. Run again, it does nothing twice; killed
    anywhere, it leaves whole files only.
    """
    store = open_store(remote, s3)
    log_dir = open_log_dir(logdir)
    options = PlanOptions(Expiry(None, now), producer_expiration, replace=replace, above_newest=above_newest)
    job = Installation(store, log_dir, logdir, topic, options, compares=compare, check_crc=check_crc)
    if not apply:
        return _report(output, job, wrote=False)
    if log_dir.filesystem.type_name != "local":
        raise UsageError(f"{logdir}: --apply needs a local directory", hint="run it on the broker host")
    with locked(Path(log_dir.path)):
        return _report(output, job, wrote=True)


class Installation:
    """Plans, and carries out, partition by partition."""

    def __init__(
        self,
        store: ObjectStore,
        log_dir: LogDir,
        logdir: str,
        topic: re.Pattern[str] | None,
        options: PlanOptions,
        *,
        compares: bool,
        check_crc: bool,
    ) -> None:
        self._store, self._log_dir, self._logdir, self._topic = store, log_dir, logdir, topic
        self._options, self._compares, self._check_crc = options, compares, check_crc
        self._others: dict[str, set[TopicIdPartition]] = {}
        self.has_any = False
        self.findings: list[Finding] = []
        self.undone: list[str] = []
        self.other_ids: list[str] = []

    def plans(self, *, write: bool) -> Iterator[tuple[Partition, list[PlannedInstall]]]:
        """Each partition that a run stored something of, and what became of it."""
        for partition in selected(self._log_dir, self._logdir, self._topic):
            if not partition.segments:
                continue
            at = TopicIdPartition(partition.topic, partition.topic_id, partition.partition)
            stored = StoredPartition(self._store, at)
            if not stored.offsets:
                self._look_for_other_ids(at)
                continue
            self.has_any = True
            self.undone.extend(undone_at_start(partition))
            with (in_place if write else nowhere)(partition) as writer:
                read_here = snapshot_reader(self._log_dir.filesystem, partition)
                planner = InstallPlanner(partition, stored, self._options, read_here, writer, compares=self._compares)
                planner.finish(self._fold(partition, stored, planner))
            yield partition, planner.planned

    def _fold(self, partition: Partition, stored: StoredPartition, planner: InstallPlanner) -> str:
        """Give the planner the partition's boundaries; why some were not reached."""
        if not self._compares:
            read_here = snapshot_reader(self._log_dir.filesystem, partition)
            for boundary in without_folding(partition, stored, read_here):
                planner(boundary)
            return "at or below the log start offset"
        examination = examine(
            self._log_dir.filesystem,
            partition,
            check_crc=self._check_crc,
            on_boundary=planner,
        )
        self.findings.extend(examination.findings)
        damage = examination.replay.damage or examination.replay.refusal
        return f"the log cannot be folded up to there: {damage}"

    def _look_for_other_ids(self, at: TopicIdPartition) -> None:
        """Remember it if the same partition's snapshots are stored under another topic id."""
        if at.topic not in self._others:
            keys = ObjectKeys()
            parsed = (keys.recognise(found.key) for found in self._store.list(keys.topic_snapshots(at.topic)))
            self._others[at.topic] = {key.partition for key in parsed if key is not None}
        for other in sorted(self._others[at.topic], key=lambda each: each.topic_id or ""):
            if (other.topic, other.partition) == (at.topic, at.partition):
                self.other_ids.append(
                    f"{at}: its topic id is {at.topic_id or NO_TOPIC_ID}, and what is stored is of "
                    f"{other.topic_id or NO_TOPIC_ID}: not installed; tiersnap repair makes its snapshots from its log"
                )


def _report(output: Output, job: Installation, *, wrote: bool) -> int:
    outcomes: Counter[InstallOutcome] = Counter()

    def rows() -> Iterator[dict[str, object]]:
        for partition, planned in job.plans(write=wrote):
            for each in planned:
                outcomes[each.outcome] += 1
                if each.outcome is not InstallOutcome.KEEP:
                    yield _row(partition.name, each)
        # Before anything is printed: a document says either what was found or why nothing was.
        if not job.has_any and not job.other_ids:
            raise ObjectNotFoundError(
                "no run stored a snapshot of any of these partitions there",
                hint="--from names the place that --remote named in tiersnap run; a run stores what the brokers lack, "
                "with --all every boundary",
            )

    columns = ("partition", "offset", "action", "producers", "provenance", "run_id", "reason")
    output.rows("install", rows(), columns=columns, findings=job.findings)
    count, kept = outcomes[InstallOutcome.WRITE] + outcomes[InstallOutcome.REPLACE], outcomes[InstallOutcome.KEEP]
    if wrote:
        output.talk(f"{count} snapshots are in place, {kept} were right already")
    elif count:
        output.talk(f"{count} snapshots to write, {kept} are right already; nothing was written")
        output.talk("next: stop the broker, then the same command with --apply")
    else:
        output.talk(f"nothing to write: {kept} snapshots are right already")
    for outcome, sentence in _SENTENCES.items():
        if outcomes[outcome]:
            output.talk(f"{outcomes[outcome]} {sentence}")
    for message in (*job.undone, *job.other_ids):
        output.warn(message)
    if job.findings or any(outcomes[outcome] for outcome in InstallOutcome if outcome.is_damage):
        return ExitCode.DATA_CORRUPT
    waits = any(outcomes[outcome] for outcome in InstallOutcome if outcome.waits)
    return ExitCode.GATE_REFUSED if waits or job.undone or job.other_ids else ExitCode.OK


_SENTENCES = {
    InstallOutcome.NEEDS_REPLACE: "are there and not to be trusted: give --replace to replace them",
    InstallOutcome.ABOVE_NEWEST: "lie above the newest snapshot that the broker can load, and the highest of them "
    "would become its live state: give --above-newest to write them",
    InstallOutcome.UNVERIFIED: "are there and could not be read: run it as the user that runs the broker",
    InstallOutcome.NOT_STORED: "are wanted and were not stored by any run: tiersnap repair makes them from the log",
    InstallOutcome.NOT_VOUCHED: "are of a run that did not finish: run it again, or make them here with "
    "tiersnap repair",
    InstallOutcome.CORRUPT: "are damaged in remote storage: tiersnap repair makes them from the log",
    InstallOutcome.DISAGREES: "contradict the log here and are not installed: they are of another log, or damaged "
    "before they were stored; tiersnap repair makes them from the log",
}


def _row(partition: str, planned: PlannedInstall) -> dict[str, object]:
    return {
        "partition": partition,
        "offset": planned.offset,
        "action": planned.outcome,
        "producers": planned.entry_count,
        "provenance": planned.provenance,
        "run_id": planned.run_id,
        "reason": planned.reason,
    }
