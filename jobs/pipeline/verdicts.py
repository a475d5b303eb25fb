"""Stage 5, verdicts: the listed segments judged by facts, remote storage and now, and the changes of `readiness`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.known import is_of, is_true, newest_facts
from tiersnap.jobs.pipeline.newest import newest_row
from tiersnap.jobs.pipeline.partition_input import INPUT_ORDER, PartitionInput, Source, fact_rows, input_rows, united
from tiersnap.jobs.pipeline.remote_states import current as current_states
from tiersnap.jobs.pipeline.remote_states import refusals
from tiersnap.jobs.pipeline.schemas import in_columns
from tiersnap.snapshot.gate.judge_partition import Policy, SegmentReadiness, open_at
from tiersnap.snapshot.gate.verdict import TO_UPLOAD, WAITING
from tiersnap.snapshot.replay.facts import SegmentFacts
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.replay.remote_listing import CopyEvent, ListedCopy, RemoteListing
from tiersnap.snapshot.replay.snapshot_comparison import NO_FILE
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.facts import DELTAS, JUDGED, FactKind, StoredReplay, StoredResults
from tiersnap.snapshot.tables.readiness import JUDGED as JUDGED_ARROW
from tiersnap.snapshot.tables.readiness import JUDGED_ROWS, JUDGEMENT, STORED_VERDICTS, CopyPlan, SegmentJudgement
from tiersnap.snapshot.tables.remote_log_segments import TOPIC_PARTITION
from tiersnap.snapshot.tables.segment_verdict import SegmentVerdict
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY, SEGMENT_KEY

_FACT = [name for name in schemas.PARTITIONS.names if name != DELTAS]
_STORED = schemas.of_arrow(STORED_VERDICTS)
_SEGMENT = tuple(name for name in Rows(SegmentFacts).names if name != "base_offset")


_TELLING = ("verdict", "snapshot", "compared", "next_base_offset")
# Of a segment that is to be uploaded. Others keep theirs: those of a segment that a broker copies name the time.
_DETAILS = ("reason", "snapshot_provenance")
_TO_UPLOAD = sorted(WAITING | TO_UPLOAD)


@dataclass(frozen=True)
class JudgePartition(Policy):
    """INPUT rows (FACTS and COPIES) of one partition -> JUDGED rows."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge the partition."""
        rows = PartitionInput(batches)
        yield JUDGED_ROWS.batch(self.judged(rows.results, rows.copies, rows.refusals))

    def judged(
        self, found: StoredResults | None, copies: Sequence[ListedCopy], refusals: Sequence[CopyEvent] = ()
    ) -> Iterator[SegmentJudgement]:
        """Yield the segments of a partition that was replayed; none before. `copies` are those in remote storage.

        Raises:
            ValueError: there are segments, snapshots or copies, and no replay.
        """
        replayed = None if found is None else found.replayed
        if found is None or replayed is None:
            if copies or (found is not None and (found.segments or found.snapshots)):
                raise ValueError("segments and no replay of their partition: Spark did not bring its rows together")
            return
        remote = RemoteListing(tuple(copies), encrypted_by=replayed.encrypted_by)
        coverage = remote.coverage(replayed.leader_epochs, replayed.facts.log_end_offset)
        segments = found.segments.values()
        for each in self.judge(
            replayed.facts, found.partition, segments, found.snapshots, coverage, _refused(refusals, found)
        ):
            verdict = SegmentVerdict.of(found.log_dir, found.topic, found.partition, replayed.facts, each)
            before = found.snapshots.get(each.facts.base_offset)
            yield SegmentJudgement(verdict, _copy_plan(replayed, each, before) if each.is_ready else None)


def _refused(refusals: Sequence[CopyEvent], found: StoredResults) -> dict[int, str]:
    """Return why uploads refused segments and would again, by base offset.

    The snapshot of a segment may be another broker's file since the partition was replayed.
    """
    computed = {offset for offset, end in found.snapshots.items() if end.file == NO_FILE}
    stand = (each for each in refusals if each.run >= found.run or each.next_base_offset in computed)
    return {each.base_offset: each.error.error for each in stand if each.error is not None}


