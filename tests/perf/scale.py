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
        host_bytes: of the log for the commands of one host.
        wide_producers: of the partition with many producers.
        many_segments: of the partition with many segments.
        fleet: segments of the fleets that the main job runs on, ascending.
        replay: segments and producers of the long replay.
        upload_bytes: per repetition.
        repetitions: of each measurement, of which the median counts.
    """

    name: str
    log_bytes: int
    host_bytes: int
    wide_producers: int
    many_segments: int
    fleet: tuple[int, ...]
    replay: tuple[int, int]
    upload_bytes: int
    repetitions: int


_SCALES = {
    "quick": Scale("quick", 64 * MIB, 128 * MIB, 100_000, 100, (200, 400), (500, 20_000), 64 * MIB, 3),
    "default": Scale(
        "default", 512 * MIB, 2048 * MIB, 1_000_000, 1000, (2_000, 20_000), (10_000, 100_000), 256 * MIB, 3
    ),
    "full": Scale(
        "full", 1024 * MIB, 4096 * MIB, 1_000_000, 1000, (2_000, 20_000, 200_000), (10_000, 100_000), 512 * MIB, 5
    ),
}


def current() -> Scale:
    """The scale that BENCH names, `default` without it."""
    return _SCALES[os.environ.get("BENCH", "default")]
