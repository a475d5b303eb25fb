"""Sizes of a benchmark run, chosen by BENCH=quick|default|full, and where its data lies.

`quick` shows that everything works, `default` fits a laptop, `full` is what the budgets name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DATA = Path(os.environ.get("TIERSNAP_BENCH_DATA", Path(__file__).parent / "data"))
MIB = 1 << 20


@dataclass(frozen=True)
class Scale:
    """Sizes of one run.

    Attributes:
        log_bytes: of the log of each batch size that is decoded.
        run_bytes: of the log for the whole `run`.
        table_rows: of the record_batches table.
        wide_producers: of the partition with many producers.
        many_segments: of the partition with many segments.
        carry: segments and producers of the long carry.
        upload_bytes: per repetition.
        repetitions: of each measurement, of which the median counts.
    """

    name: str
    log_bytes: int
    run_bytes: int
    table_rows: int
    wide_producers: int
    many_segments: int
    carry: tuple[int, int]
    upload_bytes: int
    repetitions: int


_SCALES = {
    "quick": Scale("quick", 64 * MIB, 128 * MIB, 2_000_000, 100_000, 100, (500, 20_000), 64 * MIB, 3),
    "default": Scale("default", 512 * MIB, 2048 * MIB, 10_000_000, 1_000_000, 1000, (10_000, 100_000), 256 * MIB, 3),
    "full": Scale("full", 1024 * MIB, 4096 * MIB, 50_000_000, 1_000_000, 1000, (10_000, 100_000), 512 * MIB, 5),
}


def current() -> Scale:
    """The scale that BENCH names, `default` without it."""
    return _SCALES[os.environ.get("BENCH", "default")]
