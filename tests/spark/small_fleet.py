"""A log directory of a few small partitions, and what a run must leave of it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.reference import log_builder as lb

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
BASES = (0, 10, 20, 30)
SNAPSHOTS = 3  # a partition: at the ends of its closed segments


def write_fleet(log_dir: Path, partitions: int = 3) -> Path:
    """`orders-0` and so on: four segments of two batches each, by two producers; no snapshot beside them."""
    now = time.time_ns() // 1_000_000 - 60_000
    for number in range(partitions):
        segments = {
            base: [
                lb.data_batch(base, 5, 7 + number, epoch=0, base_sequence=base, timestamp=now),
                lb.data_batch(base + 5, 5, 1000 + base, epoch=0, base_sequence=0, timestamp=now),
            ]
            for base in BASES
        }
        lb.write_partition(log_dir, "orders", number, segments, high_watermark=40, indexes=True, topic_id=TOPIC_ID)
    return log_dir


def snapshots(remote: Path) -> dict[str, bytes]:
    """Snapshot objects by key."""
    return {
        str(path.relative_to(remote)): path.read_bytes() for path in sorted(remote.glob("snapshots/*/*/*.snapshot"))
    }


def copies(remote: Path) -> list[str]:
    """`<partition>/<20 digits>` of every visible copy, and nothing of those that are no copy."""
    return sorted(f"{path.parent.name}/{path.name[:20]}" for path in remote.glob("orders-*/*/*.rsm-manifest"))


def leftovers(remote: Path) -> list[str]:
    """Objects of attempts without a manifest."""
    stems = {path.with_suffix("") for path in remote.glob("orders-*/*/*.rsm-manifest")}
    found = [path for path in remote.glob("orders-*/*/*") if path.is_file()]
    return [str(path.relative_to(remote)) for path in found if path.with_suffix("") not in stems]
