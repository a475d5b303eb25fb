"""A run killed at any step: the next one leaves exactly one complete copy of each segment, and then there is peace."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.reference.fleet_joins import Row
from tests.reference.fleet_run import Runner
from tests.reference.killable_store import Clock, KillableStore, KilledError
from tests.reference.log_builder import data_batch, marker, write_partition
from tests.reference.no_finish import NoFinish
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import ALLOWED_TRANSITIONS, SegmentState
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.remote_log.snapshot_objects import SnapshotManifest
from tiersnap.snapshot.formats.crc32c import crc32c

pytestmark = pytest.mark.unit

SEGMENTS = {
    0: [data_batch(0, 10, 1, 0, 0)],
    10: [data_batch(10, 9, 2, 0, 0, transactional=True), marker(19, 2, 0, 0, commit=True)],
    20: [data_batch(20, 10, 1, 0, 10)],
    30: [data_batch(30, 5, 3, 0, 0)],
}


def new_runner(folder: Path) -> Runner:
    source = folder / "logs"
    write_partition(source, "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    return Runner(folder, source)


def last_states(rows: list[Row]) -> dict[str, SegmentState]:
    """Each attempt went only where KIP-405 lets it; its last state."""
    last: dict[str, SegmentState] = {}
    states = defaultdict(set)
    for row in rows:
        if row["state"] is not None:
            states[row["segment_id"]].add(SegmentState[row["state"]])
    for segment_id, entered in states.items():
        before = None
        for state in sorted(entered):
            # A copy whose run was killed before its commit was found in remote storage, and begins there.
            if before is not None or state is SegmentState.COPY_SEGMENT_STARTED:
                assert state in ALLOWED_TRANSITIONS[before]
            before = state
        assert before is not None
        last[segment_id] = before
    return last


def check_complete(runner: Runner) -> None:
    """Exactly one complete copy of each segment, every object accounted for, every manifest true."""
    objects = runner.objects()
    last = last_states(runner.tables.remote_log_segments)
    kinds = defaultdict(list)
    for key in objects:
        parsed = keys.parse(key)
        kinds[parsed.kind].append(parsed)
        if parsed.segment_id is not None:
            assert last[parsed.segment_id] is SegmentState.COPY_SEGMENT_FINISHED, key
    for kind in (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST, KeyKind.CLAIM):
        assert sorted(parsed.offset for parsed in kinds[kind]) == [0, 10, 20], kind
    assert sorted(parsed.offset for parsed in kinds[KeyKind.SNAPSHOT]) == [10, 20, 30]
    described = {}
    for parsed in kinds[KeyKind.SNAPSHOT_MANIFEST]:
        key = keys.snapshot_manifest(parsed.partition, parsed.run_id)
        for row in SnapshotManifest.decode(objects[key], name=key).snapshots:
            described[row.offset] = row
            data = objects[keys.snapshot(parsed.partition, row.offset)]
            assert (row.size, row.crc32c) == (len(data), f"{crc32c(data):08x}")
    assert sorted(described) == [10, 20, 30]


def test_a_run_killed_at_any_write_or_commit_is_finished_by_the_next(tmp_path: Path) -> None:
    clock = Clock()
    counted = new_runner(tmp_path / "counted")
    assert counted(store=KillableStore(counted.store, clock), clock=clock).segments_uploaded == 3
    check_complete(counted)
    assert clock.steps > 20
    for dies_before in range(clock.steps):
        runner = new_runner(tmp_path / str(dies_before))
        clock = Clock(dies_before)
        with pytest.raises(KilledError):
            runner(store=KillableStore(runner.store, clock), clock=clock)
        ran = runner()
        assert ran.errors == [], dies_before
        verdicts = [row["verdict"] for row in ran.readiness]
        assert verdicts == ["UPLOADED"] * 3 + ["ACTIVE_SEGMENT"], dies_before
        check_complete(runner)
        told = finished_segments(RemoteLocation(runner.store, runner.layout), lambda _: True)
        assert [each.start_offset for each in told] == [0, 10, 20], dies_before
        before = runner.objects()
        assert runner().did_nothing, dies_before
        assert runner.objects() == before


def test_a_claim_that_could_not_be_finished_is_finished_by_the_next_run_and_then_there_is_peace(tmp_path: Path) -> None:
    runner = new_runner(tmp_path)
    assert runner(store=NoFinish(runner.store, 1)).is_transient  # type: ignore[arg-type]
    before = runner.objects()
    ran = runner()
    assert (ran.errors, ran.segments_uploaded) == ([], 2), "the first is there"
    assert [row["verdict"] for row in ran.readiness] == ["UPLOADED"] * 3 + ["ACTIVE_SEGMENT"]
    assert {key for key in before if key.endswith(".log")} <= runner.objects().keys()
    check_complete(runner)
    told = finished_segments(RemoteLocation(runner.store, runner.layout), lambda _: True)
    assert [each.start_offset for each in told] == [0, 10, 20]
    assert runner().did_nothing
