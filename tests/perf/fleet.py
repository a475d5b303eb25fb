"""The main job in a process of its own, for its memory: `python -m tests.perf.fleet segments|collected …`.

Prints one JSON object. CPU seconds are those of all processes of the job (driver, JVM, executors, workers), from /proc;
memory of Python is its peak. `segments` runs on a standalone cluster of one worker, because in local mode tasks share
the JVM of the driver; its heap is collected in full every three seconds, and what is left then is what is counted.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from tests.perf.make_log import LogShape
from tests.perf.measure import peak_bytes
from tests.spark.clusters import standalone
from tiersnap.jobs.pipeline import delta_jars
from tiersnap.jobs.pipeline.run import run
from tiersnap.jobs.pipeline.session import QUICK_COMPILER, open_session
from tiersnap.jobs.pipeline.settings import RunSettings

_COLLECTED = re.compile(r"Pause Full .* \d+M->(\d+)M\(")
_COLLECT = "-XX:+UseG1GC -XX:G1PeriodicGCInterval=3000 -XX:-G1PeriodicGCInvokesConcurrent"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ran:
    """One run.

    Attributes:
        cpu: seconds of all processes.
        seconds: by the clock.
        decoded: segments.
    """

    cpu: float
    seconds: float
    decoded: int


def settings(source: str, work: Path, *, upload: bool) -> RunSettings:
    return RunSettings(
        sources=(source,),
        remote=str(work / "remote"),
        warehouse=str(work / "warehouse"),
        layout="local-tiered-storage",
        no_upload=not upload,
        apply=True,
    )


def measured(spark: SparkSession, chosen: RunSettings) -> Ran:
    began, cpu = time.perf_counter(), cpu_of_tree()
    outcome = run(spark, chosen)
    if outcome.error_count:
        raise RuntimeError(f"failed: {outcome.errors}")
    return Ran(cpu_of_tree() - cpu, time.perf_counter() - began, outcome.counts.segments_decoded)


def cpu_of_tree() -> float:
    """Processor seconds so far of this process and all below it, with those that have ended and were waited for."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue  # it ended
        number = int(stat.parent.name)
        parents[number], ticks[number] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while found := {number for number, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return sum(ticks[number] for number in ours) / _TICKS


def heap(log: Path) -> int:
    """Bytes: the most that a full collection left."""
    return max(map(int, _COLLECTED.findall(log.read_text())), default=0) << 20


def segments(session: Callable[[], SparkSession], source: str, work: Path, shape: LogShape) -> list[Ran]:
    """The first run, one with nothing new, and one after a new segment; nothing is written to remote storage."""
    first, idle = collected(session, source, work)
    # By another process: the memory of the writer is not the driver's.
    words = [sys.executable, "-m", "tests.perf.make_log", json.dumps(asdict(shape)), f"{source}/perf-0"]
    subprocess.run(words, check=True)
    return [first, idle, measured(session(), settings(source, work, upload=False))]


def collected(session: Callable[[], SparkSession], source: str, work: Path) -> list[Ran]:
    """The first run and one with nothing new; nothing is written to remote storage."""
    spark, chosen = session(), settings(source, work, upload=False)
    return [measured(spark, chosen), measured(spark, chosen)]


def main(kind: str, source: str, folder: str, *shape: str) -> None:
    work = Path(folder)
    log = work / "gc.log"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = delta_jars.jars()
    conf = {
        "spark.driver.extraJavaOptions": f"{QUICK_COMPILER} {_COLLECT} -Xlog:gc:file={log}:uptime:filecount=0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.jars": ",".join(jars),
        "spark.executor.memory": "900m",
    }
    with standalone(work / "cluster", workers=1, cores=2) as cluster:
        session = partial(open_session, cluster.url, conf)
        if kind == "collected":
            runs = collected(session, source, work)
        else:
            runs = segments(session, source, work, LogShape(**json.loads(shape[0])))
        SparkSession.builder.getOrCreate().stop()
    print(json.dumps({"runs": [asdict(each) for each in runs], "python": peak_bytes(), "heap": heap(log)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
