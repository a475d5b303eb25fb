"""Carrying state along many segments with many producers, and writing large snapshots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.perf.make_log import START_TIME
from tests.perf.measure import Row, interleaved, timed
from tests.perf.scale import Scale
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.producer_fold import DELTA_DTYPE, ProducerFold, from_entries
from tiersnap.snapshot.replay.partition_state import ReplayState, replay_runs
from tiersnap.snapshot.replay.segment_runs import Run

DELTAS_PER_SEGMENT = 1000
WANTED = 100


def deltas_of(producers: np.ndarray, base_offset: int) -> np.ndarray:
    """Deltas of a run in which each of the producers (ascending) wrote one batch."""
    entries = np.zeros(producers.size, snapshot_file.ENTRY_DTYPE)
    entries["producer_id"] = producers
    entries["last_offset"] = base_offset + np.arange(producers.size)
    entries["last_sequence"] = entries["last_offset"] & 0x7FFFFFFF
    entries["timestamp"] = START_TIME + entries["last_offset"]
    entries["coordinator_epoch"] = entries["current_txn_first_offset"] = -1
    deltas = from_entries(entries)
    deltas["has_marker"] = 0
    return deltas


def runs(segments: int, producers: int) -> list[Run]:
    """The first run has every producer, each later one DELTAS_PER_SEGMENT of them."""
    random = np.random.default_rng(1)
    first = Run(0, deltas_of(np.arange(producers, dtype=np.int64), 0), -1)
    chosen = (np.unique(random.integers(0, producers, DELTAS_PER_SEGMENT, np.int64)) for _ in range(segments - 1))
    size = max(producers, DELTAS_PER_SEGMENT)
    return [first, *(Run((i + 1) * size, deltas_of(ids, (i + 1) * size), -1) for i, ids in enumerate(chosen))]


def carry_along(carried: list[Run], wanted: list[int]) -> int:
    """Bytes of the snapshots at the wanted offsets."""
    state = ReplayState(log_start=0)
    boundaries = replay_runs(state, carried, wanted, read_snapshot=lambda _: None, log_end=carried[-1].start_offset + 1)
    return sum(len(snapshot_file.encode(boundary.entries)) for boundary in boundaries)


def rows(scale: Scale) -> Iterator[Row]:
    """The long carry against what it cannot beat, a plain pass over the same deltas; and a large snapshot."""
    segments, producers = scale.replay
    carried = runs(segments, producers)
    every = max(1, segments // WANTED)
    wanted = [run.start_offset for run in carried[every::every]]
    joined = np.concatenate([run.deltas for run in carried])

    def one_pass() -> None:
        state = ProducerFold(producers)
        state.combine(joined)
        for _ in wanted:
            snapshot_file.encode(state.entries())

    ours, peer = interleaved(scale.repetitions, timed(lambda: carry_along(carried, wanted)), timed(one_pass))
    yield Row(
        f"carry of {segments} segments, {producers} producers, {DELTAS_PER_SEGMENT} of them a segment, "
        f"a snapshot every {every} segments",
        "",
        f"{ours:.2f} s ({segments / ours:.0f} segments/s)",
        f"{peer:.2f} s (all deltas in one fold, as many snapshots)",
        peer / ours,
        None,
    )
    entries = ProducerFold(scale.wide_producers)
    entries.combine(deltas_of(np.arange(scale.wide_producers, dtype=np.int64), 0))
    state = entries.entries()
    size = len(snapshot_file.encode(state))
    raw = np.zeros(size, np.uint8)
    write, copy = interleaved(
        scale.repetitions, timed(lambda: snapshot_file.encode(state)), timed(lambda: raw.tobytes())
    )
    yield Row(
        f"snapshot of {scale.wide_producers} producers as bytes",
        "well under a second",
        f"{write:.3f} s ({size / write / 1e6:.0f} MB/s)",
        f"{copy:.3f} s (a copy of as many bytes)",
        copy / write,
        write < 0.5,
    )
    assert joined.dtype == DELTA_DTYPE
