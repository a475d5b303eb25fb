"""Stage 5, verdicts: a view over facts, what remote storage holds, and now."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.carrying import input_columns
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.remote import current
from tiersnap.snapshot.tables.facts import JUDGED, FactKind
from tiersnap.snapshot.tables.remote_log_segments import TOPIC_PARTITION
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.partition_input import INPUT_ORDER, Source


def verdicts(partitions: DataFrame, copies: DataFrame, task: JudgePartition) -> DataFrame:
    """Rows of the tables `partitions` (the newest carry of each) and `remote_log_segments` -> JUDGED rows."""
    facts = partitions.where(F.col("kind").isin([str(kind) for kind in JUDGED]))
    carried = facts.where(F.col("kind") == str(FactKind.CARRIED)).select(*PARTITION_KEY, "topic_id")
    ours = carried.join(current(copies), on=list(TOPIC_PARTITION))
    known = input_columns(Source.FACTS, F.col("offset"), F.col("part"), fact=schemas.PARTITIONS.names)
    found = input_columns(Source.COPIES, F.col("start_offset"), F.lit(0), copy=schemas.REMOTE_LOG_SEGMENTS.names)
    # What no row of these has would be written to the task as a null in each of its nested columns.
    rows = facts.select(*known).unionByName(ours.select(*found)).drop("listed", "decode")
    return by_key(rows, PARTITION_KEY, INPUT_ORDER, lambda _, batches: task(batches), schemas.JUDGED)
