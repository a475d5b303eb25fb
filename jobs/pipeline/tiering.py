"""Stages 5 and 6. Verdicts: a view over facts, remote storage and now. Tier: READY segments, partition by partition."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.counts import count_swept
from tiersnap.jobs.pipeline.grouping import by_key, of_batches
from tiersnap.jobs.pipeline.listing import current, listed_segments
from tiersnap.jobs.pipeline.replaying import input_rows, united
from tiersnap.jobs.pipeline.warehouse import newest
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.retire.store_leftovers import sweep_store
from tiersnap.remote_storage.retire.sweep_task import SWEPT, SweepTask
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.tables.facts import DELTAS, FACT_OFFSET, JUDGED, FactKind
from tiersnap.snapshot.tables.remote_log_segments import TOPIC_PARTITION
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.partition_input import INPUT_ORDER, Source
from tiersnap.snapshot.units import count_of

_log = logging.getLogger(__name__)
_INDEXES = ("offset_index_bytes", "time_index_bytes", "transaction_index_bytes")


def ready_segments(judged: DataFrame, listed: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return rows of `schema` (tier_task.READY): JUDGED rows that are READY, with the sizes of their LISTED files."""
    ready = judged.where(F.col("verdict") == str(Verdict.READY))
    # Leave out partitions whose remote log is not known.
    files = listed_segments(listed.where("error is null")).select(*SEGMENT_KEY, *_INDEXES)
    return ready.join(files, on=list(SEGMENT_KEY)).select(*schema.names)


def ending_before(ready: DataFrame, until: int) -> DataFrame:
    """READY rows of each partition below its first one whose largest timestamp is `until` (ms) or later.

    Not every row that is older: one behind a younger one would become visible before it.
    """
    later = F.when(F.col("largest_timestamp") >= until, F.col("base_offset"))
    first_later = F.min(later).over(Window.partitionBy(*PARTITION_KEY))
    held = ready.withColumn("first_later", first_later)
    return held.where("first_later is null or base_offset < first_later").drop("first_later")


def tier(
    ready: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    tasks: int | None = None,
) -> DataFrame:
    """READY -> TIERED (`schema`), by upload.tier_task.TierTask: a partition's segments one after the other.

    What is copied must be visible in order, or a broker would pass by the hole for good. See `by_key` for `tasks`.
    """
    function = lambda _, batches: task(batches)  # noqa: E731
    return by_key(ready, PARTITION_KEY, ["base_offset"], function, schemas.of_arrow(schema), tasks=tasks)


_FACT = [name for name in schemas.PARTITIONS.names if name != DELTAS]


def newest_facts(partitions: DataFrame, among: DataFrame, kinds: Iterable[FactKind]) -> DataFrame:
    """Return rows of these kinds from the newest replay of the partitions `among` (PARTITION_KEY) that are not gone."""
    # Every replay leaves a REPLAYED row, and GONE is alone in its run.
    rows = partitions.where(f"kind <> '{FactKind.STATE}'")
    rows = newest(rows.join(among, on=list(PARTITION_KEY), how="left_semi"), PARTITION_KEY)
    return rows.where(F.col("kind").isin([str(kind) for kind in kinds]))


def verdicts(partitions: DataFrame, copies: DataFrame, among: DataFrame, task: JudgePartition) -> DataFrame:
    """The tables `partitions` and `remote_log_segments` -> JUDGED rows of the partitions `among` (PARTITION_KEY)."""
    facts = newest_facts(partitions, among, JUDGED)
    replayed = facts.where(f"kind = '{FactKind.REPLAYED}'").select(*PARTITION_KEY, "topic_id")
    ours = replayed.join(current(copies), on=list(TOPIC_PARTITION))
    known = input_rows(facts, Source.FACTS, FACT_OFFSET, "part", "fact", _FACT)
    found = input_rows(ours, Source.COPIES, "base_offset", "0", "copy", schemas.REMOTE_LOG_SEGMENTS.names)
    return by_key(united([known, found]), PARTITION_KEY, INPUT_ORDER, lambda _, batches: task(batches), schemas.JUDGED)


def sweep_whole_store(store: ObjectStore, topics: re.Pattern[str] | None, talk: Callable[[str], None]) -> None:
    """Remove what killed processes left of the store itself, and of the topics that are wanted; see sweep_store."""
    swept = sweep_store(store, lambda topic: matches_topic(topic, topics))
    if str(swept):
        talk(f"removed what killed processes had left: {swept}")


def sweep_listed(listed: DataFrame, location: RemoteLocation, talk: Callable[[str], None]) -> None:
    """Delete what ended attempts left of LISTED partitions; what cannot be deleted the next run tries again."""
    first_segment = F.min(F.col("segments")[0]["base_offset"]).alias("local_start")
    # Each partition once, however many replicas are listed.
    left = listed.where("leftover_count > 0").groupBy("topic", "topic_id", "partition").agg(first_segment)
    swept = left.mapInArrow(of_batches(SweepTask(location)), schemas.of_arrow(SWEPT))
    removed, failed, first = count_swept(swept)
    if failed:
        partitions = count_of(failed, "partition")
        _log.warning("what ended attempts left of %s cannot be deleted; the first: %s", partitions, first)
    if removed:
        talk(f"removed {count_of(removed, 'object')} that ended attempts had left")
