"""A tiered log whose leader was rebuilt from the tier now and then: what its brokers uploaded, and what is true.

A broker drops idle producers when it rolls, and a replica that is rebuilt forgets all of them: the snapshots of the
tier show both.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from tests.reference.fold import State, fold, live
from tests.reference.folded import fold as fold_deltas
from tests.reference.log_builder import TIMESTAMP, data_batch, marker
from tests.reference.record_batch import read_segment
from tests.reference.recovered import rows_of
from tests.unit.test_snapshot_comparison import rows
from tiersnap.remote_storage.remote_log.remote_state import ClaimFacts, RemoteSnapshot
from tiersnap.snapshot.errors import CorruptDataError

HOUR = 3_600_000
DAY = 24 * HOUR


@dataclass
class TieredLog:
    """Segments by base offset, and what the tier says at their ends.

    Attributes:
        segments: bytes of the batches.
        snapshots: by end offset; none where the tier's is damaged.
        vouched: end offsets of the snapshots that a claim vouches for.
        lost: base offsets of the segments that are not in the tier any more; their snapshots are.
        truth: at the end, of all batches.
        kept: at the end, of a broker that was never rebuilt: it drops idle producers.
        now: ms.
    """

    segments: dict[int, bytes] = field(default_factory=dict)
    snapshots: dict[int, State] = field(default_factory=dict)
    vouched: dict[int, ClaimFacts] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    truth: State = field(default_factory=dict)
    kept: State = field(default_factory=dict)
    now: int = TIMESTAMP
    end: int = 0

    def add(self, *entries: bytes, length: int, known: State | None = None) -> None:
        """A segment of `length` offsets, uploaded by a broker that knows what it says, or `known`."""
        base, self.end = self.end, self.end + length
        self.segments[base] = b"".join(entries)
        batches = read_segment(self.segments[base]).batches
        self.truth = fold(batches, self.truth)
        self.kept = live(fold(batches, self.kept), as_of=self.now, expiration=DAY)
        self.snapshots[self.end] = dict(self.truth if known is None else known)

    @property
    def ends(self) -> list[int]:
        return [*list(self.segments)[1:], self.end]

    @property
    def remote(self) -> list[RemoteSnapshot]:
        """Newest first."""
        pairs = zip(self.segments, self.ends, strict=True)
        return [RemoteSnapshot(base, end, f"segment-{base}") for base, end in pairs][::-1]

    # The methods of RemoteLog that find_state calls.

    def claim_facts(self, of: RemoteSnapshot) -> ClaimFacts:
        return self.vouched.get(of.end_offset, ClaimFacts())

    def entries(self, of: RemoteSnapshot) -> np.ndarray:
        if of.end_offset not in self.snapshots:
            raise CorruptDataError("not a snapshot")
        return rows(self.snapshots[of.end_offset])

    def deltas(self, start: int, end: int) -> np.ndarray:
        inside = [base for base in self.segments if start <= base < end]
        if start not in self.segments or self.lost.intersection(inside):
            raise CorruptDataError(f"no remote segment holds {start}")
        return fold_deltas(rows_of(b"".join(self.segments[base] for base in inside)))


def random_tiered_log(seed: int, *, pauses: bool) -> TieredLog:
    """Eight segments of some producers, idempotent and transactional, written by replicas that were rebuilt.

    Args:
        pauses: so long that producers expire and come back; else all of it is of one day.
    """
    choose, log = random.Random(seed), TieredLog()
    broker: State = {}
    sequences: dict[tuple[int, int], int] = {}
    epochs = dict.fromkeys(range(8), 0)
    opened: set[int] = set()
    pause = 8 * HOUR if pauses else HOUR // 3
    for _ in range(8):
        entries, at = [], log.end
        for _ in range(choose.randrange(8)):
            log.now += choose.randrange(pause)
            producer = choose.randrange(8)
            is_transactional = producer >= 4
            if choose.random() < 0.1:
                epochs[producer] += 1
            epoch = epochs[producer]
            if producer in opened and choose.random() < 0.5:
                entries.append(marker(at, producer, epoch, choose.randrange(3), choose.random() < 0.5, log.now))
                opened.discard(producer)
                at += 1
                continue
            count = choose.randrange(1, 4)
            base = sequences.get((producer, epoch), 0)
            sequences[producer, epoch] = base + count
            entries.append(data_batch(at, count, producer, epoch, base, is_transactional, log.now))
            opened |= {producer} if is_transactional else set()
            at += count
        if choose.random() < 0.3:
            broker = {}  # rebuilt
        segment = b"".join(entries)
        broker = live(fold(read_segment(segment).batches, broker), as_of=log.now, expiration=DAY)
        log.add(*entries, length=max(1, at - log.end), known=broker)
    return log


def living(log: TieredLog) -> State:
    """Producers that live at the end, as a broker that was never rebuilt has them."""
    return live(log.kept, as_of=log.now, expiration=DAY)
