"""A real process on a real session and a real HTTP S3, killed without warning between commits and while it uploads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.aging_log import NOW
from tests.reference.recovered import DATA
from tests.spark.conftest import Remote
from tests.unit.test_scan_window import EDGE, brokers_files, hanging_log
from tiersnap.jobs.main import run as tiersnap
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState

pytestmark = pytest.mark.spark

SOURCE = DATA / "kafka-3.9.1/logs"
AS_OF = ["--as-of", "2026-11-21T12:45:00Z"]
SECONDS = 600  # on a busy machine


def options(remote: Remote, warehouse: Path) -> list[str]:
    places = ["--source", str(SOURCE), *remote.options, "--warehouse", str(warehouse)]
    return ["-q", "run", *places, "--report", str(warehouse.parent / "report"), *AS_OF, "--apply"]


def kill_once(command: list[str], is_time: Callable[[], bool]) -> None:
    """Run it in a process group of its own, and end that as soon as it is time."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.reference.tiersnap", *command],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + SECONDS
        while not is_time():
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < end, "it never came so far"
            time.sleep(0.02)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


@pytest.mark.parametrize(
    "killed_after",
    [
        "the first manifest",
        pytest.param("the commit of segments", marks=pytest.mark.nightly),
        pytest.param("the commit of remote_log_segments", marks=pytest.mark.nightly),
    ],
)
def test_a_killed_run_is_finished_with_one_copy_of_each_segment(
    spark: SparkSession, remote: Remote, warehouse: Path, killed_after: str
) -> None:
    def is_time() -> bool:
        if killed_after == "the first manifest":
            return any(key.endswith(".rsm-manifest") for key in remote.objects())
        table = killed_after.removeprefix("the commit of ")
        return (warehouse / table / "_delta_log" / f"{0:020d}.json").exists()

    command = options(remote, warehouse)
    kill_once(command, is_time)
    assert tiersnap(command) in (0, 4)
    kinds: defaultdict[KeyKind, Counter[tuple[str, int]]] = defaultdict(Counter)
    for key in remote.objects():
        parsed = keys.parse(key)
        if parsed.segment_id is not None and parsed.offset is not None:
            kinds[parsed.kind][str(parsed.partition), parsed.offset] += 1
    assert len(kinds[KeyKind.LOG]) == 18
    for kind in (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST):
        assert kinds[kind] == Counter(dict.fromkeys(kinds[KeyKind.LOG], 1)), kind
    # What the killed run copied is found in remote storage, what it left half way is not.
    rows = DeltaTable(str(warehouse / "remote_log_segments")).to_pyarrow_table().to_pylist()
    finished = [row["base_offset"] for row in rows if row["state"] == SegmentState.COPY_SEGMENT_FINISHED.name]
    assert len(finished) == len({row["segment_id"] for row in rows}) == 18
    first, *second = sorted(DeltaTable(str(warehouse / "runs")).to_pyarrow_table().to_pylist(), key=itemgetter("run"))
    # What it had committed is not done again, and is in the history.
    assert first["segments_decoded"] > 0
    assert [run["segments_decoded"] for run in second] == [0], "the next run appends the verdicts at least"
    assert first["segments_uploaded"] == (18 if killed_after == "the commit of remote_log_segments" else 0)
    objects = remote.objects()
    assert tiersnap(command) in (0, 4)
    assert remote.objects() == objects


def contents(remote: Remote) -> dict[tuple[KeyKind, str, int], bytes]:
    """Contents by kind, partition and offset, of all objects that every run of a log writes alike."""
    store, found = remote.store, {}
    for key in remote.objects():
        parsed = keys.recognise(key)
        if parsed is not None and parsed.kind in {KeyKind.LOG, KeyKind.INDEXES, KeyKind.SNAPSHOT}:
            at = parsed.kind, str(parsed.partition), parsed.offset or 0
            assert at not in found, "two objects of one segment"
            found[at] = store.get(key)
    return found


@pytest.mark.nightly
def test_a_killed_window_run_leaves_what_the_next_one_finishes(
    spark: SparkSession, remote: Remote, tmp_path: Path
) -> None:
    log, folder = hanging_log(tmp_path, opened=None)
    brokers_files(log, folder, [2 * EDGE])
    calm = replace(remote, uri=remote.uri.replace("prefix", "calm"))

    def command(at: Remote, name: str) -> list[str]:
        places = ["--source", str(folder.parent), *at.options, "--warehouse", str(tmp_path / name)]
        window = ["--scan", "window", "--expiration", "7d", "--as-of", str(NOW)]
        return ["-q", "run", *places, "--report", str(tmp_path / "report"), *window, "--apply"]

    killed = command(remote, "killed")
    kill_once(killed, lambda: any(key.endswith(".rsm-manifest") for key in remote.objects()))
    left = [key for key in remote.objects() if key.endswith(".rsm-manifest")]
    assert 0 < len(left) < len(log.segments) - 1
    for each in (killed, command(calm, "calm")):
        assert tiersnap(each) == 0
    assert contents(remote) == contents(calm)
    logs = sorted(offset for kind, _, offset in contents(remote) if kind is KeyKind.LOG)
    assert logs == list(log.segments)[:-1]
    decoded = DeltaTable(str(tmp_path / "killed/segments")).to_pyarrow_table()["base_offset"].to_pylist()
    assert min(decoded) == 2 * EDGE, "what is older is not decoded"
    objects = remote.objects()
    assert set(left) <= objects.keys()
    assert tiersnap(killed) == 0
    assert remote.objects() == objects
