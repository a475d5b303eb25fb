"""`tiersnap scan`: what a log directory holds and what stands in the way of tiering it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import log_dirs_argument, partition_option
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.scan_next import Totals
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.gate.examine import Examination, examine
from tiersnap.snapshot.gate.readiness import Readiness
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of
from tiersnap.snapshot.state.trust import SnapshotVerdict
from tiersnap.snapshot.units import human_bytes

if TYPE_CHECKING:
    from tiersnap.jobs.scan_metrics import ScanMetrics


@click.command()
@log_dirs_argument("LOGDIR")
@params.topic_option
@partition_option
@params.crc_option
@params.producer_expiration_option
@params.now_option
@click.option(
    "--report",
    type=LocalPath(file_okay=False),
    help="Also write the readiness page, JSON and CSV here.",
)
@click.option("--segments", is_flag=True, help="A row a segment instead of a row a partition.")
@metrics_options
@params.output_option
@click.pass_obj
def scan(
    output: Output,
    log_dirs: tuple[str, ...],
    topic: re.Pattern[str] | None,
    partitions: tuple[TopicPartition, ...],
    check_crc: bool,
    producer_expiration: int | None,
    now: int,
    report: Path | None,
    segments: bool,
    sinks: Sinks,
) -> int:
    """List segments, snapshots (present, missing, suspect, corrupt) and verdicts.

    LOGDIR is an entry of a broker's log.dirs: a path, or a file:, s3: or hdfs: URI; several may be given, with blanks
    or commas between them, or as a glob. Reading is safe while the broker runs. Exits 5 when something is damaged, 6
    when something may not be read, 4 when a segment waits for a snapshot, an index or leader epochs, 0 otherwise.
    """
    opened, selection = open_log_dirs(log_dirs), Selection(topic, frozenset(partitions))
    totals, metrics = Totals(log_dirs, selection), _metrics(sinks)
    for each in opened:
        totals.findings.extend(each.log_dir.findings)
    progress = Progress(output, "scanning", count(opened, selection))
    page = None
    if report is not None:
        from tiersnap.jobs.scan_report import ScanReport  # templates take a while to load

        page = ScanReport([each.uri for each in opened], now)

    def rows() -> Iterator[dict[str, object]]:
        for each, partition in progress.watch(selected_of(opened, selection)):
            examination = examine(each.log_dir.filesystem, partition, check_crc=check_crc)
            scanned = Scanned.of(examination, now, producer_expiration)
            totals.add(examination, scanned.readiness, scanned.snapshots)
            if metrics is not None:
                metrics.add(scanned)
            if page is not None:
                page.add(each.uri, scanned)
            for row in segment_rows(scanned) if segments else [partition_row(scanned)]:
                yield {"log_dir": each.uri, **row}

    of_segment = ("partition", "base_offset", "bytes", "verdict", "snapshot", "reason", "next_step")
    of_partition = ("partition", "segments", "size", "snapshots", "verdicts", "findings")
    columns = of_segment if segments else of_partition
    where = ("log_dir",) if len(opened) > 1 else ()
    output.rows("scan", rows(), columns=(*where, *columns), findings=totals.findings)
    for each in opened:
        for other in each.log_dir.others:
            output.talk(f"not scanned: {other.name} ({other.state})")
    for line in totals.lines():
        output.talk(line)
    if (told := metrics) is not None:
        sinks.send(lambda: told.samples(totals.exit_code))
    if page is not None and report is not None:
        page.write(report)
        output.talk(f"wrote {report}/index.html, readiness.json, readiness.csv and what they point to")
    return totals.exit_code


def _metrics(sinks: Sinks) -> ScanMetrics | None:
    if not sinks.is_any:
        return None
    from tiersnap.jobs.scan_metrics import ScanMetrics

    return ScanMetrics(by_partition=sinks.by_partition)


@dataclass(frozen=True)
class Scanned:
    """A partition as it is judged now; `snapshots` are verdicts by offset."""

    examination: Examination
    readiness: tuple[Readiness, ...]
    snapshots: Mapping[int, SnapshotVerdict]
    now: int
    producer_expiration: int | None

    @classmethod
    def of(cls, examination: Examination, now: int, producer_expiration: int | None) -> Scanned:
        """Judge a partition; what remote storage holds of it, a log directory does not say."""
        readiness = examination.readiness(now=now, producer_expiration=producer_expiration)
        verdicts = {offset: found.verdict(now, producer_expiration) for offset, found in examination.snapshots.items()}
        return cls(examination, readiness, verdicts, now, producer_expiration)


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
        "deleted_segments": partition.deleted_segments,
        "log_end_offset": facts.log_end_offset,
        "high_watermark": facts.high_watermark,
        "last_stable_offset": facts.last_stable_offset,
        "snapshots": dict(Counter(map(str, scanned.snapshots.values())).most_common()),
        "verdicts": dict(Counter(str(each.verdict) for each in scanned.readiness).most_common()),
        "findings": len(examination.findings),
    }


def segment_rows(scanned: Scanned) -> Iterator[dict[str, object]]:
    """One row a segment, with the snapshot at its end."""
    examination = scanned.examination
    for segment, readiness in zip(examination.segments, scanned.readiness, strict=True):
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
            "next_step": readiness.next_step,
        }
