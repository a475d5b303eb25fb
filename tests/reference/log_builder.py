"""Log segments made of bytes: every kind of entry a broker can have written, with a correct CRC.

Readable on purpose (struct, no numpy): it shares no code with `snapshot`, so that what it writes can test what reads.
Every function gives the bytes of one entry; a segment is their concatenation, and `write_partition` lays segments out
as a broker's log directory has them.

    segment = [
        data_batch(0, 3, producer_id=7, epoch=0, base_sequence=0, transactional=True),
        marker(3, producer_id=7, epoch=0, coordinator_epoch=1, commit=False),
        empty_batch(4, 2, producer_id=7, epoch=0, base_sequence=3),
        legacy_entry(6, magic=1),
    ]
    write_partition(log_dir, "orders", 0, {0: segment[:2], 4: segment[2:]})

Offsets, sequences and epochs are taken as given: nothing is checked, because tests want logs that brokers would refuse.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import google_crc32c

TIMESTAMP = 1_700_000_000_000  # ms
NO_TIMESTAMP = -1

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc | attributes, lastOffsetDelta, baseTimestamp, maxTimestamp,
# producerId, producerEpoch, baseSequence, recordCount
_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)


def varint(value: int) -> bytes:
    """Zig-zag varint."""
    raw = (value << 1) ^ (value >> 63)
    raw &= (1 << 64) - 1
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def record(offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """One record of a v2 batch, uncompressed, without headers."""
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta)]
    for part in (key, value):
        parts += [varint(-1)] if part is None else [varint(len(part)), part]
    body = b"".join([*parts, varint(0)])
    return varint(len(body)) + body


def raw_batch(
    base_offset: int,
    *,
    last_offset_delta: int,
    record_count: int,
    records: bytes,
    attributes: int = 0,
    base_timestamp: int = TIMESTAMP,
    max_timestamp: int = TIMESTAMP,
    producer_id: int = -1,
    epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = 0,
    magic: int = 2,
) -> bytes:
    """A v2 batch of any header fields around `records` (already encoded, already compressed)."""
    counted = (
        _AFTER_CRC.pack(
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            epoch,
            base_sequence,
            record_count,
        )
        + records
    )
    length = _BEFORE_CRC.size - 12 + len(counted)
    return _BEFORE_CRC.pack(base_offset, length, leader_epoch, magic, google_crc32c.value(counted)) + counted


def data_batch(
    base_offset: int,
    count: int,
    producer_id: int = -1,
    epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    timestamp: int = TIMESTAMP,
    leader_epoch: int = 0,
    payload: bytes = b"v",
    *,
    key: bytes | None = None,
    log_append_time: bool = False,
    codec: int = 0,
) -> bytes:
    """A batch of `count` records, one millisecond apart from `timestamp` on.

    `codec` only sets the attribute bits (1 gzip, 2 snappy, 3 lz4, 4 zstd); the records stay as they are, which no
    reader of headers notices.
    """
    attributes = codec | (TRANSACTIONAL if transactional else 0) | (LOG_APPEND_TIME if log_append_time else 0)
    return raw_batch(
        base_offset,
        last_offset_delta=count - 1,
        record_count=count,
        records=b"".join(record(i, i, key, payload) for i in range(count)),
        attributes=attributes,
        base_timestamp=timestamp,
        max_timestamp=timestamp + count - 1,
        producer_id=producer_id,
        epoch=epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
    )


def control_batch(
    offset: int,
    control_type: int,
    value: bytes,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    timestamp: int = TIMESTAMP,
    leader_epoch: int = 0,
    attributes: int = CONTROL,
    key_version: int = 0,
) -> bytes:
    """A control batch with one record of any type and value."""
    key = struct.pack(">hh", key_version, control_type)
    return raw_batch(
        offset,
        last_offset_delta=0,
        record_count=1,
        records=record(0, 0, key, value),
        attributes=attributes,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        epoch=epoch,
        leader_epoch=leader_epoch,
    )


def marker(
    offset: int,
    producer_id: int,
    epoch: int,
    coordinator_epoch: int,
    commit: bool,
    timestamp: int = TIMESTAMP,
    *,
    leader_epoch: int = 0,
) -> bytes:
    """An end-transaction marker, 78 bytes.

    Both transaction protocols write the same bytes; under protocol 2 (KIP-890) `epoch` is the bumped one, one above the
    epoch of the transaction's data.
    """
    return control_batch(
        offset,
        COMMIT if commit else ABORT,
        struct.pack(">hi", 0, coordinator_epoch),
        producer_id=producer_id,
        epoch=epoch,
        timestamp=timestamp,
        leader_epoch=leader_epoch,
        attributes=CONTROL | TRANSACTIONAL,
    )


def leader_change(offset: int, leader_id: int = 1, timestamp: int = TIMESTAMP) -> bytes:
    """A KRaft leader-change message: version, leader id, no voters, no granting voters, no tagged fields."""
    return control_batch(offset, LEADER_CHANGE, struct.pack(">hi", 0, leader_id) + b"\x01\x01\x00", timestamp=timestamp)


def empty_batch(
    base_offset: int,
    count: int = 1,
    producer_id: int = -1,
    epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp: int = TIMESTAMP,
    leader_epoch: int = 0,
    *,
    delete_horizon: int | None = None,
) -> bytes:
    """A batch that compaction emptied: the bare header of `count` records, 61 bytes.

    Args:
        timestamp: max timestamp, which compaction keeps; the base timestamp becomes -1 or the delete horizon.
        delete_horizon: ms, None without one.
    """
    attributes = (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    if delete_horizon is not None:
        attributes |= DELETE_HORIZON
    return raw_batch(
        base_offset,
        last_offset_delta=count - 1,
        record_count=0,
        records=b"",
        attributes=attributes,
        base_timestamp=NO_TIMESTAMP if delete_horizon is None else delete_horizon,
        max_timestamp=timestamp,
        producer_id=producer_id,
        epoch=epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
    )


def legacy_entry(
    offset: int,
    magic: int = 1,
    key: bytes | None = None,
    value: bytes | None = b"v",
    timestamp: int = TIMESTAMP,
    *,
    attributes: int = 0,
) -> bytes:
    """An entry of magic 0 or 1 (brokers before 0.11): CRC-32 over magic .. end; magic 0 has no timestamp."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


