"""The readiness page of a scan: what was found in log directories, without a look at remote storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tiersnap.snapshot.readiness.scanned import Scanned
from tiersnap.snapshot.replay.trust import COMPARED, Provenance, SnapshotVerdict
from tiersnap.snapshot.report.exactly_once import NO_FILE, ExactlyOnce, Failover, NewestSnapshot
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.write import write_report
from tiersnap.snapshot.tables.schemas import READINESS


class ScanPage:
    """Takes in partitions as they are scanned, and keeps no more than their rows."""

    def __init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []
        self._newest: list[NewestSnapshot] = []

    def add(self, log_dir: str, scanned: Scanned) -> None:
        """One partition."""
        rows = list(readiness_rows(log_dir, scanned))
        self._rows.append(pa.RecordBatch.from_pylist(rows, schema=READINESS))
        self._newest.append(newest_snapshot(log_dir, scanned))

    def write(self, folder: Path, info: RunInfo) -> None:
        """The files, when all partitions are in."""
        write_report(summarise(self._rows, info), folder, ExactlyOnce(failover=Failover.of(self._newest)))


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
