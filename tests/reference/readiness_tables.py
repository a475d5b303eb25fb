"""READINESS tables made by hand, from one row to a fleet.

table([row("orders", 0, 0, 100, "READY"), row("orders", 0, 100, None, "ACTIVE_SEGMENT")])
sample_table()                     a small cluster with every verdict in it
fleet_table(1000, 100, 10)         topics x partitions x segments, made with numpy
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.gate.printed_steps import NEXT_STEP
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.report.aggregate import COLUMNS
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.tables.readiness import READINESS

SCHEMA = pa.schema([READINESS.field(name) for name in COLUMNS])
GIB = 1 << 30
TIMESTAMP = 1_600_000_000_000  # ms, 2020-09-13
LOG_DIR = "/var/lib/kafka/data"
TOPIC_ID = "MWJ6FHTfRYy67jzwZdeqSQ"

REASONS = {
    "TIERED": "COPY_SEGMENT_FINISHED records cover the offsets of the segment",
    "UPLOADED": "tiersnap uploaded the segment; not all records of __remote_log_metadata were read, so it is unknown "
    "whether brokers know the segment",
    "READY": "the snapshot equals the log: 41 producers",
    "ABOVE_LSO": "the segment ends at offset {end}, but the last stable offset is lower: a transaction is open "
    "since offset {base}",
    "GAP_BEFORE": "an earlier segment comes first and cannot be tiered yet",
    "TOPIC_ID_UNKNOWN": "partition.metadata does not exist (Kafka before 2.8), or has no topic id",
    "MISSING_INDEX": "no time index",
    "MISSING_SNAPSHOT": "no snapshot at {end}; the log below it holds 41 producers",
    "SUSPECT_SNAPSHOT": "empty, but the log holds 41 live producers: a clean start without snapshots writes such files",
    "CORRUPT_SNAPSHOT": "CRC of the entries is 0x1f2e3d4c, the header says 0x00000000",
    "CORRUPT_SEGMENT": "BAD_CRC at byte 73400320: expected 0x9a7aae28, found 0x00000000",
    "ACTIVE_SEGMENT": "still being written",
    "COMPACTED_TOPIC": "internal topic, compacted",
}
SNAPSHOTS = {
    "READY": ("MATCHES", "COMPUTED"),
    "TIERED": ("MATCHES", "BROKER"),
    "SUSPECT_SNAPSHOT": ("SUSPECT", None),
    "CORRUPT_SNAPSHOT": ("CORRUPT", None),
}

RUN = RunInfo(
    run_id="2026-11-21T1245",
    started_at=1_795_265_100_000,
    finished_at=1_795_265_341_500,
    source="file:///var/lib/kafka/data",
    remote="s3://kafka-tier/prod/",
    warehouse="s3://lake/tiersnap",
    version="0.1.0",
    applied=True,
    segments_decoded=812,
    bytes_decoded=800 * GIB,
    snapshots_written=540,
    segments_uploaded=12,
    bytes_uploaded=12 * GIB,
    delta_commits=14,
)


def row(
    topic: str, partition: int, base_offset: int, next_base_offset: int | None, verdict: str, **others: object
) -> dict[str, object]:
    """One row of READINESS; `others` replace what is assumed."""
    snapshot, provenance = SNAPSHOTS.get(verdict, ("MISSING", None))
    assumed: dict[str, object] = {
        "log_dir": LOG_DIR,
        "topic": topic,
        "topic_id": TOPIC_ID,
        "partition": partition,
        "base_offset": base_offset,
        "next_base_offset": next_base_offset,
        "size_bytes": GIB,
        "largest_timestamp": TIMESTAMP + base_offset,
        "verdict": verdict,
        "reason": REASONS.get(verdict, "").format(base=base_offset, end=next_base_offset),
        "next_step": NEXT_STEP[Verdict(verdict)] if verdict in list(Verdict) else "",
        "snapshot": snapshot,
        "snapshot_provenance": provenance,
        "compared": snapshot if snapshot != "MISSING" and provenance != "COMPUTED" else None,
        "high_watermark": None,
        "last_stable_offset": None,
        "log_start_offset": 0,
        "damage_kind": "BAD_CRC" if verdict == "CORRUPT_SEGMENT" else None,
    }
    return assumed | others


def table(rows: list[dict[str, object]]) -> pa.Table:
    """Rows as READINESS, with the columns that reports read."""
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def segments_of(topic: str, partition: int, verdicts: str, *, step: int = 1_000_000, **others: object) -> list[dict]:
    """Segments of `step` offsets, one a word: `segments_of("orders", 0, "READY READY ACTIVE_SEGMENT")`."""
    words = verdicts.split()
    end = (len(words) - 1) * step + step // 2
    marks = {"high_watermark": end, "last_stable_offset": end}
    return [
        row(topic, partition, i * step, None if i == len(words) - 1 else (i + 1) * step, word, **(marks | others))
        for i, word in enumerate(words)
    ]


def sample_table(*, extra: list[dict[str, object]] | None = None) -> pa.Table:
    """A small cluster: healthy, ready, waiting and blocked topics, every verdict, and `extra`."""
    trimmed = {"log_start_offset": 1_400_000}
    rows = [
        *segments_of("payments", 0, f"{'READY ' * 2}MISSING_SNAPSHOT {'GAP_BEFORE ' * 9}ACTIVE_SEGMENT"),
        *segments_of("payments", 1, f"{'TIERED ' * 8}{'READY ' * 3}ACTIVE_SEGMENT", **trimmed),
        *segments_of("payments", 2, f"{'TIERED ' * 4}SUSPECT_SNAPSHOT {'GAP_BEFORE ' * 5}ACTIVE_SEGMENT"),
        *segments_of("payments", 3, f"CORRUPT_SNAPSHOT {'GAP_BEFORE ' * 4}CORRUPT_SEGMENT GAP_BEFORE ACTIVE_SEGMENT"),
        *segments_of(
            "orders",
            0,
            f"{'TIERED ' * 4}ABOVE_LSO {'GAP_BEFORE ' * 2}ACTIVE_SEGMENT",
            last_stable_offset=4_000_000,
        ),
        *segments_of("orders", 1, f"{'TIERED ' * 6}ACTIVE_SEGMENT", **trimmed),
        *segments_of("ledger.v1", 0, f"{'TOPIC_ID_UNKNOWN ' * 7}ACTIVE_SEGMENT", topic_id=None),
        *segments_of("clicks", 0, "MISSING_INDEX GAP_BEFORE ACTIVE_SEGMENT"),
        *segments_of("audit-log", 0, f"{'READY ' * 5}ACTIVE_SEGMENT"),
        *segments_of("metrics", 0, f"{'TIERED ' * 20}ACTIVE_SEGMENT"),
        *segments_of("__consumer_offsets", 0, f"{'COMPACTED_TOPIC ' * 3}ACTIVE_SEGMENT", step=100_000),
        *(extra or []),
    ]
    return table(rows)


def fleet_table(topics: int, partitions: int, segments: int, *, seed: int = 1) -> pa.Table:
    """A fleet in the order of its logs; a third of the partitions is blocked somewhere."""
    rng = np.random.default_rng(seed)
    count = topics * partitions
    closed = segments - 1
    tiered = rng.integers(0, segments, count)
    blocked = rng.random(count) < 1 / 3
    position = np.tile(np.arange(segments), count)
    of = np.repeat(np.arange(count), segments)
    names = np.array(["ACTIVE_SEGMENT", "TIERED", "READY", "MISSING_SNAPSHOT", "GAP_BEFORE"])
    verdict = np.where(position < tiered[of], 1, 2)
    verdict = np.where(blocked[of] & (position >= tiered[of]), np.where(position == tiered[of], 3, 4), verdict)
    verdict = np.where(position == closed, 0, verdict)
    n = count * segments
    step = 1_000_000
    columns: dict[str, object] = {
        "log_dir": pa.repeat(LOG_DIR, n),
        "topic": pa.array([f"topic-{i:05d}" for i in range(topics)]).take(pa.array(of // partitions)),
        "topic_id": pa.repeat(TOPIC_ID, n),
        "partition": of % partitions,
        "base_offset": position * step,
        "next_base_offset": pa.array((position + 1) * step, mask=position == closed),
        "size_bytes": rng.integers(GIB // 2, GIB, n),
        "largest_timestamp": TIMESTAMP + position,
        "verdict": pa.array(names).take(pa.array(verdict)),
        "reason": pa.array([REASONS[name].format(base=0, end=1) for name in names.tolist()]).take(pa.array(verdict)),
        "next_step": pa.array([NEXT_STEP[Verdict(name)] for name in names.tolist()]).take(pa.array(verdict)),
        "snapshot": pa.repeat("MATCHES", n),
        "snapshot_provenance": pa.nulls(n, pa.string()),
        "compared": pa.nulls(n, pa.string()),
        "high_watermark": np.full(n, closed * step),
        "last_stable_offset": np.full(n, closed * step),
        "log_start_offset": np.zeros(n, np.int64),
        "damage_kind": pa.nulls(n, pa.string()),
    }
    return pa.Table.from_arrays([pa.array(columns[field.name]).cast(field.type) for field in SCHEMA], schema=SCHEMA)
