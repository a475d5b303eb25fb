"""One partition judged by a Spark task: stored results and remote storage as rows in, JUDGED rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.codecs import Row, pairs_of, structs_of
from tiersnap.snapshot.readiness.coverage import RemoteCoverage
from tiersnap.snapshot.readiness.judge_partition import Policy, SegmentReadiness, open_at
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.replay.remote_listing import RemoteListing
from tiersnap.snapshot.tables.facts import NOT_READ, PARTITION, SEGMENT, FactKind, snapshot_of
from tiersnap.snapshot.tables.listed import COPY_ROWS
from tiersnap.snapshot.tables.readiness import readiness_row
from tiersnap.snapshot.tables.remote_log_segments import COPY_FINISHED, COPY_STARTED
from tiersnap.snapshot.tables.schemas import JUDGED, OPEN_TRANSACTION_NAMES, PARTITION_KEY
from tiersnap.snapshot.tasks.partition_input import PartitionInput


@dataclass(frozen=True)
class JudgePartition(Policy):
    """INPUT rows (FACTS and COPIES) of one partition -> JUDGED rows."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge the partition."""
        rows = PartitionInput(batches)
        yield pa.RecordBatch.from_pylist(list(self.verdicts(rows.facts, rows.copies)), schema=JUDGED)

    def verdicts(self, facts: Iterable[Mapping[str, Any]], copies: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
        """Rows of JUDGED of a partition that was replayed; none before."""
        kinds: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in FactKind}
        for row in facts:
            kinds[row["kind"]].append(row)
        if not kinds[FactKind.REPLAYED]:
            if kinds[FactKind.SEGMENT] or kinds[FactKind.BOUNDARY] or any(True for _ in copies):
                raise ValueError("segments and no replay of their partition: Spark did not bring its rows together")
            return
        (replayed,) = kinds[FactKind.REPLAYED]
        partition = PARTITION.of_row(replayed)
        by_offset = sorted(kinds[FactKind.SEGMENT], key=lambda row: int(row["offset"]))
        segments = [SEGMENT.of_row(row, snapshot=NOT_READ) for row in by_offset]
        snapshots = {each.offset: each for each in map(snapshot_of, kinds[FactKind.BOUNDARY])}
        judged = self.judge(partition, replayed["partition"], segments, snapshots, coverage(replayed, copies))
        key = {name: replayed[name] for name in PARTITION_KEY}
        for each in judged:
            copy = _copy_plan(replayed, each, snapshots.get(each.facts.base_offset)) if each.is_ready else None
            yield {**readiness_row(key, partition, each), "copy": copy}


def _copy_plan(replayed: Mapping[str, Any], judged: SegmentReadiness, before: SnapshotAt | None) -> Row:
    """Return a row of COPY_PLAN of a READY segment; `before` is what is remembered of its base offset."""
    end, is_object = judged.snapshot.found, judged.snapshot.is_object
    assert end is not None, "READY without a snapshot"
    stored = end.stored if is_object else None
    return {
        "cluster_id": replayed["cluster_id"],
        "digest": judged.facts.digest,
        "leader_epochs": replayed["leader_epochs"],
        "open_transactions": structs_of(open_at(judged.facts.base_offset, before), OPEN_TRANSACTION_NAMES),
        "provenance": str(judged.snapshot.provenance),
        "file_bytes": end.file.size,
        "file_crc": end.file.crc32c,
        "comparison": None if is_object else str(end.comparison.strict),
        "object_key": None if stored is None else stored.key,
        "object_crc": None if stored is None else stored.crc32c,
    }


def coverage(replayed: Mapping[str, Any], copies: Iterable[Mapping[str, Any]]) -> RemoteCoverage:
    """Return the remote segments of the partition's lineage.

    Args:
        replayed: its row of REPLAYED.
        copies: rows of `remote_log_segments`.
    """
    found = tuple(COPY_ROWS.of_row(each) for each in copies if each["state"] in (COPY_STARTED, COPY_FINISHED))
    view = RemoteListing(found, expired_to=replayed["expired_to"], encrypted_by=replayed["encrypted_by"])
    return view.coverage(pairs_of(replayed["leader_epochs"]), replayed["log_end_offset"])
