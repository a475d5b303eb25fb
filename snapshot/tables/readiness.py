"""Judged segments as rows of READINESS and JUDGED."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.readiness.judge_partition import SegmentReadiness
from tiersnap.snapshot.readiness.verdict import Verdict
from tiersnap.snapshot.replay.facts import PartitionFacts
from tiersnap.snapshot.replay.producer_fold import OpenTransactions
from tiersnap.snapshot.replay.snapshot_comparison import SnapshotFile
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict
from tiersnap.snapshot.rows import Int32, Rows


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Records of a READY segment when it was judged.

    Attributes:
        digest: "" for a segment that needed no decode.
        open_transactions: at its base offset; None where nobody knows.
        provenance: of the snapshot at its end: BROKER, or that of the object.
        comparison: of the broker's file, every entry counted; None for an object.
        object_key: None for the broker's file.
    """

    cluster_id: str | None
    digest: str
    leader_epochs: LeaderEpochs | None
    open_transactions: OpenTransactions | None
    provenance: Provenance
    file: SnapshotFile
    comparison: SnapshotVerdict | None
    object_key: str | None
    object_crc32c: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVerdict:
    """A row of READINESS: the verdict of one segment, of facts, remote storage and now.

    Attributes:
        snapshot: verdict on the snapshot at next_base_offset, or at the log end.
        compared: result of the strict comparison of the file at next_base_offset; None if none was compared.
    """

    log_dir: str
    topic: str
    partition: Int32
    topic_id: str | None
    base_offset: int
    next_base_offset: int | None
    size_bytes: int
    largest_timestamp: int
    verdict: Verdict
    reason: str
    next_step: str
    snapshot: SnapshotVerdict
    snapshot_provenance: Provenance | None
    compared: SnapshotVerdict | None
    high_watermark: int | None
    last_stable_offset: int | None
    log_start_offset: int
    finding_count: int

    @classmethod
    def of(
        cls, log_dir: str, topic: str, partition: int, facts: PartitionFacts, judged: SegmentReadiness
    ) -> StoredVerdict:
        """Return a segment of a partition as it was judged."""
        segment, readiness, snapshot = judged.facts, judged.readiness, judged.snapshot
        return cls(
            log_dir=log_dir,
            topic=topic,
            partition=partition,
            topic_id=facts.topic_id,
            base_offset=segment.base_offset,
            next_base_offset=segment.next_base_offset,
            size_bytes=segment.size_bytes,
            largest_timestamp=segment.largest_timestamp,
            verdict=readiness.verdict,
            reason=readiness.reason,
            next_step=readiness.next_step,
            snapshot=snapshot.verdict,
            snapshot_provenance=snapshot.provenance,
            compared=None if segment.next_base_offset is None else snapshot.compared,
            high_watermark=facts.high_watermark,
            last_stable_offset=facts.last_stable_offset,
            log_start_offset=facts.log_start_offset,
            finding_count=0 if segment.damage_kind is None else 1,
        )


@dataclass(frozen=True, slots=True)
class SegmentJudgement:
    """A segment as a run judged it: a row of JUDGED."""

    verdict: StoredVerdict
    copy: CopyPlan | None = None  # None unless the segment is READY


VERDICTS, JUDGED_ROWS = Rows(StoredVerdict), Rows(SegmentJudgement)
READINESS, JUDGED = VERDICTS.schema, JUDGED_ROWS.schema


def readiness_batch(
    log_dir: str, partition: Partition, facts: PartitionFacts, segments: Iterable[SegmentReadiness]
) -> pa.RecordBatch:
    """Return the rows of READINESS of one partition; `log_dir` is the one name of its log directory."""
    key = log_dir, partition.topic, partition.partition
    return VERDICTS.batch(StoredVerdict.of(*key, facts, each) for each in segments)
