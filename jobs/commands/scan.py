"""`tiersnap scan`: list segments, snapshots and verdicts of a log directory, and the next steps."""

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
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
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

# Verdicts with a next step from `_steps_of_verdicts`. The steps for missing and wrong snapshots are in `_of_snapshots`.
_CAUSES = (
    *("CORRUPT_SEGMENT", "UNREADABLE_SEGMENT", "UNVERIFIED_SNAPSHOT", "MISSING_INDEX", "TOPIC_ID_UNKNOWN"),
    *("INDEX_DAMAGED", "ABOVE_LSO", "GAP_IN_REMOTE"),
)
_WRONG = (SnapshotVerdict.CORRUPT, SnapshotVerdict.SUSPECT)
_BROKERS_COPY = (
    "a broker with tiered storage uploads these segments when its copy task runs next. Since Kafka 4.4 the copy task "
    "first waits for remote.copy.lag.ms or remote.copy.lag.bytes"
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
    lost_producers: LostProducers | None

    @property
    def size(self) -> str:
        """Return `bytes` with a unit, for people."""
        return human_bytes(self.bytes)

    def rank(self) -> tuple[int, int]:
        """Return the sort key on a terminal: most findings first, then most segments that cannot be tiered."""
        fine = 0
        for verdict in ("READY", "TIERED", "UPLOADED", "IN_REMOTE", "ACTIVE_SEGMENT"):
            fine += self.verdicts.get(verdict, 0)
        return -self.findings - (self.lost_producers is not None), fine - self.segments


@dataclass(frozen=True, slots=True)
class ScannedSegment:
    """A segment of `scan --segments`, with the verdict on the snapshot at its end offset."""

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
        """Return the sort key on a terminal: segments with a next step first."""
        return not self.next_step


@command(ScannedPartition, ScannedSegment)
@situation_options(
    "Remote location: s3://bucket/prefix, or a directory. scan looks for tiered segments in it.  [default: the "
    "location of this host's broker]",
    "Broker of the cluster. scan asks it for tiered segments and working copy tasks.  [default: the broker of "
    "this host]",
)
@opt.selection_options
@opt.crc_option
@opt.broker_expiry_options
@opt.log_start_option
@click.option(
    "--report", type=LocalPath(file_okay=False), help="Write the readiness page, JSON and CSV to this folder."
)
@remote_checks_option
@click.option("--segments", is_flag=True, help="Print a row per segment, not per partition.")
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

    On the host of a running broker the command finds LOGDIR, the remote location and the cluster.

    LOGDIR is an entry of the broker's log.dirs: a path, or a file:, s3: or hdfs: URI. To give several entries, separate
    them with blanks or commas, or use a glob. Reading is safe while the broker runs.

    The cluster's records name the tiered segments. The remote location shows which of them are complete. Without a
    cluster and a remote location, replicas of __remote_log_metadata in LOGDIR show only some of the tiered segments.

    With a remote location the command also reports replicas that lost active producers, and the errors that these
    producers would get from such a replica as leader. A broker loses producers if it rebuilds a replica from remote
    storage.

    The exit code is 5 if a file is damaged, and 6 if this user may not read a file. It is 4 if a segment waits for a
    snapshot, an index, leader epochs or a topic id, or if a replica lost producers. Otherwise it is 0.
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
    copy_tasks = opt.CopyTaskSource(situation.cluster.value)
    opened = with_stated(open_log_dirs(log_dirs), log_starts)
    answer = copy_tasks.about(opened, selection.topic, output)
    tasks = answer.tasks
    folds = FoldsAhead(check_crc=check_crc)
    inventory = view.inventory(broker_expiry, answer.records, copy_tasks.ask_log_start)
    scanner = Scanner(inventory, broker_expiry, check_crc, tasks, folds)
    findings = list(findings_of(opened))
    for _, finding in stray_partitions(opened):
        findings.append(finding)
    errors = scanner.errors  # the scanner adds to this list during the scan
    errors.extend(unanswered)
    totals = ScanTotals(findings, errors, was_asked=tasks is not None)
    page, metrics = _page(report), _metrics(sinks)
    place = command_place(log_dirs)
    progress = Progress(output, "scanning", count(opened, selection))

    def rows() -> Iterator[ScannedPartition | ScannedSegment]:
        for each, partition in copy_tasks.located(progress.watch(folds.listed(selected_of(opened, selection)))):
            found = scanner.scan(each, partition, copy_tasks.located)
            totals.add(found)
            if metrics is not None:
                metrics.add(found)
            if page is not None:
                page.add(located(each.uri), found)
            if segments:
                yield from _segments(each.uri, found, place)
            else:
                yield _partition(each.uri, found)

    kind: type[ScannedPartition | ScannedSegment] = ScannedPartition
    if segments:
        kind = ScannedSegment
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

        names = [each.uri for each in opened]
        uris, source = list(map(located, names)), ", ".join(names)
        info = host_run(new_run_id(), uris, now=broker_expiry.now, source=source, remote=view.remote or "")
        page.write(report, info, checks)
        output.talk(f"wrote {report}/index.html, readiness.json, readiness.csv and the files that they link to")
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
    """Return the row of a partition. Snapshots and verdicts are counts by name, the most frequent first."""
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
        lost_producers=scanned.lost_producers,
    )


