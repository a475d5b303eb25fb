"""Logs that are older than the expiration: weeks of producers that come, idle, return and go.

As real producers write: an id is transactional or it is not, sequences go on where they stopped, epoch 0 begins with
sequence 0, and a transaction ends with a marker, if late. Segments have the time index and the file time of their day.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from tests.reference import log_builder as lb
from tests.reference.record_batch import Batch, read_segment

DAY = 86_400_000
NOW = 1_795_264_000_000  # ms


@dataclass
class Producer:
    """One producer id, as its client sees it."""

    producer_id: int
    is_transactional: bool
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False


@dataclass
class AgingLog:
    """A partition of `days` segments, one a day, the last of them today's.

    Attributes:
        segments: entries by base offset.
    """

    seed: int
    days: int = 30
    producers: int = 8
    segments: dict[int, list[bytes]] = field(default_factory=dict)
    _offset: int = 0

    def write(self, log_dir: Path) -> Path:
        """The partition's folder, `orders-0`."""
        chance = Random(self.seed)
        alive = [Producer(number, number % 3 != 0) for number in range(self.producers)]
        ids = count(self.producers)
        times: dict[int, int] = {}
        for day in range(self.days):
            base, start = self._offset, NOW - (self.days - day) * DAY
            entries: list[bytes] = []
            times[base] = -1
            for _ in range(chance.randrange(0 if day else 1, 7)):
                producer = chance.choice(alive)
                if chance.random() < 0.1:  # the client is gone; its transaction may hang
                    alive.append(Producer(next(ids), chance.random() < 0.7))
                    alive.remove(producer)
                    continue
                times[base] = start + chance.randrange(DAY)
                entries.append(self._entry(chance, producer, times[base]))
            if not entries:
                times[base] = start
                entries.append(lb.data_batch(self._advance(1), 1, timestamp=start))
            self.segments[base] = entries
        return write_aged(log_dir, self.segments, times)

    def _advance(self, count: int) -> int:
        base, self._offset = self._offset, self._offset + count
        return base

    def _entry(self, chance: Random, producer: Producer, timestamp: int) -> bytes:
        if producer.is_open and chance.random() < 0.6:
            return self._end(chance, producer, timestamp)
        if producer.is_transactional and not producer.is_open and producer.sequence and chance.random() < 0.2:
            producer.epoch, producer.sequence = producer.epoch + 1, 0  # the client was restarted
        records = chance.randrange(1, 4)
        entry = lb.data_batch(
            self._advance(records),
            records,
            producer.producer_id,
            producer.epoch,
            producer.sequence,
            producer.is_transactional,
            timestamp,
        )
        producer.sequence, producer.is_open = producer.sequence + records, producer.is_transactional
        return entry

    def _end(self, chance: Random, producer: Producer, timestamp: int) -> bytes:
        if chance.random() < 0.3:  # protocol 2 bumps the epoch with each marker
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        producer.is_open = False
        commit = chance.random() < 0.5
        return lb.marker(self._advance(1), producer.producer_id, producer.epoch, chance.randrange(4), commit, timestamp)


def write_aged(log_dir: Path, segments: dict[int, list[bytes]], written: dict[int, int]) -> Path:
    """The folder of `orders-0`: entries and the time of the file (ms) by base offset; all of it is committed."""
    base_offset, last_offset_delta = struct.unpack_from(">q15xi", segments[max(segments)][-1])
    end = base_offset + last_offset_delta + 1
    folder = lb.write_partition(log_dir, "orders", 0, segments, high_watermark=end, indexes=True)
    for base, timestamp in written.items():
        stem = folder / f"{base:020d}"
        batches = [struct.unpack_from(">q", entry, 35)[0] for entry in segments[base]]
        stem.with_suffix(".timeindex").write_bytes(struct.pack(">qi", max(batches), 0))
        os.utime(stem.with_suffix(".log"), ns=(timestamp * 1_000_000,) * 2)
    _write_transaction_indexes(folder, segments)
    return folder


def _write_transaction_indexes(folder: Path, segments: dict[int, list[bytes]]) -> None:
    """As a broker with the whole log writes them: a file for each segment that ends an aborted transaction."""
    opened: dict[int, int] = {}
    for base, entries in segments.items():
        found = (_aborted(batch, opened) for batch in read_segment(b"".join(entries), base - 1).batches)
        if data := b"".join(found):
            (folder / f"{base:020d}.txnindex").write_bytes(data)


def _aborted(batch: Batch, opened: dict[int, int]) -> bytes:
    """The entry that a batch adds; `opened` has the first offsets of the transactions that are open."""
    if batch.control_type < 0:
        if batch.attributes & 0x10:
            opened.setdefault(batch.producer_id, batch.base_offset)
        return b""
    first = opened.pop(batch.producer_id, None)
    if first is None or batch.control_type != 0:
        return b""
    stable = min(opened.values(), default=batch.base_offset + 1)
    return struct.pack(">hqqqq", 0, batch.producer_id, first, batch.base_offset, stable)
