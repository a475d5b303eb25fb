"""Stage 5, verdicts: a view over facts, remote storage and now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.known import is_of, newest_facts
from tiersnap.jobs.pipeline.partition_input import INPUT_ORDER, PartitionInput, Source, fact_rows, input_rows, united
from tiersnap.jobs.pipeline.remote_states import current
from tiersnap.snapshot.tables.facts import DELTAS, JUDGED, FactKind
from tiersnap.snapshot.tables.readiness import JUDGED as JUDGED_ARROW
from tiersnap.snapshot.tables.readiness import JUDGED_ROWS
from tiersnap.snapshot.tables.remote_log_segments import TOPIC_PARTITION
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.judge_partition import PartitionJudge

_FACT = [name for name in schemas.PARTITIONS.names if name != DELTAS]


@dataclass(frozen=True)
class JudgePartition(PartitionJudge):
    """INPUT rows (FACTS and COPIES) of one partition -> JUDGED rows."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge the partition."""
        rows = PartitionInput(batches)
        yield JUDGED_ROWS.batch(self.judged(rows.results, rows.copies))


def verdicts(partitions: DataFrame, copies: DataFrame, among: DataFrame, task: JudgePartition) -> DataFrame:
    """The tables `partitions` and `remote_log_segments` -> JUDGED rows of the partitions `among` (PARTITION_KEY)."""
    facts = newest_facts(partitions, among, JUDGED)
    replayed = facts.where(is_of([FactKind.REPLAYED])).select(*PARTITION_KEY, "topic_id")
    ours = replayed.join(current(copies), on=list(TOPIC_PARTITION))
    found = input_rows(ours, Source.COPIES, schemas.REMOTE_LOG_SEGMENTS.names, offset=F.col("base_offset"))
    return by_key(
        united([fact_rows(facts, _FACT), found]),
        PARTITION_KEY,
        INPUT_ORDER,
        lambda _, batches: task(batches),
        schemas.of_arrow(JUDGED_ARROW),
    )