def _segments(log_dir: str, scanned: Scanned, place: Place) -> Iterator[ScannedSegment]:
    examination = scanned.examination
    listed = examination.partition.segments
    for segment, readiness, on_disk in zip(examination.segments, scanned.readiness, listed, strict=True):
        offset = segment.next_base_offset
        if offset is None:
            offset = examination.facts.log_end_offset
        snapshot_reason = None
        if (found := examination.snapshots.get(offset)) is not None:
            snapshot_reason = found.reason(scanned.expiry)
        yield ScannedSegment(
            log_dir=log_dir,
            partition=examination.partition.name,
            segment=segment,
            verdict=readiness.verdict,
            snapshot=scanned.snapshots.get(offset),
            snapshot_reason=snapshot_reason,
            reason=readiness.reason,
            next_step=place.beside(on_disk.log.path).clears(readiness.verdict),
        )


def _counts(totals: ScanTotals) -> Iterator[str]:
    verdicts, snapshots = dict(totals.verdicts.most_common()), dict(totals.snapshots.most_common())
    yield f"segments by verdict: {cell(verdicts)}; snapshots by verdict: {cell(snapshots)}"
    if totals.deleted_segments:
        below = count_of(totals.deleted_segments, "segment")
        yield f"not scanned: {below} below the log start offset: brokers delete such segments"
    if totals.waiting_bytes:
        yield (
            f"{human_bytes(totals.waiting_bytes)} of segments cannot be tiered, because snapshots are missing or wrong"
        )


def _next_steps(totals: ScanTotals, place: Place, *, has_remote: bool) -> Iterator[str]:
    """Yield the next step for each problem, and for each verdict that needs a step."""
    from tiersnap.snapshot.gate.next_steps import TIER, VERIFY_REMOTE

    yield from _of_problems(totals, place)
    yield from _of_lost_indexes(totals, place)
    yield from of_unlocated(totals.log_starts.unlocated, remote=not has_remote)
    if totals.log_starts.unlocated and not has_remote:
        yield f"next for UNKNOWN_LOG_START: {place.text(VERIFY_REMOTE)}"
    if count := totals.not_compared:
        yield of_not_compared(count, place.text(VERIFY_REMOTE))
    yield from _of_snapshots(totals, place)
    if totals.verdicts[Verdict.READY]:
        brokers = f"{_BROKERS_COPY}. If no broker uploads them, run"
        if totals.was_asked:
            brokers = "no broker uploads them by itself, so run"
        yield f"next for READY: {brokers}: {place.text(TIER)}"
    for verdict in (Verdict.IN_REMOTE, Verdict.UPLOADED):
        if totals.verdicts[verdict]:
            yield f"next for {verdict}: {place.clears(verdict)}"
    if left := totals.verdicts[Verdict.LEFT_TO_BROKER]:
        yield f"brokers upload {count_of(left, 'segment')} by themselves; to see when: --segments"


