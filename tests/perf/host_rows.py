"""The commands of one host as whole processes: against Kafka's replay with the start of its JVM, and the clock."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.perf.kafka_replay import seconds_with_start
from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row, warm_cache
from tests.perf.scale import DATA, MIB, Scale
from tiersnap.snapshot.errors import ExitCode

_TIMEOUT = 1200
_BUNDLED = Path(__file__).parents[1] / "data" / "ledger-2.7.2" / "logs"
_AT_LEAST = 5
_SCAN_SECONDS = 1.0


def tiersnap(*words: str) -> float:
    """Seconds of one `tiersnap WORDS` as a process."""
    command = [
        sys.executable,
        "-c",
        "import sys; from tiersnap.jobs.cli import main; sys.exit(main())",
        *words,
    ]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    seconds = time.perf_counter() - started
    # A segment that waits is an answer, too.
    if done.returncode not in (ExitCode.OK, ExitCode.GATE_REFUSED):
        raise RuntimeError(f"{words} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds


def rows(scale: Scale) -> Iterator[Row]:
    """`repair --out --all` and the plan of `tier` on a large log, `scan` on the bundled ones."""
    log = made(LogShape(300, scale.host_bytes, 256 * MIB))
    warm_cache(sorted(log.partition.glob("*.log")))
    with tempfile.TemporaryDirectory(dir=DATA) as name:
        work = Path(name)
        ways = {
            "repair --out DIR --all": lambda turn: ("repair", log.path, "--out", str(work / f"out-{turn}"), "--all"),
            "tier, the plan": lambda _: (
                *("tier", log.path, "--remote", str(work / "remote"), "--layout", "local-tiered-storage"),
            ),
        }
        tiersnap("scan", str(_BUNDLED))  # compiled once
        seconds_with_start([log.partition])
        taken: dict[str, list[float]] = {name: [] for name in ways}
        theirs = []
        for turn in range(scale.repetitions):
            theirs.append(seconds_with_start([log.partition]))
            for what, words in ways.items():
                taken[what].append(tiersnap(*words(turn)))
    peer = statistics.median(theirs)
    for what, each in taken.items():
        ours = statistics.median(each)
        yield Row(
            f"tiersnap {what}, {log.size / (1 << 30):.1f} GiB of 300 B, whole process",
            f"≥ {_AT_LEAST}\N{MULTIPLICATION SIGN}",
            f"{ours:.2f} s",
            f"{peer:.1f} s (Kafka's replay, JVM start included)",
            peer / ours,
            peer / ours >= _AT_LEAST,
        )
    yield _scan(scale)


def _scan(scale: Scale) -> Row:
    idle = statistics.median(tiersnap("--version") for _ in range(scale.repetitions))
    ours = statistics.median(tiersnap("scan", str(_BUNDLED)) for _ in range(scale.repetitions))
    return Row(
        "tiersnap scan of the bundled logs, whole process",
        "≤ 1 s",
        f"{ours:.2f} s",
        f"{idle:.2f} s (tiersnap --version)",
        idle / ours,
        ours <= _SCAN_SECONDS,
    )
