"""`run` with records of `__remote_log_metadata`: executors read them, and tables keep what they say."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.reference.log_builder import write_partition
from tests.reference.metadata_replica import finished_in, published, write_replica
from tests.spark.small_fleet import write_fleet
from tiersnap.jobs.pipeline.maintenance import superseded_states
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.remote_states import current
from tiersnap.jobs.pipeline.run import run
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.replay.remote_listing import CopyEvent, RemoteSegmentState
from tiersnap.snapshot.rows import Rows

pytestmark = pytest.mark.spark

MOST_JOBS = 15  # of a run with nothing to do and tiered segments


def root_executions(spark: SparkSession) -> set[int]:
    """Ids of the SQL executions that no other one began."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    executions = [found.apply(number) for number in range(found.size())]
    return {each.executionId() for each in executions if each.executionId() == each.rootExecutionId()}


def jobs(spark: SparkSession) -> set[int]:
    """Ids of the jobs so far."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = spark._jsparkSession.sparkContext().statusStore().jobsList(None)
    return {found.apply(number).jobId() for number in range(found.size())}


def test_run_joins_the_records_of_replicas_with_the_copies_and_keeps_them(spark: SparkSession, tmp_path: Path) -> None:
    logs, remote = write_fleet(tmp_path / "logs", 2), tmp_path / "remote"

    def ran() -> RunOutcome:
        settings = RunSettings(
            (str(logs),), str(remote), str(tmp_path / "warehouse"), topic="orders", left_for=None, apply=True
        )
        return run(spark, settings)

    assert ran().verdicts == {"UPLOADED": 6, "ACTIVE_SEGMENT": 2}
    segments = finished_in(remote)
    first = [each for each in segments if each.id.partition == 0]
    folders = [write_replica(logs, published(first), number=7)]
    others = [each for each in segments if each.id.partition == 1]
    folders.append(write_replica(logs, published(others[:1]), number=11))
    tiered = {"TIERED": 4, "UPLOADED": 2, "ACTIVE_SEGMENT": 2}
    found = ran()
    assert (found.verdicts, found.counts.segments_uploaded) == (tiered, 0)
    before, jobs_before = root_executions(spark), jobs(spark)
    again = ran()
    assert len(root_executions(spark) - before) == 3, "the records are read with the listing"
    assert len(jobs(spark) - jobs_before) <= MOST_JOBS, sorted(jobs(spark) - jobs_before)
    assert (again.verdicts, again.did_nothing) == (tiered, True)
    for folder in folders:
        shutil.rmtree(folder)
    forgets = ran()
    assert (forgets.verdicts, forgets.did_nothing) == (tiered, True)
    rows = Warehouse(spark, str(tmp_path / "warehouse")).read("remote_log_segments").where("is_published").collect()
    assert {row.segment_id for row in rows} == {each.id.segment_id for each in [*first, *others[:1]]}
    assert not any(row.is_ours for row in rows), "or they counted as uploaded by the run that saw the records"


@pytest.mark.parametrize("published_first", [True, False])
def test_what_a_run_published_is_newer_than_what_it_read(spark: SparkSession, published_first: bool) -> None:
    """A run that reads the records for the first time says that none names a segment, and then publishes it."""
    finished = RemoteSegmentState.COPY_SEGMENT_FINISHED
    read = CopyEvent(
        topic="orders",
        topic_id="id",
        partition=0,
        base_offset=0,
        next_base_offset=10,
        size_bytes=1,
        largest_timestamp=1,
        leader_epochs=(),
        written_at=1,
        segment_id="A",
        state=finished,
        is_published=False,
        run=3,
    )
    rows = sorted([read, replace(read, is_published=True)], key=lambda each: each.is_published is not published_first)
    table = spark.createDataFrame(pa.Table.from_batches([Rows(CopyEvent).batch(rows)])).coalesce(1)
    assert [row.is_published for row in current(table).collect()] == [True]
    assert superseded_states(table).collect() == [], "the two rows have one key: both would be deleted"


@pytest.mark.nightly
def test_records_of_another_topic_of_the_same_name_tell_nothing(spark: SparkSession, tmp_path: Path) -> None:
    logs, remote = write_fleet(tmp_path / "logs", 1), tmp_path / "remote"
    settings = [
        RunSettings((str(logs),), str(remote), str(tmp_path / name), topic="orders", left_for=None, apply=True)
        for name in ("first", "second")
    ]
    run(spark, settings[0])
    write_replica(logs, published(finished_in(remote)))
    shutil.rmtree(logs / "orders-0")
    other = write_fleet(tmp_path / "other", 1) / "orders-0"
    shutil.move(other, logs / "orders-0")
    write_partition(logs, "orders", 0, {}, topic_id="MWJ6FHTfRYy67jzwZdeqSQ", leader_epochs=[(0, 0)], high_watermark=40)
    assert run(spark, settings[1]).verdicts == {"UPLOADED": 3, "ACTIVE_SEGMENT": 1}


@pytest.mark.nightly
def test_the_age_of_copies_is_that_at_the_listing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay may take hours: by the time after it a copy that a broker wrote just before the listing looks old."""
    logs, remote = write_fleet(tmp_path / "logs", 1), tmp_path / "remote"
    first, second = (
        RunSettings((str(logs),), str(remote), str(tmp_path / name), left_for=3_600_000, no_upload=only, apply=True)
        for name, only in (("first", False), ("second", True))
    )
    assert run(spark, first).counts.segments_uploaded == 3
    asked = []
    now = DirectoryStore.now

    def asking(store: DirectoryStore) -> int:
        asked.append((tmp_path / "second" / "partitions").exists())
        return now(store)

    monkeypatch.setattr(DirectoryStore, "now", asking)
    run(spark, second)
    assert asked[:1] == [False], "before anything was replayed"
