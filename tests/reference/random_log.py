"""Partitions that no broker wrote but that any broker could open: everything the fold must not stumble over, at random.

Few producers, so that they meet themselves often; epochs that go up and down by data and by markers; markers of both
transaction protocols; batches that compaction emptied or took away; sequences that wrap; transactions left open;
entries of magic 0 and 1; gaps between segments; records stamped long ago, in the future, or -1; a log start inside a
segment; a tail that was written half. One thing is left out, because a broker cannot open such a log: a batch without
a transaction while its producer has one open.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.reference import log_builder as lb

NOW = 1_795_264_000_000  # ms, 21 November 2026
LAST_EPOCH = 32_767
_DAY = 86_400_000
LAST_SEQUENCE = 2_147_483_647
PRODUCERS = (0, 1, 2, 17, 1_000, 4_294_967_299, 2**62, 2**63 - 1)


@dataclass
class Writer:
    """What was written of one partition, and which producers have a transaction open."""

    chance: Random
    offset: int = 0
    opened: dict[int, int] = field(default_factory=dict)  # producer id -> epoch of its transaction
    is_compacted: bool = False

    def entry(self) -> bytes:
        """The next entry of the log."""
        kind = self.chance.choices(
            (self._data, self._marker, self._marker_of_nobody, self._emptied, self._legacy, self._plain, self._leader),
            weights=(55, 20, 5, 8, 5, 5, 2),
        )[0]
        if self.is_compacted and self.chance.random() < 0.2:
            self._advance(self.chance.randrange(1, 9))  # what was there is gone
        return kind()

    def _advance(self, count: int) -> int:
        base, self.offset = self.offset, self.offset + count
        return base

    def _epoch(self) -> int:
        return self.chance.choice((0, 0, 0, 1, 1, 2, 5, LAST_EPOCH))

    def _timestamp(self) -> int:
        """Of a clock that is right; of a client's own that is not; of what happened at some other time; or none."""
        kind = self.chance.random()
        if kind < 0.8:
            return NOW + self.chance.randrange(-5_000, 5_000)
        if kind < 0.95:
            return self.chance.choice((0, 1, NOW - 400 * _DAY, NOW - _DAY, NOW + _DAY, NOW + 10_000 * _DAY))
        return -1

    def _sequence(self, count: int) -> int:
        return self.chance.choice((0, self.chance.randrange(1_000), LAST_SEQUENCE - self.chance.randrange(2 * count)))

    def _transactional(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer's next batch is part of a transaction: always, while it has one open."""
        if producer_id not in self.opened and self.chance.random() < 0.5:
            self.opened[producer_id] = epoch
        return producer_id in self.opened

    def _data(self) -> bytes:
        producer_id, epoch, count = self.chance.choice(PRODUCERS), self._epoch(), self.chance.randrange(1, 6)
        return lb.data_batch(
            self._advance(count),
            count,
            producer_id,
            epoch,
            self._sequence(count),
            self._transactional(producer_id, epoch),
            self._timestamp(),
            log_append_time=self.chance.random() < 0.1,
        )

    def _emptied(self) -> bytes:
        producer_id, epoch, count = self.chance.choice(PRODUCERS), self._epoch(), self.chance.randrange(1, 6)
        if self.chance.random() < 0.5:  # an emptied marker: it makes the producer known and changes nothing
            return lb.empty_batch(self._advance(1), 1, producer_id, epoch, transactional=True, control=True)
        return lb.empty_batch(
            self._advance(count),
            count,
            producer_id,
            epoch,
            self._sequence(count),
            self._transactional(producer_id, epoch),
            timestamp=self._timestamp(),
            delete_horizon=self.chance.choice((None, NOW)),
        )

    def _marker(self) -> bytes:
        """Of an open transaction where there is one, in its own epoch (protocol 1) or one above (protocol 2)."""
        if not self.opened:
            return self._marker_of_nobody()
        producer_id = self.chance.choice(sorted(self.opened))
        epoch = self.opened.pop(producer_id)
        return self._end(producer_id, min(epoch + self.chance.choice((0, 0, 1)), LAST_EPOCH))

    def _marker_of_nobody(self) -> bytes:
        """Of a producer that has nothing open, or was never heard of, in any epoch."""
        producer_id = self.chance.choice(PRODUCERS)
        self.opened.pop(producer_id, None)
        return self._end(producer_id, self._epoch())

    def _end(self, producer_id: int, epoch: int) -> bytes:
        return lb.marker(
            self._advance(1),
            producer_id,
            epoch,
            self.chance.randrange(5),
            self.chance.random() < 0.5,
            self._timestamp(),
        )

    def _legacy(self) -> bytes:
        return lb.legacy_entry(self._advance(1), self.chance.randrange(2))

    def _plain(self) -> bytes:
        count = self.chance.randrange(1, 4)
        return lb.data_batch(self._advance(count), count, timestamp=self._timestamp())

    def _leader(self) -> bytes:
        return lb.leader_change(self._advance(1))


def write_random_partition(log_dir: Path, topic: str, seed: int) -> Path:
    """`<topic>-0` in `log_dir`: 1 to 8 segments of up to 30 entries; the same for the same seed, which is in its id."""
    chance = Random(seed)
    writer = Writer(chance, offset=chance.choice((0, 0, 0, 7, 5_000_000_000)), is_compacted=chance.random() < 0.2)
    segments: dict[int, list[bytes]] = {}
    for _ in range(chance.randrange(1, 9)):
        base_offset = writer.offset
        segments[base_offset] = [writer.entry() for _ in range(chance.randrange(1, 31))]
        if chance.random() < 0.2:
            writer.offset += chance.randrange(1, 50)  # a roll may leave offsets out
    first, last = segments[min(segments)], segments[max(segments)]
    start = chance.randrange(min(segments), min(segments) + 5) if chance.random() < 0.2 and len(first) > 4 else None
    high_watermark = chance.randrange(min(segments), writer.offset + 1) if chance.random() < 0.5 else writer.offset
    if chance.random() < 0.15:
        half = writer.entry()
        last.append(half[: chance.randrange(1, len(half))])  # the broker died as it wrote it
    topic_id = urlsafe_b64encode((seed + 2).to_bytes(16, "big")).decode().rstrip("=")
    return lb.write_partition(
        log_dir,
        topic,
        0,
        segments,
        topic_id=topic_id,
        indexes=True,
        log_start_offset=start,
        high_watermark=high_watermark,
    )
