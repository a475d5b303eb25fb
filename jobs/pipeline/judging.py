"""Stage 5, verdicts: a view over facts, what remote storage holds, and now."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.jobs.pipeline.remote import current
from tiersnap.jobs.pipeline.replaying import input_rows, united
from tiersnap.jobs.pipeline.warehouse import newest
from tiersnap.snapshot.tables.facts import JUDGED, FactKind
from tiersnap.snapshot.tables.remote_log_segments import TOPIC_PARTITION
from tiersnap.snapshot.tables.schemas import PARTITION_KEY
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.partition_input import INPUT_ORDER, Source

_FACT = [name for name in schemas.PARTITIONS.names if name not in ("state", "problem")]


def newest_facts(partitions: DataFrame, among: DataFrame, kinds: Iterable[FactKind]) -> DataFrame:
    """Rows of these kinds from the newest replay of each partition; none of one that was found gone since.

    Args:
        partitions: the table.
        among: PARTITION_KEY of the partitions that are wanted.
    """
    # Every replay leaves a REPLAYED row, and GONE is alone in its run.
    rows = partitions.where(f"kind <> '{FactKind.STATE}'")
    rows = newest(rows.join(among, on=list(PARTITION_KEY), how="left_semi"), PARTITION_KEY)
    return rows.where(F.col("kind").isin([str(kind) for kind in kinds]))


def verdicts(partitions: DataFrame, copies: DataFrame, among: DataFrame, task: JudgePartition) -> DataFrame:
    """The tables `partitions` and `remote_log_segments` -> JUDGED rows of the partitions `among` (PARTITION_KEY)."""
    facts = newest_facts(partitions, among, JUDGED)
    replayed = facts.where(f"kind = '{FactKind.REPLAYED}'").select(*PARTITION_KEY, "replayed.topic_id")
    ours = replayed.join(current(copies), on=list(TOPIC_PARTITION))
    known = input_rows(facts, Source.FACTS, "offset", "part", "fact", _FACT)
    found = input_rows(ours, Source.COPIES, "start_offset", "0", "copy", schemas.REMOTE_LOG_SEGMENTS.names)
    return by_key(united([known, found]), PARTITION_KEY, INPUT_ORDER, lambda _, batches: task(batches), schemas.JUDGED)
