"""Judged segments as rows of READINESS and JUDGED."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.gate.judge_partition import SegmentReadiness
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.producer_fold import OpenTransactions
from tiersnap.snapshot.replay.facts import PartitionFacts
from tiersnap.snapshot.replay.snapshot_comparison import SnapshotFile
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.segment_verdict import SegmentVerdict


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Records of a READY segment when it was judged.

    Attributes:
        open_transactions: at its base offset; None where nobody knows.
        provenance: of the snapshot at its end: BROKER, or that of the object.
        comparison: of the broker's file, every entry counted; None for an object.
        object_key: None for the broker's file.
    """

    cluster_id: str | None
    leader_epochs: LeaderEpochs | None
    open_transactions: OpenTransactions | None
    provenance: Provenance
    file: SnapshotFile
    comparison: SnapshotVerdict | None
    object_key: str | None
    object_crc32c: int | None


@dataclass(frozen=True, slots=True)
class SegmentJudgement:
    """A segment as a run judged it: a row of JUDGED."""

    verdict: SegmentVerdict
    copy: CopyPlan | None = None  # None unless the segment is READY


VERDICTS, JUDGED_ROWS = Rows(SegmentVerdict), Rows(SegmentJudgement)
READINESS, JUDGED = VERDICTS.schema, JUDGED_ROWS.schema


def readiness_batch(
    log_dir: str, partition: Partition, facts: PartitionFacts, segments: Iterable[SegmentReadiness]
) -> pa.RecordBatch:
    """Return the rows of READINESS of one partition; `log_dir` is the one name of its log directory."""
    key = log_dir, partition.topic, partition.partition
    return VERDICTS.batch(SegmentVerdict.of(*key, facts, each) for each in segments)
