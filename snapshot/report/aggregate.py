"""Aggregation of READINESS rows into small Arrow tables, batch by batch, without a Python loop over segments.

    verdicts   one row per (topic, log_dir, partition, verdict): counts, sums, and the reason of the first segment
    snapshots  one row per (snapshot verdict, provenance, strict comparison): the number of closed segments
    segments   one row per segment, or per range of neighbouring segments with the same verdict, for timelines. A row
               has only numbers (49 bytes)

Rows may come in any order. The tables have codes for topics, log directories and snapshots: positions in the lists
`topics`, `log_dirs` and `held`. A verdict is stored as its rank in SEVERITY.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.gate.verdict import SEVERITY
from tiersnap.snapshot.tables.readiness import READINESS

PARTITION_CODES = ("topic", "log_dir", "partition")
BATCH_ROWS = 1 << 18
# Partial results are combined when they have about this many rows.
PARTIAL_ROWS = 1 << 20
# The write rate is the average over this time before the run.
RECENT_MS = 7 * 86_400_000

# (column, aggregation, name of the result)
Aggregation = tuple[str, Literal["count", "sum", "min", "max", "first"], str]
_VERDICTS = pa.array([str(verdict) for verdict in SEVERITY], pa.string())
SEGMENT_COLUMNS = (*PARTITION_CODES, "verdict", "base_offset", "next_base_offset", "size_bytes", "segments", "held")
_VERDICT_KEY = (*PARTITION_CODES, "verdict")
# Every aggregation is associative, so partial results combine by `_COMBINED`.
PARTIAL: tuple[Aggregation, ...] = (
    ("size_bytes", "count", "segments"),
    ("size_bytes", "sum", "bytes"),
    ("base_offset", "min", "first_offset"),
    ("dated", "min", "oldest"),
    ("recent", "sum", "recent_bytes"),
    ("damage_kind", "count", "findings"),
    ("log_start_offset", "max", "log_start_offset"),
    ("last_stable_offset", "max", "last_stable_offset"),
    ("high_watermark", "max", "high_watermark"),
)
_COMBINED: tuple[Aggregation, ...] = tuple((name, "sum" if how == "count" else how, name) for _, how, name in PARTIAL)
# Columns with the value of the group's first segment.
OF_FIRST = ("reason", "next_step", "topic_id")
_OTHER_VERSION = "make the report with the tiersnap version that made the table"
SNAPSHOT_KEY = ("snapshot", "snapshot_provenance", "compared")
# Columns of READINESS that the aggregation needs.
COLUMNS = (
    *("log_dir", "topic", "partition", "topic_id", "base_offset", "next_base_offset", "size_bytes"),
    *("largest_timestamp", "verdict", "reason", "next_step", *SNAPSHOT_KEY, "damage_kind"),
    *("log_start_offset", "last_stable_offset", "high_watermark"),
)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The three tables, and the texts of their codes.

    Attributes:
        topics, log_dirs: names by code.
        held: texts by code. A text is a snapshot verdict, followed by a space and the provenance if that is known.
    """

    verdicts: pa.Table
    snapshots: pa.Table
    segments: pa.Table
    topics: list[str]
    log_dirs: list[str]
    held: list[str]


def aggregate(rows: pa.Table | Iterable[pa.RecordBatch], now: int, *, partial_rows: int = PARTIAL_ROWS) -> Aggregated:
    """Aggregate all rows. The memory grows with the number of groups, and by 49 bytes per segment.

    Args:
        now: epoch ms; a segment is recent if its largest timestamp is less than RECENT_MS before `now`.
        partial_rows: number of rows at which partial results are combined.

    Raises:
        UsageError: a column is missing or has another type, or a verdict is unknown to this version.
    """
    batches = rows.to_batches(max_chunksize=BATCH_ROWS) if isinstance(rows, pa.Table) else rows
    topics, log_dirs, held = Codes(), Codes(), Codes()
    partials: list[pa.Table] = []
    snapshots: list[pa.Table] = []
    segments: list[pa.Table] = [_no_segments()]
    combined_rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        table = _coded(conform(batch), topics, log_dirs, held, now)
        segments.append(table.select(SEGMENT_COLUMNS))
        partials.append(_by_verdict(table, PARTIAL, "base_offset"))
        closed = table.filter(pc.is_valid(table["next_base_offset"]))
        snapshots.append(_grouped(closed, SNAPSHOT_KEY, (("base_offset", "count", "segments"),)))
        if sum(partial.num_rows for partial in partials) > combined_rows * 2 + partial_rows:
            partials = [_combined(partials)]
            combined_rows = partials[0].num_rows
    if not partials:
        empty = pa.table({})
        return Aggregated(empty, empty, segments[0], [], [], [])
    by_snapshot = _grouped(pa.concat_tables(snapshots), SNAPSHOT_KEY, (("segments", "sum", "segments"),))
    found = pa.concat_tables(segments)
    return Aggregated(_combined(partials), by_snapshot, found, topics.values, log_dirs.values, held.values)


