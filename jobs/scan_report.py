"""The page of `tiersnap scan --report`: what was found in log directories, without a look at remote storage."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pyarrow as pa

from tiersnap.jobs.disks import disks_below
from tiersnap.jobs.kept_options import kept_options
from tiersnap.jobs.pipeline.settings import new_run_id
from tiersnap.jobs.scan import Scanned
from tiersnap.snapshot import __version__
from tiersnap.snapshot.report import RunInfo, summarise, write_report
from tiersnap.snapshot.report.exactly_once import NO_FILE, ExactlyOnce, Failover, NewestSnapshot
from tiersnap.snapshot.state.trust import COMPARED, Provenance, SnapshotVerdict
from tiersnap.snapshot.tables.schemas import READINESS


class ScanReport:
    """Takes in partitions as they are scanned, and keeps no more than their rows."""

    def __init__(self, log_dirs: Sequence[str], now: int) -> None:
        """The directories that are scanned, and the time in epoch ms."""
        self._log_dirs, self._now = log_dirs, now
        self._rows: list[pa.RecordBatch] = []
        self._newest: list[NewestSnapshot] = []

    def add(self, log_dir: str, scanned: Scanned) -> None:
        """One partition."""
        rows = list(readiness_rows(log_dir, scanned))
        self._rows.append(pa.RecordBatch.from_pylist(rows, schema=READINESS))
        self._newest.append(newest_snapshot(log_dir, scanned))

    def write(self, folder: Path) -> None:
        """The files, when all partitions are in."""
        known = ExactlyOnce(failover=Failover.of(self._newest))
        write_report(summarise(self._rows, _run_info(self._log_dirs, self._now)), folder, known)


def _run_info(log_dirs: Sequence[str], now: int) -> RunInfo:
    return RunInfo(
        run_id=new_run_id(),
        started_at=now,
        finished_at=max(now, time.time_ns() // 1_000_000),
        source=", ".join(log_dirs),
        remote="",
        warehouse="",
        version=__version__,
        applied=False,
        sources=tuple(log_dirs),
        disks=disks_below(log_dirs),
        options=kept_options(click.get_current_context()),
    )


def newest_snapshot(log_dir: str, scanned: Scanned) -> NewestSnapshot:
    """What the newest snapshot file of a partition is worth."""
    partition, compared = scanned.examination.partition, scanned.examination.snapshots
    key = (log_dir, partition.topic, partition.partition)
    offset = max(partition.snapshots, default=None)
    if offset is None or offset not in compared:
        return NewestSnapshot(*key, offset=None, found=NO_FILE)
    found = compared[offset]
    return NewestSnapshot(
        *key, offset, str(found.strict), found.lacking, found.differing, found.unexplained, found.says
    )


def readiness_rows(log_dir: str, scanned: Scanned) -> Iterator[dict[str, object]]:
    """Rows of READINESS."""
    examination = scanned.examination
    partition, facts = examination.partition, examination.facts
    for segment, readiness in zip(examination.segments, scanned.readiness, strict=True):
        following = segment.next_base_offset
        offset = facts.log_end_offset if following is None else following
        verdict, found = scanned.snapshots.get(offset, SnapshotVerdict.MISSING), examination.snapshots.get(offset)
        compared = None if found is None or following is None or found.strict not in COMPARED else found.strict
        yield {
            "log_dir": log_dir,
            "topic": partition.topic,
            "topic_id": partition.topic_id,
            "partition": partition.partition,
            "base_offset": segment.base_offset,
            "next_base_offset": following,
            "size_bytes": segment.size,
            "max_timestamp": segment.largest_timestamp,
            "verdict": str(readiness.verdict),
            "reason": readiness.reason,
            "next_step": readiness.next_step,
            "snapshot": str(verdict),
            "snapshot_provenance": str(Provenance.BROKER) if verdict.is_trusted else None,
            "compared": compared,
            "high_watermark": facts.high_watermark,
            "last_stable_offset": facts.last_stable_offset,
            "log_start_offset": facts.log_start_offset,
            "finding_count": 0 if segment.damage_kind is None else 1,
        }
