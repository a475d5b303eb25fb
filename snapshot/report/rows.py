"""Rows for the terminal and for --output json|jsonl: a topic, a partition or a segment each.

Rows hold exact numbers (`bytes`, `waiting_bytes`) and the same for people (`size`, `waiting`); COLUMNS names those that
the table form shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import pyarrow as pa

from tiersnap.snapshot.report.aggregate import BATCH_ROWS, conform
from tiersnap.snapshot.report.files import totals_as_dict
from tiersnap.snapshot.report.model import PartitionReport, Report, TopicReport, Totals
from tiersnap.snapshot.report.next_step import Place, segment_file, steps, text
from tiersnap.snapshot.report.run_info import RunInfo, without_user
from tiersnap.snapshot.tables.schemas import READINESS
from tiersnap.snapshot.units import human_bytes

_ORDER = ("topic", "log_dir", "partition", "base_offset")


class By(StrEnum):
    """Values of --by."""

    SEGMENT = "segment"
    PARTITION = "partition"
    TOPIC = "topic"


COLUMNS: dict[By, tuple[str, ...]] = {
    By.TOPIC: ("topic", "worst", "partitions", "segments", "size", "tiered", "ready", "waiting", "findings"),
    By.PARTITION: ("name", "worst", "segments", "size", "tiered", "waiting", "blocked_at", "reason", "next_step"),
    By.SEGMENT: ("name", "base_offset", "size", "verdict", "snapshot", "reason", "next_step"),
}


def topic_rows(report: Report) -> Iterator[dict[str, object]]:
    """A row a topic, worst first."""
    for topic in report.topics:
        yield _topic_row(topic)


def partition_rows(report: Report) -> Iterator[dict[str, object]]:
    """A row a partition and log directory, topic by topic, worst first."""
    for topic in report.topics:
        for partition in topic.partitions:
            yield _partition_row(partition)


def segment_rows(rows: pa.Table | Iterable[pa.RecordBatch], run: RunInfo) -> Iterator[dict[str, object]]:
    """A row a segment: a table's in the order of the logs, those of batches as they come.

    Raises:
        UsageError: the rows do not follow the schema.
    """
    run = run.without_secrets()
    if isinstance(rows, pa.Table):
        rows = rows.sort_by([(name, "ascending") for name in _ORDER]).to_batches(max_chunksize=BATCH_ROWS)
    for batch in rows:
        for row in conform(batch).to_pylist():
            yield _segment_row(row, run)


def _sizes(totals: Totals) -> dict[str, object]:
    return {
        "size": human_bytes(totals.all.bytes),
        "tiered": human_bytes(totals.tiered.bytes),
        "ready": human_bytes(totals.ready.bytes),
        "waiting": human_bytes(totals.waiting.bytes),
    }


def _topic_row(topic: TopicReport) -> dict[str, object]:
    totals = {**totals_as_dict(topic.totals), **_sizes(topic.totals)}
    return {"topic": topic.topic, "partitions": len(topic.partitions), **totals}


def _partition_row(partition: PartitionReport) -> dict[str, object]:
    blocker = partition.first_blocking
    return {
        "name": partition.name,
        "log_dir": partition.log_dir,
        "topic": partition.topic,
        "partition": partition.partition,
        "topic_id": partition.topic_id,
        **totals_as_dict(partition.totals),
        **_sizes(partition.totals),
        "log_start_offset": partition.log_start_offset,
        "last_stable_offset": partition.last_stable_offset,
        "high_watermark": partition.high_watermark,
        "blocked_at": blocker and blocker.base_offset,
        "blocked_by": blocker and blocker.verdict,
        "reason": blocker and blocker.reason,
        "next_step": blocker and text(blocker.steps),
    }


def _segment_row(row: dict[str, object], run: RunInfo) -> dict[str, object]:
    topic, partition, base_offset = str(row["topic"]), int(str(row["partition"])), int(str(row["base_offset"]))
    log_dir = without_user(str(row["log_dir"]))
    on_host = run.collected.get(log_dir, log_dir)
    place = Place((on_host,), segment_file(on_host, topic, partition, base_offset))
    fields = {name: row[name] for name in READINESS.names}
    return {
        "name": f"{topic}-{partition}",
        **fields,
        "log_dir": log_dir,
        "size": human_bytes(int(str(row["size_bytes"]))),
        "next_step": text(steps(str(row["next_step"]), run, place)),
    }
