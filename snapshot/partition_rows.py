"""A listed partition as one nested Arrow row and back: what travels between the stages of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment
from tiersnap.snapshot.state.partition_replay import cut_offsets, inside

_LONG, _TEXT = pa.int64(), pa.string()

SEGMENT_FILES = pa.struct(
    [
        ("base_offset", _LONG),
        ("next_base_offset", _LONG),
        ("size_bytes", _LONG),
        ("modified_ns", _LONG),
        ("offset_index_bytes", _LONG),
        ("time_index_bytes", _LONG),
        ("transaction_index_bytes", _LONG),
        ("cuts", pa.list_(_LONG)),  # offsets inside the segment at which a state is wanted
    ]
)
SNAPSHOT_FILE = pa.struct([("end_offset", _LONG), ("size_bytes", _LONG), ("modified_ns", _LONG)])
LEADER_EPOCH = pa.struct([("epoch", pa.int32()), ("start_offset", _LONG)])
FINDING = pa.struct([("kind", _TEXT), ("path", _TEXT), ("position", _LONG), ("message", _TEXT)])

PARTITIONS = pa.schema(
    [
        ("log_dir", _TEXT),
        ("topic", _TEXT),
        ("topic_id", _TEXT),
        ("partition", pa.int32()),
        ("segments", pa.list_(SEGMENT_FILES)),
        ("snapshots", pa.list_(SNAPSHOT_FILE)),
        ("leader_epochs", pa.list_(LEADER_EPOCH)),
        ("high_watermark", _LONG),
        ("log_start_offset", _LONG),
        ("cleaner_offset", _LONG),
        ("findings", pa.list_(FINDING)),
        ("fingerprint", _TEXT),
    ]
)

_SUFFIXES = (("offset_index", "index"), ("time_index", "timeindex"), ("transaction_index", "txnindex"))


def to_row(log_dir: str, partition: Partition) -> dict[str, Any]:
    """The row of PARTITIONS of a listed partition; `log_dir` is the URI the user named."""
    cuts = cut_offsets(partition)
    row: dict[str, Any] = {
        "log_dir": log_dir,
        "topic": partition.topic,
        "topic_id": partition.topic_id,
        "partition": partition.partition,
        "segments": [_segment_row(segment, cuts) for segment in partition.segments],
        "snapshots": [
            {"end_offset": offset, "size_bytes": ref.size, "modified_ns": ref.modified_ns}
            for offset, ref in sorted(partition.snapshots.items())
        ],
        "leader_epochs": None
        if partition.leader_epochs is None
        else [{"epoch": epoch, "start_offset": start} for epoch, start in partition.leader_epochs],
        "high_watermark": partition.high_watermark,
        "log_start_offset": partition.log_start_offset,
        "cleaner_offset": partition.cleaner_offset,
        "findings": [finding.as_dict() for finding in partition.findings],
    }
    row["fingerprint"] = fingerprint(row)
    return row


def _segment_row(segment: Segment, cuts: list[int]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "base_offset": segment.base_offset,
        "next_base_offset": segment.next_base_offset,
        "size_bytes": segment.log.size,
        "modified_ns": segment.log.modified_ns,
        "cuts": [cut for cut in inside(cuts, segment) if cut != segment.base_offset],
    }
    for name, _ in _SUFFIXES:
        ref: FileRef | None = getattr(segment, name)
        row[f"{name}_bytes"] = None if ref is None else ref.size
    return row


def fingerprint(*parts: object) -> str:
    """A short digest of plain data: equal data, equal text."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def from_row(path: str, row: Mapping[str, Any]) -> Partition:
    """The inverse of `to_row`; `path` is the log directory inside its filesystem."""
    folder = f"{path}/{row['topic']}-{row['partition']}"
    epochs = row["leader_epochs"]
    return Partition(
        path=folder,
        topic=row["topic"],
        partition=row["partition"],
        topic_id=row["topic_id"],
        segments=tuple(_segment(folder, segment) for segment in row["segments"]),
        snapshots={
            file["end_offset"]: FileRef(
                f"{folder}/{file['end_offset']:020d}.snapshot", file["size_bytes"], file["modified_ns"]
            )
            for file in row["snapshots"]
        },
        leader_epochs=None if epochs is None else tuple((epoch["epoch"], epoch["start_offset"]) for epoch in epochs),
        high_watermark=row["high_watermark"],
        log_start_offset=row["log_start_offset"],
        cleaner_offset=row["cleaner_offset"],
        findings=tuple(
            Finding(FindingKind(finding["kind"]), finding["path"], finding["position"], finding["message"])
            for finding in row["findings"]
        ),
    )


def _segment(folder: str, row: Mapping[str, Any]) -> Segment:
    stem = f"{folder}/{row['base_offset']:020d}"
    indexes = {
        name: None if row[f"{name}_bytes"] is None else FileRef(f"{stem}.{suffix}", row[f"{name}_bytes"], 0)
        for name, suffix in _SUFFIXES
    }
    log = FileRef(f"{stem}.log", row["size_bytes"], row["modified_ns"])
    return Segment(row["base_offset"], row["next_base_offset"], log, **indexes)


def to_table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table of exactly `schema`."""
    return pa.Table.from_pylist(list(rows), schema=schema)
