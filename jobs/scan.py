"""`tiersnap scan`: what a log directory holds and what stands in the way of tiering it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import click
from pyarrow import fs

from tiersnap.jobs.options import common as params
from tiersnap.jobs.output import Output
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.examine import Examination, compaction_reason, examine
from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.repair.plan import strays
from tiersnap.snapshot.state.trust import Comparison, SnapshotVerdict
from tiersnap.snapshot.units import human_bytes

BLOCKING = (Verdict.MISSING_SNAPSHOT, Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT)


@click.command()
@click.argument("source", envvar="TIERSNAP_SOURCE")
@params.topic_option
@params.crc_option
@params.producer_expiration_option
@click.option("--segments", is_flag=True, help="A row a segment instead of a row a partition.")
@params.output_option
@click.pass_obj
def scan(
    output: Output,
    source: str,
    topic: re.Pattern[str] | None,
    check_crc: bool,
    producer_expiration: int | None,
    segments: bool,
) -> int:
    """List segments, snapshots (present, missing, suspect, corrupt) and verdicts of SOURCE.

    SOURCE is one entry of a broker's log.dirs: a path, or a file:, s3: or hdfs: URI. Reading is safe while the broker
    runs. Exits 5 when something is damaged, 4 when a segment waits for a snapshot or an index, 0 otherwise.
    """
    log_dir = open_log_dir(source)
    totals = Totals()
    partitions = selected(log_dir, source, topic)
    examinations = _examine_all(log_dir.filesystem, partitions, check_crc, producer_expiration, totals)
    if segments:
        columns = ("partition", "base_offset", "bytes", "verdict", "snapshot", "reason")
        rows = (row for examination in examinations for row in segment_rows(examination))
    else:
        columns = ("partition", "segments", "size", "snapshots", "verdicts", "findings")
        rows = (partition_row(examination) for examination in examinations)
    output.rows("scan", rows, columns=columns)
    for other in log_dir.others:
        output.talk(f"not scanned: {other.name} ({other.state})")
    totals.findings.extend(log_dir.findings)
    for finding in totals.findings:
        output.warn(str(finding))
    totals.talk(output, source)
    return totals.exit_code


class Totals:
    """What the rows add up to; only snapshots that somebody will read (`wanted_snapshots`) decide the exit code."""

    def __init__(self) -> None:
        self.verdicts: Counter[Verdict] = Counter()
        self.snapshots: Counter[SnapshotVerdict] = Counter()
        self.wanted: Counter[SnapshotVerdict] = Counter()
        self.findings: list[object] = []
        self.deleted_segments = 0
        self.waiting_bytes = 0

    def add(self, examination: Examination) -> None:
        """Count one partition."""
        self.verdicts.update(readiness.verdict for readiness in examination.readiness)
        self.snapshots.update(found.verdict for found in examination.snapshots.values())
        self.wanted.update(found.verdict for found in wanted_snapshots(examination).values())
        self.findings.extend(examination.findings)
        self.deleted_segments += examination.partition.deleted_segments
        is_waiting = False
        for segment, readiness in zip(examination.partition.segments, examination.readiness, strict=True):
            is_waiting |= readiness.verdict in BLOCKING
            if is_waiting and readiness.verdict is not Verdict.ACTIVE_SEGMENT:
                self.waiting_bytes += segment.log.size

    @property
    def exit_code(self) -> ExitCode:
        """5 for damage, 4 for waiting segments."""
        if self.findings or self.wanted[SnapshotVerdict.CORRUPT]:
            return ExitCode.DATA_CORRUPT
        waiting = any(self.verdicts[verdict] for verdict in (*BLOCKING, Verdict.MISSING_INDEX))
        wrong = self.wanted[SnapshotVerdict.MISSING] or self.wanted[SnapshotVerdict.SUSPECT]
        return ExitCode.GATE_REFUSED if waiting or wrong else ExitCode.OK

    def talk(self, output: Output, source: str) -> None:
        """One line of counts and the next command."""
        output.talk(f"segments: {_counts(self.verdicts)}; snapshots: {_counts(self.snapshots)}")
        if self.deleted_segments:
            output.talk(
                f"not scanned: {self.deleted_segments} segments below the log start offset, which brokers remove"
            )
        if self.waiting_bytes:
            output.talk(f"{human_bytes(self.waiting_bytes)} cannot be tiered for want of right snapshots")
        if self.verdicts[Verdict.MISSING_INDEX]:
            output.talk(
                "next: start the broker once, which makes a lost index again and deletes the later snapshots of its "
                f"partition as it does; stop it, then tiersnap repair {source}"
            )
        elif self.wanted[SnapshotVerdict.CORRUPT] or self.wanted[SnapshotVerdict.SUSPECT]:
            output.talk(f"next: tiersnap repair {source} --replace")
        elif self.wanted[SnapshotVerdict.MISSING]:
            output.talk(f"next: tiersnap repair {source}")


def wanted_snapshots(examination: Examination) -> dict[int, Comparison]:
    """Verdicts by offset, without the snapshots of compacted topics and those that a broker deletes unread."""
    partition = examination.partition
    if compaction_reason(partition, has_gaps=any(end.has_gaps for end in examination.replay.ends.values())):
        return {}
    ignored = strays(partition)
    return {offset: found for offset, found in examination.snapshots.items() if offset not in ignored}


def _examine_all(
    filesystem: fs.FileSystem,
    partitions: Iterator[Partition],
    check_crc: bool,
    producer_expiration: int | None,
    totals: Totals,
) -> Iterator[Examination]:
    for partition in partitions:
        examination = examine(filesystem, partition, check_crc=check_crc, producer_expiration=producer_expiration)
        totals.add(examination)
        yield examination


def _counts(counter: Counter[Verdict] | Counter[SnapshotVerdict]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common()) or "none"


def partition_row(examination: Examination) -> dict[str, object]:
    """One row a partition."""
    partition = examination.partition
    verdicts = Counter(readiness.verdict for readiness in examination.readiness)
    snapshots = Counter(comparison.verdict for comparison in examination.snapshots.values())
    return {
        "partition": partition.name,
        "topic": partition.topic,
        "topic_id": partition.topic_id,
        "segments": len(partition.segments),
        "bytes": sum(segment.log.size for segment in partition.segments),
        "size": human_bytes(sum(segment.log.size for segment in partition.segments)),
        "log_start_offset": partition.log_start_offset,
        "deleted_segments": partition.deleted_segments,
        "log_end_offset": examination.replay.log_end,
        "high_watermark": examination.replay.high_watermark,
        "last_stable_offset": examination.replay.last_stable_offset,
        "snapshots": _counts(snapshots),
        "verdicts": _counts(verdicts),
        "findings": len(examination.findings),
    }


def segment_rows(examination: Examination) -> Iterator[dict[str, object]]:
    """One row a segment, with the snapshot at its end."""
    partition = examination.partition
    for segment, readiness in zip(partition.segments, examination.readiness, strict=True):
        following = segment.next_base_offset
        found = examination.snapshots.get(examination.replay.log_end if following is None else following)
        yield {
            "partition": partition.name,
            "base_offset": segment.base_offset,
            "next_base_offset": following,
            "bytes": segment.log.size,
            "verdict": readiness.verdict,
            "snapshot": found.verdict if found else None,
            "snapshot_reason": found.reason if found else None,
            "reason": readiness.reason,
            "next_step": readiness.next_step,
        }
