"""One generated partition, said twice: by the replay that ships, and by the readable decoder and fold.

What they must agree on at every boundary: the entries and the transactions that are open; and of the whole: where the
log ends, and the last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np

from tests.reference import fold as reference
from tests.reference.folded import fold
from tests.reference.local_replay import local_replay
from tests.reference.random_log import write_random_partition
from tests.reference.record_batch import Batch, Segment, read_segment
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.producer_fold import ProducerFold

Rows = list[tuple[int, ...]]


def disagreements(log_dir: Path, seeds: range) -> Iterator[str]:
    """What differs, one line a seed at most; the partitions are written below `log_dir`, which is empty."""
    for seed in seeds:
        write_random_partition(log_dir, f"seed-{seed}", seed)
    for partition in open_log_dir(str(log_dir)).partitions():
        seed = int(partition.topic.removeprefix("seed-"))
        read = read_log(Path(partition.path))
        batches = [batch for _, segment in read for batch in segment.batches]
        replay, boundaries = local_replay(LOCAL, partition)
        seen = [(each.offset, each.entries.tolist(), each.open_transactions) for each in boundaries]
        log_end = read[-1][1].last_offset + 1
        wanted = sorted({*(base for base, _ in read[1:]), log_end} - {read[0][0]})
        expected = list(folded_at(batches, wanted))
        ours = [(offset, rows, sorted(opened or ())) for offset, rows, opened in seen]
        stable = last_stable_offset(batches, partition.high_watermark, partition.log_start_offset, log_end)
        if ours != expected:
            yield f"seed {seed}: boundaries {_first_difference(ours, expected)}"
        elif (replay.log_end, replay.last_stable_offset) != (log_end, stable):
            yield f"seed {seed}: ends at {replay.log_end}, stable {replay.last_stable_offset}; not {log_end}, {stable}"
        elif difference := _in_pieces(read, expected[-1][1], Random(seed)):
            yield f"seed {seed}: {difference}"


def read_log(folder: Path) -> list[tuple[int, Segment]]:
    """Base offset and content of each segment of a partition's folder, by the readable decoder."""
    files = sorted(folder.glob("*.log"))
    return [(int(file.stem), read_segment(file.read_bytes(), int(file.stem) - 1)) for file in files]


def folded_at(batches: list[Batch], offsets: list[int]) -> Iterator[tuple[int, Rows, Rows]]:
    """Entries and open transactions at each of the ascending offsets."""
    state: reference.State = {}
    at = 0
    for offset in offsets:
        below = [batch for batch in batches if at <= batch.base_offset < offset]
        state, at = reference.fold(below, state), offset
        rows = [(producer_id, *vars(entry).values()) for producer_id, entry in sorted(state.items())]
        opened = [(producer_id, entry.txn_first_offset) for producer_id, entry in state.items()]
        yield offset, rows, sorted(each for each in opened if each[1] >= 0)


def last_stable_offset(batches: list[Batch], high_watermark: int | None, log_start: int, log_end: int) -> int | None:
    """As a broker has it: the oldest transaction without a marker below the high watermark holds it."""
    if high_watermark is None:
        return None
    high_watermark = min(max(high_watermark, log_start), log_end)
    state = reference.fold(batch for batch in batches if batch.base_offset < high_watermark)
    opened = [entry.txn_first_offset for entry in state.values() if entry.txn_first_offset >= 0]
    return min(high_watermark, max(min(opened, default=high_watermark), log_start))


def _in_pieces(read: list[tuple[int, Segment]], expected: Rows, chance: Random) -> str | None:
    """Decoded apart and combined in order, cut at random: as the tasks of a fleet fold it."""
    replayed = ProducerFold(capacity=1)
    for _, segment in read:
        rows = np.array(segment.rows(), RECORD_BATCH_DTYPE)
        cut = chance.randrange(rows.size + 1)
        replayed.combine(fold(rows[:cut]))
        replayed.combine(fold(rows[cut:]))
    entries = replayed.entries().tolist()
    return None if entries == expected else f"in pieces {entries}, not {expected}"


def _first_difference(ours: list[tuple[int, Rows, Rows]], expected: list[tuple[int, Rows, Rows]]) -> str:
    return next((f"{a} and not {b}" for a, b in zip(ours, expected, strict=False) if a != b), f"{len(ours)} of them")
