"""What one run could not know or did not see does not bind the runs after it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.reference.fleet_run import Runner
from tests.reference.log_builder import data_batch, write_partition

pytestmark = pytest.mark.unit

ID = "lZ6vvmajTWKDBUTV6SQAtQ"
TIERED = {"ACTIVE_SEGMENT": 1, "UPLOADED": 3}
LONG_AGO = 1e9


def segments(end: int = 40) -> dict[int, list[bytes]]:
    return {base: [data_batch(at, 5, at, 0, 0) for at in (base, base + 5)] for base in range(0, end, 10)}


def say_high_watermark(logs: Path, offset: int | None) -> None:
    checkpoint = logs / "replication-offset-checkpoint"
    checkpoint.write_text("0\n0\n" if offset is None else f"0\n1\norders 0 {offset}\n")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    write_partition(tmp_path / "logs", "orders", 0, segments(), topic_id=ID, high_watermark=40, indexes=True)
    return Runner(tmp_path, tmp_path / "logs")


@pytest.mark.parametrize("lagging", [29, 30, 31, None])
def test_a_high_watermark_that_lagged_once_holds_nothing_back_later(runner: Runner, lagging: int | None) -> None:
    say_high_watermark(runner.source, lagging)
    runner()
    say_high_watermark(runner.source, 40)
    assert runner().verdicts == TIERED
    assert runner().did_nothing


def test_a_log_that_always_outruns_its_high_watermark_is_tiered_behind_it(runner: Runner) -> None:
    """Nothing older is touched: its files keep their times."""
    for end in range(50, 100, 10):
        last = end - 10
        write_partition(
            runner.source, "orders", 0, {last: segments(end)[last]}, topic_id=ID, leader_epochs=[(0, 0)], indexes=True
        )
        say_high_watermark(runner.source, last - 3)
        ran = runner()
    assert ran.verdicts == {"ABOVE_LSO": 1, "ACTIVE_SEGMENT": 1, "UPLOADED": 7}


@pytest.mark.parametrize("apply", [True, False])
def test_copies_that_one_run_did_not_see_count_again_once_they_are_seen(runner: Runner, apply: bool) -> None:
    assert runner().verdicts == TIERED
    remote, away = Path(runner.remote), Path(runner.remote).with_name("away")
    remote.rename(away)  # not mounted
    runner(apply=apply)
    shutil.rmtree(remote, ignore_errors=True)
    away.rename(remote)
    before = sorted(runner.objects())
    again = runner()
    assert (again.verdicts, again.segments_uploaded) == (TIERED, 0)
    assert sorted(runner.objects()) == before
    runner()
    assert runner().did_nothing


def test_a_brokers_copy_that_took_longer_than_any_copy_may_counts_once_it_is_whole(
    runner: Runner, tmp_path: Path
) -> None:
    broker = Runner(tmp_path / "broker", runner.source)
    broker()
    objects = {key: data for key, data in broker.objects().items() if key.startswith("orders") and "/0000" in key}
    manifests = {key for key in objects if key.endswith("rsm-manifest")}

    def put(keys: set[str], *, modified: float | None = None) -> None:
        for key in keys:
            path = Path(runner.remote) / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(objects[key])
            if modified is not None:
                os.utime(path, (modified, modified))

    put(objects.keys() - manifests)
    assert runner(apply=False).verdicts["COPY_IN_FLIGHT"] == 3
    put(objects.keys() - manifests, modified=LONG_AGO)
    assert "UPLOADED" not in runner(apply=False).verdicts
    put(manifests)
    assert runner(apply=False).verdicts == TIERED


def test_a_segment_that_is_another_than_was_decoded_is_decoded_anew_by_the_next_run(runner: Runner) -> None:
    runner(apply=False)
    path = runner.source / "orders-0" / f"{10:020d}.log"
    before = path.stat()
    path.write_bytes(b"".join(data_batch(at, 5, 900 + at, 0, 0) for at in (10, 15)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    found = runner()
    assert any("changed since tiersnap decoded it" in error for error in found.errors)
    mended = runner()
    assert (mended.decoded, mended.errors, mended.verdicts) == ([("orders", 10)], [], TIERED)
    fresh = Runner(runner.folder / "fresh", runner.source)
    fresh()
    assert snapshots(runner) == snapshots(fresh)
    assert runner().did_nothing


def snapshots(runner: Runner) -> list[bytes]:
    found = runner.objects()
    return [found[key] for key in sorted(found) if key.startswith("snapshots/") and key.endswith(".snapshot")]
