"""Broken indexes as brokers keep and copy them (KAFKA-19200, KAFKA-15401), in a copy of a real log."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from tests.reference.recovered import DATA

SOURCE = DATA / "kafka-3.9.1/logs"
TOPIC = "churn"
BASES = (0, 112, 231, 344, 450)
SOUND, ZEROS_FOR_TIMES, LAST_TIME_ZERO, POSITION_BEHIND, ZEROS_FOR_OFFSETS = BASES
INDEX_BYTES = 10 << 20  # log.index.size.max.bytes, which a broker preallocates


def break_indexes(folder: Path) -> None:
    """Break one index of each closed segment of a partition's folder but the first."""
    _, zero_times, last_zero, behind, zero_offsets, *_ = sorted(folder.glob("*.log"))
    zero_times.with_suffix(".timeindex").write_bytes(bytes(INDEX_BYTES - INDEX_BYTES % 12))
    times = last_zero.with_suffix(".timeindex")
    times.write_bytes(times.read_bytes()[:-12] + bytes(12))
    offsets = behind.with_suffix(".index")
    data = bytearray(offsets.read_bytes())
    struct.pack_into(">i", data, len(data) // 16 * 8 + 4, behind.stat().st_size + 1)
    offsets.write_bytes(data)
    zero_offsets.with_suffix(".index").write_bytes(bytes(INDEX_BYTES))


def write_broken_indexes(log_dir: Path) -> Path:
    """`churn-0` in `log_dir`, its folder returned; beside it what a log directory has."""
    log_dir.mkdir(parents=True, exist_ok=True)
    for path in SOURCE.iterdir():
        if path.is_file():
            shutil.copy(path, log_dir / path.name)
    folder = Path(shutil.copytree(SOURCE / f"{TOPIC}-0", log_dir / f"{TOPIC}-0"))
    break_indexes(folder)
    return folder
