"""Beside a broker that copies, nothing of the partition is uploaded, and that is no failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference import tiered
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.fact_rows import judged
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import write_partition
from tests.reference.tiered import age
from tests.unit.test_whole_but_not_counted import ORDERS, SEGMENTS
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS, open_layout
from tiersnap.remote_storage.metadata.segment_metadata import new_segment_id
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.gate.copy_task import LEFT_FOR_MS, BesideBrokers, CopyLag, CopyTasks
from tiersnap.snapshot.replay.expiry import BrokerExpiry

pytestmark = pytest.mark.unit

TOPIC_ID = ORDERS.topic_id
FOLDED = [10, 20, 30]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """All snapshots are there: a broker can copy every closed segment."""
    folder = write_partition(tmp_path / "logs", "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    assert tiersnap("repair", tmp_path / "logs", "--apply").exit_code == 0
    assert sorted(int(path.stem) for path in folder.glob("*.snapshot")) == FOLDED
    return tmp_path / "logs"


def tier(source: Path, store: DirectoryStore, *words: str) -> Ran:
    return tiersnap("tier", source, "--remote", store.root, "--now", "2023-11-15T00:00:00Z", *words, "--apply")


def verdicts(ran: Ran) -> dict[str, int]:
    return ran.row(partition="orders-0")["verdicts"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tier_leaves_ready_segments_to_a_broker_that_uploaded_within_the_hour(
    source: Path, store: DirectoryStore, layout: str
) -> None:
    tiered.tier(source / "orders-0", store, layout=open_layout(layout), bases={0})
    before = {info.key for info in store.list() if "/0" in info.key}
    ran = tier(source, store, "--layout", layout)
    assert_said(ran, 0, "left to brokers: 2 segments", "--leave-to-broker none")
    assert verdicts(ran) == {"LEFT_TO_BROKER": 2, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 1}
    assert {info.key for info in store.list() if "/0" in info.key} == before, "not an object of a segment"
    shorter = tier(source, store, "--layout", layout, "--leave-to-broker", "1ms")
    assert verdicts(shorter) == {"UPLOADED": 2, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 1}


def test_tier_takes_the_segments_once_no_broker_has_uploaded_for_an_hour(source: Path, store: DirectoryStore) -> None:
    tiered.tier(source / "orders-0", store, bases={0})
    for info in list(store.list()):
        age(store, info.key, LEFT_FOR_MS + 1000)
    assert verdicts(tier(source, store)) == {"UPLOADED": 2, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 1}
    assert verdicts(tier(source, store)) == {"UPLOADED": 2, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 1}, "ours are no broker's"


def test_tier_leaves_the_rest_to_a_broker_whose_copy_is_under_way(source: Path, store: DirectoryStore) -> None:
    store.put_if_absent(f"{keys.partition_segments(ORDERS)}{0:020d}-{new_segment_id()}.log", b"a broker's")
    ran = tier(source, store)
    # In ascending order: the first of them waits for the copy that is under way.
    assert (ran.exit_code, verdicts(ran)) == (0, {"GAP_BEFORE": 2, "COPY_IN_FLIGHT": 1, "ACTIVE_SEGMENT": 1})


def test_tier_takes_what_the_broker_cannot_copy_for_want_of_a_snapshot(source: Path, store: DirectoryStore) -> None:
    tiered.tier(source / "orders-0", store, bases={0})
    (source / "orders-0" / f"{20:020d}.snapshot").unlink()
    assert verdicts(tier(source, store)) == {"UPLOADED": 2, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 1}


def test_run_leaves_them_and_a_report_of_its_tables_says_so_for_as_long(source: Path, tmp_path: Path) -> None:
    runner = Runner(tmp_path, source)
    tiered.tier(source / "orders-0", runner.store, bases={0})
    now = runner.store.now()
    ran = runner(beside=BesideBrokers(now, LEFT_FOR_MS))
    assert ran.verdicts == {"LEFT_TO_BROKER": 2, "IN_REMOTE": 1, "ACTIVE_SEGMENT": 1}
    assert ran.tiered == []
    assert runner(beside=BesideBrokers(now, LEFT_FOR_MS)).did_nothing
    facts = [
        row for row in runner.tables.partitions if row["run"] == max(each["run"] for each in runner.tables.partitions)
    ]
    for at, verdict in ((now, "LEFT_TO_BROKER"), (now + LEFT_FOR_MS + 60_000, "READY")):
        judge = JudgePartition(False, BrokerExpiry(3, None), beside=BesideBrokers(at, LEFT_FOR_MS))
        rows = judged(judge, facts, runner.tables.remote_log_segments)
        assert [row["verdict"] for row in rows] == ["IN_REMOTE", verdict, verdict, "ACTIVE_SEGMENT"]
    assert runner(beside=BesideBrokers(now + LEFT_FOR_MS + 60_000, LEFT_FOR_MS)).segments_uploaded == 2


def test_run_does_what_the_cluster_says_whatever_the_objects_are(source: Path, tmp_path: Path) -> None:
    for name, tasks, expected in (
        ("works", CopyTasks({TOPIC_ID: CopyLag()}), 0),
        ("off", CopyTasks({TOPIC_ID: None}), 3),
        ("stuck", CopyTasks({TOPIC_ID: CopyLag()}, frozenset({(TOPIC_ID, 0)})), 3),
        ("never", CopyTasks({TOPIC_ID: CopyLag(None, None)}), 0),
    ):
        ran = Runner(tmp_path / name, source)(beside=BesideBrokers(0, LEFT_FOR_MS, tasks))
        assert (ran.errors, ran.segments_uploaded) == ([], expected), name
        reasons = {row["reason"] for row in ran.readiness if row["verdict"] == "LEFT_TO_BROKER"}
        when = {"works": "now", "never": "never"}.get(name)
        assert reasons == (
            {f"the copy task of the partition's leader works, and will upload the segment {when}"} if when else set()
        )
