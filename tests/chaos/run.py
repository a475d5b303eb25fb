"""`make chaos`: a storm over a cluster, and the verdict on what it told.

Usage: python -m tests.chaos.run [--seed N] [--minutes M] [--folder DIR] [--control | --spark]

The history stays in DIR/<seed>/history.jsonl; of a run that failed the brokers' logs and settings stay beside it.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.chaos.check import judge
from tests.chaos.cluster import TOPICS, UNCLEAN, Cluster
from tests.chaos.faults import Storm
from tests.chaos.history import History
from tests.chaos.operator import Operator, end_running
from tests.chaos.readers import Reader
from tests.chaos.schedule import schedule
from tests.chaos.settle import settle
from tests.chaos.skipped_markers import skipped_markers
from tests.chaos.spark_runs import SparkRuns
from tests.chaos.writers import Writer


def storm(cluster: Cluster, history: History, seed: int, minutes: float, *, is_control: bool, has_spark: bool) -> None:
    """Faults among producers, consumers and tiersnap, and what is found afterwards."""
    for topic in TOPICS:
        history.tell("topic", topic=topic, generation=1, clean=topic != UNCLEAN)
    writers = [
        Writer(history, cluster.bootstrap, topic, is_transactional, seed * 100 + number)
        for number, (topic, is_transactional) in enumerate((topic, kind) for topic in TOPICS for kind in (False, True))
    ]
    isolations = ("read_uncommitted", "read_committed")
    readers = [Reader(history, cluster.bootstrap, tuple(TOPICS), isolation) for isolation in isolations]
    operator = None if is_control else Operator(history, cluster, seed)
    runs = SparkRuns(history, cluster, seed) if has_spark else None
    threads = [*writers, *readers, *([operator] if operator else []), *([runs] if runs else [])]
    for thread in threads:
        thread.start()
    faults = Storm(cluster, history, writers, is_control)
    began = time.monotonic()
    for fault in schedule(seed, minutes):
        time.sleep(max(0.0, began + fault.at - time.monotonic()))
        if time.monotonic() - began > minutes * 60:
            break
        faults.strike(fault)
    faults.heal()
    time.sleep(3)
    for thread in threads:
        thread.stop.set()
    for thread in threads:
        thread.join(1000 if thread is runs else 200)
    assert not any(thread.is_alive() for thread in threads), "a thread of the run hangs"
    settle(cluster, history, operator)


def run(folder: Path, seed: int, minutes: float, *, is_control: bool = False, has_spark: bool = False) -> bool:
    """Whether the history keeps every promise and the run came to its end; `folder` is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"seed {seed}, {minutes:g} minutes: {folder}/history.jsonl", flush=True)
    history = History(folder / "history.jsonl")
    began = time.monotonic()
    failure = ""
    try:
        with Cluster(folder / "cluster") as cluster:
            storm(cluster, history, seed, minutes, is_control=is_control, has_spark=has_spark)
    except Exception as error:  # the history up to here is judged all the same
        failure = f"{type(error).__name__}: {error}"
        history.tell("failed", error=failure)
    finally:
        end_running()
    for at, topic in skipped_markers(folder / "cluster", history.began):
        history.tell("skipped", at=at, topic=topic)
    history.close()
    control = folder.with_name(f"{seed}-control") / history.path.name
    found = judge(history.path, control if control.exists() and not is_control else None)
    if failure:
        print(f"the run came to no end: {failure}")
    is_good = not failure and not found
    if is_good:
        shutil.rmtree(folder / "cluster", ignore_errors=True)
    print(f"{time.monotonic() - began:.0f} s; seed {seed}: {'passed' if is_good else 'FAILED'}")
    return is_good


def main() -> int:
    """1 if the history breaks a promise, or the run came to no end."""
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--folder", type=Path, default=Path(".cache/chaos"))
    kind = options.add_mutually_exclusive_group()
    kind.add_argument("--control", action="store_true", help="the same storm without tiersnap")
    kind.add_argument("--spark", action="store_true", help="the main job runs beside the commands of hosts")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = given.folder.resolve() / f"{given.seed}{'-control' * given.control}"
    return int(not run(folder, given.seed, given.minutes, is_control=given.control, has_spark=given.spark))


if __name__ == "__main__":
    sys.exit(main())
