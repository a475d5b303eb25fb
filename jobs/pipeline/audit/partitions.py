"""The facts that an audit needs about partitions, such as the log start offset and whether a log is compacted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline.audit.found import found, rows_of
from tiersnap.jobs.pipeline.known import is_of, present_partitions
from tiersnap.jobs.pipeline.newest import current_facts
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind
from tiersnap.snapshot.log.log_dir import INTERNAL_COMPACTED_TOPICS
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

_NEWEST_EPOCH = "array_max(transform(leader_epochs, each -> each.epoch))"
_IS_INTERNAL = f"topic in {tuple(sorted(INTERNAL_COMPACTED_TOPICS))}"


def of_listing(listed: DataFrame) -> DataFrame:
    """Return one row of facts for each listed partition.

    Returns:
        PARTITION_KEY; `log_start_offset` of the local log, 0 if unknown; `log_start` of the complete log, local and
        remote; `is_compacted` (bool): the log cleaner has a checkpoint, or the topic is an internal compacted one;
        `topic_id`, `cluster_id`; `leader_epoch`: the newest one. `log_start`, `topic_id`, `cluster_id` and
        `leader_epoch` may be null.
    """
    return listed.select(
        *PARTITION_KEY,
        F.coalesce("log_start_offset", F.lit(0)).alias("log_start_offset"),
        "log_start",
        (F.col("cleaner_offset").isNotNull() | F.expr(_IS_INTERNAL)).alias("is_compacted"),
        *("topic_id", "cluster_id"),
        F.expr(_NEWEST_EPOCH).alias("leader_epoch"),
    )


def of_facts(partitions: DataFrame, record_batches: DataFrame) -> DataFrame:
    """Return the columns of `of_listing` from the tables `partitions` and `record_batches`, and `is_known` (bool).

    `is_known` is false if no run replayed the partition. In that case the log is assumed to start with its first
    segment, and to be compacted only if its topic is an internal compacted topic.
    """
    first = record_batches.groupBy(*PARTITION_KEY).agg(F.min("segment_base_offset").alias("first_base_offset"))
    ids = ("topic_id", "cluster_id")
    facts = present_partitions(partitions, ("log_start_offset", "log_start", "compacted", "leader_epochs", *ids))
    was_cleaned = (F.coalesce("compacted", F.lit("")) != "").alias("was_cleaned")
    known = (*PARTITION_KEY, "log_start_offset", "log_start", *ids)
    facts = facts.select(*PARTITION_KEY, "replayed.*")
    facts = facts.select(*known, was_cleaned, F.expr(_NEWEST_EPOCH).alias("leader_epoch"))
    rows = first.join(facts, on=list(PARTITION_KEY), how="left")
    return rows.select(
        *PARTITION_KEY,
        F.greatest("log_start_offset", "first_base_offset").alias("log_start_offset"),
        "log_start",
        (F.coalesce("was_cleaned", F.lit(False)) | F.expr(_IS_INTERNAL)).alias("is_compacted"),
        *ids,
        "leader_epoch",
        F.col("was_cleaned").isNotNull().alias("is_known"),
    )


def segments_of_facts(partitions: DataFrame) -> DataFrame:
    """Return PARTITION_KEY, `base_offset` and `size_bytes` of the segments of the last listing.

    Args:
        partitions: rows of the table `partitions`.
    """
    found = current_facts(partitions.where(is_of([FactKind.SEGMENT])))
    return found.select(*PARTITION_KEY, "base_offset", "size_bytes")


def with_damage(partitions: DataFrame, damaged: DataFrame) -> DataFrame:
    """Add `damage_count` to `partitions`: the number of rows of the same PARTITION_KEY in `damaged`."""
    counts = damaged.groupBy(*PARTITION_KEY).agg(F.count("*").alias("damage_count"))
    return partitions.join(counts, on=list(PARTITION_KEY), how="left").fillna(0, ["damage_count"])


def log_starts_that_went_back(partitions: DataFrame) -> DataFrame:
    """Return a finding (schema FOUND) for each replica with a lower log start than a replica of an older leader epoch.

    The function compares `log_start` and not `log_start_offset`, because the local log of a tiered partition may start
    at any offset. Replicas with an unknown `log_start` are skipped. The finding has both log start offsets, and the log
    directory of the replica with the newer leader epoch.

    Args:
        partitions: rows of `of_listing` or `of_facts`.
    """
    replica = F.struct("log_start", "log_dir")
    topic = ("topic", "topic_id", "partition")
    known = partitions.where("leader_epoch is not null and log_start is not null")
    furthest = known.groupBy(*topic, "leader_epoch")
    by_epoch = Window.partitionBy(*topic).orderBy("leader_epoch")
    rows = furthest.agg(F.max(replica).alias("start")).select(
        *topic,
        "start.*",
        F.lag(F.col("start")["log_start"]).over(by_epoch).alias("start_before"),
    )
    finding = found(
        AuditKind.LOG_START_WENT_BACK,
        F.col("log_start") < F.col("start_before"),
        before_first_offset=F.col("start_before"),
        first_offset=F.col("log_start"),
        distance=F.col("start_before") - F.col("log_start"),
    )
    return rows_of(rows, finding)
