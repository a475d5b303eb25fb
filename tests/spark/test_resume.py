"""A real process on a real session and a real HTTP S3, killed without warning while it uploads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.recovered import DATA
from tests.spark.conftest import Remote
from tiersnap.jobs.cli import run as tiersnap
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, check_transition

pytestmark = pytest.mark.spark

SOURCE = DATA / "kafka-3.9.1/logs"
AS_OF = ["--as-of", "2026-11-21T12:45:00Z"]
SECONDS = 120


def options(remote: Remote, warehouse: Path) -> list[str]:
    places = ["--source", str(SOURCE), *remote.options, "--warehouse", str(warehouse)]
    return ["-q", "run", *places, "--report", str(warehouse.parent / "report"), *AS_OF, "--apply"]


def kill_once(remote: Remote, suffix: str, command: list[str]) -> None:
    """Run it in a process group of its own, and end that as soon as an object of the kind is there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.reference.tiersnap", *command],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + SECONDS
        while not any(key.endswith(suffix) for key in remote.objects()):
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < end, "it uploaded nothing"
            time.sleep(0.02)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def test_a_killed_run_is_finished_with_one_copy_of_each_segment(
    spark: SparkSession, remote: Remote, warehouse: Path
) -> None:
    command = options(remote, warehouse)
    kill_once(remote, ".rsm-manifest", command)
    assert tiersnap(command) in (0, 4)
    kinds: defaultdict[KeyKind, Counter[tuple[str, int]]] = defaultdict(Counter)
    attempts = set()
    for key in remote.objects():
        parsed = ObjectKeys().parse(key)
        if parsed.segment_id is not None and parsed.offset is not None:
            kinds[parsed.kind][str(parsed.partition), parsed.offset] += 1
            attempts.add(parsed.segment_id)
    assert len(kinds[KeyKind.LOG]) == 18
    for kind in (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST):
        assert kinds[kind] == Counter(dict.fromkeys(kinds[KeyKind.LOG], 1)), kind
    entered = defaultdict(list)
    for row in DeltaTable(str(warehouse / "remote_log_segments")).to_pyarrow_table().to_pylist():
        entered[row["segment_id"]].append(SegmentState[row["state"]])
    for segment_id, states in entered.items():
        before = None
        for state in sorted(states):
            check_transition(before, state)
            before = state
        is_there = segment_id in attempts
        assert before is (SegmentState.COPY_SEGMENT_FINISHED if is_there else SegmentState.DELETE_SEGMENT_FINISHED)
    objects = remote.objects()
    assert tiersnap(command) in (0, 4)
    assert remote.objects() == objects
