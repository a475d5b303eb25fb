"""`tiersnap verify`: are the snapshots that are there right?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import Meta

from tiersnap.jobs import options as opt
from tiersnap.jobs.command import command
from tiersnap.jobs.option_types import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.sentences import of_unknown_beginnings, with_remote
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.snapshot.log.selection import Selection


@dataclass(frozen=True, slots=True)
class VerifiedSnapshot:
    """A snapshot file of `verify`; entries are counted by how they differ from the log."""

    COLUMNS: ClassVar = ("partition", "offset", "verdict", "reason")
    log_dir: str
    partition: str
    offset: int
    verdict: SnapshotVerdict
    reason: str
    lacking: int
    differing: int
    forgotten: int
    unexplained: int
    extending: int
    harmful_until: Annotated[int | None, Meta(description="ms; up to then a broker would keep what the file lacks")]

    def rank(self) -> bool:
        """Return where it stands on a terminal: files that are not right first."""
        return self.verdict in ("MATCHES", "EXTENDS")


@dataclass(frozen=True, slots=True)
class VerifySummary:
    """What was left out."""

    not_compared: Annotated[
        int, Meta(description="files of logs that begin in remote storage, which was not asked: --remote")
    ]


@command(VerifiedSnapshot, summary=VerifySummary)
@opt.log_dirs_argument()
@click.option(
    "--against",
    type=LocalPath(file_okay=False),
    help="Judge the files DIR/<topic>-<partition>/<20 digits>.snapshot instead of those beside the log.",
)
@opt.selection_options
@opt.crc_option
@opt.producer_expiration_option
@opt.now_option
@opt.remote_view_options(opt.OF_BEGINNINGS, click.option)
@click.option("--strict", is_flag=True, help="Count every entry, also those that a broker would drop on loading.")
def verify(
    output: Output,
    log_dirs: tuple[str, ...],
    against: Path | None,
    selection: Selection,
    check_crc: bool,
    producer_expiration: int | None,
    now: int,
    view: opt.RemoteView,
    strict: bool,
) -> int:
    """Compare every producer snapshot with the log, producer by producer.

    tiersnap verify /var/lib/kafka/data
    tiersnap verify /var/lib/kafka/data --partition orders-0 --strict

    LOGDIR is an entry of log.dirs; several may be given, with blanks or commas between them, or as a glob.

    A file MATCHES, EXTENDS (knows producers from before the log start), is SUSPECT (contradicts the log in what a
    broker that loads it now would keep), CORRUPT (no broker can read it) or UNVERIFIED (not compared: the log is
    damaged below it, or it may not be read). Where a log begins in remote storage its files are NOT_COMPARED, unless
    --remote says where that is. Exits 5 when one is CORRUPT or no broker can open it, 4 when one is SUSPECT or
    UNVERIFIED, or --remote does not tell how a log begins, 6 when something of the log may not be read. `scan` says
    what is missing. With --strict every difference is SUSPECT. With --against every file there must equal the log's
    fold exactly.
    """
    from tiersnap.snapshot.log.selection import count, open_log_dirs, selected_of
    from tiersnap.snapshot.readiness.verify import Verification

    opened = open_log_dirs(log_dirs)
    at = None if strict or against is not None else (now, producer_expiration)
    job = Verification(opened, against, at, check_crc, view.beginnings(now, producer_expiration))
    progress = Progress(output, "verifying", count(opened, selection))

    def rows() -> Iterator[VerifiedSnapshot]:
        for named, partition, found in job.snapshots(progress.watch(selected_of(opened, selection))):
            differs = found.comparison
            counts = (differs.lacking, differs.differing, differs.forgotten, differs.unexplained, differs.extending)
            where = (named.uri, partition.name, found.offset)
            yield VerifiedSnapshot(*where, found.verdict, found.reason, *counts, differs.harmful_until)

    several, summary = len(opened) > 1, lambda: VerifySummary(job.not_compared)
    output.rows(VerifiedSnapshot, rows(), several=several, summary=summary, findings=job.findings)
    if job.compared or not job.not_compared:
        agree = count_of(job.compared, "snapshot agrees", "snapshots agree")
        output.talk(f"{job.right} of {agree} with the log")
    if job.not_compared:
        are = count_of(job.not_compared, "snapshot is", "snapshots are")
        output.talk(f"{are} not compared: their logs begin in remote storage; next: {with_remote()}")
    for line in of_unknown_beginnings(job.beginnings):
        output.warn(line)
    return job.exit_code