def _copy_plan(replayed: StoredReplay, judged: SegmentReadiness, before: SnapshotAt | None) -> CopyPlan:
    """Return the plan of a READY segment; `before` is the snapshot at its base offset."""
    end, is_object = judged.snapshot.found, judged.snapshot.is_object
    assert end is not None and judged.snapshot.provenance is not None, "READY without a snapshot"
    stored = end.stored if is_object else None
    return CopyPlan(
        cluster_id=replayed.cluster_id,
        leader_epochs=replayed.leader_epochs,
        open_transactions=open_at(judged.facts.base_offset, before),
        provenance=judged.snapshot.provenance,
        file=end.file,
        comparison=None if is_object else end.comparison.compared,
        object_key=None if stored is None else stored.object_key,
        object_crc32c=None if stored is None else stored.object_crc32c,
    )


def verdicts(partitions: DataFrame, copies: DataFrame, among: DataFrame, task: JudgePartition) -> DataFrame:
    """The tables `partitions` and `remote_log_segments` -> JUDGED rows of the partitions `among` (PARTITION_KEY)."""
    facts = newest_facts(partitions, among, JUDGED)
    replayed = facts.where(is_of([FactKind.REPLAYED])).select(*PARTITION_KEY, "topic_id")
    rows = current_states(copies)
    if task.is_bounded:
        rows = rows.unionByName(refusals(copies))
    ours = replayed.join(rows, on=list(TOPIC_PARTITION))
    found = input_rows(ours, Source.COPIES, schemas.REMOTE_LOG_SEGMENTS.names, offset=F.col("base_offset"))
    return by_key(
        united([fact_rows(facts, _FACT), found]),
        PARTITION_KEY,
        INPUT_ORDER,
        task,
        schemas.of_arrow(JUDGED_ARROW),
    )


def current(readiness: DataFrame, among: DataFrame) -> DataFrame:
    """Return the newest rows of `readiness` of the segments that are not gone, in the partitions `among`."""
    rows = readiness.join(among.select(*PARTITION_KEY), on=list(PARTITION_KEY), how="left_semi")
    # A run that was killed before it was recorded may have written rows of the number of the next one.
    return newest_row(rows, SEGMENT_KEY, F.struct("run", "judged_at")).where(F.isnotnull("verdict"))


def beside_stored(judged: DataFrame, stored: DataFrame) -> DataFrame:
    """JUDGED rows and `current` rows of the same partitions -> JUDGED rows with `before`, the segment's stored row.

    `before` is null of a segment that has none. Of a segment that is gone all is null but SEGMENT_KEY and `before`.
    """
    names = (*JUDGEMENT, "topic_id", *_SEGMENT)
    before = stored.select(*SEGMENT_KEY, F.struct(*names).alias("before"))
    return judged.join(before, on=list(SEGMENT_KEY), how="full_outer")


def is_news() -> Column:
    """Return whether `readiness` lacks what a row of `beside_stored` says: then a row is appended.

    The size of an active segment grows all the time, so it is no news.
    """
    is_other, has_details = (reduce(or_, map(_differs, names)) for names in (_TELLING, _DETAILS))
    is_to_upload, is_closed = F.col("verdict").isin(_TO_UPLOAD), F.isnotnull("next_base_offset")
    return is_other | is_true((is_to_upload & has_details) | (is_closed & _differs("size_bytes")))


def _differs(name: str) -> Column:
    return ~F.col(name).eqNullSafe(F.col(f"before.{name}"))


def news(beside: DataFrame, *, run: int, now: int) -> DataFrame:
    """Rows of `beside_stored` -> the rows to append to `readiness`; `now` is ms."""
    is_gone = F.isnull("verdict")
    of_segment = {
        name: F.when(is_gone, F.col(f"before.{name}")).otherwise(F.col(name)) for name in ("topic_id", *_SEGMENT)
    }
    return in_columns(beside.where(is_news()), _STORED, of_segment | _written(run, now))


def gone(stored: DataFrame, *, run: int, now: int) -> DataFrame:
    """`current` rows -> the rows of `readiness` that say that their segments are gone."""
    return in_columns(stored.drop(*JUDGEMENT), _STORED, _written(run, now))


def _written(run: int, now: int) -> dict[str, Column]:
    day = datetime.fromtimestamp(now / 1000, UTC).date()
    return {"run": F.lit(run), "judged_at": F.lit(now), "judged_on": F.lit(day.isoformat())}
