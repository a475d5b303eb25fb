"""What `scan` shows: a row a partition or a segment, counts, and for each cause the one command that comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tiersnap.jobs.output import Output, cell
from tiersnap.jobs.tell.failures import tell_failures
from tiersnap.snapshot.log.findings import NOT_READ
from tiersnap.snapshot.log.log_dir import HIGH_WATERMARKS
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.readiness.host_commands import HostCommands
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.readiness.scan_totals import ScanTotals
from tiersnap.snapshot.readiness.scanned import Scanned
from tiersnap.snapshot.replay.trust import SnapshotVerdict
from tiersnap.snapshot.units import count_of, human_bytes

_OF_SEGMENT = ("partition", "base_offset", "bytes", "verdict", "snapshot", "reason", "next_step")
_OF_PARTITION = ("partition", "segments", "size", "snapshots", "verdicts", "findings")
# Said with the verdict's own next step; those of snapshots are said with the source's name, and a gap is no cause.
_CAUSES = (
    Verdict.CORRUPT_SEGMENT,
    Verdict.UNREADABLE_SEGMENT,
    Verdict.UNVERIFIED_SNAPSHOT,
    Verdict.MISSING_INDEX,
    Verdict.TOPIC_ID_UNKNOWN,
    Verdict.ABOVE_LSO,
)

_BROKERS_COPY = (
    "a broker with tiered storage copies them at its next turn, or since Kafka 4.4 after remote.copy.lag.ms or .bytes"
)


def show(
    output: Output,
    log_dirs: Sequence[NamedLogDir],
    scanned: Iterable[tuple[str, Scanned]],
    totals: ScanTotals,
    commands: HostCommands,
    *,
    segments: bool,
) -> None:
    """The rows, what was left out, counts, and what comes next; `totals` get what is found while rows are shown.

    Args:
        scanned: partitions with their log directories.
        commands: what the next steps of segments are filled with.
        segments: a row a segment instead of a row a partition.
    """
    rows = (
        {"log_dir": log_dir, **row}
        for log_dir, each in scanned
        for row in (segment_rows(each, commands) if segments else [partition_row(each)])
    )
    where = ("log_dir",) if len(log_dirs) > 1 else ()
    columns = _OF_SEGMENT if segments else _OF_PARTITION
    output.rows("scan", rows, columns=(*where, *columns), findings=totals.findings, errors=totals.errors)
    tell_failures(output, totals.errors, len(totals.errors))
    for each in log_dirs:
        for other in each.log_dir.others:
            output.talk(f"not scanned: {other.name} ({other.state})")
    for line in _lines(totals, commands):
        output.talk(line)


def _lines(totals: ScanTotals, commands: HostCommands) -> Iterator[str]:
    """Counts, and the next command for each cause."""
    repair = commands.of("tiersnap repair LOGDIR")
    yield f"segments: {_counts(totals.verdicts)}; snapshots: {_counts(totals.snapshots)}"
    if totals.deleted_segments:
        yield (
            f"not scanned: {count_of(totals.deleted_segments, 'segment')} below the log start offset, which brokers "
            "remove"
        )
    if totals.waiting_bytes:
        yield f"{human_bytes(totals.waiting_bytes)} cannot be tiered for want of right snapshots"
    watermarks = [each for each in totals.findings if each.path.endswith(f"/{HIGH_WATERMARKS}")]
    for verdict in _CAUSES:
        if verdict is Verdict.ABOVE_LSO and watermarks:
            yield f"next for {verdict}: start the broker, which writes {HIGH_WATERMARKS} anew, and look again"
        elif totals.unread if verdict is Verdict.UNVERIFIED_SNAPSHOT else totals.verdicts[verdict]:
            yield f"next for {verdict}: {commands.next_step(verdict, _damaged(totals))}"
    asked = commands.of("tiersnap repair LOGDIR --remote REMOTE") if totals.continued else repair
    is_missing = totals.wanted[SnapshotVerdict.MISSING]
    is_wrong = totals.wanted[SnapshotVerdict.CORRUPT] or totals.wanted[SnapshotVerdict.SUSPECT]
    if totals.lost_indexes:
        yield (
            f"{count_of(totals.lost_indexes, 'partition has', 'partitions have')} lost an .index: at its next start "
            "the broker makes it again, and deletes the later snapshots of the partition as it does"
            + ("; start it once, stop it, and then go on" if is_missing or is_wrong else "")
        )
    if totals.lost_below_log_start:
        has = count_of(totals.lost_below_log_start, "partition has", "partitions have")
        yield (
            f"{has} a segment below the log start offset that lost its .index: at its next start the broker deletes "
            f"all later snapshots of the partition; {repair} names the files to move away before"
        )
    if count := totals.snapshots[SnapshotVerdict.NOT_COMPARED]:
        what = f"{count_of(count, 'snapshot is', 'snapshots are')} not compared: their logs begin in remote storage"
        yield f"{what}; next: {commands.of('tiersnap verify LOGDIR --remote REMOTE')}"
    if is_wrong:
        yield f"next for wrong snapshots: {asked} --replace"
    elif is_missing:
        yield f"next for missing snapshots: {asked}"
    if totals.verdicts[Verdict.READY]:
        brokers = "no broker copies them by itself" if totals.was_asked else f"{_BROKERS_COPY}; where none does"
        yield f"next for READY: {brokers}: {commands.tier}"
    if left := totals.verdicts[Verdict.LEFT_TO_BROKER]:
        yield f"brokers copy {count_of(left, 'segment')} by themselves; --segments says when each"


def _damaged(totals: ScanTotals) -> str:
    """The first segment that is damaged."""
    paths = (each.path for each in totals.findings if each.kind not in NOT_READ and each.path.endswith(".log"))
    return next(paths, "FILE")


def _counts(counter: Counter[Verdict] | Counter[SnapshotVerdict]) -> str:
    return cell(dict(counter.most_common()))


def partition_row(scanned: Scanned) -> dict[str, object]:
    """One row a partition; snapshots and verdicts are counts by name, the most frequent first."""
    examination = scanned.examination
    partition, facts = examination.partition, examination.facts
    return {
        "partition": partition.name,
        "topic": partition.topic,
        "topic_id": partition.topic_id,
        "segments": len(partition.segments),
        "bytes": sum(segment.log.size for segment in partition.segments),
        "size": human_bytes(sum(segment.log.size for segment in partition.segments)),
        "log_start_offset": partition.log_start_offset,
        "deleted_segments": len(partition.deleted_segments),
        "log_end_offset": facts.log_end_offset,
        "high_watermark": facts.high_watermark,
        "last_stable_offset": facts.last_stable_offset,
        "snapshots": dict(Counter(map(str, scanned.snapshots.values())).most_common()),
        "verdicts": dict(Counter(str(each.verdict) for each in scanned.readiness).most_common()),
        "findings": len(examination.findings),
    }


def segment_rows(scanned: Scanned, commands: HostCommands) -> Iterator[dict[str, object]]:
    """One row a segment, with the snapshot at its end."""
    examination = scanned.examination
    files = (segment.log.path for segment in examination.partition.segments)
    for segment, readiness, file in zip(examination.segments, scanned.readiness, files, strict=True):
        following = segment.next_base_offset
        offset = examination.facts.log_end_offset if following is None else following
        found = examination.snapshots.get(offset)
        yield {
            "partition": examination.partition.name,
            "base_offset": segment.base_offset,
            "next_base_offset": following,
            "bytes": segment.size,
            "largest_timestamp": segment.largest_timestamp,
            "verdict": readiness.verdict,
            "snapshot": scanned.snapshots.get(offset),
            "snapshot_reason": None if found is None else found.reason(scanned.now, scanned.producer_expiration),
            "reason": readiness.reason,
            "next_step": commands.next_step(readiness.verdict, file),
        }