def of_partials(partials: pa.Table, topics: Codes, log_dirs: Codes, held: Codes) -> Aggregated:
    """Combine partial results that Spark computed. The table `segments` of the result is empty.

    Args:
        partials: the columns of Aggregated.verdicts and Aggregated.snapshots, and a column `is_closed`. A group may
            have many rows.
    """
    closed = partials.filter(partials["is_closed"])
    by_snapshot = _grouped(closed, SNAPSHOT_KEY, (("segments", "sum", "segments"),))
    verdicts = _combined([partials.select([*_VERDICT_KEY, *(name for *_, name in PARTIAL), *OF_FIRST])])
    return Aggregated(verdicts, by_snapshot, _no_segments(), topics.values, log_dirs.values, held.values)


def conform(batch: pa.RecordBatch) -> pa.Table:
    """Return COLUMNS of the batch in the types of READINESS. Strings of Delta and Spark may have other Arrow types.

    Raises:
        UsageError: a column is missing, cannot be cast, or is null although READINESS does not allow it.
    """
    if missing := set(COLUMNS).difference(batch.schema.names):
        raise UsageError(f"the readiness table lacks {_in_order(missing)}", hint=_OTHER_VERSION)
    table = pa.Table.from_batches([batch]).select(COLUMNS)
    _check_nulls(table)
    try:
        return pa.table([table[name].cast(READINESS.field(name).type) for name in COLUMNS], names=list(COLUMNS))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"the readiness table does not fit its schema: {error}", hint=_OTHER_VERSION) from error


def _check_nulls(table: pa.Table) -> None:
    """Refuse nulls in columns that are not nullable in READINESS."""
    with_nulls = {name for name in COLUMNS if table[name].null_count}
    if lacking := with_nulls.difference(_NULLABLE):
        raise UsageError(f"the readiness table has rows without {_in_order(lacking)}", hint=_OTHER_VERSION)


_NULLABLE = [field.name for field in READINESS if field.nullable]


def _in_order(names: Collection[str]) -> str:
    return ", ".join(name for name in COLUMNS if name in names)


def of_partitions(segments: pa.Table, codes: list[tuple[int, int, int]]) -> pa.Table:
    """Return the segments of some partitions, in the order of `codes`, then of base offsets.

    The additional column `wanted` has the partition's position in `codes`.

    Args:
        codes: codes of the partitions.
    """
    columns = {name: pa.array([code[i] for code in codes], pa.int32()) for i, name in enumerate(PARTITION_CODES)}
    wanted = pa.table({**columns, "wanted": pa.array(range(len(codes)), pa.int32())})
    found = segments.join(wanted, keys=list(PARTITION_CODES), join_type="inner")
    return found.sort_by([("wanted", "ascending"), ("base_offset", "ascending")])


