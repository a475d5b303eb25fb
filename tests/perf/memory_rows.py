"""Peak resident memory of one worker: large segments, many segments, many producers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row, peak_memory
from tests.perf.scale import MIB, Scale

LIMIT = 512 * MIB


def rows(scale: Scale) -> Iterator[Row]:
    """Mapped pages of the log count as well."""
    idle = peak_memory("tests.perf.worker", ["nothing"])
    large = LogShape(300, 2 * scale.log_bytes, scale.log_bytes)
    producers = str(scale.wide_producers)
    small = LogShape(300, scale.many_segments * MIB, MIB)
    cases = [
        (f"decode of {large.segment_bytes >> 20} MiB segments", large, "decode", []),
        (f"decode of {scale.many_segments} segments of 1 MiB", small, "decode", []),
        (f"replay of {producers} producers over two snapshots", small, "replay", [producers]),
    ]
    for what, shape, work, arguments in cases:
        peak = peak_memory("tests.perf.worker", [work, made(shape).path, *arguments])
        yield Row(
            f"peak memory of one worker, {what}",
            "≤ 512 MiB",
            f"{peak >> 20} MiB",
            f"{idle >> 20} MiB (the same process with nothing to do)",
            peak / LIMIT,
            peak <= LIMIT,
        )