def offsets_text(offsets: dict[tuple[str, int], int]) -> str:
    """An offset checkpoint file."""
    lines = [
        "0",
        str(len(offsets)),
        *(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()),
    ]
    return "".join(line + "\n" for line in lines)


def leader_epochs_text(epochs: list[tuple[int, int]]) -> str:
    """A leader-epoch-checkpoint file."""
    return "".join(f"{line}\n" for line in ("0", len(epochs), *(f"{epoch} {start}" for epoch, start in epochs)))


def last_time_entry(segment: bytes, base_offset: int) -> bytes:
    """The time index of a small segment: its largest timestamp, and the last offset of the first batch that has it."""
    largest, holder, position = NO_TIMESTAMP, base_offset, 0
    while position + 26 <= len(segment):
        offset, length, magic = struct.unpack_from(">qi4xb", segment, position)
        delta, timestamp = 0, NO_TIMESTAMP
        if magic == 1:
            (timestamp,) = struct.unpack_from(">q", segment, position + 18)
        elif magic == 2 and position + 61 <= len(segment):
            delta, timestamp = struct.unpack_from(">i8xq", segment, position + 23)
        if timestamp > largest and 0 <= offset + delta - base_offset < 1 << 31:
            largest, holder = timestamp, offset + delta
        position += 12 + max(length, 0)
    return b"" if largest < 0 else struct.pack(">qi", largest, holder - base_offset)


def write_partition(
    log_dir: Path,
    topic: str,
    partition: int,
    segments: dict[int, list[bytes]],
    *,
    topic_id: str | None = "lZ6vvmajTWKDBUTV6SQAtQ",
    leader_epochs: list[tuple[int, int]] | None = None,
    snapshots: dict[int, bytes] | None = None,
    high_watermark: int | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    indexes: bool = False,
) -> Path:
    """Lay a partition out as a broker's log directory has it, and give its folder.

    Args:
        segments: entries of each segment by base offset.
        topic_id: of partition.metadata; None leaves the file out, as brokers before 2.8 do.
        leader_epochs: (epoch, start offset) pairs, (0, first base offset) by default.
        snapshots: file bytes by offset.
        high_watermark: into replication-offset-checkpoint; likewise the recovery point and the log start offset. The
            checkpoint files keep what other partitions have in them. None writes nothing.
        indexes: an empty `.index` and a `.timeindex` of one entry beside each segment, as brokers close a small one.
    """
    folder = log_dir / f"{topic}-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    for base_offset, entries in segments.items():
        stem = f"{base_offset:020d}"
        (folder / f"{stem}.log").write_bytes(b"".join(entries))
        if indexes:
            (folder / f"{stem}.index").touch()
            (folder / f"{stem}.timeindex").write_bytes(last_time_entry(b"".join(entries), base_offset))
    for offset, data in (snapshots or {}).items():
        (folder / f"{offset:020d}.snapshot").write_bytes(data)
    if leader_epochs is None:
        leader_epochs = [(0, min(segments))] if segments else []
    (folder / "leader-epoch-checkpoint").write_text(leader_epochs_text(leader_epochs))
    if topic_id is not None:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    for name, offset in (
        ("replication-offset-checkpoint", high_watermark),
        ("recovery-point-offset-checkpoint", recovery_point),
        ("log-start-offset-checkpoint", log_start_offset),
    ):
        if offset is not None:
            offsets = _read_offsets(log_dir / name)
            offsets[topic, partition] = offset
            (log_dir / name).write_text(offsets_text(offsets))
    return folder


def _read_offsets(path: Path) -> dict[tuple[str, int], int]:
    if not path.exists():
        return {}
    rows = [line.split() for line in path.read_text().splitlines()[2:]]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
