"""The readiness page of a scan: what was found in log directories, without a look at remote storage."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tiersnap.snapshot.readiness.scanned import Scanned
from tiersnap.snapshot.report.exactly_once import NO_FILE, ExactlyOnce, Failover, NewestSnapshot
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.write import write_report
from tiersnap.snapshot.tables.readiness import readiness_batch


class ScanPage:
    """Takes in partitions as they are scanned, and keeps no more than their rows."""

    def __init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []
        self._newest: list[NewestSnapshot] = []

    def add(self, log_dir: str, scanned: Scanned) -> None:
        """One partition."""
        found = scanned.examination
        self._rows.append(readiness_batch(log_dir, found.partition, found.facts, scanned.segments))
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
