"""Stage 4, replay: the partitions that changed, each with its decodes and the state that an earlier replay left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.grouping import by_key
from tiersnap.snapshot.tables.facts import FACT_OFFSET, FactKind
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tasks.partition_input import INPUT_ORDER, Source
from tiersnap.snapshot.tasks.replay_partition import ReplayPartition

_KEPT = (FactKind.REPLAYED, FactKind.STATE, FactKind.BOUNDARY)
# Keys of so many segments are sent to every task, so that no row of another one is moved.
_MOST_SENT = 100_000
_MOST_NAMED = 100


@dataclass(frozen=True)
class Changed:
    """The partitions to replay: PARTITION_KEY and `start_offset`, computed once; how many, with how many segments."""

    rows: DataFrame
    partitions: int
    segments: int

    def of_them(self, table: DataFrame) -> DataFrame:
        """Rows of a table without what files of other partitions hold: of a few, readers skip the rest by name."""
        if self.partitions > _MOST_NAMED:
            return table
        topics, numbers = ([row[name] for row in self._names] for name in ("topic", "partition"))
        return table.where(F.col("topic").isin(topics) & F.col("partition").isin(numbers))

    @cached_property
    def _names(self) -> list[Row]:
        return self.rows.select("topic", "partition").limit(_MOST_NAMED).collect()

    def sent(self, keys: DataFrame) -> DataFrame:
        """Keys to join a table with, sent to its tasks where they are few."""
        return F.broadcast(keys) if self.segments <= _MOST_SENT else keys


def partition_input(
    listed: DataFrame, changed: Changed, segments: DataFrame, partitions: DataFrame, *, is_bounded: bool = False
) -> DataFrame:
    """Return INPUT rows of the partitions that changed; payloads of the tables go nowhere but here.

    `segments` has the decodes of this run in it; `is_bounded`: some partitions were listed with a scan window.
    """
    key, of_segment = list(PARTITION_KEY), list(SEGMENT_KEY)
    ours = listed.join(changed.rows, on=key)
    facts = _newest(changed, partitions, changed.rows.where("start_offset is not null").select(*key), key)
    facts = facts.where(F.col("kind").isin([str(kind) for kind in _KEPT]))
    # Not those that retention has deleted since: the table remembers them until `maintain`.
    bases = ours.select(*key, "start_offset", F.explode("segments.base_offset").alias("base_offset"))
    decodes = _newest(changed, segments, bases, of_segment, "start_offset")
    # Below the start only how each segment ended is asked for, not its deltas.
    is_below = "coalesce(base_offset < start_offset, false)"
    decodes = decodes.where(f"not {is_below} or part = 0").withColumn("deltas", F.expr(f"if({is_below}, null, deltas)"))
    rows = [
        input_rows(ours, Source.LISTED, "0", "0", "listed", schemas.LISTED.names),
        input_rows(facts, Source.FACTS, FACT_OFFSET, "part", "fact", schemas.PARTITIONS.names),
        input_rows(decodes, Source.DECODES, "base_offset", "part", "decode", schemas.SEGMENTS.names),
    ]
    if is_bounded:
        # A window is looked through before it is replayed, and no task can read its rows twice.
        windows = ours.where("window_offset is not null and start_offset is null").select(*key, "window_offset")
        shown = decodes.join(windows, on=key).where("base_offset >= window_offset")
        rows.append(input_rows(shown, Source.WINDOW, "base_offset", "part", "decode", schemas.SEGMENTS.names))
    return united(rows)


def _newest(changed: Changed, table: DataFrame, keys: DataFrame, key: Sequence[str], *more: str) -> DataFrame:
    """Rows of a table that have one of the keys, those of the greatest `run`, and `more` columns of `keys`.

    The runs are compared without the payload, which is then read of the rows that are wanted.
    """
    rows = changed.of_them(table)
    runs = (
        rows.select(*key, "run")
        .join(changed.sent(keys), on=list(key))
        .groupBy(*key, *more)
        .agg(F.max("run").alias("run"))
    )
    return rows.join(changed.sent(runs), on=[*key, "run"])


def input_rows(rows: DataFrame, source: Source, offset: str, part: str, filled: str, names: Sequence[str]) -> DataFrame:
    """Rows of INPUT with one of `listed`, `fact`, `copy` and `decode`, of the columns that are named."""
    place = f"{int(source)} as source", f"cast({offset} as bigint) as offset", f"cast({part} as int) as part"
    return rows.selectExpr(*PARTITION_KEY, *place, f"struct({', '.join(names)}) as {filled}")


def united(rows: Sequence[DataFrame]) -> DataFrame:
    """Rows of INPUT; what none of them fills is left out."""
    first, *others = rows
    for each in others:
        first = first.unionByName(each, allowMissingColumns=True)
    return first


def replay(rows: DataFrame, task: ReplayPartition, *, tasks: int | None = None) -> DataFrame:
    """INPUT -> PARTITIONS, one partition at a time; the snapshots are put from the tasks."""
    return by_key(rows, PARTITION_KEY, INPUT_ORDER, lambda _, batches: task(batches), schemas.PARTITIONS, tasks=tasks)
