"""Findings about sequences. Each kind is a column, made by `found.found` over rows of `history.sequences`.

A batch with sequences has at most one such finding. A batch that continues the previous batch of its epoch has none.
A batch that continues at `frontier` has none either, such as the first new batch after a duplicate. In two cases
a batch is a duplicate although it continues another batch. Case 1: an earlier batch has the same sequences. Case 2:
read_committed consumers already got the batch's sequences. Of several such batches in a row, only the first one is a
duplicate.

A broker cannot recognize records that a client sent again under another producer id or epoch. `copies` finds them.
Batches with the same length, record count and timestamps are candidates. If the CRC of their records is the same too,
they are duplicates.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.audit.batches import PRODUCER, is_data
from tiersnap.jobs.pipeline.audit.found import forgotten, found, of_batch, of_before, rows_of
from tiersnap.jobs.pipeline.audit.history import EPOCH, history
from tiersnap.jobs.pipeline.audit.records_crc import ALIKE, WITH_RECORDS_CRC, add_records_crc
from tiersnap.jobs.pipeline.cached import Keep
from tiersnap.snapshot.exactly_once.models.audit_rules import CONFIDENCE, IN_FLIGHT, AuditKind, Confidence
from tiersnap.snapshot.formats.record_batch import TIMESTAMP_TYPE_MASK
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY


def relations() -> tuple[Column, ...]:
    """Return one column per kind of finding. It is null if the row has no sequences, or no finding of this kind."""
    copy, place, frontier = F.col("copy"), F.col("place"), F.col("frontier")
    goes_back = place < frontier
    is_copy = goes_back & copy.isNotNull()
    fits = frontier.isNull() | (F.col("step") == 0) | (place == frontier)
    overlaps = goes_back & (F.col("place_end") > F.col("lowest")) & ~F.col("has_hole")
    is_again = F.col("is_read") & F.col("was_read") & ~F.col("follows_double")
    is_partial = F.when(fits, is_again).otherwise(overlaps | F.col("was_read")) & ~is_copy
    is_odd = ~fits & ~is_copy & ~is_partial
    has_leapt = place > F.coalesce("run_frontier", "frontier")
    # The log cleaner removes batches, so a step forward in a compacted log proves nothing.
    says = ~(F.col("is_compacted") & (F.coalesce("step", F.lit(0)) >= 0))
    is_zero, is_compacted = F.col("base_sequence") == 0, F.col("is_compacted")
    of_copy = {
        **_forgotten(),
        **of_before("copy"),
        "distance": frontier - place,
        "is_same": copy["crc"] == F.col("crc"),
        "is_hidden": F.col("is_aborted") | ~(copy["is_read"] | F.col("was_read")),
    }
    begins = is_odd & is_zero & says
    leaps = is_odd & ~is_zero & has_leapt & ~is_compacted
    reached = F.when(place > frontier, frontier).otherwise(F.col("run_frontier"))
    lies_back = is_odd & ~is_zero & ~has_leapt & says
    has_raised = F.col("producer_epoch") > F.col("epoch_before")
    is_first = frontier.isNull() & F.isnotnull("before") & has_raised
    has_beginning = F.isnull("before") & (F.col("log_start_offset") == 0)
    begins_late = ~is_zero & ~is_compacted
    # If a producer's first batch in the log lacks earlier batches, these were above the log start offset.
    of_first = {**_missing(), "evidence_offset": F.col("log_start_offset")}
    kinds = (
        # The same producer id, epoch and sequences at two offsets; partial: some of the sequences in other batches.
        found(AuditKind.DUPLICATE_EXACT, is_copy, **of_copy),
        found(AuditKind.DUPLICATE_PARTIAL, is_partial, **_behind()),
        # The epoch restarts with sequence 0, and no earlier batch has the same sequences.
        found(AuditKind.SEQUENCE_RESET, begins, **_forgotten(), distance=F.abs("step")),
        # The batch skips sequences.
        found(AuditKind.GAP, leaps, **_missing(), distance=place - reached),
        # The batch is below the frontier in an epoch with missing sequences: it is late, or a partial duplicate.
        found(AuditKind.BACKWARD, lies_back, **_behind()),
        # The first batch of a higher epoch, or of a producer in a log that starts at offset 0, lacks sequence 0.
        found(AuditKind.BUMP_NONZERO, is_first & begins_late, **_missing(), distance=F.col("base_sequence")),
        found(
            AuditKind.FIRST_WRITE_LOST,
            has_beginning & begins_late,
            **of_first,
            distance=F.col("base_sequence"),
        ),
    )
    return tuple(F.when(F.col("is_data"), finding) for finding in kinds)


def _forgotten() -> dict[str, Column]:
    return {**forgotten(), **of_before("before")}


def _behind() -> dict[str, Column]:
    """Return the columns for a batch below the frontier.

    `is_hidden`: the batch was aborted, or read_committed consumers got none of its sequences from earlier batches.
    """
    is_hidden = F.col("is_aborted") | ~F.col("may_be_read")
    return {**_forgotten(), "is_hidden": is_hidden, "distance": F.col("frontier") - F.col("place")}


def _missing() -> dict[str, Column]:
    """Return the columns for missing batches between the batch and its predecessor `before`."""
    before = F.col("before")
    return {
        **of_batch(),
        **of_before("before"),
        "evidence_offset": before["last_offset"],
        "has_new_leader": F.col("partition_leader_epoch") > before["partition_leader_epoch"],
    }


_SCHEMA = schemas.of_arrow(WITH_RECORDS_CRC)
_LIKE = ("batch_length", "record_count", "last_offset_delta", "base_timestamp")
_SEVERAL = "first_writer < last_writer"
_FEW = 1_000_000  # largest number of 8-byte values to broadcast to every executor


def copies(record_batches: DataFrame, keep: Keep) -> DataFrame:
    """Return the data batches whose records were also written by another producer or epoch in the same partition.

    The call runs a Spark job that counts candidates. If there are none, as in most logs, no batch is read again.

    Args:
        record_batches: rows of the table `record_batches`.
        keep: caches a DataFrame.
    Returns:
        PRODUCER, `producer_epoch`, `base_offset`, and `content` (long), equal for batches with the same records.
    """
    is_created = F.col("attributes").cast("int").bitwiseAND(TIMESTAMP_TYPE_MASK) == 0
    # With LogAppendTime the broker gives a retry a new timestamp, so compare timestamps with CreateTime only.
    created_at = F.when(is_created, F.col("max_timestamp"))
    content = F.xxhash64(*PARTITION_KEY, *_LIKE, created_at).alias("content")
    data = record_batches.where(is_data() & (F.col("record_count") > 0))
    data = data.select(*(name for name in ALIKE.names if name != "content"), content)
    writers = (each.alias(name) for name, each in _writers().items())
    alike = keep(data.groupBy("content").agg(*writers).where(_SEVERAL).select("content"))
    count = alike.count()
    if not count:
        data = data.where("false")
    alike = F.broadcast(alike) if count <= _FEW else alike
    found = data.join(alike, on="content", how="left_semi").select(*ALIKE.names).mapInArrow(add_records_crc, _SCHEMA)
    same = Window.partitionBy("content", "records_crc")
    marked = found.select("*", *(each.over(same).alias(name) for name, each in _writers().items()))
    of_records = F.xxhash64("content", "records_crc").alias("content")
    return marked.where(_SEVERAL).select(*PRODUCER, "producer_epoch", "base_offset", of_records)


def _writers() -> dict[str, Column]:
    """Return the smallest and the largest hash of producer id and epoch. They differ if there are several writers."""
    writer = F.xxhash64("producer_id", "producer_epoch")
    return {"first_writer": F.min(writer), "last_writer": F.max(writer)}


def _words() -> dict[str, Column]:
    """Return the conditions that the values in the table CONFIDENCE stand for, over rows of `_with_original`."""
    original, producer_id = F.col("original"), F.col("producer_id")
    is_plain = ~F.col("is_transactional") & ~original["is_transactional"]
    was_in_flight = original["of_epoch"] - original["number"] < IN_FLIGHT
    is_newer = F.col("producer_epoch") > original["producer_epoch"]
    return {
        "next epoch": (producer_id == original["producer_id"]) & is_newer,
        "other id": producer_id != original["producer_id"],
        "yes": is_plain & (F.col("number") <= IN_FLIGHT) & was_in_flight,
        "several": F.col("record_count") > 1,
        "one": F.col("record_count") == 1,
        "any": F.lit(True),
    }


def renumbered(batches: DataFrame, copied: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return a finding (schema FOUND) for each batch with the same records as a batch of another producer or epoch.

    Args:
        batches: rows of `audited`.
        copied: rows of `copies`.
        partitions: rows of `partitions.of_listing` or `of_facts`.
    """
    original, confidence = F.col("original"), _confidence()
    finding = found(
        AuditKind.DUPLICATE_RENUMBERED,
        (original["producer_id"] != F.col("producer_id")) | (original["producer_epoch"] != F.col("producer_epoch")),
        **of_batch(),
        **of_before("original"),
        before_producer_id=original["producer_id"],
        confidence=confidence,
        is_hidden=F.col("is_aborted") | ~original["is_read"] | (confidence == Confidence.LOW),
    )
    return rows_of(_with_original(batches, copied, partitions), finding)


