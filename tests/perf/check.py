"""`make bench-check`: the hot loops against plain loops measured in turns with them, in the same run.

Fails when a ratio has fallen by more than 30 % below the one in ratios.json. `--record` writes that file anew, which is
for whoever changed a loop on purpose. No time is ever compared with one that another machine or day gave.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import numpy as np

from tests.perf import yardsticks
from tests.perf.decode_rows import partition_of
from tests.perf.make_headers import batch_rows
from tests.perf.make_log import LogShape, made
from tests.perf.measure import Seconds, best_in_turns
from tests.perf.measure import cpu_timed as timed
from tests.perf.replay_rows import deltas_of
from tests.perf.scale import MIB
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.producer_fold import ProducerFold
from tiersnap.snapshot.replay.segment_runs import fold_segment

RECORDED = Path(__file__).with_name("ratios.json")
ALLOWED = 0.7
_REPETITIONS = 25
_PRODUCERS = 20_000


def pairs() -> Iterator[tuple[str, Seconds, Seconds]]:
    """Name, the product's loop, its yardstick."""
    log = made(LogShape(300, 64 * MIB, 32 * MIB))
    segment = partition_of(log).segments[0]
    path = segment.log.path
    headers = np.empty((8192, 61), np.uint8)

    def decode() -> None:
        for _ in SegmentScan(LOCAL, path, base_offset=0, next_base_offset=1 << 40, check_crc=False):
            pass

    def decode_and_fold() -> None:
        fold_segment(LOCAL, segment, check_crc=False)

    def hop() -> None:
        yardsticks.hop(np.memmap(path, mode="r"), headers)

    yield "decode", timed(decode), timed(hop)
    yield "decode and fold", timed(decode_and_fold), timed(hop)

    rows = batch_rows(8192, _PRODUCERS, seed=1)
    ids, offsets = rows["producer_id"].copy(), rows["base_offset"].copy()
    last = np.zeros(_PRODUCERS, np.int64)
    folding = ProducerFold(_PRODUCERS)

    def fold() -> None:
        for _ in range(50):
            folding.add_batches(rows)

    def last_of_each() -> None:
        for _ in range(50):
            yardsticks.last_of_each(ids, offsets, last)

    yield "fold", timed(fold), timed(last_of_each)

    deltas = deltas_of(np.arange(_PRODUCERS, dtype=np.int64), 0)
    shuffled = np.random.default_rng(1).permutation(deltas)
    numbers = shuffled.view(np.int64).reshape(-1, 8)
    own, target, state = shuffled["producer_id"].copy(), np.zeros((_PRODUCERS, 8), np.int64), ProducerFold(_PRODUCERS)

    def replay() -> None:
        for _ in range(20):
            state.combine(shuffled)

    def scatter() -> None:
        for _ in range(20):
            yardsticks.scatter(own, numbers, target)

    yield "replay", timed(replay), timed(scatter)

    many = ProducerFold(200_000)
    many.combine(deltas_of(np.arange(200_000, dtype=np.int64), 0))
    entries = many.entries()
    plain = bytes(entries.size * snapshot_file.ENTRY_LENGTH)
    yield (
        "snapshot write",
        timed(lambda: snapshot_file.encode(entries)),
        timed(lambda: google_crc32c.value(bytes(bytearray(plain)))),
    )


def main(arguments: list[str]) -> int:
    ratios = {}
    for name, ours, yardstick in pairs():
        took, plain = best_in_turns(_REPETITIONS, ours, yardstick)
        ratios[name] = round(plain / took, 4)
    if "--record" in arguments:
        RECORDED.write_text(json.dumps(ratios, indent=2) + "\n")
    recorded = json.loads(RECORDED.read_text())
    slower = [name for name, ratio in ratios.items() if ratio < ALLOWED * recorded[name]]
    for name, ratio in ratios.items():
        print(f"{name:15} {ratio:8.4f} of the yardstick's speed, recorded {recorded[name]:8.4f}")
    if slower:
        print(f"more than 30 % slower than recorded: {', '.join(slower)}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
