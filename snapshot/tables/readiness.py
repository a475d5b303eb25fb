"""Verdicts of segments as rows of READINESS, JUDGED and the table `readiness`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated

import pyarrow as pa
from msgspec import Meta

from tiersnap.snapshot.columns import BaseOffset, LogDir, PartitionNumber, RunNumber, Topic, TopicId
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.gate.judge_partition import SegmentReadiness
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.producer_fold import OpenTransactions
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.snapshot_comparison import SnapshotFile
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.newest import newest_of
from tiersnap.snapshot.tables.segment_verdict import GivenVerdict, SegmentVerdict


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The inputs of an upload, from the run that found the segment READY.

    Attributes:
        open_transactions: open transactions at the base offset; None if unknown.
        provenance: provenance of the snapshot at next_base_offset; BROKER for the broker's file.
        file: size and CRC of the snapshot at next_base_offset.
        comparison: strict comparison of the broker's file with the log; None for a stored snapshot.
        object_key, object_crc32c: the stored snapshot in remote storage; None for the broker's file.
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
    """A row of JUDGED: the verdict of a segment in one run."""

    verdict: SegmentVerdict
    copy: CopyPlan | None = None  # set only if the segment is READY


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVerdict:
    """A row of `readiness`: the verdict of a segment since a run. It is valid until the segment's next row."""

    log_dir: LogDir
    topic: Topic
    partition: PartitionNumber
    topic_id: TopicId | None
    segment: SegmentFacts  # facts when the row was written
    judgement: GivenVerdict | None  # None if the log directory no longer has the segment
    run: RunNumber
    judged_at: Annotated[int, Meta(description="ms, start of the run that gave the verdict")]
    judged_on: Annotated[str, Meta(description="the day of judged_at in UTC, YYYY-MM-DD")]


VERDICTS, JUDGED_ROWS, STORED = Rows(SegmentVerdict), Rows(SegmentJudgement), Rows(StoredVerdict)
READINESS, JUDGED, STORED_VERDICTS = VERDICTS.schema, JUDGED_ROWS.schema, STORED.schema
# Columns of `readiness` that are null if the log directory no longer has the segment.
JUDGEMENT = Rows(GivenVerdict).names


SegmentKey = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True)
class _RunVerdict:
    """The columns of a StoredVerdict that `current_verdicts` needs."""

    log_dir: LogDir
    topic: Topic
    partition: PartitionNumber
    base_offset: BaseOffset
    judgement: GivenVerdict | None
    run: RunNumber
    judged_at: int

    @property
    def key(self) -> SegmentKey:
        return self.log_dir, self.topic, self.partition, self.base_offset


_RUN_VERDICTS = Rows(_RunVerdict)
VERDICT_COLUMNS = list(_RUN_VERDICTS.names)
"""The columns of `readiness` that `current_verdicts` reads."""


def current_verdicts(rows: Iterable[pa.RecordBatch]) -> dict[SegmentKey, GivenVerdict]:
    """Return the valid verdict of each segment, by SEGMENT_KEY. Segments that are gone are skipped.

    Args:
        rows: batches of `readiness`, with at least VERDICT_COLUMNS.
    """
    newest = newest_of(_RUN_VERDICTS.read(rows), attrgetter("key"), attrgetter("run", "judged_at"))
    return {key: each.judgement for key, each in newest.items() if each.judgement is not None}


def readiness_batch(
    log_dir: str, partition: Partition, facts: PartitionFacts, segments: Iterable[SegmentReadiness]
) -> pa.RecordBatch:
    """Return the rows of READINESS of one partition.

    Args:
        log_dir: URI of the log directory, the same in all tables.
    """
    key = log_dir, partition.topic, partition.partition
    return VERDICTS.batch(SegmentVerdict.of(*key, facts, each) for each in segments)
