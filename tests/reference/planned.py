"""READY segments of a partition's folder, planned as a run plans them: folded, digested, their transactions known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.reference import log_builder as lb
from tests.reference.tiered import folded_snapshots
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Checkpoints, FileRef, read_partition
from tiersnap.snapshot.log.segment_scan import SegmentScan

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
PARTITION = TopicIdPartition("orders", TOPIC_ID, 0)
BASES = (0, 5, 10, 15)


def write_log(log_dir: Path, *, epoch: int = 0) -> Path:
    """Four segments, three of them closed; the second holds an abort of a transaction that began in the first.

    `epoch` is the leader epoch from offset 5 on.
    """
    segments = {
        0: [lb.data_batch(0, 4, 7, 0, 0), lb.data_batch(4, 1, 8, 0, 0, transactional=True)],
        5: [lb.data_batch(5, 4, 7, 0, 4, leader_epoch=epoch), lb.marker(9, 8, 0, 0, commit=False, leader_epoch=epoch)],
        10: [lb.data_batch(10, 5, 7, 0, 8, leader_epoch=epoch)],
        15: [lb.data_batch(15, 5, 7, 0, 13, leader_epoch=epoch)],
    }
    epochs = [(0, 0), (epoch, 5)] if epoch else [(0, 0)]
    return lb.write_partition(
        log_dir, "orders", 0, segments, high_watermark=20, topic_id=TOPIC_ID, leader_epochs=epochs
    )


def write_replica_that_rolled_later(log_dir: Path) -> Path:
    """The log of `write_log` on another broker: its first segment ends at 10."""
    whole = write_log(log_dir.with_name(f"{log_dir.name}-whole"))
    content = {base: (whole / f"{base:020d}.log").read_bytes() for base in BASES}
    segments = {0: [content[0], content[5]], 10: [content[10]], 15: [content[15]]}
    return lb.write_partition(log_dir, "orders", 0, segments, high_watermark=20, topic_id=TOPIC_ID)


def open_transactions(entries: np.ndarray) -> list[tuple[int, int]]:
    """Producer ids and first offsets of the open transactions of ENTRY_DTYPE, by first offset."""
    opened = entries[entries["current_txn_first_offset"] >= 0]
    pairs = opened[["producer_id", "current_txn_first_offset"]].tolist()
    return sorted(pairs, key=lambda pair: pair[1])


def planned(folder: Path) -> list[PlannedSegment]:
    partition = read_partition(LOCAL, str(folder), Checkpoints())
    folded = folded_snapshots(partition)
    return [_planned(partition, segment, folded) for segment in partition.segments if segment.next_base_offset]


def _planned(partition, segment, folded) -> PlannedSegment:
    base, following = segment.base_offset, segment.next_base_offset
    opened = open_transactions(snapshot_file.decode(folded[base])) if base in folded else []
    scan = SegmentScan(LOCAL, segment.log.path, base_offset=base, next_base_offset=following)
    for _ in scan:
        pass
    return PlannedSegment(
        base_offset=base,
        next_base_offset=following,
        max_timestamp=scan.end.max_timestamp,
        log=_source(segment.log),
        leader_epochs=partition.leader_epochs,
        offset_index=_source(segment.offset_index),
        time_index=_source(segment.time_index),
        transaction_index=_source(segment.transaction_index),
        open_transactions=tuple(opened),
        header_digest=scan.end.digest,
        snapshot=SnapshotSource(
            offset=following,
            provenance=Provenance.COMPUTED,
            crc32c=crc32c(folded[following]),
            data=folded[following],
        ),
    )


def with_snapshot(segment: PlannedSegment, **changes: object) -> PlannedSegment:
    return replace(segment, snapshot=replace(segment.snapshot, **changes))


def _source(ref: FileRef | None) -> SourceFile | None:
    return None if ref is None else SourceFile(LOCAL, ref.path, ref.size)
