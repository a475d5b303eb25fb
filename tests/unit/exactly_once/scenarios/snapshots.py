"""T80, T81, T83: what a bounded replay must follow back, and a snapshot that no broker can read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tests.unit.exactly_once.scenarios.registry import scenario
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Segment, open_log_dir
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.producer_fold import ProducerFold
from tiersnap.snapshot.replay.window_start import FollowedBack, is_partial, window_offset

DAY = 86_400_000
NOW = lb.TIMESTAMP
LONG_AGO = NOW - 2 * DAY


def bounds(segment: Segment) -> dict[str, int | None]:
    return {"base_offset": segment.base_offset, "next_base_offset": segment.next_base_offset}


def deltas_of(tmp_path: Path, segments: dict[int, list[bytes]]) -> dict[int, np.ndarray]:
    lb.write_partition(tmp_path, "t", 0, segments)
    (partition,) = open_log_dir(str(tmp_path)).partitions()
    found = {}
    for segment in partition.segments:
        fold = ProducerFold()
        for rows in SegmentScan(LOCAL, segment.log.path, **bounds(segment)):
            fold.add_batches(rows)
        found[segment.base_offset] = fold.deltas()
    return found


def entries_of_window(runs: dict[int, np.ndarray]) -> tuple[list[int], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Producers that the window from 100 on shows in part, its entries, and those of it with what it follows back."""
    partial = runs[100]["producer_id"][is_partial(runs[100])].tolist()
    followed = FollowedBack(partial, [(0, runs[0])]).deltas
    states = []
    for parts in ((runs[100],), (followed, runs[100])):
        fold = ProducerFold()
        for deltas in parts:
            fold.combine(deltas)
        states.append([tuple(entry) for entry in fold.entries().tolist()])
    return partial, states[0], states[1]


@scenario("T80")
def _(tmp_path: Path) -> None:
    segments = {
        0: [lb.data_batch(0, 100, 9, 0, 0, transactional=True, timestamp=LONG_AGO)],
        100: [lb.data_batch(100, 5, 9, 0, 100, transactional=True, timestamp=NOW)],
    }
    assert window_offset([0, 100], [LONG_AGO, NOW], NOW - DAY) == 100
    partial, bounded, exact = entries_of_window(deltas_of(tmp_path, segments))
    assert partial == [9]
    assert (bounded[0][-1], exact[0][-1]) == (100, 0), "first offset of its transaction"


@scenario("T81")
def _(tmp_path: Path) -> None:
    def begun(offset: int, sequence: int, timestamp: int) -> bytes:
        return lb.data_batch(offset, 10, 9, 0, sequence, transactional=True, timestamp=timestamp)

    segments = {
        0: [begun(0, 0, LONG_AGO), lb.marker(10, 9, 0, 5, commit=True, timestamp=LONG_AGO)],
        100: [begun(100, 10, NOW)],
    }
    partial, bounded, exact = entries_of_window(deltas_of(tmp_path, segments))
    assert partial == [9]
    assert (bounded[0][-2], exact[0][-2]) == (-1, 5), "epoch of its coordinator"


@scenario("T83")
def _(tmp_path: Path) -> None:
    segments = {base: [lb.data_batch(base, 100, 7, 0, base)] for base in (0, 100, 200)}
    folder = lb.write_partition(tmp_path, "t", 0, segments, high_watermark=300, indexes=True)
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    newest = folder / f"{200:020d}.snapshot"
    for position in (6, 20, newest.stat().st_size - 1):
        data = bytearray(newest.read_bytes())
        data[position] ^= 0x10
        newest.write_bytes(data)
        verdicts = {row["offset"]: row["verdict"] for row in tiersnap("verify", tmp_path).rows}
        assert verdicts == {100: "MATCHES", 200: "CORRUPT"}, position
        data[position] ^= 0x10
        newest.write_bytes(data)
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x55")
    ran = tiersnap("simulate", tmp_path, "--now", str(NOW), "--all")
    assert {row["at"] for row in ran.rows} == {100}
    assert f"a broker ignores this snapshot file: {newest.name}" in ran.err
