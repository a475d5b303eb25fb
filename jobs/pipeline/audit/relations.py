"""Findings about sequences, one small function a kind: a column over rows of `history.sequences`, see `found.found`.

They are of batches with sequences alone, at most one of each. Such a batch fits where it goes on from the batch before
it in its epoch, or from the furthest that the epoch had reached, as after a duplicate; but a batch whose very sequences
lie at a lower offset is a duplicate whatever it follows, and so is one that goes on from a batch which did no harm and
is the first whose sequences readers get again.

Records that were sent again under another producer id or epoch no broker can recognize: batches of the same length,
count and timestamps are candidates, and the CRC of their records, which follows from the header (formats.records), is
certainty.
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
from tiersnap.snapshot.tables.spark_made_tables import PARTITION_KEY


def relations() -> tuple[Column, ...]:
    """Return a finding of each kind about one batch with sequences, null where it says nothing."""
    copy, place, frontier = F.col("copy"), F.col("place"), F.col("frontier")
    goes_back = place < frontier
    is_copy = goes_back & copy.isNotNull()
    fits = frontier.isNull() | (F.col("step") == 0) | (place == frontier)
    overlaps = goes_back & (F.col("place_end") > F.col("lowest")) & ~F.col("has_hole")
    is_again = F.col("is_read") & F.col("was_read") & ~F.col("follows_double")
    is_partial = F.when(fits, is_again).otherwise(overlaps | F.col("was_read")) & ~is_copy
    is_odd = ~fits & ~is_copy & ~is_partial
    has_leapt = place > F.coalesce("run_frontier", "frontier")
    # A cleaner takes batches out, so that in its topics a step forward says nothing.
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
    # Nothing is known of what is missing before a first write but that it was above the log start offset.
    of_first = {**_missing(), "evidence_offset": F.col("log_start_offset")}
    kinds = (
        # The same producer id, epoch and sequences at two offsets; or some of its sequences, in batches cut otherwise.
        found(AuditKind.DUPLICATE_EXACT, is_copy, **of_copy),
        found(AuditKind.DUPLICATE_PARTIAL, is_partial, **_behind()),
        # Sequence 0 again in the same epoch, and no batch with it before.
        found(AuditKind.SEQUENCE_RESET, begins, **_forgotten(), distance=F.abs("step")),
        # Sequences are missing before it.
        found(AuditKind.GAP, leaps, **_missing(), distance=place - reached),
        # It lies behind what the epoch had reached, where some sequences are missing: late, or a partial duplicate.
        found(AuditKind.BACKWARD, lies_back, **_behind()),
        # The first batch of a higher epoch, or of a producer in a log that has its beginning, not with sequence 0.
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
    """With the batch before it."""
    return {**forgotten(), **of_before("before")}


def _behind() -> dict[str, Column]:
    """It lies behind the frontier: no harm where readers had nothing of those sequences."""
    is_hidden = F.col("is_aborted") | ~F.col("may_be_read")
    return {**_forgotten(), "is_hidden": is_hidden, "distance": F.col("frontier") - F.col("place")}


def _missing() -> dict[str, Column]:
    """Batches between the two are not there."""
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
_FEW = 1_000_000  # numbers of eight bytes that every executor gets


def copies(record_batches: DataFrame, keep: Keep) -> DataFrame:
    """Rows of `record_batches` -> data batches whose records another producer or epoch wrote in the partition as well.

    Runs a job: most logs have no candidates, and nothing more is to be done with those.

    Returns:
        PRODUCER, `producer_epoch`, `base_offset`, and `content` (long), which batches with the same records share.
    """
    is_created = F.col("attributes").cast("int").bitwiseAND(TIMESTAMP_TYPE_MASK) == 0
    # Where the broker stamps records, it stamps anew what is sent again.
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
    """Several producers or epochs have one that is the smallest and one that is not."""
    writer = F.xxhash64("producer_id", "producer_epoch")
    return {"first_writer": F.min(writer), "last_writer": F.max(writer)}


def _words() -> dict[str, Column]:
    """Words of CONFIDENCE over the rows of `_with_original`."""
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
    """Rows of `audited`, `copies` and audit.partitions -> FOUND: each copy after the first of the same records."""
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
    """Rows of `copies.copies` with what `history` says of them; `original`: the first of the same records that is read.

    Where none is read it is the first of all. `number` counts a batch in its epoch from 1, of `of_epoch` batches.
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
    """CONFIDENCE, row by row as it stands there."""
    words = _words()
    fits = (words[row["numbers"]] & words[row["in flight"]] & words[row["records"]] for row in CONFIDENCE)
    rows = zip(fits, CONFIDENCE, strict=True)
    return F.coalesce(*(F.when(condition, row["confidence"]) for condition, row in rows))
