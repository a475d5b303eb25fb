"""The complete audit: it computes the rows of the tables `audit_findings` and `audits` from batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.audit import fencing
from tiersnap.jobs.pipeline.audit.batches import PRODUCER, audited, holes, segment_sums
from tiersnap.jobs.pipeline.audit.found import found, place, rows_of
from tiersnap.jobs.pipeline.audit.history import history, sequences
from tiersnap.jobs.pipeline.audit.judged import judged
from tiersnap.jobs.pipeline.audit.partitions import log_starts_that_went_back
from tiersnap.jobs.pipeline.audit.producers import producers
from tiersnap.jobs.pipeline.audit.relations import copies, relations, renumbered
from tiersnap.jobs.pipeline.cached import kept
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind, Harm
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY


@dataclass(frozen=True)
class Audited:
    """The result of one audit: the unordered findings (schema AUDIT_FINDINGS), and one row per audited partition.

    `partitions` has PARTITION_KEY, `batches` (count), `first_offset` and `last_offset` (inclusive). Both offsets are
    null if the partition has no batch.
    """

    findings: DataFrame
    partitions: DataFrame


@contextmanager
def audit(
    batches: DataFrame, partitions: DataFrame, listed: DataFrame, ids: DataFrame, *, run: int, expiration: int | None
) -> Iterator[Audited]:
    """Audit batch headers, and yield the result to a `with` block. Its DataFrames are cached until the block ends.

    Args:
        batches: rows of the table `record_batches`, from one decode per segment.
        partitions: rows of `partitions.of_listing` or `of_facts`, one per partition of `batches`.
        listed: PARTITION_KEY, `base_offset` and `size_bytes` of the existing segments; may be empty.
        ids: rows of `transactional_ids`; may be empty.
        run, expiration: see `judged`.
    """
    rows = audited(batches)
    # These small frames are read several times below. Caching them lets Spark read the batches once.
    with kept() as keep:
        along, sums = keep(producers(rows, partitions)), keep(segment_sums(rows))
        torn, copied = keep(holes(rows, sums, partitions, listed)), keep(copies(batches, keep))
        suspects = along.where("is_suspect and producer_id >= 0").select(*PRODUCER)
        every = (
            rows_of(sequences(history(rows, suspects, partitions)), *relations(), *fencing.fencing()),
            renumbered(rows, copied, partitions),
            fencing.open_transactions(along),
            fencing.out_of_order_timestamps(along),
            offset_gaps(torn),
            log_starts_that_went_back(partitions),
        )
        found = judged(reduce(DataFrame.unionByName, every), torn, partitions, ids, run=run, expiration=expiration)
        yield Audited(found, _extents(sums, partitions))


def _extents(sums: DataFrame, partitions: DataFrame) -> DataFrame:
    extents = sums.groupBy(*PARTITION_KEY).agg(
        F.sum("batches").alias("batches"),
        F.min("first_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
    )
    return partitions.select(*PARTITION_KEY).join(extents, on=list(PARTITION_KEY), how="left").fillna(0, ["batches"])


def offset_gaps(holes: DataFrame) -> DataFrame:
    """Return a finding (schema FOUND) for each row of `batches.holes`; `distance` is the number of missing offsets."""
    finding = found(
        AuditKind.OFFSET_GAP,
        F.lit(True),
        before_last_offset=F.col("hole_start") - 1,
        first_offset=F.col("hole_end"),
        distance=F.col("hole_end") - F.col("hole_start"),
        evidence_offset=F.col("hole_end") - 1,
        **place(),
    )
    return rows_of(holes, finding)


def worst_first(findings: DataFrame) -> DataFrame:
    """Return the findings ordered by harm, the worst first, then by kind, partition, first offset and producer id."""
    rank = F.array_position(F.array(*(F.lit(str(harm)) for harm in Harm)), F.col("harm"))
    return findings.orderBy(rank, "kind", "log_dir", "topic", "partition", "first_offset", "producer_id")
