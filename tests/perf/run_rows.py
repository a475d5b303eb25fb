"""The whole `tiersnap run`, start included, against Kafka's replay with its JVM's start; and the run after it."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.perf.kafka_replay import seconds_with_start
from tests.perf.make_log import LogShape, MadeLog, made
from tests.perf.make_sparse_log import SparseShape, append_segment
from tests.perf.make_sparse_log import made as made_sparse
from tests.perf.measure import Row, warm_cache
from tests.perf.scale import DATA, MIB, Scale

_TIMEOUT = 1200
_SEGMENT_BYTES = 256 * MIB  # a quarter of what brokers make by default


def run(log: MadeLog, work: Path, *options: str) -> tuple[float, dict[str, float]]:
    """One `tiersnap run --apply` with a directory as remote: seconds of the process, and of its stages."""
    command = [
        *(sys.executable, "-c", "import sys; from tiersnap.jobs.cli import main; sys.exit(main())"),
        *("--output", "json", "run", "--source", log.path, "--remote", str(work / "remote"), "--apply"),
        *("--layout", "local-tiered-storage"),
        *("--warehouse", str(work / "warehouse"), "--report", str(work / "report"), *options),
    ]
    # Into files: a pipe would be waited for until the JVM, too, has let go of it.
    with (work / "out").open("w+") as out, (work / "err").open("w+") as err:
        started = time.perf_counter()
        done = subprocess.run(command, stdout=out, stderr=err, timeout=_TIMEOUT, check=False)
        seconds = time.perf_counter() - started
    said = (work / "out").read_text()
    if done.returncode:
        raise RuntimeError(
            f"{options} ended with {done.returncode}: {said[-2000:]}{(work / 'err').read_text()[-2000:]}"
        )
    return seconds, json.loads(said)["result"]["seconds"]


def rows(scale: Scale) -> Iterator[Row]:
    """The first run on both engines, headers or deltas kept; then one segment more in many."""
    log = made(LogShape(300, scale.run_bytes, 256 * MIB))
    warm_cache(sorted(log.partition.glob("*.log")))
    cases = {
        "run, Spark, --keep deltas": ("--keep", "deltas"),
        "run, Spark, --keep headers": ("--keep", "headers"),
        "run, --engine local, --keep deltas": ("--engine", "local", "--keep", "deltas"),
        "run, --engine local, --keep headers": ("--engine", "local", "--keep", "headers"),
    }
    taken: dict[str, list[float]] = {name: [] for name in cases}
    stages: dict[str, dict[str, float]] = {}
    theirs: list[float] = []
    seconds_with_start([log.partition][:0])  # compiled once
    for _ in range(2 if scale.name == "full" else 1):
        theirs.append(seconds_with_start([log.partition]))
        for name, options in cases.items():
            with tempfile.TemporaryDirectory(dir=DATA) as work:
                seconds, stages[name] = run(log, Path(work), *options)
                taken[name].append(seconds)
    peer = statistics.median(theirs)
    for name, each in taken.items():
        ours = statistics.median(each)
        ratio = peer / ours
        yield Row(
            f"{name}, {log.size / (1 << 30):.1f} GiB of 300 B, start included",
            "≥ 3\N{MULTIPLICATION SIGN}" if "Spark" in name else "",
            f"{ours:.1f} s",
            f"{peer:.1f} s (Kafka's replay, JVM start included)",
            ratio,
            ratio >= 3 if "Spark" in name else None,
            "stages: " + ", ".join(f"{stage} {value:.1f} s" for stage, value in stages[name].items()),
        )


def rerun_rows(scale: Scale) -> Iterator[Row]:
    """The run after one new segment, over the first run's decode and carry; the same for Spark and local."""
    shape = SparseShape(scale.many_segments, _SEGMENT_BYTES)
    log = made_sparse(shape)
    base = 0.0
    for engine in ("local", "spark"):
        with tempfile.TemporaryDirectory(dir=DATA) as name:
            work = Path(name)
            grown = _linked(log, work)
            options = ("--engine", engine, "--keep", "deltas")
            _, first = run(grown, work, *options)
            # On Spark the first decode includes the start of the session, which would flatter the ratio.
            base = base or first["decode"] + first["carry"]
            with_one, idle = [], []
            for _ in range(3):
                append_segment(shape, grown.partition)
                seconds, second = run(grown, work, *options)
                with_one.append(seconds)
                idle.append(run(grown, work, *options)[0])
        second_whole, idle_whole = statistics.median(with_one), statistics.median(idle)
        beyond = (second_whole - idle_whole) / base
        yield Row(
            f"run after one new segment in {log.segments} of {shape.segment_bytes // MIB} MiB, engine {engine}",
            "≤ 2 % of the first decode and carry",
            f"{second_whole - idle_whole:+.2f} s ({second_whole:.1f} s, {idle_whole:.1f} s with nothing new)",
            f"{base:.1f} s (first decode and carry, --engine local)",
            beyond,
            beyond <= 0.02,
            ", ".join(f"{stage} {value:.2f} s" for stage, value in second.items()),
        )


def _linked(log: MadeLog, work: Path) -> MadeLog:
    """The log again, by hard links, so that a segment can be added."""
    target = work / "logs" / "perf-0"
    shutil.copytree(log.partition, target, copy_function=lambda source, to: Path(to).hardlink_to(source))
    return MadeLog(str(work / "logs"), log.batches, log.size, log.segments)
