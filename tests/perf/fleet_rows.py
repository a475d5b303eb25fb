"""The main job on Spark: its fixed cost, and what it costs with the number of segments."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.perf import page
from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row
from tests.perf.scale import DATA, MIB, Scale

_TIMEOUT = 7200
_BUNDLED = Path(__file__).parents[1] / "data" / "ledger-2.7.2" / "logs"
_SEGMENTS_A_PARTITION = 200
_CHANGED = 10
_GROWTH = 1.3
_PYTHON, _HEAP = 300 * MIB, 1024 * MIB
# What each run may cost a segment, in seconds of CPU: the first one, with nothing new, with one new segment.
_RUNS = (("first run", 1.3e-3), ("nothing new", 0.2e-3), ("one new segment", 0.2e-3))


def idle_rows(scale: Scale) -> Iterator[Row]:
    """A run over the bundled logs that finds nothing to do: in a process of its own, and again in its session."""
    taken = []
    with tempfile.TemporaryDirectory(dir=DATA) as work:
        _said("tests.perf.idle", str(_BUNDLED), work)  # the run before it
        for _ in range(scale.repetitions):
            taken.append(json.loads(_said("tests.perf.idle", str(_BUNDLED), work)))
    for name, unit, limit, found in (
        ("cold, session start included", "s of CPU", 20, [each["cold"]["cpu"] for each in taken]),
        ("in a warm session", "s", 3, [each["warm"][-1]["seconds"] for each in taken]),
        ("in a warm session", "SQL executions", 10, [each["warm"][-1]["executions"] for each in taken]),
    ):
        middle = sorted(found)[len(found) // 2]
        last = taken[-1]["warm"][-1]
        yield Row(
            f"tiersnap run with nothing to do on the bundled logs, {name}",
            f"\N{LESS-THAN OR EQUAL TO} {limit} {unit}",
            f"{middle:.1f} {unit}",
            f"{last['jobs']} jobs, {last['tasks']} tasks, {last['calls']:,} calls, {last['cpu']:.1f} s of CPU",
            middle / limit,
            middle <= limit,
        )


def rows(scale: Scale) -> Iterator[Row]:
    """CPU seconds of the runs by number of segments, and the driver's memory against that at the fewest."""
    found = {count: _segments(count) for count in scale.fleet}
    least, most = min(found), max(found)
    for index, (name, budget) in enumerate(_RUNS):
        cpu = {count: each["runs"][index]["cpu"] for count, each in found.items()}
        each_more = (cpu[most] - cpu[least]) / (most - least)
        yield Row(
            f"CPU of a segment more, {name}, {least:,} to {most:,} segments of 20 kB",
            f"≤ {budget * 1e3:.1f} ms, slope ≤ 1",
            f"{each_more * 1e3:.2f} ms",
            ", ".join(f"{count:,}: {seconds:.1f} s" for count, seconds in cpu.items()),
            each_more / budget,
            each_more <= budget and page.slope(cpu.items()) <= 1,
            f"slope {page.slope(cpu.items()):.2f}; by the clock "
            + ", ".join(f"{each['runs'][index]['seconds']:.1f} s" for each in found.values()),
        )
    memories = (
        ("Python's peak", _PYTHON, lambda each: each["python"]),
        ("JVM heap after full collections", _HEAP, lambda each: each["heap"]),
    )
    for name, limit, memory in memories:
        small, large = memory(found[least]), memory(found[most])
        growth = large / max(small, 1)
        yield Row(
            f"memory of the driver, {name}, {most:,} segments",
            f"≤ {_GROWTH}\N{MULTIPLICATION SIGN}, ≤ {limit // MIB} MiB",
            f"{large // MIB} MiB",
            f"{small // MIB} MiB ({least:,} segments)",
            growth,
            growth <= _GROWTH and large <= limit,
        )


def moved_rows(scale: Scale) -> Iterator[Row]:
    """What a run moves after ten partitions have a segment more, of few segments and of ten times as many."""
    found = {count: _moved(count) for count in scale.fleet[:2]}
    least, most = found
    for name, limit in (("shuffled", 1.3), ("read", 1.3)):
        small, large = (found[count]["changed"][name] - found[count]["idle"][name] for count in (least, most))
        yield Row(
            f"bytes {name} for {_CHANGED} segments more, of {most:,}, besides those of a run with nothing to do",
            f"\N{LESS-THAN OR EQUAL TO} {limit}\N{MULTIPLICATION SIGN}",
            f"{large:,}",
            f"{small:,} ({least:,} segments)",
            large / max(small, 1),
            large <= limit * max(small, 1),
            f"with nothing to do {found[most]['idle'][name]:,} and {found[least]['idle'][name]:,}",
        )


def _moved(count: int) -> dict[str, Any]:
    with _linked(count) as (work, shape):
        words = str(work / "logs"), str(work), json.dumps(asdict(shape)), str(_CHANGED)
        found: dict[str, Any] = json.loads(_said("tests.perf.moved", *words).splitlines()[-1])
        return found


def _segments(count: int) -> dict[str, Any]:
    with _linked(count) as (work, shape):
        return _fleet("segments", str(work / "logs"), str(work), json.dumps(asdict(shape)))


@contextmanager
def _linked(count: int) -> Iterator[tuple[Path, LogShape]]:
    """A folder with `logs` of so many segments, to which others can be added."""
    shape = LogShape(201, 0, 1, partitions=max(_CHANGED, count // _SEGMENTS_A_PARTITION))
    # A block is the least that a segment holds.
    shape = LogShape(shape.batch_bytes, count * shape.block_bytes, shape.block_bytes, partitions=shape.partitions)
    log = made(shape)
    assert log.segments == count, (log.segments, count)
    with tempfile.TemporaryDirectory(dir=DATA) as name:
        work = Path(name)
        # Linked, so that a segment can be added.
        shutil.copytree(log.path, work / "logs", copy_function=lambda source, to: Path(to).hardlink_to(source))
        yield work, shape


def _fleet(*words: str) -> dict[str, Any]:
    """What `python -m tests.perf.fleet WORDS` says."""
    found: dict[str, Any] = json.loads(_said("tests.perf.fleet", *words).splitlines()[-1])
    return found


def _said(module: str, *words: str) -> str:
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{module} {words} ended with {done.returncode}: {done.stderr[-3000:]}")
    return done.stdout
