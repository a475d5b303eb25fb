"""How time grows: with segments, batches, producers and partitions, over two decades each; the slopes.

`python -m tests.perf.growth` measures and prints a table; the next bench draws it into its picture. A slope
is that of the logarithms: 1 is linear, below 1 there is a fixed part, above 1 something is worse than linear.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from tests.perf import page
from tests.perf.decode_rows import partition_of, replay
from tests.perf.host_rows import tiersnap
from tests.perf.make_log import LogShape, made
from tests.perf.measure import interleaved, load, machine, timed
from tests.perf.replay_rows import carry_along, deltas_of, runs
from tests.perf.scale import DATA
from tests.perf.worker import wanted
from tiersnap.jobs.pipeline.decoding import DecodeSegments

Work = Callable[[], object]
_REPETITIONS = 3


def by_batches() -> Iterator[tuple[int, Work]]:
    """Decode and fold of one segment, CRC checked."""
    for batches in (20_000, 200_000, 2_000_000):
        log = made(LogShape(300, batches * 300, batches * 300))
        partition = partition_of(log)
        yield log.batches, lambda partition=partition: replay(partition, check_crc=True)


def by_segments() -> Iterator[tuple[int, Work]]:
    """The decode task over segments of 32 KiB."""
    for segments in (30, 300, 3000):
        log = made(LogShape(300, segments * 32 * 1024, 32 * 1024))
        rows = wanted(log.path)

        def work(rows=rows) -> None:
            for _ in DecodeSegments(check_crc=True, run=1)(iter(rows.to_batches())):
                pass

        yield log.segments, work


def by_replayed_segments() -> Iterator[tuple[int, Work]]:
    """Replay of 10,000 producers, ten snapshots in all."""
    for segments in (100, 1000, 10_000):
        replayed = runs(segments, 10_000)
        offsets = [run.start_offset for run in replayed[segments // 10 :: segments // 10]]
        yield segments, lambda replayed=replayed, offsets=offsets: carry_along(replayed, offsets)


def by_producers() -> Iterator[tuple[int, Work]]:
    """One run of deltas replayed and written as a snapshot."""
    for producers in (10_000, 100_000, 1_000_000):
        one = runs(2, producers)[:1]
        assert one[0].deltas.size == deltas_of(np.arange(producers, dtype=np.int64), 0).size
        yield producers, lambda one=one: carry_along(one, [one[0].start_offset + 1])


def by_partitions() -> Iterator[tuple[int, Work]]:
    """`tiersnap tier` without --apply as a process: partitions of one segment of 32 KiB."""
    for partitions in (10, 100, 1000):
        log = made(LogShape(300, partitions * 32 * 1024, 32 * 1024, partitions=partitions))

        def work(log=log) -> None:
            with tempfile.TemporaryDirectory(dir=DATA) as folder:
                tiersnap("tier", log.path, "--remote", f"{folder}/remote", "--layout", "local-tiered-storage")

        yield partitions, work


SERIES = {
    "batches (decode, fold)": by_batches,
    "segments (decode task)": by_segments,
    "segments (replay)": by_replayed_segments,
    "producers (replay, snapshot)": by_producers,
    "partitions (tier, the plan)": by_partitions,
}


def main() -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    measured: dict[str, list[tuple[int, float]]] = {}
    began = load()
    for name, series in SERIES.items():
        repetitions = 1 if "plan" in name else _REPETITIONS
        points = [(count, interleaved(repetitions, timed(work))[0]) for count, work in series()]
        measured[name] = points
        print(f"| {name} | {' | '.join(f'{count}: {seconds:.3f} s' for count, seconds in points)} ", end="")
        print(f"| {page.slope(points):.2f} | {page.slope(points[1:]):.2f} |", flush=True)
    print(f"\n{machine()}; load averages over 1 and 5 minutes when it began: {began}")
    page.keep({"growth": measured})
    return 0


if __name__ == "__main__":
    sys.exit(main())