class Codes:
    """A numbering of strings, in the order of their first occurrence."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str, int] = {}

    def encode(self, column: pa.ChunkedArray[pa.StringScalar]) -> pa.Int32Array:
        """Return the codes (int32) of the strings. A new string gets the next code."""
        encoded = column.combine_chunks().dictionary_encode()
        codes = [self._code(str(value)) for value in encoded.dictionary.to_pylist()]
        return pa.array(codes, pa.int32()).take(encoded.indices)

    def _code(self, value: str) -> int:
        code = self._codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code


def ranks_of(verdicts: pa.ChunkedArray[pa.StringScalar]) -> pa.ChunkedArray[pa.Int8Scalar]:
    """Return the ranks (int8) of verdicts in SEVERITY. The rank of an unknown verdict is null."""
    ranks: pa.ChunkedArray[pa.Int8Scalar] = pc.index_in(verdicts.cast(pa.string()), _VERDICTS).cast(pa.int8())  # type: ignore[assignment]
    return ranks


def labels_of(table: pa.Table) -> pa.ChunkedArray[pa.StringScalar]:
    """Return the text of `held` for each row. Without a provenance, the text is only the verdict."""
    texts = (table["snapshot"], table["snapshot_provenance"])
    # The stubs do not accept a plain separator.
    labels: pa.ChunkedArray[pa.StringScalar] = pc.binary_join_element_wise(  # type: ignore[call-overload]
        *texts, " ", null_handling="skip"
    )
    return labels


def _coded(table: pa.Table, topics: Codes, log_dirs: Codes, held: Codes, now: int) -> pa.Table:
    verdict = ranks_of(table["verdict"])
    if verdict.null_count:
        names = ", ".join(map(str, pc.unique(table["verdict"].filter(pc.is_null(verdict))).to_pylist()))
        raise UsageError(
            f"the readiness table has verdicts that this tiersnap does not know: {names}", hint=_OTHER_VERSION
        )
    timestamps = table["largest_timestamp"]
    # A segment without timestamps has -1, which would become the oldest timestamp.
    dated = pc.if_else(pc.less(timestamps, pa.scalar(0)), pa.scalar(None, pa.int64()), timestamps)
    coded: dict[str, pa.Array[pa.Int32Scalar] | pa.ChunkedArray[pa.Int8Scalar]] = {
        "topic": topics.encode(table["topic"]),
        "log_dir": log_dirs.encode(table["log_dir"]),
        "verdict": verdict,
    }
    for name, column in coded.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    table = table.append_column("segments", pa.array(np.ones(table.num_rows, np.int64)))
    table = table.append_column("held", held.encode(labels_of(table)))
    is_recent = pc.and_kleene(pc.greater(dated, pa.scalar(now - RECENT_MS)), pc.less_equal(dated, pa.scalar(now)))
    recent = pc.if_else(pc.fill_null(is_recent, pa.scalar(False)), table["size_bytes"], 0)
    return table.append_column("dated", dated).append_column("recent", recent)


def _grouped(table: pa.Table, keys: tuple[str, ...], aggregations: tuple[Aggregation, ...]) -> pa.Table:
    """Return a row per group, with the columns of `keys` and a column per aggregation."""
    # With threads, Arrow does not offer `first`, and the order of groups varies.
    result = table.group_by(list(keys), use_threads=False).aggregate([(column, how) for column, how, _ in aggregations])
    columns = [result[name] for name in keys] + [result[f"{column}_{how}"] for column, how, _ in aggregations]
    return pa.table(columns, names=[*keys, *(name for *_, name in aggregations)])


def _by_verdict(table: pa.Table, aggregations: tuple[Aggregation, ...], offset: str) -> pa.Table:
    """Group by partition and verdict. A group gets the texts of its row with the smallest offset."""
    numbers = table.select([*_VERDICT_KEY, *dict.fromkeys(column for column, *_ in aggregations)])
    numbers = numbers.append_column("row", pa.array(np.arange(table.num_rows)))
    # Only numbers are sorted and grouped. The texts are taken afterwards, from one row per group.
    numbers = numbers.take(pc.sort_indices(numbers[offset]))
    groups = _grouped(numbers, _VERDICT_KEY, (*aggregations, ("row", "first", "row")))
    texts = table.select(OF_FIRST).take(groups["row"])
    groups = groups.drop_columns("row")
    for name in OF_FIRST:
        groups = groups.append_column(name, texts[name])
    return groups


def _combined(partials: list[pa.Table]) -> pa.Table:
    return _by_verdict(pa.concat_tables(partials), _COMBINED, "first_offset")


def _no_segments() -> pa.Table:
    kinds = (*(pa.int32(),) * 3, pa.int8(), *(pa.int64(),) * 4, pa.int32())
    return pa.table({name: pa.array([], kind) for name, kind in zip(SEGMENT_COLUMNS, kinds, strict=True)})
