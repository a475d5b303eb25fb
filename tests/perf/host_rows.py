"""The commands of one host as whole processes: against Kafka's replay with the start of its JVM, and the clock."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.perf.kafka_replay import spent_with_start
from tests.perf.make_log import LogShape, MadeLog, made
from tests.perf.measure import Row, Spent, spent, warm_cache
from tests.perf.scale import DATA, MIB, Scale
from tiersnap.snapshot.errors import ExitCode

_TIMES = "\N{MULTIPLICATION SIGN}"
_BUNDLED = Path(__file__).parents[1] / "data" / "ledger-2.7.2" / "logs"
_PLAN_AT_LEAST = 5
_SCAN_SECONDS = 0.7


def tiersnap(*words: str, cores: int | None = None) -> Spent:
    """What one `tiersnap WORDS` takes as a process, on the first `cores` of the machine if that is given."""
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    start = f"import os, sys; os.sched_setaffinity(0, {chosen}); from tiersnap.jobs.main import main; sys.exit(main())"
    command = [sys.executable, "-c", start, *words]
    # A segment that waits is an answer, too.
    return spent(command, ends_with=(ExitCode.OK, ExitCode.GATE_REFUSED))


def rows(scale: Scale) -> Iterator[Row]:
    """`repair --out --all` on several shapes of logs, the plan of `tier`, and `scan` of the bundled logs."""
    tiersnap("scan", str(_BUNDLED))  # compiled once
    large = LogShape(300, scale.host_bytes, 256 * MIB)
    yield from _repair(scale, large, "of 300 B", 8)
    yield from _repair(scale, LogShape(4096, scale.host_bytes // 2, 256 * MIB), "of 4 KiB", 2)
    yield from _repair(scale, LogShape(70, scale.host_bytes // 4, 256 * MIB), "of 70 B", 10)
    yield from _repair(scale, tiny(scale), f"in {scale.many_segments * 10:,} segments of 30 KB", 1, cpu=True)
    yield _plan(scale, made(large))
    yield _cores(scale, LogShape(300, scale.host_bytes, 64 * MIB), "one partition")
    yield _cores(scale, LogShape(300, scale.host_bytes, 64 * MIB, partitions=4), "four partitions")
    yield _scan(scale)


def tiny(scale: Scale) -> LogShape:
    """Many segments of 100 records, with few producers."""
    return LogShape(300, scale.many_segments * 10 * 29_778, 29_000, producers=10)


def _against_kafka(scale: Scale, log: MadeLog, words: Callable[[Path], list[str]]) -> tuple[list[Spent], list[Spent]]:
    """Ours and Kafka's replay, in turns; `words` of a folder that is empty each time."""
    warm_cache(sorted(log.partition.glob("*.log")))
    ours, theirs = [], []
    # What is written stays to the end: ext4 passes over inodes that were freed a moment ago, one by one, for each file.
    with tempfile.TemporaryDirectory(dir=DATA) as work:
        for turn in range(scale.repetitions):
            for whose in ("theirs", "ours"):
                (Path(work) / f"{whose}-{turn}").mkdir()
            theirs.append(spent_with_start([log.partition], Path(work) / f"theirs-{turn}"))
            ours.append(tiersnap(*words(Path(work) / f"ours-{turn}")))
    return ours, theirs


def _repair(scale: Scale, shape: LogShape, what: str, at_least: int, *, cpu: bool = False) -> Iterator[Row]:
    log = made(shape)
    ours, theirs = _against_kafka(scale, log, lambda work: ["repair", log.path, "--out", str(work / "out"), "--all"])
    size = f"{log.size / (1 << 30):.1f} GiB"
    units = [("whole process", "s", lambda each: each.seconds)]
    units += [("whole process, CPU", "CPU s", lambda each: each.cpu)] if cpu else []
    for name, unit, of in units:
        mine, peer = (statistics.median(map(of, each)) for each in (ours, theirs))
        ratio = peer / mine
        yield Row(
            f"tiersnap repair --out DIR --all, {size} {what}, {name}",
            f"≥ {at_least}{_TIMES}",
            f"{mine:.2f} {unit}",
            f"{peer:.2f} {unit} (Kafka's replay, JVM start included)",
            ratio,
            ratio >= at_least,
        )


def _plan(scale: Scale, log: MadeLog) -> Row:
    words = ["tier", log.path, "--layout", "local-tiered-storage", "--remote"]
    ours, theirs = _against_kafka(scale, log, lambda work: [*words, str(work / "remote")])
    mine, peer = (statistics.median(each.seconds for each in taken) for taken in (ours, theirs))
    return Row(
        f"tiersnap tier, the plan, {log.size / (1 << 30):.1f} GiB of 300 B, whole process",
        f"≥ {_PLAN_AT_LEAST}{_TIMES}",
        f"{mine:.2f} s",
        f"{peer:.1f} s (Kafka's replay, JVM start included)",
        peer / mine,
        peer / mine >= _PLAN_AT_LEAST,
    )


def _cores(scale: Scale, shape: LogShape, where: str) -> Row:
    """`scan` on all cores against itself on one."""
    log = made(shape)
    warm_cache(sorted(Path(log.path).rglob("*.log")))
    words, taken = ("--quiet", "scan", log.path), dict[int | None, list[Spent]]({None: [], 1: []})
    for _ in range(scale.repetitions):
        for cores, spent_by in taken.items():
            spent_by.append(tiersnap(*words, cores=cores))
    ours, alone = (statistics.median(each.seconds for each in spent_by) for spent_by in taken.values())
    cpu, cpu_alone = (statistics.median(each.cpu for each in spent_by) for spent_by in taken.values())
    return Row(
        f"tiersnap scan, {log.size / (1 << 30):.1f} GiB of 300 B in {where}, whole process, all cores",
        "",
        f"{ours:.2f} s, {cpu:.2f} CPU s",
        f"{alone:.2f} s, {cpu_alone:.2f} CPU s (itself on one core)",
        alone / ours,
        None,
    )


def _scan(scale: Scale) -> Row:
    idle = statistics.median(tiersnap("--version").seconds for _ in range(scale.repetitions))
    ours = statistics.median(tiersnap("scan", str(_BUNDLED)).seconds for _ in range(scale.repetitions))
    return Row(
        "tiersnap scan of the bundled logs, whole process",
        f"≤ {_SCAN_SECONDS} s",
        f"{ours:.2f} s",
        f"{idle:.2f} s (tiersnap --version)",
        idle / ours,
        ours <= _SCAN_SECONDS,
    )
