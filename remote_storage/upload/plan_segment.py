"""READY segments of a host as tier_partition takes them."""

from __future__ import annotations

import posixpath

from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.snapshot_sink import KeptSnapshots
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource
from tiersnap.remote_storage.upload.source_file import SourceFile
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.readiness.judge_partition import JudgedSnapshot, SegmentReadiness
from tiersnap.snapshot.replay.snapshot_verdict import Provenance


def plan_segment(
    filesystem: FileSystem,
    segment: Segment,
    judged: SegmentReadiness,
    *,
    leader_epochs: LeaderEpochs,
    open_transactions: tuple[tuple[int, int], ...] | None,
    kept: KeptSnapshots,
) -> PlannedSegment:
    """Return a READY segment of a host as tier_partition takes it.

    Args:
        leader_epochs: the whole leader-epoch-checkpoint.
        open_transactions: (producer id, first offset) of those open at the base offset; None where nobody knows.
        kept: snapshots whose bytes need not be fetched.
    """
    return PlannedSegment(
        base_offset=segment.base_offset,
        next_base_offset=segment.next_base_offset or 0,
        max_timestamp=judged.facts.largest_timestamp,
        log=SourceFile(filesystem, segment.log.path, segment.log.size),
        leader_epochs=leader_epochs,
        offset_index=_file(filesystem, segment.offset_index),
        time_index=_file(filesystem, segment.time_index),
        transaction_index=_file(filesystem, segment.transaction_index),
        open_transactions=open_transactions,
        header_digest=judged.facts.digest or None,
        snapshot=_snapshot(filesystem, posixpath.dirname(segment.log.path), judged.snapshot, kept),
    )


def _snapshot(filesystem: FileSystem, folder: str, judged: JudgedSnapshot, kept: KeptSnapshots) -> SnapshotSource:
    found = judged.found
    assert found is not None, "READY without a snapshot"
    provenance = judged.provenance or Provenance.BROKER
    if judged.is_object and found.stored is not None:
        data, key = kept.of(found.stored.key), found.stored.key
        return SnapshotSource(
            offset=found.offset,
            provenance=provenance,
            crc32c=found.stored.crc32c,
            data=data,
            object_key=key if data is None else None,
        )
    return SnapshotSource(
        offset=found.offset,
        provenance=provenance,
        verdict=judged.verdict,
        comparison=found.comparison.strict,
        crc32c=found.file.crc32c,
        file=SourceFile(filesystem, f"{folder}/{file_name(found.offset)}", found.file.size or 0),
    )


def _file(filesystem: FileSystem, ref: FileRef | None) -> SourceFile | None:
    return None if ref is None else SourceFile(filesystem, ref.path, ref.size)
