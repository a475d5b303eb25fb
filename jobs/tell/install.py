"""What `install` shows: a row a snapshot, what is or would be in place, and what waits for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tiersnap.jobs.again import again
from tiersnap.jobs.output import Output
from tiersnap.remote_storage.restore.install import Installation
from tiersnap.remote_storage.restore.install_plan import InstallOutcome, PlannedInstall
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.units import count_of

_COLUMNS = ("partition", "offset", "action", "producers", "provenance", "run_id", "reason")
_SENTENCES = {
    InstallOutcome.NOT_COMPARED: "are there and not compared: tiersnap verify LOGDIR --remote s3://bucket/prefix",
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
    InstallOutcome.STRAY: "are STRAY: no segment begins at their offsets; the broker deletes them at its next start",
    InstallOutcome.NEVER_TIERED: "are of compacted or internal topics, which no broker tiers",
    InstallOutcome.NOT_ALIGNED: "are stored for offsets at which no segment begins here",
    InstallOutcome.NOT_REACHED: "are stored, and the log here is damaged below them",
}


def show(output: Output, job: Installation, *, wrote: bool) -> None:
    """The result; the plans of `job` are carried out while they are shown."""
    output.row_dicts("install", _rows(job.plans(write=wrote)), columns=_COLUMNS, findings=job.findings)
    outcomes = job.outcomes
    count, kept = outcomes[InstallOutcome.WRITE] + outcomes[InstallOutcome.REPLACE], outcomes[InstallOutcome.KEEP]
    if wrote:
        output.talk(f"{count_of(count, 'snapshot is', 'snapshots are')} in place, {kept} right already")
    elif count:
        output.talk(f"{count_of(count, 'snapshot')} to write, {kept} right already; nothing was written")
        output.talk(f"next: stop the broker, then {again('--apply')}")
    else:
        output.talk(f"nothing to write: {count_of(kept, 'snapshot is', 'snapshots are')} right already")
    for outcome, sentence in _SENTENCES.items():
        if outcomes[outcome]:
            output.talk(f"{outcomes[outcome]} {sentence}")
    for message in (*job.undone, *job.other_ids):
        output.warn(message)


def _rows(plans: Iterable[tuple[Partition, list[PlannedInstall]]]) -> Iterator[dict[str, object]]:
    for partition, planned in plans:
        for each in planned:
            if each.outcome is not InstallOutcome.KEEP:
                yield _row(partition.name, each)


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
