"""Whole copies of ours that do not count, with finished ones behind them: they are made right, and leave no hole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec import structs

from tests.reference.fleet_run import Runner
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.no_finish import NoFinish
from tests.reference.tiered import age, aiven
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.process import this_process
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, new_segment_id
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected_of
from tiersnap.snapshot.replay.expiry import ReplayOptions

pytestmark = pytest.mark.unit

NOW = 1_795_266_000_000
MINUTE = 60_000
GONE = structs.replace(this_process(), process_start=this_process().process_start + "0")
ORDERS = TopicIdPartition("orders", "lZ6vvmajTWKDBUTV6SQAtQ", 0)
SEGMENTS = {base: [data_batch(base, 10, 1, 0, base)] for base in (0, 10, 20, 30)}
FIRST, CLAIM = ClaimedSegment(ORDERS, 0, 0), keys.claim(ORDERS, 0, 0)


def tier(store: ObjectStore, source: Path, run_id: str) -> HostPartition:
    tierer = Tierer(run_id, NOW, process=GONE, wait=0, pause=lambda _: None)
    tiers = HostTier(aiven(store), ReplayOptions(), tierer, apply=True)
    (done,) = tiers.partitions(selected_of(open_log_dirs([str(source)]), Selection()))
    return done


def logs_of(store: ObjectStore) -> list[int]:
    parsed = [keys.recognise(info.key) for info in store.list()]
    return sorted(key.offset for key in parsed if key and key.kind is KeyKind.LOG)


def publishable(store: ObjectStore) -> list[int]:
    return [each.start_offset for each in finished_segments(aiven(store), lambda _: True)]


@pytest.fixture(params=["nobody", "another-holds", "another-finished"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The first copy is whole and does not count, by its claim; those behind it came from a replica, and do."""
    source, store = tmp_path / "logs", DirectoryStore(tmp_path / "remote")
    write_partition(source, "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    tier(NoFinish(store, 1), source, "run-1")  # type: ignore[arg-type]
    for info in list(store.list()):
        age(store, info.key, (2 if info.key == CLAIM else 1) * MINUTE)
    if request.param != "nobody":
        taken = claim_protocol.claim(store, FIRST, Attempt.of(new_segment_id(), "run-2", process=GONE))
        if request.param == "another-finished":
            claim_protocol.finish(store, taken)
    tier(DirectoryStore(tmp_path / "replica"), source, "run-0")
    for path in (tmp_path / "replica").rglob("*"):
        if any(f"{base:020d}" in path.name for base in (10, 20)) and path.suffix != ".snapshot":
            copied = tmp_path / "remote" / path.relative_to(tmp_path / "replica")
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copied)
    assert publishable(store) == [10, 20]
    return tmp_path


def test_the_next_tier_finishes_it_or_makes_it_again_and_leaves_no_hole(place: Path) -> None:
    store = DirectoryStore(place / "remote")
    done = tier(store, place / "logs", "run-3")
    assert done.errors == []
    assert [each.verdict for each in done.readiness] == ["UPLOADED"] * 3 + ["ACTIVE_SEGMENT"]
    assert (publishable(store), logs_of(store)) == ([0, 10, 20], [0, 10, 20])
    again = tier(store, place / "logs", "run-4")
    assert (again.events, again.errors) == ([], [])


@pytest.mark.parametrize("knew", [False, True])
def test_the_next_run_does_so_whatever_its_tables_said_and_then_there_is_peace(place: Path, knew: bool) -> None:
    runner = Runner(place, place / "logs")
    if knew:
        elsewhere = Runner(place, place / "logs", str(place / "nothing"), tables=runner.tables)
        elsewhere(apply=False)
        claim = claim_protocol.read_claim(runner.store, FIRST)
        assert claim is not None
        runner.store.delete([CLAIM])
        assert runner().verdicts == {"ACTIVE_SEGMENT": 1, "UPLOADED": 3}
        runner.store.put_if_absent(CLAIM, claim.encode())
    ran = runner()
    assert (ran.errors, ran.verdicts) == ([], {"ACTIVE_SEGMENT": 1, "UPLOADED": 3})
    assert (publishable(runner.store), logs_of(runner.store)) == ([0, 10, 20], [0, 10, 20])
    runner()
    assert runner().did_nothing
