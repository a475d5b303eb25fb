"""Folding in the scan: the same as folding decoded rows afterwards, wherever it is cut and however many producers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reference.examples import examples
from tests.reference.folded import fold
from tests.reference.log_builder import TIMESTAMP, data_batch
from tests.reference.logs import Log, logs
from tests.reference.recovered import rows_of
from tiersnap.snapshot.log import windows
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.log.windows import BufferedWindows, MappedWindows
from tiersnap.snapshot.replay.partition_state import ReplayState
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment

pytestmark = pytest.mark.unit


def segment_of(folder: Path, data: bytes, base: int, end: int | None) -> Segment:
    path = folder / f"{base:020d}.log"
    path.write_bytes(data)
    return Segment(base, end, FileRef(str(path), len(data), 0))


def run_of(log: Log, start: int, stop: int) -> list[tuple[int, ...]]:
    return fold(rows_of(b"".join(data for offset, data in log.entries if start <= offset < stop))).tolist()


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs(), st.lists(st.integers(-3, 200), max_size=5), st.booleans(), st.booleans())
def test_every_run_is_the_fold_of_its_batches_with_and_without_rows_kept(
    tmp_path: Path, log: Log, at: list[int], is_closed: bool, keep: bool
) -> None:
    cuts = sorted({log.base + cut for cut in at})
    kept: list[np.ndarray] = []
    runs, end = fold_segment(
        LOCAL,
        segment_of(tmp_path, log.bytes, log.base, log.end if is_closed else None),
        cuts=cuts,
        on_rows=(lambda rows: kept.append(rows.copy())) if keep else None,
    )
    edges = [log.base, *(cut for cut in cuts if log.base < cut < log.end + (not is_closed))]
    assert [run.start_offset for run in runs] == edges
    for run, following in zip(runs, [*edges[1:], log.end], strict=True):
        assert run.deltas.tolist() == run_of(log, run.start_offset, following)
    if keep:
        whole = rows_of(log.bytes).tolist()
        assert [row for rows in kept for row in rows.tolist()] == whole
        assert end.batch_count == len(whole)


@pytest.mark.parametrize("window", [100, 150, 1000])
@pytest.mark.parametrize(("kind", "at_most"), [(MappedWindows, 0), (BufferedWindows, 1 << 20)])
def test_runs_are_the_same_whatever_windows_the_segment_is_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, at_most: int, window: int
) -> None:
    monkeypatch.setattr(windows, "_CACHED_BYTES", at_most)  # files up to it are read, larger ones mapped
    monkeypatch.setattr(kind, "best_bytes", window)
    batches = [data_batch(offset, 1, offset % 7, 0, offset // 7) for offset in range(50)]
    runs, end = fold_segment(LOCAL, segment_of(tmp_path, b"".join(batches), 0, 50), cuts=[20, 21])
    assert end.batch_count == 50
    for run, (start, stop) in zip(runs, [(0, 20), (20, 21), (21, 50)], strict=True):
        assert run.start_offset == start
        assert run.deltas.tolist() == fold(rows_of(b"".join(batches[start:stop]))).tolist()


@pytest.mark.parametrize("damage", ["its CRC", "its offset"])
def test_a_cut_at_a_damaged_batch_leaves_the_state_before_it(tmp_path: Path, damage: str) -> None:
    batches = [data_batch(offset, 1, 7, 0, offset) for offset in range(4)]
    wrong = batches[2][:-1] + b"\xff" if damage == "its CRC" else b"\x7f" + b"\xff" * 7 + batches[2][8:]
    for end_offset in (4, None):
        data = b"".join([*batches[:2], wrong, batches[3]])
        runs, end = fold_segment(LOCAL, segment_of(tmp_path, data, 0, end_offset), cuts=[2])
        assert end.finding is not None
        assert [run.start_offset for run in runs] == [0, 2]
        assert runs[0].deltas.tolist() == fold(rows_of(b"".join(batches[:2]))).tolist()
        assert runs[1].deltas.size == 0


@pytest.mark.parametrize("keep", [False, True])
def test_a_segment_of_more_producers_than_a_new_table_holds_is_folded_whole(tmp_path: Path, keep: bool) -> None:
    data = b"".join(data_batch(offset, 1, offset % 5000, 0, offset // 5000) for offset in range(12_000))
    kept: list[np.ndarray] = []
    runs, end = fold_segment(
        LOCAL,
        segment_of(tmp_path, data, 0, 12_000),
        cuts=[7000],
        on_rows=(lambda rows: kept.append(rows.copy())) if keep else None,
    )
    rows = rows_of(data)
    assert not keep or np.concatenate(kept).tolist() == rows.tolist()
    assert end.finding is None
    assert [run.start_offset for run in runs] == [0, 7000]
    assert [run.deltas.tolist() for run in runs] == [fold(rows[:7000]).tolist(), fold(rows[7000:]).tolist()]


def test_entries_of_a_boundary_that_the_replay_has_passed_are_refused_and_those_asked_for_in_time_stay() -> None:
    def run(offset: int) -> Run:
        return Run(offset, fold(rows_of(data_batch(offset, 1, 7, 0, offset))), TIMESTAMP + offset)

    def boundary(offset: int):
        return state.boundary(offset, read_snapshot=lambda _: None)

    state = ReplayState(log_start=0)
    state.advance(run(0))
    asked, not_asked = boundary(1), boundary(1)
    assert asked.entries["last_offset"].tolist() == [0]
    state.advance(run(1))
    assert asked.entries["last_offset"].tolist() == [0]
    assert boundary(2).entries["last_offset"].tolist() == [1]
    assert (asked.max_timestamp, boundary(2).max_timestamp) == (TIMESTAMP, TIMESTAMP + 1)
    with pytest.raises(RuntimeError, match="continued"):
        _ = not_asked.entries
