"""`tiersnap scan`: list the segments and snapshots of a log directory, and the reasons that prevent tiering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import command_place
from tiersnap.jobs.cli.option_types import LocalPath
from tiersnap.jobs.cli.output import Output, cell
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.remote_checks import read_checks, remote_checks_option
from tiersnap.jobs.cli.sentences import ByName, of_not_compared, of_unlocated, tell_failures
from tiersnap.jobs.cli.situation_options import situation_options
from tiersnap.jobs.situation.situation import Situation
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.snapshot.exactly_once.simulate.kinds import Forgotten
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.host.scanned import Scanned, ScanTotals
    from tiersnap.snapshot.log.findings import Finding
    from tiersnap.snapshot.metrics.of_run import ScanMetrics
    from tiersnap.snapshot.report.of_scan import ScanPage

# Verdicts that are printed with their own next step. Those about snapshots get the source's name; a gap is no cause.
_CAUSES = (
    *("CORRUPT_SEGMENT", "UNREADABLE_SEGMENT", "UNVERIFIED_SNAPSHOT", "MISSING_INDEX", "TOPIC_ID_UNKNOWN"),
    *("INDEX_DAMAGED", "ABOVE_LSO"),
)
_WRONG = (SnapshotVerdict.CORRUPT, SnapshotVerdict.SUSPECT)
_BROKERS_COPY = (
    "a broker with tiered storage copies them at its next turn, or since Kafka 4.4 after remote.copy.lag.ms or .bytes"
)


@dataclass(frozen=True, slots=True)
class ScannedPartition:
    """A partition of `scan`."""

    COLUMNS: ClassVar = ("partition", "segments", "size", "snapshots", "verdicts", "findings")
    log_dir: str
    partition: str
    topic: str
    facts: PartitionFacts
    segments: int
    bytes: int
    deleted_segments: int
    snapshots: ByName
    verdicts: ByName
    findings: int
    forgotten: Forgotten | None

    @property
    def size(self) -> str:
        """Return the bytes in words."""
        return human_bytes(self.bytes)

    def rank(self) -> tuple[int, int]:
        """Return the sort key on a terminal: partitions with most waiting segments first."""
        fine = sum(
            self.verdicts.get(each, 0) for each in ("READY", "TIERED", "UPLOADED", "IN_REMOTE", "ACTIVE_SEGMENT")
        )
        return -self.findings - (self.forgotten is not None), fine - self.segments


@dataclass(frozen=True, slots=True)
class ScannedSegment:
    """A segment of `scan --segments`, with the snapshot at its end."""

    COLUMNS: ClassVar = ("partition", "base_offset", "size_bytes", "verdict", "snapshot", "reason", "next_step")
    log_dir: str
    partition: str
    segment: SegmentFacts
    verdict: Verdict
    snapshot: SnapshotVerdict | None
    snapshot_reason: str | None
    reason: str
    next_step: str

    def rank(self) -> bool:
        """Return the sort key on a terminal: waiting segments first."""
        return not self.next_step


@command(ScannedPartition, ScannedSegment)
@situation_options(
    "Ask remote storage which segments are tiered: s3://bucket/prefix, or a directory.  [default: the location of this "
    "host's broker]",
    "A broker of the cluster, to ask which segments brokers copy by themselves.  [default: the broker of this host]",
)
@opt.selection_options
@opt.crc_option
@opt.broker_expiry_options
@opt.log_start_option
@click.option("--report", type=LocalPath(file_okay=False), help="Also write the readiness page, JSON and CSV here.")
@remote_checks_option
@click.option("--segments", is_flag=True, help="A row for each segment instead of each partition.")
@metrics_options
def scan(
    output: Output,
    situation: Situation,
    selection: opt.Selection,
    check_crc: bool,
    broker_expiry: opt.BrokerExpiry,
    log_starts: opt.LogStarts,
    report: Path | None,
    checks_file: Path | None,
    segments: bool,
    sinks: Sinks,
) -> int:
    """List segments, snapshots (present, missing, suspect, corrupt) and verdicts.

    tiersnap scan
    tiersnap scan /var/lib/kafka/data --topic 'orders|payments' --segments
    tiersnap scan /var/lib/kafka/data --remote s3://bucket/tiers --report page

    Beside a running broker it finds LOGDIR, the remote location and the cluster by itself.

    LOGDIR is an entry of a broker's log.dirs: a path, or a file:, s3: or hdfs: URI; several may be given, with blanks
    or commas between them, or as a glob. Reading is safe while the broker runs. The cluster knows which segments are
    tiered, and the remote location which of them are complete. Without both, replicas of __remote_log_metadata in
    LOGDIR prove a part.

    With a remote location it also names replicas that have forgotten producers, as brokers leave them that they rebuild
    from remote storage, and says what producers would meet if they led now.

    Exits 5 when something is damaged, 6 when something may not be read, 4 when a segment waits for a snapshot, an
    index, leader epochs or a topic id, or when a replica has forgotten producers, 0 otherwise.
    """
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.host.scanned import Scanner, ScanTotals
    from tiersnap.snapshot.log.log_start import with_stated
    from tiersnap.snapshot.log.places import located
    from tiersnap.snapshot.log.selection import count, findings_of, open_log_dirs, selected_of
    from tiersnap.snapshot.log.stray_partitions import stray_partitions
    from tiersnap.snapshot.replay.folds_ahead import FoldsAhead

    checks = read_checks(checks_file, is_shown=report is not None)
    situation, unanswered = situation.answering()
    log_dirs, view = situation.log_dirs.require("log directories"), situation.view_to_read()
    told_by = opt.ToldBy(situation.cluster.value)
    opened = with_stated(open_log_dirs(log_dirs), log_starts)
    answer = told_by.about(opened, selection.topic, output)
    tasks = answer.tasks
    folds = FoldsAhead(check_crc=check_crc)
    inventory = view.inventory(broker_expiry, answer.records, told_by.ask_log_start)
    scanner = Scanner(inventory, broker_expiry, check_crc, tasks, folds)
    findings = [*findings_of(opened), *(finding for _, finding in stray_partitions(opened))]
    errors = scanner.errors  # grows
    errors.extend(unanswered)
    totals = ScanTotals(findings, errors, was_asked=tasks is not None)
    page, metrics = _page(report), _metrics(sinks)
    place = command_place(log_dirs)
    progress = Progress(output, "scanning", count(opened, selection))

    def rows() -> Iterator[ScannedPartition | ScannedSegment]:
        for each, partition in told_by.located(progress.watch(folds.listed(selected_of(opened, selection)))):
            found = scanner.scan(each, partition, told_by.located)
            totals.add(found)
            if metrics is not None:
                metrics.add(found)
            if page is not None:
                page.add(located(each.uri), found)
            yield from _segments(each.uri, found, place) if segments else [_partition(each.uri, found)]

    kind: type[ScannedPartition | ScannedSegment] = ScannedSegment if segments else ScannedPartition
    with folds:
        output.rows(kind, rows(), several=len(opened) > 1, findings=totals.findings, errors=totals.errors)
    tell_failures(output, totals.errors)
    for each in opened:
        for other in each.log_dir.others:
            output.talk(f"not scanned: {other.name} ({other.state})")
    output.talk(*_counts(totals), *_next_steps(totals, place, has_remote=view.remote is not None))
    code = exit_code_of(totals.problems())
    if metrics is not None:
        sinks.send(lambda: metrics.samples(code))
    if page is not None and report is not None:
        from tiersnap.jobs.telemetry.host_report import host_run
        from tiersnap.snapshot.report.run_info import new_run_id

        uris, source = [located(each.uri) for each in opened], ", ".join(each.uri for each in opened)
        info = host_run(new_run_id(), uris, now=broker_expiry.now, source=source, remote=view.remote or "")
        page.write(report, info, checks)
        output.talk(f"wrote {report}/index.html, readiness.json, readiness.csv and what they point to")
    return code


def _page(report: Path | None) -> ScanPage | None:
    if report is None:
        return None
    from tiersnap.snapshot.report.of_scan import ScanPage

    return ScanPage()


def _metrics(sinks: Sinks) -> ScanMetrics | None:
    if not sinks.is_any:
        return None
    from tiersnap.snapshot.metrics.of_run import ScanMetrics

    return ScanMetrics(by_partition=sinks.by_partition)


def _partition(log_dir: str, scanned: Scanned) -> ScannedPartition:
    """Return one row a partition; snapshots and verdicts are counts by name, the most frequent first."""
    partition = scanned.examination.partition
    return ScannedPartition(
        log_dir=log_dir,
        partition=partition.name,
        topic=partition.topic,
        facts=scanned.examination.facts,
        segments=len(partition.segments),
        bytes=partition.log_bytes,
        deleted_segments=len(partition.deleted_segments),
        snapshots=dict(Counter(map(str, scanned.snapshots.values())).most_common()),
        verdicts=dict(Counter(str(each.verdict) for each in scanned.readiness).most_common()),
        findings=len(scanned.examination.findings),
        forgotten=scanned.forgotten,
    )


def _segments(log_dir: str, scanned: Scanned, place: Place) -> Iterator[ScannedSegment]:
    examination = scanned.examination
    files = (segment.log.path for segment in examination.partition.segments)
    for segment, readiness, file in zip(examination.segments, scanned.readiness, files, strict=True):
        following = segment.next_base_offset
        offset = examination.facts.log_end_offset if following is None else following
        found = examination.snapshots.get(offset)
        yield ScannedSegment(
            log_dir=log_dir,
            partition=examination.partition.name,
            segment=segment,
            verdict=readiness.verdict,
            snapshot=scanned.snapshots.get(offset),
            snapshot_reason=None if found is None else found.reason(scanned.expiry),
            reason=readiness.reason,
            next_step=place.beside(file).clears(readiness.verdict),
        )


def _counts(totals: ScanTotals) -> Iterator[str]:
    verdicts, snapshots = dict(totals.verdicts.most_common()), dict(totals.snapshots.most_common())
    yield f"segments: {cell(verdicts)}; snapshots: {cell(snapshots)}"
    if totals.deleted_segments:
        below = count_of(totals.deleted_segments, "segment")
        yield f"not scanned: {below} below the log start offset, which brokers remove"
    if totals.waiting_bytes:
        yield f"{human_bytes(totals.waiting_bytes)} cannot be tiered for want of right snapshots"


def _next_steps(totals: ScanTotals, place: Place, *, has_remote: bool) -> Iterator[str]:
    """Yield the next step of each cause."""
    from tiersnap.snapshot.gate.steps_by_problem import TIER, VERIFY_REMOTE

    yield from _of_problems(totals, place)
    yield from _of_lost_indexes(totals, place)
    yield from of_unlocated(totals.log_starts.unlocated, remote=not has_remote)
    if totals.log_starts.unlocated and not has_remote:
        yield f"next for UNKNOWN_LOG_START: {place.text(VERIFY_REMOTE)}"
    if count := totals.not_compared:
        yield of_not_compared(count, place.text(VERIFY_REMOTE))
    yield from _of_snapshots(totals, place)
    if totals.verdicts[Verdict.READY]:
        brokers = "no broker copies them by itself" if totals.was_asked else f"{_BROKERS_COPY}; where none does"
        yield f"next for READY: {brokers}: {place.text(TIER)}"
    for verdict in (Verdict.IN_REMOTE, Verdict.UPLOADED):
        if totals.verdicts[verdict]:
            yield f"next for {verdict}: {place.clears(verdict)}"
    if left := totals.verdicts[Verdict.LEFT_TO_BROKER]:
        yield f"brokers copy {count_of(left, 'segment')} by themselves; --segments says when each"


def _of_problems(totals: ScanTotals, place: Place) -> Iterator[str]:
    """Yield the next step of each verdict, then of each kind of finding, without repetitions."""
    steps: dict[str, str] = {}  # the first problem, by the step that clears it
    for step, problem in chain(_steps_of_verdicts(totals, place), _steps_of_findings(totals, place)):
        steps.setdefault(step, problem)
    yield from (f"next for {problem}: {step}" for step, problem in steps.items())


def _steps_of_verdicts(totals: ScanTotals, place: Place) -> Iterator[tuple[str, str]]:
    """Yield (step, verdict)."""
    from tiersnap.snapshot.log.findings import FindingKind
    from tiersnap.snapshot.log.log_dir import HIGH_WATERMARKS

    damaged = place.beside(_damaged_log(totals.findings))
    has_no_watermarks = any(each.path.endswith(f"/{HIGH_WATERMARKS}") for each in totals.findings)
    for verdict in map(Verdict, _CAUSES):
        is_met = totals.unread if verdict is Verdict.UNVERIFIED_SNAPSHOT else totals.verdicts[verdict]
        if not is_met:
            continue
        waits_for_file = verdict is Verdict.ABOVE_LSO and has_no_watermarks
        yield damaged.clears(FindingKind.MISSING_CHECKPOINT if waits_for_file else verdict), verdict


def _damaged_log(findings: Iterable[Finding]) -> str:
    """Return the path of the first damaged segment, a placeholder without any."""
    from tiersnap.snapshot.log.findings import NOT_READ

    for each in findings:
        if each.finding_kind not in NOT_READ and each.path.endswith(".log"):
            return each.path
    return "FILE"


def _steps_of_findings(totals: ScanTotals, place: Place) -> Iterator[tuple[str, str]]:
    """Yield (step, kind of finding), without deleted files, which `Output.rows` reports."""
    from tiersnap.snapshot.log.findings import FindingKind

    has_wrong_snapshots = any(totals.wanted[each] for each in _WRONG)
    for each in totals.findings:
        kind = each.finding_kind
        if each.is_gone:
            continue
        if has_wrong_snapshots and kind is FindingKind.CORRUPT_SNAPSHOT:
            continue
        yield place.beside(each.path).clears(kind), kind


def _of_lost_indexes(totals: ScanTotals, place: Place) -> Iterator[str]:
    from tiersnap.snapshot.gate.steps_by_problem import REPAIR

    if totals.lost_indexes:
        repairs = sum(totals.wanted[each] for each in (SnapshotVerdict.MISSING, *_WRONG))
        yield (
            f"{count_of(totals.lost_indexes, 'partition has', 'partitions have')} lost an .index: at its next start "
            "the broker makes it again, and deletes the later snapshots of the partition as it does"
            + ("; start it once, stop it, and then go on" if repairs else "")
        )
    if totals.lost_below_log_start:
        has = count_of(totals.lost_below_log_start, "partition has", "partitions have")
        yield (
            f"{has} a segment below the log start offset that lost its .index: at its next start the broker deletes "
            f"all later snapshots of the partition; {place.text(REPAIR)} names the files to move away before"
        )


def _of_snapshots(totals: ScanTotals, place: Place) -> Iterator[str]:
    """Yield the sentences about replicas without producers, and the next step of the worst snapshots."""
    from tiersnap.snapshot.gate.exit_code import OtherProblem
    from tiersnap.snapshot.gate.steps_by_problem import REPAIR, REPAIR_REMOTE, REPLACE, REPLACE_REMOTE

    yield from totals.forgotten
    if totals.forgotten:
        step = place.clears(OtherProblem.REPLICA_WITHOUT_PRODUCERS)
        yield f"next for forgotten producers: stop the broker before it leads these partitions: {step}"
    elif any(totals.wanted[each] for each in _WRONG):
        yield f"next for wrong snapshots: {place.text(REPLACE_REMOTE if totals.log_starts.continued else REPLACE)}"
    elif totals.wanted[SnapshotVerdict.MISSING]:
        yield f"next for missing snapshots: {place.text(REPAIR_REMOTE if totals.log_starts.continued else REPAIR)}"
