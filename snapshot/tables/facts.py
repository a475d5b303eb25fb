"""Rows of the table `partitions`: facts of one partition by kind, from the core's values and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.found_snapshot import SnapshotFile
from tiersnap.snapshot.replay.partition_state import SnapshotAt, StoredAt
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict
from tiersnap.snapshot.replay.trust import Comparison
from tiersnap.snapshot.tables.deltas import to_lists
from tiersnap.snapshot.tables.schemas import PARTITIONS

Row = dict[str, Any]


class FactKind(StrEnum):
    """What a row of `partitions` says."""

    REPLAYED = "REPLAYED"  # one a replay: what it was made of, and where the next one may start
    STATE = "STATE"  # a part of the state to start from
    BOUNDARY = "BOUNDARY"  # the state at an offset, beside the file that was found there
    SEGMENT = "SEGMENT"  # what the gate must know of a segment
    GONE = "GONE"  # alone in its run: the partition is not where it was
    FINDING = "FINDING"
    ERROR = "ERROR"


# The column that is set in rows of a kind.
COLUMN_OF = {
    FactKind.REPLAYED: "replayed",
    FactKind.STATE: "state",
    FactKind.BOUNDARY: "boundary",
    FactKind.SEGMENT: "segment",
    FactKind.FINDING: "problem",
    FactKind.ERROR: "problem",
}
# What `readiness` is a view of.
JUDGED = (FactKind.REPLAYED, FactKind.BOUNDARY, FactKind.SEGMENT)
_COUNTS = ("lacking", "differing", "forgotten", "unexplained", "extending", "harmful_until")
_OF_PARTITION = (
    *("topic_id", "internal", "compacted", "log_start_offset", "log_end_offset"),
    *("high_watermark", "last_stable_offset", "unstable_because"),
)


_COLUMNS = frozenset(COLUMN_OF.values())
_OF_EVERY_KIND = tuple(name for name in PARTITIONS.names if name not in _COLUMNS)


def fact(
    key: Mapping[str, object], kind: FactKind, *, run: int, offset: int = 0, part: int = 0, **values: object
) -> Row:
    """A row of PARTITIONS as a dict, the fields of its kind beside the key; what is not named is null."""
    return {**key, "kind": str(kind), "offset": offset, "part": part, "run": run, **values}


def flat(row: Mapping[str, Any]) -> Row:
    """A row of PARTITIONS as a dict -> the same as `fact` has it."""
    column = COLUMN_OF.get(row["kind"])
    found = {name: value for name, value in row.items() if name not in _COLUMNS}
    return found if column is None else found | (row.get(column) or {})


def nested(row: Mapping[str, Any]) -> Row:
    """The inverse of `flat`."""
    found = {name: row[name] for name in _OF_EVERY_KIND}
    column = COLUMN_OF.get(row["kind"])
    if column is None:
        return found
    return found | {column: {field.name: row.get(field.name) for field in PARTITIONS.field(column).type}}


def of_partition(facts: PartitionFacts) -> Row:
    """The columns of PartitionFacts."""
    return {name: getattr(facts, name) for name in _OF_PARTITION}


def to_partition(row: Mapping[str, Any]) -> PartitionFacts:
    """The inverse of `of_partition`."""
    return PartitionFacts(**{name: row[name] for name in _OF_PARTITION})


def of_comparison(found: Comparison) -> Row:
    """The columns of a Comparison."""
    return {"found": str(found.strict), "says": found.says, **{name: getattr(found, name) for name in _COUNTS}}


def to_comparison(row: Mapping[str, Any]) -> Comparison:
    """The inverse of `of_comparison`."""
    return Comparison(SnapshotVerdict(row["found"]), row["says"], **{name: row[name] for name in _COUNTS})


def of_snapshot(found: SnapshotAt) -> Row:
    """The columns of a SnapshotAt, but for its offset."""
    stored = found.stored
    row: Row = {
        **of_comparison(found.comparison),
        "file_bytes": found.file.size,
        "file_crc": found.file.crc32c,
        "not_read": found.file.not_read,
        "open_transactions": open_transaction_rows(found.open_transactions),
        "provenance": str(found.provenance),
        "folded_from": found.folded_from,
    }
    if stored is not None:
        row |= {"object_key": stored.key, "object_crc": stored.crc32c, "entry_count": stored.entry_count}
        row |= {"written_by": stored.written_by, "is_mended": stored.is_mended or None}
    return row


def open_transaction_rows(opened: tuple[tuple[int, int], ...] | None) -> list[dict[str, int]] | None:
    """Rows of OPEN_TRANSACTION; None where nobody knows."""
    if opened is None:
        return None
    return [{"producer_id": producer_id, "first_offset": first} for producer_id, first in opened]


def to_snapshot(row: Mapping[str, Any]) -> SnapshotAt:
    """The inverse of `of_snapshot`."""
    stored, opened = None, row["open_transactions"]
    if row["object_key"] is not None:
        mended = bool(row["is_mended"])
        stored = StoredAt(row["object_key"], row["object_crc"], row["entry_count"], row["written_by"], mended)
    return SnapshotAt(
        row["offset"],
        to_comparison(row),
        Provenance(row["provenance"]),
        row["folded_from"],
        SnapshotFile(row["file_bytes"], row["file_crc"], row["not_read"]),
        None if opened is None else tuple((each["producer_id"], each["first_offset"]) for each in opened),
        stored,
    )


def of_segment(facts: SegmentFacts) -> Row:
    """The columns of SegmentFacts, but for its snapshot, which is a row of its own."""
    return {
        "next_base_offset": facts.next_base_offset,
        "size_bytes": facts.size,
        "modified_ns": facts.modified_ns,
        "digest": facts.digest,
        "crc_checked": facts.crc_checked,
        "max_timestamp": facts.largest_timestamp,
        "finding_kind": None if facts.damage_kind is None else str(facts.damage_kind),
        "damage": facts.damage,
        "has_gaps": facts.has_gaps,
        "missing_parts": list(facts.missing_parts),
        "rebuilt_parts": list(facts.rebuilt_parts),
    }


_NOT_READ = Comparison(SnapshotVerdict.UNVERIFIED, "not read from the table")


def to_segment(row: Mapping[str, Any], snapshot: Comparison = _NOT_READ) -> SegmentFacts:
    """The inverse of `of_segment`; `snapshot` is the comparison at its end."""
    return SegmentFacts(
        base_offset=row["offset"],
        next_base_offset=row["next_base_offset"],
        size=row["size_bytes"],
        modified_ns=row["modified_ns"],
        digest=row["digest"],
        crc_checked=row["crc_checked"],
        largest_timestamp=row["max_timestamp"],
        damage_kind=None if row["finding_kind"] is None else FindingKind(row["finding_kind"]),
        damage=row["damage"],
        has_gaps=row["has_gaps"],
        missing_parts=tuple(row["missing_parts"]),
        rebuilt_parts=tuple(row["rebuilt_parts"]),
        snapshot=snapshot,
    )


def to_batches(rows: Iterable[Row], *, size: int = 4096) -> Iterator[pa.RecordBatch]:
    """Rows as `fact` gives them, `deltas` as arrays (DELTA_DTYPE), as batches of PARTITIONS; each state comes alone."""
    waiting: list[Row] = []
    for row in rows:
        if row["kind"] == FactKind.STATE:
            yield _state(row)
            continue
        waiting.append(nested(row))
        if len(waiting) == size:
            yield pa.RecordBatch.from_pylist(waiting, schema=PARTITIONS)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=PARTITIONS)


def _state(row: Row) -> pa.RecordBatch:
    state = pa.StructArray.from_arrays([to_lists([row["deltas"]])], fields=list(PARTITIONS.field("state").type))
    without = pa.RecordBatch.from_pylist([{name: row[name] for name in _OF_EVERY_KIND}], schema=PARTITIONS)
    columns = [state if name == "state" else without[name] for name in PARTITIONS.names]
    return pa.RecordBatch.from_arrays(columns, schema=PARTITIONS)
