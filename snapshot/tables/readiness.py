"""Judged segments as rows of READINESS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.readiness.judge_partition import SegmentReadiness
from tiersnap.snapshot.replay.facts import PartitionFacts
from tiersnap.snapshot.tables.schemas import READINESS


def readiness_batch(
    log_dir: str, partition: Partition, facts: PartitionFacts, segments: Iterable[SegmentReadiness]
) -> pa.RecordBatch:
    """Return the rows of one partition; `log_dir` is the one name of its log directory."""
    key = {"log_dir": log_dir, "topic": partition.topic, "partition": partition.partition}
    return pa.RecordBatch.from_pylist([readiness_row(key, facts, each) for each in segments], schema=READINESS)


def readiness_row(key: Mapping[str, Any], partition: PartitionFacts, judged: SegmentReadiness) -> dict[str, Any]:
    """Return a row of READINESS; `key` are its columns of PARTITION_KEY."""
    segment, readiness, snapshot = judged.facts, judged.readiness, judged.snapshot
    compared = None if segment.next_base_offset is None else snapshot.compared
    return {
        **key,
        "topic_id": partition.topic_id,
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "base_offset": segment.base_offset,
        "next_base_offset": segment.next_base_offset,
        "size_bytes": segment.size,
        "max_timestamp": segment.largest_timestamp,
        "verdict": str(readiness.verdict),
        "reason": readiness.reason,
        "next_step": readiness.next_step,
        "snapshot": str(snapshot.verdict),
        "snapshot_provenance": None if snapshot.provenance is None else str(snapshot.provenance),
        "compared": None if compared is None else str(compared),
        "log_start_offset": partition.log_start_offset,
        "finding_count": 0 if segment.damage_kind is None else 1,
    }
