"""A partition small enough to know by heart: four segments of one batch each, by one producer."""

from __future__ import annotations

import time
from pathlib import Path

from tests.reference import log_builder as lb
from tests.reference.command import tiersnap

BASES = (0, 5, 10, 15)
LOG_END = 20


def write_small_log(log_dir: Path, topic: str = "orders", *, with_snapshots: bool = True, **options) -> Path:
    """`<topic>-0` in `log_dir`, its folder returned; with the three snapshots that its segments need."""
    now = time.time_ns() // 1_000_000  # an unaligned snapshot may lack producers that were idle when it was written
    segments = {base: [lb.data_batch(base, 5, 7, epoch=0, base_sequence=base, timestamp=now)] for base in BASES}
    folder = lb.write_partition(log_dir, topic, 0, segments, **{"high_watermark": LOG_END, "indexes": True, **options})
    if with_snapshots:
        ran = tiersnap("repair", log_dir, "--topic", topic.replace(".", r"\."), "--expiration", "none", "--apply")
        assert ran.exit_code == 0, ran.err
    return folder


def file_of(folder: Path, offset: int, suffix: str) -> Path:
    return folder / f"{offset:020d}{suffix}"


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` by its relative path; `.lock`, which stays behind, left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
