"""READY segments as rows -> TIERED rows: what a Spark task does with one partition, around tier_partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, TopicIdPartition
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile
from tiersnap.remote_storage.upload.tier_job import CopyEvent, Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.codecs import RowCodec
from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict
from tiersnap.snapshot.tables.listed import partition_folder
from tiersnap.snapshot.tables.schemas import LEADER_EPOCH, OPEN_TRANSACTION

# A row is an event; `end_offset` is inclusive, as KIP-405 has it.
TIERED_ROWS = RowCodec(
    CopyEvent,
    columns={"segment_size": "segment_size_bytes"},
    pairs={"leader_epochs": LEADER_EPOCH},
    shifted={"end_offset": -1},
    values={"state": {state: state.name for state in SegmentState}},
    parts={
        "partition": RowCodec(TopicIdPartition),
        "error": RowCodec(RecordedError, columns={"message": "error"}),
    },
    absent={"is_transient": False},
)
TIERED = TIERED_ROWS.schema


@dataclass(frozen=True, slots=True)
class ReadySegment:
    """One READY segment, with what was recorded of it: a row of READY.

    Attributes:
        digest: "" for a segment that needed no decode.
        open_transactions: at base_offset; None where nobody knows.
        provenance: of the snapshot at next_base_offset; like `verdict` to `object_crc`.
        file_bytes, file_crc: of the broker's file.
        object_key: of the object that was computed; None for the broker's file.
    """

    log_dir: str
    topic: str
    topic_id: str | None
    partition: int
    cluster_id: str | None
    base_offset: int
    next_base_offset: int
    size_bytes: int
    max_timestamp: int
    digest: str | None
    offset_index_bytes: int | None
    time_index_bytes: int | None
    transaction_index_bytes: int | None
    leader_epochs: LeaderEpochs | None
    open_transactions: tuple[tuple[int, int], ...] | None
    provenance: Provenance
    verdict: SnapshotVerdict | None
    comparison: SnapshotVerdict | None
    file_bytes: int | None
    file_crc: int | None
    object_key: str | None
    object_crc: int | None

    def planned(self) -> PlannedSegment:
        """Return the segment as tier_partition takes it."""
        filesystem, folder = partition_folder(self.log_dir, self.topic, self.partition)
        stem = f"{folder}/{self.base_offset:020d}"
        return PlannedSegment(
            base_offset=self.base_offset,
            next_base_offset=self.next_base_offset,
            max_timestamp=self.max_timestamp,
            log=SourceFile(filesystem, f"{stem}.log", self.size_bytes),
            leader_epochs=self.leader_epochs or (),
            offset_index=_file(filesystem, f"{stem}.index", self.offset_index_bytes),
            time_index=_file(filesystem, f"{stem}.timeindex", self.time_index_bytes),
            transaction_index=_file(filesystem, f"{stem}.txnindex", self.transaction_index_bytes),
            open_transactions=self.open_transactions,
            header_digest=self.digest or None,
            snapshot=self._snapshot(filesystem, folder),
        )

    def _snapshot(self, filesystem: FileSystem, folder: str) -> SnapshotSource:
        offset, provenance = self.next_base_offset, self.provenance
        if self.object_key is not None:
            return SnapshotSource(
                offset=offset, provenance=provenance, crc32c=self.object_crc, object_key=self.object_key
            )
        return SnapshotSource(
            offset=offset,
            provenance=provenance,
            verdict=self.verdict,
            comparison=self.comparison,
            crc32c=self.file_crc,
            file=_file(filesystem, f"{folder}/{file_name(offset)}", self.file_bytes),
        )


_READY_ROWS = RowCodec(ReadySegment, pairs={"leader_epochs": LEADER_EPOCH, "open_transactions": OPEN_TRANSACTION})
READY = _READY_ROWS.schema


@dataclass(frozen=True)
class TierTask:
    """READY rows of one partition, ascending -> TIERED rows."""

    location: RemoteLocation
    tierer: Tierer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Tier the partition; every event is a row as soon as it is true."""
        ready = list(_READY_ROWS.read(batches))
        if not ready:
            return
        first, planned = ready[0], [each.planned() for each in ready]
        partition = TopicIdPartition(first.topic, first.topic_id, first.partition)
        for event in tier_partition(self.location, partition, planned, self.tierer, cluster_id=first.cluster_id):
            yield TIERED_ROWS.batch([event])


def _file(filesystem: FileSystem, path: str, size: int | None) -> SourceFile | None:
    return None if size is None else SourceFile(filesystem, path, size)