def _with_original(batches: DataFrame, copied: DataFrame, partitions: DataFrame) -> DataFrame:
    """Add the columns of `history` to rows of `copies`, and the three columns below.

    - `original`: an earlier batch with the same records: the first one for which `is_read` is true. If `is_read` is
      true for none of these batches, the first of them.
    - `number`: the batch's position in its epoch, from 1. `of_epoch`: the number of batches in that epoch.
    """
    seen = history(batches, copied.select(*PRODUCER).distinct(), partitions).where("is_data")
    in_epoch = Window.partitionBy(*EPOCH)
    numbered = seen.select(
        "*",
        F.row_number().over(in_epoch.orderBy("base_offset")).alias("number"),
        F.count("*").over(in_epoch).alias("of_epoch"),
    )
    place = (*PARTITION_KEY, "base_offset")
    rows = numbered.join(copied.select(*place, "content"), on=list(place))
    before = Window.partitionBy("content").orderBy("base_offset").rowsBetween(Window.unboundedPreceding, -1)
    names = ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "length")
    batch = F.struct(*names, "is_transactional", "is_read", "number", "of_epoch")
    first_read = F.first(F.when(F.col("is_read"), batch), True).over(before)
    return rows.withColumn("original", F.coalesce(first_read, F.first(batch).over(before)))


def _confidence() -> Column:
    """Return the confidence of the first row of the table CONFIDENCE that applies."""
    words = _words()
    confidences: list[Column] = []
    for row in CONFIDENCE:
        condition = words[row["numbers"]] & words[row["in flight"]] & words[row["records"]]
        confidences.append(F.when(condition, row["confidence"]))
    return F.coalesce(*confidences)
