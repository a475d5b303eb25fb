"""Kafka's producer state in Spark: from record batches to the entries of every producer snapshot.

docs/producer-state.md explains each rule and its limits. `tiersnap run` uses the faster snapshot/kernels/fold.py.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY

SEGMENT, PRODUCER = (*PARTITION_KEY, "segment_base_offset"), (*PARTITION_KEY, "producer_id")
_KINDS = "attributes & 32 = 0 as is_data", "attributes & 32 = 32 and record_count > 0 as is_marker"
_OPENS = "case when is_marker then false when attributes & 48 = 16 then true end"  # 48: control 32, transactional 16
_SEQUENCE = "if(base_sequence = -1, -1, cast((0L + base_sequence + last_offset_delta) % 2147483648 as int))"
_REFUSAL = "raise_error(concat(topic, '-', partition, ': offset ', base_offset, ' is not in the open transaction'))"
_RULES = {  # column of an entry -> its value after a batch of the producer, null if the batch does not change it
    "producer_epoch": "if(is_data or is_marker, producer_epoch, null)",
    "last_sequence": f"case when is_data then {_SEQUENCE} when is_other_epoch then -1 end",
    "last_offset": "case when is_data then base_offset + last_offset_delta when is_other_epoch then -1L end",
    "offset_delta": "case when is_data then last_offset_delta when is_other_epoch then 0 end",
    "timestamp": "case when is_data then max_timestamp when is_marker then control_timestamp end",
    "coordinator_epoch": "if(is_marker, coordinator_epoch, null)",
    "current_txn_first_offset": "case when is_marker then -1L when attributes & 48 = 16 and not is_open "
    f"then base_offset when attributes & 48 = 0 and is_open then {_REFUSAL} end",
}
_FIRST: dict[str, bool | float | int | str] = {name: 0 if name == "offset_delta" else -1 for name in _RULES}


def snapshot_offsets(batches: DataFrame) -> DataFrame:
    """Return one row per segment, with its number in the log and its snapshot offset (exclusive).

    The columns are SEGMENT, number, last_number (of the log), folded_from (the log's first offset), snapshot_offset,
    log_end (offset after the segment's last record) and end_time (the segment's largest timestamp).
    """
    log = Window.partitionBy(*PARTITION_KEY)
    in_order = log.orderBy("segment_base_offset")
    ends = F.expr("max(base_offset + last_offset_delta) + 1 as log_end"), F.max("max_timestamp").alias("end_time")
    end = F.coalesce(F.lead("segment_base_offset").over(in_order), "log_end")
    columns = {"number": F.row_number().over(in_order), "last_number": F.count("*").over(log).cast("int")}
    columns |= {"folded_from": F.min("segment_base_offset").over(log), "snapshot_offset": end}
    return batches.groupBy(*SEGMENT).agg(*ends).withColumns(columns)


def snapshot_entries(batches: DataFrame, expiry: Expiry | None = None) -> DataFrame:
    """Return one row per entry of each producer snapshot.

    The columns are PARTITION_KEY, folded_from, snapshot_offset, producer_id, and the names in _RULES.

    Args:
        batches: rows of the table `record_batches`. Each log must have all batches after its first batch.
        expiry: the rules for producers to omit; None to omit no producer.
    """
    by_producer, offsets = Window.partitionBy(*PRODUCER), snapshot_offsets(batches)
    before = by_producer.orderBy("base_offset").rowsBetween(Window.unboundedPreceding, -1)
    epoch, opens = (F.last(F.expr(rule), ignorenulls=True).over(before) for rule in (_RULES["producer_epoch"], _OPENS))
    is_other_epoch = F.expr("is_marker") & (epoch != F.col("producer_epoch"))
    known = {"is_other_epoch": is_other_epoch, "is_open": F.coalesce(opens, F.lit(False))}
    rows = batches.where("producer_id >= 0").selectExpr("*", *_KINDS).withColumns(known)
    changes = rows.select("*", F.struct(*(F.expr(rule).alias(name) for name, rule in _RULES.items())).alias("new"))
    last = (f"max_by(new.{name}, base_offset) filter (where new.{name} is not null) as {name}" for name in _RULES)
    ends = changes.groupBy(*SEGMENT, "producer_id").agg(*map(F.expr, last))
    in_order = by_producer.orderBy("number")
    numbers = F.sequence("number", F.coalesce(F.lead("number").over(in_order) - 1, "last_number")).alias("numbers")
    entry = (F.last(name, ignorenulls=True).over(in_order).alias(name) for name in _RULES)
    states = ends.join(offsets, on=list(SEGMENT)).select(*PRODUCER, numbers, *entry).fillna(_FIRST)
    each = states.withColumn("number", F.explode("numbers")).join(offsets, on=[*PARTITION_KEY, "number"])
    if expiry is not None and expiry.expiration is not None:
        time = f"if(end_time between 0 and {expiry.now}, end_time, null)" if expiry.as_of is None else str(expiry.as_of)
        each = each.where(f"current_txn_first_offset >= 0 or coalesce(timestamp > {time} - {expiry.expiration}, true)")
    return each.select(*PARTITION_KEY, "folded_from", "snapshot_offset", "producer_id", *_RULES)
