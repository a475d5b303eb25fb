"""`tiersnap collect`: what a host ships of its log directory is what a run would find there."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.all_logs import assemble
from tests.reference.collecting import collect, listed, needed, objects, seen
from tests.reference.command import tiersnap
from tests.reference.examples import examples
from tests.reference.fleet_run import Ran, Runner
from tests.reference.killable_store import Clock, KillableStore, KilledError
from tests.reference.living_log import STEPS, LivingLog, live
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.recovered import DATA
from tiersnap.remote_storage.collect import parts
from tiersnap.remote_storage.collect.collect_plan import GRACE_MS
from tiersnap.remote_storage.errors import ObjectChangedError
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.collected.marker import LISTING, MARKER
from tiersnap.snapshot.collected.source import open_collected
from tiersnap.snapshot.errors import CorruptDataError, SourceNotFoundError, TransientError, UnfinishedError, UsageError
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.producer_fold import ProducerFold
from tiersnap.snapshot.replay.segment_runs import fold_segment

pytestmark = pytest.mark.unit

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
SEGMENTS = {base: [data_batch(base, 10, 1, 0, base)] for base in (0, 10, 20, 30)}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two partitions of four segments each."""
    for number in (0, 1):
        write_partition(
            tmp_path / "logs", "orders", number, SEGMENTS, topic_id=TOPIC_ID, high_watermark=40, indexes=True
        )
    return tmp_path / "logs"


# Files may have a time that no int64 of nanoseconds holds: 2440, and on some file systems long before 1678.
FAR = 14_832_072_000  # seconds


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def facts(ran: Ran) -> list[dict[str, Any]]:
    """What a replay said, without where it was told."""
    left_out = ("log_dir", "fingerprint", "path")
    return [{name: value for name, value in row.items() if name not in left_out} for row in ran.facts]


def readiness(ran: Ran) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "log_dir"} for row in ran.readiness]


