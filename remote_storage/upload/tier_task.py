"""The Spark task that uploads one partition. It maps rows of READY to rows of TIERED."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.listed import partition_folder
from tiersnap.snapshot.tables.readiness import CopyPlan, SegmentJudgement
from tiersnap.snapshot.tables.remote_log_segments import EVENTS, REMOTE_LOG_SEGMENTS

TIERED = REMOTE_LOG_SEGMENTS


@dataclass(frozen=True, slots=True)
class ReadySegment:
    """A row of READY: a segment with the sizes of its index files in bytes; None for a missing file."""

    judged: SegmentJudgement
    offset_index_bytes: int | None
    time_index_bytes: int | None
    transaction_index_bytes: int | None

    def planned(self) -> PlannedSegment:
        """Return the segment as an argument for `tier_partition`."""
        judged, segment, copy = self.judged.verdict, self.judged.verdict.segment, self.judged.copy
        assert copy is not None and segment.next_base_offset is not None, "not READY"
        filesystem, folder = partition_folder(judged.log_dir, judged.topic, judged.partition)
        stem = f"{folder}/{segment.base_offset:020d}"
        return PlannedSegment(
            base_offset=segment.base_offset,
            next_base_offset=segment.next_base_offset,
            max_timestamp=segment.largest_timestamp,
            log=SourceFile(filesystem, f"{stem}.log", segment.size_bytes),
            leader_epochs=copy.leader_epochs or (),
            offset_index=_file(filesystem, f"{stem}.index", self.offset_index_bytes),
            time_index=_file(filesystem, f"{stem}.timeindex", self.time_index_bytes),
            transaction_index=_file(filesystem, f"{stem}.txnindex", self.transaction_index_bytes),
            open_transactions=copy.open_transactions,
            header_digest=segment.digest or None,
            snapshot=_snapshot(filesystem, folder, segment.next_base_offset, judged.judgement.snapshot, copy),
        )


def _snapshot(
    filesystem: FileSystem, folder: str, offset: int, verdict: SnapshotVerdict, copy: CopyPlan
) -> SnapshotSource:
    if copy.object_key is not None:
        return SnapshotSource(
            offset=offset, provenance=copy.provenance, crc32c=copy.object_crc32c, object_key=copy.object_key
        )
    return SnapshotSource(
        offset=offset,
        provenance=copy.provenance,
        verdict=verdict,
        comparison=copy.comparison,
        crc32c=copy.file.file_crc32c,
        file=_file(filesystem, f"{folder}/{file_name(offset)}", copy.file.file_bytes),
    )


_READY_ROWS = Rows(ReadySegment)
READY = _READY_ROWS.schema


@dataclass(frozen=True)
class TierTask:
    """Maps the READY rows of one partition, ascending by base offset, to TIERED rows."""

    location: RemoteLocation
    tierer: Tierer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Upload the segments, and yield a row after each event."""
        ready = list(_READY_ROWS.read(batches))
        if not ready:
            return
        planned, first, copy = map(ReadySegment.planned, ready), ready[0].judged.verdict, ready[0].judged.copy
        partition = TopicIdPartition(first.topic, first.facts.topic_id, first.partition)
        cluster_id = None
        if copy is not None:
            cluster_id = copy.cluster_id
        for event in tier_partition(self.location, partition, planned, self.tierer, cluster_id=cluster_id):
            yield EVENTS.batch([event])


def _file(filesystem: FileSystem, path: str, size: int | None) -> SourceFile | None:
    if size is None:
        return None
    return SourceFile(filesystem, path, size)
