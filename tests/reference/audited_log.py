"""A partition's batches as the audit's reference sees them, and what they say before any producer is looked at."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from tests.reference.crc32c import behind_zeros, crc32c
from tests.reference.log_builder import ABORT, COMMIT, CONTROL, TRANSACTIONAL
from tests.reference.record_batch import Batch

CIRCLE = 2**31


@dataclass(frozen=True)
class AuditedLog:
    """A partition: segments by base offset, the size of each file, and what is known of the whole.

    `listed` are the base offsets of segments that have bytes; those of `segments` are among them.
    """

    segments: dict[int, list[Batch]]
    sizes: dict[int, int | None]
    log_start_offset: int = 0
    is_compacted: bool = False
    listed: tuple[int, ...] = ()

    @property
    def batches(self) -> list[Batch]:
        return [batch for base in sorted(self.segments) for batch in self.segments[base]]


def last_offset(batch: Batch) -> int:
    return batch.base_offset + batch.last_offset_delta


def is_data(batch: Batch) -> bool:
    return not batch.attributes & CONTROL and batch.producer_id >= 0 and batch.base_sequence >= 0


def is_marker(batch: Batch) -> bool:
    has_type = batch.control_type in (ABORT, COMMIT) and batch.record_count > 0
    return bool(batch.attributes & CONTROL) and has_type and batch.producer_id >= 0


def last_sequence(batch: Batch) -> int:
    return (batch.base_sequence + batch.last_offset_delta) % CIRCLE


def _header_crc(batch: Batch) -> int:
    """Of what the stored CRC covers of the header, before the records."""
    header = struct.pack(
        ">hiqqqhii",
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    )
    return behind_zeros(crc32c(header), batch.batch_length - 49)


def records_crc(batch: Batch) -> int:
    """CRC of the records."""
    return batch.crc ^ _header_crc(batch)


def sent_again(batch: Batch, **changed: int) -> Batch:
    """The batch with the same records and another header, whose CRC is right."""
    again = replace(batch, **changed)
    return replace(again, crc=records_crc(batch) ^ _header_crc(again))


def holes(log: AuditedLog) -> list[tuple[int, int, bool]]:
    """(first offset, end offset, is unread) of the offsets that no batch has."""
    if log.is_compacted:
        return []
    found = []
    before: tuple[int, Batch] | None = None
    for base in sorted(log.segments):
        for index, batch in enumerate(log.segments[base]):
            if before is None:
                start, is_unread = base, batch.position > 0
            else:
                start = last_offset(before[1]) + 1
                end_position = before[1].position + 12 + before[1].batch_length
                size = log.sizes[before[0]]
                if index:
                    is_unread = batch.position > end_position
                else:
                    is_unread = batch.position > 0 or (size is not None and end_position < size)
            if not index:
                is_unread |= any(start <= other < batch.base_offset and other != base for other in log.listed)
            if start < batch.base_offset and batch.base_offset > log.log_start_offset:
                found.append((max(start, log.log_start_offset), batch.base_offset, is_unread))
            before = base, batch
    return found


def aborted(log: AuditedLog) -> set[int]:
    """Base offsets of transactional batches whose producer's next marker is an abort."""
    found = set()
    batches = log.batches
    for index, batch in enumerate(batches):
        if not batch.attributes & TRANSACTIONAL or batch.producer_id < 0:
            continue
        following = (b for b in batches[index:] if b.producer_id == batch.producer_id and is_marker(b))
        marker = next(following, None)
        if marker is not None and marker.control_type == ABORT:
            found.add(batch.base_offset)
    return found