@settings(max_examples=examples(4))
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=3, max_size=9))
def test_run_after_run_a_collected_log_says_what_the_log_itself_says(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    try:
        log = LivingLog(folder / "logs", seed)
        log.write_checkpoints()
        direct = Runner(folder / "direct", log.log_dir)
        shipped = Runner(folder / "shipped", folder / "to")
        for number, step in enumerate(["append", *steps]):
            live(log, step, folder / f"oracle{number}")
            (done,) = collect(log.log_dir, folder / "to", now=number * GRACE_MS)
            assert done.error is None
            expected, observed = direct(apply=False), shipped(apply=False)
            assert facts(observed) == facts(expected), (number, step)
            assert readiness(observed) == readiness(expected), (number, step)
            assert observed.decoded == expected.decoded, (number, step)
            assert shipped(apply=False).commits == 0, (number, step)
            (again,) = collect(log.log_dir, folder / "to", now=number * GRACE_MS)
            assert again.plan is not None
            assert not again.plan.is_changed, (number, step)
    finally:
        shutil.rmtree(folder)


def test_the_bundled_logs_give_the_same_listing_decodes_and_facts(tmp_path: Path, to: Path) -> None:
    source = tmp_path / "logs"
    assert len(assemble(source)) == 119
    assert not [done.error for done in collect(source, to) if done.error]
    expected = Runner(tmp_path / "direct", source)(apply=False)
    observed = Runner(tmp_path / "shipped", to)(apply=False)
    assert facts(observed) == facts(expected)
    assert readiness(observed) == readiness(expected)


def test_run_takes_segments_whose_file_time_is_beyond_2262(tmp_path: Path, logs: Path, to: Path) -> None:
    far = logs / "orders-0" / f"{10:020d}.log"
    os.utime(far, (FAR, FAR))
    assert far.stat().st_mtime_ns > 2**63
    assert [done.error for done in collect(logs, to)] == [None, None]
    direct, shipped = Runner(tmp_path / "direct", logs), Runner(tmp_path / "shipped", to)
    for _ in range(2):
        assert facts(direct(apply=False)) == facts(shipped(apply=False))
    assert direct(apply=False).commits == 0
    assert direct().segments_uploaded == 6
    assert direct().did_nothing


def test_what_is_ready_is_said_and_never_tiered_from_decodes(tmp_path: Path, logs: Path, to: Path) -> None:
    collect(logs, to)
    runner = Runner(tmp_path / "run", to)
    ran = runner()
    assert (ran.verdicts, ran.tiered, ran.errors) == ({"READY": 6, "ACTIVE_SEGMENT": 2}, [], [])
    written = [key for key in runner.objects() if key.endswith(".snapshot")]
    assert len(written) == 6
    assert {key for key in runner.objects() if key.endswith((".log", ".indexes", ".rsm-manifest"))} == set()


def test_a_collection_killed_at_any_step_and_run_again_ends_as_a_fresh_one(
    to: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    for number, bases in enumerate(((0, 10), (0,))):
        segments, marks = {base: SEGMENTS[base] for base in bases}, {"high_watermark": 10 * len(bases), "indexes": True}
        write_partition(logs, "orders", number, segments, topic_id=TOPIC_ID, **marks)
    # Every segment has an object and a listing of progress.
    monkeypatch.setattr(parts, "MOST_LOG_BYTES", 1)
    collect(logs, tmp_path / "fresh", with_batches=True)
    expected, steps = seen(tmp_path / "fresh"), 0
    while True:
        shutil.rmtree(to, ignore_errors=True)
        try:
            collect(logs, to, store=KillableStore(DirectoryStore(to), Clock(steps)), with_batches=True)
        except KilledError:
            steps += 1
        else:
            break
        assert not [done.error for done in collect(logs, to, with_batches=True) if done.error]
        assert seen(to) == expected
        # What the killed one left is deleted a day after it was found.
        clock = Clock()
        for now in (1, 1 + GRACE_MS):
            collect(logs, to, store=KillableStore(DirectoryStore(to), clock), now=now, with_batches=True)
        assert seen(to) == expected
        assert objects(to) == needed(to)
    assert steps > 12


def test_what_a_reader_sees_of_a_killed_collection_is_what_was_there_before_or_what_is_there_now(
    logs: Path, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MOST_LOG_BYTES", 1)
    collect(logs, to)
    shipped, before = to.rename(logs.parent / "shipped"), seen(logs.parent / "shipped")
    for number in (0, 1):
        folder = logs / f"orders-{number}"
        # The second segment is another one, the last has grown, and a new one follows.
        (folder / f"{10:020d}.log").write_bytes(data_batch(10, 10, 2, 0, 10))
        with (folder / f"{30:020d}.log").open("ab") as file:
            file.write(data_batch(40, 5, 1, 0, 40))
        (folder / f"{45:020d}.log").write_bytes(data_batch(45, 5, 1, 0, 45))
    collect(logs, shutil.copytree(shipped, logs.parent / "fresh"))
    after = seen(logs.parent / "fresh")
    for steps in itertools.count():
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(shipped, to)
        try:
            collect(logs, to, store=KillableStore(DirectoryStore(to), Clock(steps)))
        except KilledError:
            found = seen(to)
            assert all(row in (old, new) for row, old, new in zip(found, before, after, strict=True)), steps
        else:
            break
    assert seen(to) == after
    assert steps > 10


def test_a_killed_collection_reads_no_segment_again_that_a_listing_of_progress_names(
    logs: Path, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MOST_LOG_BYTES", 1)
    with pytest.raises(KilledError):
        # Marker, then a part and a listing for each segment.
        collect(logs, to, store=KillableStore(DirectoryStore(to), Clock(5)))
    plans = [done.plan for done in collect(logs, to, apply=False) if done.plan is not None]
    assert [[segment.base_offset for segment in plan.segments] for plan in plans] == [[20, 30], [0, 10, 20, 30]]


def test_a_second_collection_writes_nothing_and_a_third_only_what_is_new(logs: Path, to: Path) -> None:
    collect(logs, to)
    before, clock = objects(to), Clock()
    collect(logs, to, store=KillableStore(DirectoryStore(to), clock))
    assert (clock.steps, objects(to)) == (0, before)
    (logs / "orders-0" / f"{40:020d}.log").write_bytes(data_batch(40, 10, 1, 0, 40))
    first, second = collect(logs, to)
    assert first.plan is not None
    assert second.plan is not None
    # The segment that was active is sound, so rolling it is no reason to read it again.
    assert [segment.base_offset for segment in first.plan.segments] == [40]
    assert not second.plan.is_changed
    assert before <= objects(to)


def test_segments_and_partitions_that_went_are_not_listed_and_their_objects_stay_for_a_day(
    logs: Path, to: Path
) -> None:
    collect(logs, to)
    before = needed(to)
    for path in (logs / "orders-0").glob(f"{0:020d}.*"):
        path.unlink()
    shutil.rmtree(logs / "orders-1")
    (done,) = collect(logs, to, now=1)
    assert done.plan is not None
    assert done.plan.gone == (0,)
    (row,) = listed(to)
    assert (row["topic"], [segment["base_offset"] for segment in row["segments"]]) == ("orders", [10, 20, 30])
    # Who lists by the older listing still finds all that it names.
    assert before <= objects(to)
    theirs = f"orders-1/{0:020d}.log.gz"
    (to / theirs).write_bytes(b"somebody's backup")
    collect(logs, to, now=1 + GRACE_MS)
    assert objects(to) - needed(to) == {theirs}
    assert [key for key in objects(to) if key.startswith("orders-1/")] == [theirs]


def test_partitions_that_were_not_asked_for_stay_as_they_were_collected(logs: Path, to: Path) -> None:
    collect(logs, to)
    collect(logs, to, folders=["orders-0"], now=GRACE_MS)
    assert [row["partition"] for row in listed(to)] == [0, 1]


def test_headers_that_are_shipped_fold_to_the_deltas_that_are_shipped(to: Path, tmp_path: Path) -> None:
    source = shutil.copytree(DATA / "kafka-3.9.1/logs", tmp_path / "logs")
    collect(source, to)
    without = open_collected(str(to))
    assert without is not None
    with pytest.raises(SourceNotFoundError, match="tiersnap collect wrote no batch headers"):
        list(without.batches("orders-0"))
    collect(source, to, with_batches=True)
    # One that is rolled over and over has headers of it as it was, too.
    segment = max((source / "orders-0").glob("*.log"))
    segment.write_bytes(segment.read_bytes() + data_batch(745, 5, 7, 0, 40))
    collect(source, to, with_batches=True)
    log_dir, shipped, checked = open_log_dir(str(source)), open_collected(str(to)), 0
    assert shipped is not None
    for partition in log_dir.partitions():
        found = [row for batch in shipped.batches(partition.name) for row in batch.to_pylist()]
        assert {row["log_dir"] for row in found} <= {str(to)}
        for each in partition.segments:
            rows = [row for row in found if row["segment_base_offset"] == each.base_offset]
            names = RECORD_BATCH_DTYPE.names or ()
            folded = ProducerFold()
            folded.add_batches(np.array([tuple(row[name] for name in names) for row in rows], RECORD_BATCH_DTYPE))
            (run,), end = fold_segment(log_dir.filesystem, each)
            assert (folded.deltas().tolist(), len(rows)) == (run.deltas.tolist(), end.batch_count)
            checked += run.deltas.size
    assert checked > 100


def test_a_file_that_goes_while_it_is_read_makes_the_partition_be_listed_again(logs: Path, to: Path) -> None:
    file = logs / "orders-0" / f"{10:020d}.snapshot"
    file.write_bytes(b"")

    class Retention(DirectoryStore):
        def put_if_absent(self, key: str, *args: Any, **kwargs: Any) -> Any:
            file.unlink(missing_ok=True)
            return super().put_if_absent(key, *args, **kwargs)

    first, _ = collect(logs, to, store=Retention(to))
    assert first.error is None
    assert [row["snapshots"] for row in listed(to)] == [[], []]


@pytest.mark.parametrize("is_known", [True, False])
def test_collect_passes_by_a_folder_that_goes_while_it_is_collected(logs: Path, to: Path, is_known: bool) -> None:
    if is_known:
        collect(logs, to, folders=["orders-0"])

    class Deleted(DirectoryStore):
        def read(self, key: str, **kwargs: Any) -> Any:
            if key.startswith("orders-0/"):
                shutil.rmtree(logs / "orders-0", ignore_errors=True)
            return super().read(key, **kwargs)

    first, second = collect(logs, to, store=Deleted(to))
    assert (first.plan, first.error, second.error) == (None, None, None)
    assert [row["partition"] for row in listed(to)] == ([0, 1] if is_known else [1])
    collect(logs, to)
    assert [row["partition"] for row in listed(to)] == [1], "the next one lists it no more"


def test_what_cannot_be_collected_stays_as_it_was_and_is_said(logs: Path, to: Path) -> None:
    collect(logs, to)
    before = seen(to)
    with (logs / "orders-0" / f"{10:020d}.snapshot").open("wb") as file:
        file.truncate(2 << 30)
    first, second = collect(logs, to)
    assert isinstance(first.error, UnfinishedError)
    assert f"{10:020d}.snapshot: {2 << 30} bytes, more than a snapshot may have" in first.error.message
    assert second.error is None
    assert seen(to) == before
    assert tiersnap("collect", logs, "--to", to, "--apply").exit_code == 6


def test_a_store_that_does_not_answer_is_not_asked_for_every_partition(logs: Path, to: Path) -> None:
    collect(logs, to)
    before, asked = objects(to), []

    class Away(DirectoryStore):
        def read(self, key: str, **kwargs: Any) -> Any:
            if key.endswith(LISTING):
                asked.append(key)
                raise TransientError("no answer")
            return super().read(key, **kwargs)

    first, second = collect(logs, to, store=Away(to))
    assert first.error is not None
    assert second.error is not None
    assert (first.error.message, second.error.message) == (
        "no answer",
        "not collected, because of an earlier error: no answer",
    )
    assert (len(asked), objects(to)) == (1, before)


def test_another_log_directory_is_refused_and_another_collection_at_work_is_told(logs: Path, to: Path) -> None:
    collect(logs, to)
    other = shutil.copytree(logs, logs.parent / "other")
    with pytest.raises(UsageError, match="already has the collected files of"):
        collect(other, to)
    (logs / "orders-0" / f"{40:020d}.log").write_bytes(data_batch(40, 10, 1, 0, 40))

    class Faster(DirectoryStore):
        """Another collection comes between every look and the write after it."""

        def put_if_absent(self, key: str, *args: Any, **kwargs: Any) -> Any:
            if key.startswith("orders-0/"):
                collect(logs, to)
            return super().put_if_absent(key, *args, **kwargs)

    class First(DirectoryStore):
        """Another collection makes the folder just before this one."""

        def put_if_absent(self, key: str, *args: Any, **kwargs: Any) -> Any:
            collect(logs, to, now=1)
            return super().put_if_absent(key, *args, **kwargs)

    first, second = collect(logs, to, store=Faster(to))
    assert isinstance(first.error, ObjectChangedError)
    assert second.error is None
    shutil.rmtree(to)
    with pytest.raises(ObjectChangedError, match="another run of tiersnap collect has just written this object"):
        collect(logs, to, store=First(to))


def test_a_damaged_or_newer_folder_is_refused_by_name(logs: Path, to: Path) -> None:
    collect(logs, to)
    listing = to / "orders-0" / LISTING
    kept = listing.read_bytes()
    listing.write_bytes(kept[: len(kept) // 2])
    first, _ = collect(logs, to)
    assert isinstance(first.error, CorruptDataError)
    (damaged, *_) = listed(to)
    assert (damaged["segments"], [each["finding_kind"] for each in damaged["findings"]]) == ([], ["UNREADABLE_FILE"])
    (to / MARKER).write_text((to / MARKER).read_text().replace('"version":1', '"version":2'))
    with pytest.raises(UsageError, match="a newer tiersnap wrote this file, in version 2"):
        listed(to)


def test_the_command_plans_ships_and_says_what_it_did(logs: Path, to: Path) -> None:
    planned = tiersnap("collect", logs, "--to", to)
    assert (planned.exit_code, to.exists()) == (0, False)
    assert [(row["partition"], row["to_decode"]) for row in planned.rows] == [("orders-0", 4), ("orders-1", 4)]
    done = tiersnap("collect", logs, "--to", to, "--headers", "--apply")
    assert (done.exit_code, json.loads(done.out)["result"]["segments_decoded"]) == (0, 8)
    again = tiersnap("collect", logs, "--to", to, "--headers", "--apply")
    assert json.loads(again.out)["result"]["segments_decoded"] == 0
    assert "nothing to do: all files of the log directories are in shared storage" in again.err
    scanned = tiersnap("scan", to)
    assert scanned.exit_code == 2
    assert "tiersnap run --source" in scanned.err
    assert tiersnap("collect", to, "--to", to / "more").exit_code == 2
