"""How things are measured: interleaved with their peer, medians, peak memory, and what machine it was."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Seconds = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One line of the table; `ratio` is what the budget is about, and `is_met` whether it is kept.

    Attributes:
        command: what else than `make bench` gives this number, empty for nothing.
    """

    what: str
    budget: str
    ours: str
    peer: str
    ratio: float
    is_met: bool | None
    note: str = ""

    @property
    def verdict(self) -> str:
        return "" if self.is_met is None else "met" if self.is_met else "**missed**"


def timed(work: Callable[[], object]) -> Seconds:
    """The work as something that says how many seconds it took."""

    def seconds() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return seconds


@dataclass(frozen=True)
class Spent:
    """What a process took: seconds by the clock, and of processor time, its children's included."""

    seconds: float
    cpu: float


def spent(command: Sequence[str], *, ends_with: Sequence[int], said: str = "") -> Spent:
    """Run a command that may end with these codes, given `said` on its standard input."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, input=said)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in ends_with:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return Spent(seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def cpu_timed(work: Callable[[], object]) -> Seconds:
    """The same in seconds of this thread's processor time, which other processes hardly change."""

    def seconds() -> float:
        started = time.thread_time()
        work()
        return time.thread_time() - started

    return seconds


def interleaved(repetitions: int, *measured: Seconds, warm: bool = True) -> list[float]:
    """Medians, one each; they take turns, so that whatever else the machine does hits all of them."""
    if warm:
        for one in measured:
            one()
    taken = [[one() for one in measured] for _ in range(repetitions)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def best_in_turns(repetitions: int, *measured: Seconds) -> list[float]:
    """The least of each: for short loops, what the machine can do when nothing else is on."""
    for one in measured:
        one()
    taken = [[one() for one in measured] for _ in range(repetitions)]
    return [min(column) for column in zip(*taken, strict=True)]


def peak_memory(module: str, arguments: Sequence[str], *, timeout: float = 600) -> int:
    """Peak resident bytes of `python -m module arguments`, which must print them last (see `print_peak`)."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=True, timeout=timeout
    )
    return int(done.stdout.split()[-1])


def peak_bytes() -> int:
    """Peak resident bytes of this process, mapped pages included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def print_peak() -> None:
    print(peak_bytes())


def warm_cache(files: Sequence[Path]) -> None:
    """Bring the files into the page cache by reading them; what writing left of them there lies in larger pieces."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(16 << 20):
                pass


def machine() -> str:
    """The machine in one line."""
    model, memory = platform.processor() or platform.machine(), 0
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal"):
            memory = round(int(line.split()[1]) / (1 << 20))
    python, linux = platform.python_version(), platform.release()
    return f"{os.cpu_count()} cores ({model}), {memory} GiB, Linux {linux}, Python {python}"


def load() -> str:
    """Load averages over 1 and 5 minutes."""
    one, five, _ = os.getloadavg()
    return f"{one:.1f} and {five:.1f}"
