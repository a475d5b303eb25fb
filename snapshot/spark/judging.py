"""Stage 5, verdicts: a view over facts, what remote storage holds, and now."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.snapshot.spark import schemas
from tiersnap.snapshot.spark.carrying import judged_input
from tiersnap.snapshot.spark.warehouse import newest
from tiersnap.snapshot.tables.facts import JUDGED
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.judge_partition import JudgePartition


def verdicts(listed: DataFrame, partitions: DataFrame, task: JudgePartition) -> DataFrame:
    """LISTED rows and the table `partitions` -> READINESS rows of what is listed and was carried."""
    facts = newest(partitions, PARTITION_KEY).where(F.col("kind").isin([str(kind) for kind in JUDGED]))
    facts = facts.join(listed.select(*PARTITION_KEY), on=list(PARTITION_KEY), how="left_semi")
    rows = judged_input(listed, facts)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    ordered = rows.repartition(*PARTITION_KEY).sortWithinPartitions(*PARTITION_KEY, "source", "offset", "part")
    return ordered.groupBy(*PARTITION_KEY).applyInArrow(run, schemas.READINESS)
