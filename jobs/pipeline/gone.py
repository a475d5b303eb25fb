"""Partitions that the tables know and that are not where they were: deleted, or moved to another log directory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.changes import still_there
from tiersnap.jobs.pipeline.topics import matching
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY


def gone_partitions(
    partitions: DataFrame, listed: DataFrame, *, sources: Sequence[str], topics: re.Pattern[str] | None, run: int
) -> DataFrame:
    """Rows to append to `partitions`: GONE, for each that this run looked for and did not find.

    Args:
        sources, topics: where and what the run looked for.
    """
    known = still_there(partitions).where(F.col("log_dir").isin(list(sources))).select(*PARTITION_KEY)
    missing = known.join(listed.select(*PARTITION_KEY), on=list(PARTITION_KEY), how="left_anti")
    missing = missing.select(*PARTITION_KEY).mapInArrow(matching(topics), missing.select(*PARTITION_KEY).schema)
    values = {"kind": F.lit(str(FactKind.GONE)), "offset": F.lit(0), "part": F.lit(0), "run": F.lit(run)}
    return missing.select(
        *(
            (F.col(field.name) if field.name in PARTITION_KEY else values.get(field.name, F.lit(None)))
            .cast(field.dataType)
            .alias(field.name)
            for field in schemas.PARTITIONS
        )
    )
