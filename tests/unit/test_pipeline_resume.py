"""A run killed at any step: the next one leaves exactly one complete copy of each segment, and then there is peace."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from tiersnap.jobs.warehouse import Warehouse

from tests.reference.log_builder import data_batch, marker, write_partition
from tests.reference.pipeline import Clock, KillableStore, KilledError, Runner
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, check_transition
from tiersnap.remote_storage.snapshot_objects import SnapshotManifest
from tiersnap.snapshot.formats.crc32c import crc32c

pytestmark = pytest.mark.unit

SEGMENTS = {
    0: [data_batch(0, 10, 1, 0, 0)],
    10: [data_batch(10, 9, 2, 0, 0, transactional=True), marker(19, 2, 0, 0, commit=True)],
    20: [data_batch(20, 10, 1, 0, 10)],
    30: [data_batch(30, 5, 3, 0, 0)],
}


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    source = tmp_path / "logs"
    write_partition(source, "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    return Runner(tmp_path, source)


def check_states(warehouse: str) -> dict[str, SegmentState]:
    """Each attempt went only where KIP-405 lets it; its last state."""
    last: dict[str, SegmentState] = {}
    states = defaultdict(list)
    for row in Warehouse(warehouse).read("remote_log_segments").to_pylist():
        states[row["segment_id"]].append(SegmentState[row["state"]])
    for segment_id, entered in states.items():
        before = None
        for state in sorted(entered):
            check_transition(before, state)
            before = state
        assert before is not None
        last[segment_id] = before
    return last


def check_complete(runner: Runner) -> None:
    """Exactly one complete copy of each segment, every object accounted for, every manifest true."""
    objects = runner.objects()
    last = check_states(runner.warehouse)
    kinds = defaultdict(list)
    for key in objects:
        parsed = ObjectKeys().parse(key)
        kinds[parsed.kind].append(parsed)
        if parsed.segment_id is not None:
            assert last[parsed.segment_id] is SegmentState.COPY_SEGMENT_FINISHED, key
    for kind in (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST):
        assert sorted(parsed.offset for parsed in kinds[kind]) == [0, 10, 20], kind
    assert sorted(parsed.offset for parsed in kinds[KeyKind.SNAPSHOT]) == [10, 20, 30]
    described = {}
    for parsed in kinds[KeyKind.SNAPSHOT_MANIFEST]:
        key = ObjectKeys().snapshot_manifest(parsed.partition, parsed.run_id)
        for row in SnapshotManifest.decode(objects[key], name=key).snapshots:
            described[row.offset] = row
            data = objects[ObjectKeys().snapshot(parsed.partition, row.offset)]
            assert (row.size, row.crc32c) == (len(data), crc32c(data))
    assert sorted(described) == [10, 20, 30]


def count_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    source = tmp_path / "counted" / "logs"
    write_partition(source, "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    clock = Clock()
    runner = Runner(tmp_path / "counted", source)
    kill_commits(monkeypatch, clock)
    runner(store=KillableStore(runner.store, clock))
    return clock.steps


def kill_commits(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    commit = WAREHOUSE_COMMIT

    def killable(self: Warehouse, name: str, files: object, **kwargs: object) -> None:
        clock.step(lambda: commit(self, name, files, **kwargs))  # type: ignore[arg-type]

    monkeypatch.setattr(Warehouse, "commit", killable)


WAREHOUSE_COMMIT = Warehouse.commit


def test_a_run_killed_at_any_step_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = count_steps(tmp_path, monkeypatch)
    assert steps > 20
    for dies_before in range(steps):
        folder = tmp_path / str(dies_before)
        source = folder / "logs"
        write_partition(source, "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
        runner = Runner(folder, source)
        clock = Clock(dies_before)
        kill_commits(monkeypatch, clock)
        with pytest.raises(KilledError):
            runner(store=KillableStore(runner.store, clock))
        monkeypatch.setattr(Warehouse, "commit", WAREHOUSE_COMMIT)
        outcome = runner()
        assert not outcome.errors, (dies_before, outcome.errors)
        verdicts = outcome.readiness.sort_by("base_offset")["verdict"].to_pylist()
        assert verdicts == ["ALREADY_TIERED"] * 3 + ["ACTIVE_SEGMENT"], dies_before
        check_complete(runner)
        before = runner.objects()
        assert runner().did_nothing, dies_before
        assert runner.objects() == before
