"""Record batches of `.log` files as raw bytes, read without tiersnap: what was written is looked up here.

off len  field                 off len  field
  0   8  baseOffset             21   2  attributes (16 transactional, 32 control)
  8   4  batchLength            23   4  lastOffsetDelta
 12   4  partitionLeaderEpoch   43   8  producerId
 16   1  magic                  51   2  producerEpoch
 17   4  crc                    53   4  baseSequence
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEADER_LENGTH = 61
TRANSACTIONAL = 16
CONTROL = 32
_START = struct.Struct(">qiib")
_PRODUCER = struct.Struct(">qhi")


@dataclass(frozen=True)
class Batch:
    """One batch and the fields that matter for sending it again."""

    base_offset: int
    last_offset: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    data: bytes

    @property
    def idempotent_only(self) -> bool:
        """Written by a producer with an id and outside any transaction."""
        return self.producer_id >= 0 and not self.attributes & (TRANSACTIONAL | CONTROL)

    def as_sent(self) -> bytes:
        """The bytes the client had sent: base offset 0 and leader epoch -1, neither of which the CRC covers."""
        return struct.pack(">q", 0) + self.data[8:12] + struct.pack(">i", -1) + self.data[16:]


def batches(folder: Path) -> Iterator[Batch]:
    """Batches of magic 2 in all segments of a partition's folder, in offset order, up to a partial or zeroed tail."""
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position + HEADER_LENGTH <= len(data):
            base_offset, length, _, magic = _START.unpack_from(data, position)
            end = position + 12 + length
            if length <= 0 or end > len(data):
                break
            if magic == 2:
                attributes, delta = struct.unpack_from(">hi", data, position + 21)
                producer_id, epoch, sequence = _PRODUCER.unpack_from(data, position + 43)
                yield Batch(
                    base_offset, base_offset + delta, attributes, producer_id, epoch, sequence, data[position:end]
                )
            position = end


def last_batches(folder: Path) -> dict[int, Batch]:
    """The last batch of every producer that is idempotent only, by producer id."""
    return {batch.producer_id: batch for batch in batches(folder) if batch.idempotent_only}