def _of_problems(totals: ScanTotals, place: Place) -> Iterator[str]:
    """Yield the next step for each verdict, then for each kind of finding. Each distinct step occurs once."""
    steps: dict[str, str] = {}  # maps each step to the first problem that it clears
    for step, problem in chain(_steps_of_verdicts(totals, place), _steps_of_findings(totals, place)):
        steps.setdefault(step, problem)
    yield from (f"next for {problem}: {step}" for step, problem in steps.items())


def _steps_of_verdicts(totals: ScanTotals, place: Place) -> Iterator[tuple[str, str]]:
    """Yield pairs of next step and verdict."""
    from tiersnap.snapshot.log.findings import FindingKind
    from tiersnap.snapshot.log.log_dir import HIGH_WATERMARKS

    damaged = place.beside(_damaged_log(totals.findings))
    has_no_watermarks = any(each.path.endswith(f"/{HIGH_WATERMARKS}") for each in totals.findings)
    for verdict in map(Verdict, _CAUSES):
        count = totals.verdicts[verdict]
        if verdict is Verdict.UNVERIFIED_SNAPSHOT:
            count = totals.unread
        if not count:
            continue
        if verdict is Verdict.ABOVE_LSO and has_no_watermarks:
            yield damaged.clears(FindingKind.MISSING_CHECKPOINT), verdict
        else:
            yield damaged.clears(verdict), verdict


def _damaged_log(findings: Iterable[Finding]) -> str:
    """Return the path of the first damaged segment; the placeholder FILE if no segment is damaged."""
    from tiersnap.snapshot.log.findings import NOT_READ

    for each in findings:
        if each.finding_kind not in NOT_READ and each.path.endswith(".log"):
            return each.path
    return "FILE"


def _steps_of_findings(totals: ScanTotals, place: Place) -> Iterator[tuple[str, str]]:
    """Yield pairs of next step and kind of finding. Skip DELETED_FILE, because `Output.rows` prints its step."""
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
    from tiersnap.snapshot.gate.next_steps import REPAIR

    if totals.lost_indexes:
        lost = (
            f"{count_of(totals.lost_indexes, 'partition has', 'partitions have')} segments without an .index file: "
            "at its next start the broker rebuilds the index, and deletes the later snapshots of the partition"
        )
        if any(totals.wanted[each] for each in (SnapshotVerdict.MISSING, *_WRONG)):
            lost += "; start the broker once, stop it, and repair only then"
        yield lost
    if totals.lost_below_log_start:
        has = count_of(totals.lost_below_log_start, "partition has", "partitions have")
        yield (
            f"{has} a segment without an .index file below the log start offset: at its next start the broker deletes "
            "all later snapshots of the partition; to see which files to move away before that start: "
            f"{place.text(REPAIR)}"
        )


def _of_snapshots(totals: ScanTotals, place: Place) -> Iterator[str]:
    """Yield the messages about replicas without producers, and the next step for wrong or missing snapshots."""
    from tiersnap.snapshot.gate.exit_code import OtherProblem
    from tiersnap.snapshot.gate.next_steps import REPAIR, REPAIR_REMOTE, REPLACE, REPLACE_REMOTE

    yield from totals.lost_producers
    if totals.lost_producers:
        step = place.clears(OtherProblem.REPLICA_WITHOUT_PRODUCERS)
        yield f"to restore lost producers: stop the broker before it becomes leader of these partitions, then: {step}"
    elif any(totals.wanted[each] for each in _WRONG):
        replace = REPLACE_REMOTE if totals.log_starts.continued else REPLACE
        yield f"next for wrong snapshots: {place.text(replace)}"
    elif totals.wanted[SnapshotVerdict.MISSING]:
        repair = REPAIR_REMOTE if totals.log_starts.continued else REPAIR
        yield f"next for missing snapshots: {place.text(repair)}"
