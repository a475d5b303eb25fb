"""The readiness page of a scan of log directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tiersnap.snapshot.host.scanned import Scanned
from tiersnap.snapshot.report.exactly_once import (
    NO_FILE,
    ExactlyOnce,
    Failover,
    NewestSnapshot,
    ReplicaWithoutProducers,
)
from tiersnap.snapshot.report.model import with_remote_checks
from tiersnap.snapshot.report.remote_checks import Key, RemoteChecked
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.write import write_report
from tiersnap.snapshot.tables.readiness import readiness_batch


class ScanPage:
    """A collector of scanned partitions that writes their readiness report."""

    def __init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []
        self._newest: list[NewestSnapshot] = []
        self._replicas_without_producers: list[ReplicaWithoutProducers] = []

    def add(self, log_dir: str, scanned: Scanned) -> None:
        """Add a scanned partition."""
        found = scanned.examination
        self._rows.append(readiness_batch(log_dir, found.partition, found.facts, scanned.segments))
        self._newest.append(newest_snapshot(log_dir, scanned))
        if (lost := scanned.lost_producers) is not None:
            self._replicas_without_producers.append(ReplicaWithoutProducers.of(log_dir, found.partition, lost))

    def write(self, folder: Path, info: RunInfo, checks: Mapping[Key, RemoteChecked]) -> None:
        """Write the report after the last partition. `checks` are results of `tiersnap verify --remote`."""
        made = replace(summarise(self._rows, info), replicas_without_producers=tuple(self._replicas_without_producers))
        made = with_remote_checks(made, checks)
        write_report(made, folder, ExactlyOnce(failover=Failover.of(self._newest)))


def newest_snapshot(log_dir: str, scanned: Scanned) -> NewestSnapshot:
    """Return the verdict on the newest snapshot file of a partition."""
    partition, compared = scanned.examination.partition, scanned.examination.snapshots
    key = (log_dir, partition.topic, partition.partition)
    offset = max(partition.snapshots, default=None)
    if offset is None or offset not in compared:
        return NewestSnapshot(*key, offset=None, found=NO_FILE)
    found = compared[offset]
    return NewestSnapshot(
        *key, offset, str(found.compared), found.lacking, found.differing, found.unexplained, found.explanation
    )
