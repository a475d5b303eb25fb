"""Peak memory of `scan` and `tier` on logs that are large in one way each, as rows of docs/limits.md.

`python -m tests.perf.large` makes each log below TIERSNAP_BENCH_DATA, measures it and removes it; names as arguments
choose among them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.perf.make_log import LogShape, made
from tests.perf.scale import DATA, MIB
from tests.reference.log_builder import data_batch, write_partition

BIG_BATCH = 100 * 1000 * 1000
_BIG_SEGMENT = (1 << 31) - MIB  # a Java int holds less than 2 GiB


# What the kernel says of a child that has ended begins with the pages of its parent.
_CHILD = """
import sys
from tests.perf.measure import peak_bytes
from tiersnap.jobs.main import run
code = run(sys.argv[1:])
print(code, peak_bytes(), file=sys.stderr)
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, seconds, and peak resident bytes with the pages of files that it had mapped."""

    exit_code: int
    seconds: float
    peak: int


def _shaped(shape: LogShape) -> Callable[[Path], Path]:
    return lambda _: Path(made(shape).path)


def _one_batch(folder: Path) -> Path:
    """Two closed segments, the first of one batch with one record of 100 MB."""
    segments = {
        0: [data_batch(0, 1, 7, 0, 0, payload=bytes(BIG_BATCH))],
        1: [data_batch(1, 1, 7, 0, 1)],
        2: [data_batch(2, 1, 7, 0, 2)],
    }
    write_partition(folder, "perf", 0, segments, high_watermark=3)
    return folder


LOGS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "nothing": ("two segments of 60 KB", _shaped(LogShape(300, 90_000, 30_000))),
    "batch": ("a batch of 100 MB", _one_batch),
    "producers": (
        "1,000,000 producers, 4 segments of 256 MiB",
        _shaped(LogShape(201, 1024 * MIB, 256 * MIB, 1_000_000)),
    ),
    "segment": ("a segment of 2 GiB", _shaped(LogShape(8000, 2048 * MIB, _BIG_SEGMENT))),
    "segments": ("10,000 segments of 30 KB", _shaped(LogShape(300, 10_000 * 29_795, 29_000))),
}


def measured(*words: str | Path) -> Ended:
    """Run `tiersnap WORDS` in a process of its own."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    exit_code, peak = done.stderr.split()[-2:]
    return Ended(int(exit_code), time.monotonic() - started, int(peak))


def row(name: str) -> str:
    """A row of the table, in Markdown."""
    what, make = LOGS[name]
    remote, folder = DATA / "remote", DATA / "one-batch"
    for left in (remote, folder):
        shutil.rmtree(left, ignore_errors=True)
    log = make(folder)
    try:
        cells = [what]
        for words in (("scan", log), ("tier", log, "--remote", remote, "--apply")):
            ended = measured(*words)
            cells.append(f"{ended.peak >> 20} MiB, {ended.seconds:.0f} s")
            if ended.exit_code not in (0, 4):  # 4: snapshots are missing, which tier computes
                cells[-1] += f", exit code {ended.exit_code}"
        tiered = sum(1 for _ in remote.rglob("*.rsm-manifest"))
        return f"| {' | '.join(cells)} | {tiered} |"
    finally:
        for left in (remote, log.parent if log.parent != DATA else log):
            shutil.rmtree(left, ignore_errors=True)


if __name__ == "__main__":
    for each in sys.argv[1:] or LOGS:
        print(row(each), flush=True)
