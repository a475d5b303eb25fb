"""`tiersnap verify`: compare snapshots with the log, and verify remote segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import situation_place
from tiersnap.jobs.cli.option_types import LocalPath
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.sentences import of_not_compared, of_unknown_beginnings, of_unlocated, tell_failures, with_remote
from tiersnap.jobs.cli.situation_options import situation_options
from tiersnap.jobs.commands.verify.remote import (
    COLUMNS,
    CheckTally,
    TierRequest,
    TierVerification,
    is_of_tier,
    tell_tier,
    tier_options,
    verify_on_spark,
)
from tiersnap.jobs.pipeline.spark_options import SparkRequest, spark_options
from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.jobs.situation.situation import COMMAND_LINE, Situation
from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest, RemoteCheck, RemoteVerdict
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.replay.comparison import JudgedFile
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.snapshot.log.findings import Finding
    from tiersnap.snapshot.log.selection import Selection
    from tiersnap.snapshot.replay.replay_start import Beginnings


@dataclass(frozen=True, slots=True)
class VerifiedSnapshot:
    """A snapshot file of `verify`, with the counts of producers that differ from the log."""

    COLUMNS: ClassVar = ("partition", "offset", "verdict", "reason")
    log_dir: str
    partition: str
    file: JudgedFile

    def rank(self) -> bool:
        """Return the sort key on a terminal: wrong files first."""
        return self.file.verdict.is_trusted


@dataclass(frozen=True, slots=True)
class VerifySummary:
    """The number of snapshots that were not compared, and the counts of verified remote segments."""

    NOT_TOLD: ClassVar = ("verdicts", "skipped", "bytes")
    not_compared: Annotated[
        int,
        Meta(
            description="number of snapshot files whose logs begin in remote storage, plus the number of remote "
            "segments with the verdict NOT_COMPARED"
        ),
    ]
    verdicts: Annotated[dict[str, int] | UnsetType, Meta(description="number of remote segments by verdict")] = UNSET
    skipped: Annotated[
        int | UnsetType,
        Meta(description="number of remote segments that an earlier check verified and whose result is still valid"),
    ] = UNSET
    bytes: Annotated[int | UnsetType, Meta(description="bytes of the verified remote segments")] = UNSET


@command(VerifiedSnapshot, RemoteCheck, summary=VerifySummary)
@situation_options(
    f"{opt.OF_BEGINNINGS}  [default: the location of this host's broker]",
    "Broker of the cluster. verify asks it for the log start offsets of partitions that are not in LOGDIR.  "
    "[default: the broker of this host]",
)
@click.option(
    "--against",
    type=LocalPath(file_okay=False),
    metavar="DIR",
    help="Compare the snapshots in DIR/<topic>-<partition>/ with the log, not the snapshots in LOGDIR.",
)
@opt.selection_options
@opt.crc_option
@opt.broker_expiry_options
@click.option(
    "--strict",
    is_flag=True,
    help="Compare every entry of a snapshot, also entries that a broker would drop when it loads the file.",
)
@opt.log_start_option
@tier_options
@spark_options
def verify(
    output: Output,
    situation: Situation,
    against: Path | None,
    selection: Selection,
    check_crc: bool,
    broker_expiry: opt.BrokerExpiry,
    strict: bool,
    log_starts: opt.LogStarts,
    tier: TierRequest,
    spark: SparkRequest,
) -> int:
    """Compare every producer snapshot with the log, producer by producer.

    tiersnap verify
    tiersnap verify /var/lib/kafka/data --partition orders-0 --strict
    tiersnap verify --remote s3://bucket/tiers --depth metadata

    On the host of a running broker the command finds LOGDIR and the remote location. LOGDIR is an entry of log.dirs. To
    give several entries, separate them with blanks or commas, or use a glob.

    MATCHES: the file equals the log. EXTENDS: the file also has producers from before the log start. SUSPECT: the log
    contradicts entries that a broker would still keep. CORRUPT: no broker can read the file. UNVERIFIED: the log is
    damaged below the snapshot offset, or this user may not read the file. NOT_COMPARED: the log begins in remote
    storage, and --remote is missing.

    With --strict every difference is SUSPECT. With --against every file must equal the producer state of the log
    exactly. `tiersnap scan` lists missing files.

    The exit code is 5 if a file is CORRUPT or no broker can open it. It is 4 if a file is SUSPECT, or if the beginning
    of a log is not in --remote. It is 6 if a file is UNVERIFIED, or if this user may not read it.

    Remote segments: with --remote the command verifies the remote segments of the partitions in LOGDIR. If LOGDIR is
    not given, it verifies all partitions. --depth selects what is read: metadata, snapshots (the default) or every
    byte. With --depth local files are not compared.

    A remote snapshot is compared with the log in LOGDIR. If LOGDIR lacks the snapshot's offset, the snapshot is
    compared with its own segment and with earlier snapshots. Producers that a broker would drop now are not compared.

    If a segment is CORRUPT or MISSING, the exit code is 5. NOT_COMPARED means that the command found no error,
    but had no log to compare with. NOT_CHECKABLE means that the plugin encrypted the segment. A changed batch with a
    recomputed CRC is found only by comparison with another copy. A partition whose segments are in another layout than
    --layout is not verified (exit code 4). After an interruption, continue with --resume.

    Offsets before the first remote segment are UNVERIFIED (exit code 6) if the log start offset is unknown. Give LOGDIR
    or --bootstrap-server to find out whether retention deleted these offsets.
    """
    log_dirs = _log_dirs(situation, tier)
    counted = broker_expiry
    if strict:
        counted = replace(broker_expiry, expiration=None)
    if is_of_tier(tier, situation, log_dirs, against):
        view = situation.view_to_read()
        return _verify_remote(
            output,
            _RemoteSide(log_dirs, log_starts, selection, check_crc, counted, view, tier, spark, situation),
        )
    from tiersnap.remote_storage.cluster.log_starts import located, moved_up
    from tiersnap.snapshot.host.verify import Verification
    from tiersnap.snapshot.log.log_start import with_stated
    from tiersnap.snapshot.log.selection import count, open_log_dirs, selected_of
    from tiersnap.snapshot.replay.folds_ahead import FoldsAhead

    situation, unanswered = situation.answering()
    view = situation.view_to_read()
    opened = with_stated(open_log_dirs(log_dirs), log_starts)
    expiry = counted
    if against is not None:
        expiry = replace(broker_expiry, expiration=None)
    cluster = situation.cluster.value
    moved, locate = partial(moved_up, cluster), partial(located, cluster)
    folds, beginnings = FoldsAhead(check_crc=check_crc), view.beginnings(broker_expiry)
    job = Verification(opened, against, expiry, check_crc, beginnings, moved, locate, folds)
    progress = Progress(output, "verifying", count(opened, selection))

    def rows() -> Iterator[VerifiedSnapshot]:
        partitions = locate(progress.watch(folds.listed(selected_of(opened, selection))))
        for named, partition, found in job.snapshots(partitions):
            yield VerifiedSnapshot(named.uri, partition.name, found)

    errors, tally = list(unanswered), CheckTally()
    remote = _RemoteSide(log_dirs, log_starts, selection, check_crc, counted, view, tier, spark, situation)
    is_both = view.remote is not None and against is None
    checks: Iterator[RemoteCheck] = iter(())
    if is_both:
        checks = remote.beside_files(output, job.beginnings, tally, errors)

    def summary() -> VerifySummary:
        if is_both:
            return _summary(tally, job.not_compared)
        return VerifySummary(job.not_compared)

    several = len(opened) > 1
    with folds:
        _show(output, rows(), checks, several=several, summary=summary, findings=job.findings, errors=errors)
    tell_failures(output, errors)
    if not job.counts.total():
        output.talk("no snapshot was compared with the log")
    elif job.compared:
        agree = count_of(job.compared, "snapshot agrees", "snapshots agree")
        output.talk(f"{job.right} of {agree} with the log")
    if tally.verdicts:
        remote.tell(output, tally)
    if job.not_compared:
        is_certain = not job.beginnings.unlocated
        output.talk(of_not_compared(job.not_compared, with_remote(), is_certain=is_certain))
    output.warn(*of_unknown_beginnings(job.beginnings))
    return exit_code_of([*job.problems(), *+tally.verdicts, *errors])


def _show(
    output: Output,
    files: Iterator[VerifiedSnapshot],
    checks: Iterator[RemoteCheck],
    *,
    several: bool,
    summary: Callable[[], VerifySummary],
    findings: list[Finding],
    errors: list[TiersnapError],
) -> None:
    """Print the checked local files and remote segments: in one list for JSON, in two tables for people."""
    if output.format is Format.TABLE:
        told, found = list(files), list(checks)
        if found:
            output.rows(VerifiedSnapshot, told, several=several)
            output.rows(RemoteCheck, found, columns=COLUMNS, summary=summary, findings=findings)
        else:
            output.rows(VerifiedSnapshot, told, several=several, summary=summary, findings=findings)
        return
    rows = chain[VerifiedSnapshot | RemoteCheck](files, checks)
    output.rows(VerifiedSnapshot, rows, summary=summary, findings=findings, errors=errors)


def _log_dirs(situation: Situation, tier: TierRequest) -> tuple[str, ...]:
    """Return the log directories to verify.

    If the command line has --remote or --warehouse but no LOGDIR, return (), even if a broker runs on this host.
    """
    found = situation.log_dirs
    is_alone = situation.remote.source == COMMAND_LINE or tier.warehouse is not None
    if is_alone and found.source != COMMAND_LINE:
        return ()
    return found.value or ()


@dataclass(frozen=True)
class _RemoteSide:
    """The verification of remote segments. It covers the partitions in `log_dirs`, or all if `log_dirs` is empty."""

    log_dirs: tuple[str, ...]
    log_starts: opt.LogStarts
    selection: Selection
    check_crc: bool
    expiry: opt.BrokerExpiry
    view: RemoteView
    tier: TierRequest
    spark: SparkRequest
    situation: Situation
    findings: list[Finding] = field(default_factory=list)  # about local logs; the checks add to this list

    @property
    def asked(self) -> CheckRequest:
        """Return depth, current time and expiration of the checks."""
        return CheckRequest(self.tier.depth or CheckDepth.SNAPSHOTS, self.expiry.now, self.expiry.expiration)

    def checks(
        self, output: Output, begins: Beginnings, tally: CheckTally | None = None
    ) -> tuple[Iterator[RemoteCheck], CheckTally]:
        """Print the plan, and return the checks and their counts. Each check runs when the caller reads its result.

        Args:
            output: prints the plan.
            begins: finds the start of local logs.
            tally: the counts to increase; None for new counts.

        Raises:
            ObjectNotFoundError: no partition has a remote segment.
        """
        if self.tier.warehouse is not None:
            return verify_on_spark(output, self.view, self.selection, self.tier, self.asked, self.spark)
        logs, cluster = None, self.situation.cluster.value
        if self.log_dirs:
            from tiersnap.remote_storage.cluster.log_starts import located
            from tiersnap.remote_storage.verify.local_log import local_logs

            logs = local_logs(
                self.log_dirs,
                self.selection,
                begins,
                check_crc=self.check_crc,
                findings=self.findings,
                log_starts=self.log_starts,
                located=partial(located, cluster),
            )
        job = TierVerification(self.view, self.selection, self.tier, self.asked, logs, cluster)
        return job.run(output, tally or CheckTally())

    def beside_files(
        self, output: Output, begins: Beginnings, tally: CheckTally, errors: list[TiersnapError]
    ) -> Iterator[RemoteCheck]:
        """Yield the checks, and count them in `tally`. If remote storage fails, stop, and add the error to `errors`."""
        try:
            checks, counts = self.checks(output, begins, tally)
            errors += counts.refusals
            yield from checks
        except ObjectNotFoundError:
            output.talk(f"{self.view.remote}: no remote segments of these partitions")
        except TiersnapError as error:
            errors.append(error)

    def tell(self, output: Output, tally: CheckTally) -> None:
        """Print the counts, and the next step."""
        tell_tier(output, tally, self.asked.depth, situation_place(self.log_dirs, self.situation))


def _summary(tally: CheckTally, not_compared: int = 0) -> VerifySummary:
    """Return the counts of verified remote segments; `not_compared` is the number of local files not compared."""
    verdicts = {each.value: count for each, count in tally.verdicts.items()}
    not_compared += tally.verdicts[RemoteVerdict.NOT_COMPARED]
    return VerifySummary(not_compared, verdicts, tally.skipped, tally.bytes)


def _verify_remote(output: Output, remote: _RemoteSide) -> int:
    """Verify remote segments, and no local files. Return the exit code."""
    from tiersnap.snapshot.replay.replay_start import Beginnings

    begins = Beginnings()
    if remote.log_dirs:
        begins = remote.view.beginnings(remote.expiry)
    checks, tally = remote.checks(output, begins)
    errors = tally.refusals
    output.rows(
        RemoteCheck, checks, columns=COLUMNS, summary=lambda: _summary(tally), findings=remote.findings, errors=errors
    )
    tell_failures(output, errors)
    remote.tell(output, tally)
    output.warn(*of_unlocated(begins.unlocated, remote=False))
    unknown_starts = [Verdict.UNKNOWN_LOG_START] * len(begins.unlocated)
    return exit_code_of([*remote.findings, *+tally.verdicts, *unknown_starts, *errors])
