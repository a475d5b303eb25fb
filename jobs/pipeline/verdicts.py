"""Stage 5, verdicts: judges the listed segments, and finds the changed rows of the table `readiness`."""

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
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tables.segment_verdict import SegmentVerdict

_FACT = [name for name in schemas.PARTITIONS.names if name != DELTAS]
_STORED = schemas.of_arrow(STORED_VERDICTS)
_SEGMENT = tuple(name for name in Rows(SegmentFacts).names if name != "base_offset")


# If one of these columns changes, a new row of `readiness` is appended.
_TELLING = ("verdict", "snapshot", "compared", "next_base_offset")
# If one of these changes, a row is appended only for segments to upload. Other reasons may contain a time.
_DETAILS = ("reason", "snapshot_provenance")
_TO_UPLOAD = sorted(WAITING | TO_UPLOAD)


@dataclass(frozen=True)
class JudgePartition(Policy):
    """The task that judges the segments of one partition: rows of `input_rows` (FACTS, COPIES) to rows of JUDGED."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the judged segments of the partition (schema JUDGED)."""
        rows = PartitionInput(batches)
        yield JUDGED_ROWS.batch(self.judged(rows.results, rows.copies, rows.refusals))

    def judged(
        self, found: StoredResults | None, copies: Sequence[ListedCopy], refusals: Sequence[CopyEvent] = ()
    ) -> Iterator[SegmentJudgement]:
        """Yield the judged segments of a partition; none if it was never replayed.

        Args:
            found: results of the newest replay; None if there are none.
            copies: remote segments of the partition.
            refusals: uploads that failed because the segment's snapshot lacks a transaction.

        Raises:
            ValueError: the partition has segments, snapshots or copies, but no replay.
        """
        if found is None or found.replayed is None:
            if copies or (found is not None and (found.segments or found.snapshots)):
                raise ValueError(
                    "Spark did not bring the rows of a partition together: segments without the replay "
                    "of their partition"
                )
            return
        replayed = found.replayed
        remote = RemoteListing(tuple(copies), encrypted_by=replayed.encrypted_by)
        coverage = remote.coverage(replayed.leader_epochs, replayed.facts.log_end_offset)
        segments = found.segments.values()
        for each in self.judge(
            replayed.facts, found.partition, segments, found.snapshots, coverage, _refused(refusals, found)
        ):
            verdict = SegmentVerdict.of(found.log_dir, found.topic, found.partition, replayed.facts, each)
            plan = None
            if each.is_ready:
                plan = _copy_plan(replayed, each, found.snapshots.get(each.facts.base_offset))
            yield SegmentJudgement(verdict, plan)


def _refused(refusals: Sequence[CopyEvent], found: StoredResults) -> dict[int, str]:
    """Return the errors of refused uploads by base offset. Leave out refusals that may be outdated.

    A refusal of an earlier run is valid only if the segment's snapshot was computed. If the snapshot is a file, the
    broker may have replaced it since.
    """
    errors: dict[int, str] = {}
    for each in refusals:
        snapshot = found.snapshots.get(each.next_base_offset)
        is_computed = snapshot is not None and snapshot.file == NO_FILE
        if each.error is not None and (each.run >= found.run or is_computed):
            errors[each.base_offset] = each.error.error
    return errors


def _copy_plan(replayed: StoredReplay, judged: SegmentReadiness, before: SnapshotAt | None) -> CopyPlan:
    """Return the plan of a READY segment; `before` is the snapshot at its base offset."""
    end = judged.snapshot.found
    assert end is not None and judged.snapshot.provenance is not None, "the segment is READY, but has no snapshot"
    comparison, object_key, object_crc32c = None, None, None
    if not judged.snapshot.is_object:
        comparison = end.comparison.compared
    elif end.stored is not None:
        object_key, object_crc32c = end.stored.object_key, end.stored.object_crc32c
    return CopyPlan(
        cluster_id=replayed.cluster_id,
        leader_epochs=replayed.leader_epochs,
        open_transactions=open_at(judged.facts.base_offset, before),
        provenance=judged.snapshot.provenance,
        file=end.file,
        comparison=comparison,
        object_key=object_key,
        object_crc32c=object_crc32c,
    )


def verdicts(partitions: DataFrame, copies: DataFrame, among: DataFrame, task: JudgePartition) -> DataFrame:
    """Return the judged segments of some partitions (schema JUDGED).

    Args:
        partitions: the table.
        copies: the table `remote_log_segments`.
        among: PARTITION_KEY of the partitions.
        task: judges one partition.
    """
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
    """Return the newest `readiness` row of each existing segment in the partitions `among`."""
    rows = readiness.join(among.select(*PARTITION_KEY), on=list(PARTITION_KEY), how="left_semi")
    # Compare the times too. If a run was killed before it wrote its row of `runs`, the next may have the same number.
    return newest_row(rows, SEGMENT_KEY, F.struct("run", "judged_at")).where(F.isnotnull("verdict"))


def beside_stored(judged: DataFrame, stored: DataFrame) -> DataFrame:
    """Add the column `before` to the judged segments: the stored `readiness` row, or null if the table has none.

    A deleted segment gets a row in which only SEGMENT_KEY and `before` have values.

    Args:
        judged: the judged segments (schema JUDGED).
        stored: rows of `current` of the same partitions.
    """
    names = (*JUDGEMENT, "topic_id", *_SEGMENT)
    before = stored.select(*SEGMENT_KEY, F.struct(*names).alias("before"))
    return judged.join(before, on=list(SEGMENT_KEY), how="full_outer")


def is_news() -> Column:
    """Return a condition: the row of `beside_stored` differs from the stored row, and must be appended to `readiness`.

    The size of an active segment is not compared, because it grows all the time.
    """
    is_other, has_details = (reduce(or_, map(_differs, names)) for names in (_TELLING, _DETAILS))
    is_to_upload, is_closed = F.col("verdict").isin(_TO_UPLOAD), F.isnotnull("next_base_offset")
    return is_other | is_true((is_to_upload & has_details) | (is_closed & _differs("size_bytes")))


def _differs(name: str) -> Column:
    return ~F.col(name).eqNullSafe(F.col(f"before.{name}"))


def news(beside: DataFrame, *, run: int, now: int) -> DataFrame:
    """Return the rows to append to `readiness`.

    Args:
        beside: rows of `beside_stored`.
        run: number of the run.
        now: ms since the epoch.
    """
    values = _written(run, now)
    for name in ("topic_id", *_SEGMENT):
        values[name] = F.when(F.isnull("verdict"), F.col(f"before.{name}")).otherwise(F.col(name))
    return in_columns(beside.where(is_news()), _STORED, values)


def gone(stored: DataFrame, *, run: int, now: int) -> DataFrame:
    """Return the rows to append to `readiness` for deleted segments; `stored` are the segments' rows from `current`."""
    return in_columns(stored.drop(*JUDGEMENT), _STORED, _written(run, now))


def _written(run: int, now: int) -> dict[str, Column]:
    day = datetime.fromtimestamp(now / 1000, UTC).date()
    return {"run": F.lit(run), "judged_at": F.lit(now), "judged_on": F.lit(day.isoformat())}
