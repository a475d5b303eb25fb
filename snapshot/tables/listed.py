"""A listed partition as one nested Arrow row and back: what travels between the stages of a run, and is in no table.

Each segment has a `chain`: a digest of everything below its base offset that a replayed state is made of. A state that
was kept at a base offset is good for as long as the chain there is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from tiersnap.snapshot.codecs import Row, RowCodec, pairs_of, structs_of
from tiersnap.snapshot.errors import RECORDED, RecordedError
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment
from tiersnap.snapshot.log.places import resolve
from tiersnap.snapshot.replay.expiry import fingerprint
from tiersnap.snapshot.replay.partition_listing import PartitionListing
from tiersnap.snapshot.replay.partition_replay import cut_offsets, inside
from tiersnap.snapshot.replay.remote_listing import (
    NOTHING_SEEN,
    ClaimedStart,
    ListedCopy,
    RemoteListing,
    lacks_beginning,
)
from tiersnap.snapshot.tables.remote_log_segments import COPY_FINISHED, COPY_STARTED
from tiersnap.snapshot.tables.schemas import LEADER_EPOCH, LEADER_EPOCH_NAMES, schema_of

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
        ("chain", _TEXT),
        ("is_tiered", pa.bool_()),  # remote storage holds all of it
        ("largest_timestamp", _LONG),  # ms, by its time index; null where that was not asked or does not say
        ("decode", _TEXT),  # of a collected folder: the object that holds its decode; null where the log file lies
    ]
)
SNAPSHOT_FILE = pa.struct(
    [
        ("end_offset", _LONG),
        ("size_bytes", _LONG),
        ("modified_ns", _LONG),
        ("object", _TEXT),  # of a collected folder: the object that holds its bytes; null where the file lies
    ]
)
FINDING = pa.struct([("kind", _TEXT), ("path", _TEXT), ("position", _LONG), ("message", _TEXT)])

COPY = pa.struct(
    [
        ("segment_id", _TEXT),
        ("start_offset", _LONG),
        ("end_offset", _LONG),  # inclusive
        ("segment_size_bytes", _LONG),
        ("max_timestamp", _LONG),
        ("leader_epochs", pa.list_(LEADER_EPOCH)),
        # COPY_SEGMENT_FINISHED; COPY_SEGMENT_STARTED for somebody else's that is under way, and for ours that is whole
        # and that nobody finished.
        ("state", _TEXT),
        ("event_timestamp", _LONG),
        ("is_ours", pa.bool_()),  # known to be; of what is finished nobody asks
        ("is_brokers", pa.bool_()),  # no claim names it
    ]
)

# A snapshot in remote storage that a replay may start from: that of a copy which ends at `offset`.
START = pa.struct(
    [
        ("offset", _LONG),  # exclusive
        ("segment_id", _TEXT),
        ("segment_start_offset", _LONG),
        ("crc32c", _LONG),  # of the whole snapshot, by the copy's claim; null for a copy whose claim nobody read
        ("provenance", _TEXT),
    ]
)

# What a replica forgot (simulate.forgotten.Forgotten); 0 of 0 where remote storage does not tell, and `meets` says why.
FORGOTTEN = pa.struct([("known", _LONG), ("living", _LONG), ("meets", _TEXT)])

LISTED = schema_of(
    ("log_dir", _TEXT),
    ("topic", _TEXT),
    ("topic_id", _TEXT),
    ("partition", pa.int32()),
    ("directory_id", _TEXT),
    ("cluster_id", _TEXT),
    ("segments", pa.list_(SEGMENT_FILES)),
    ("snapshots", pa.list_(SNAPSHOT_FILE)),
    ("orphan_indexes", pa.list_(_LONG)),  # base offsets of which there is an index, and no log file
    ("leader_epochs", pa.list_(LEADER_EPOCH)),
    ("high_watermark", _LONG),
    ("log_start_offset", _LONG),
    ("log_start_checkpoint", _LONG),  # of every tiered log; null where the partition is not in the file
    ("cleaner_offset", _LONG),
    ("findings", pa.list_(FINDING)),
    ("window_offset", _LONG),  # where a bounded scan begins; null where all is scanned
    ("start", START),  # null where nobody asked for one, or none is there
    ("copies", pa.list_(COPY)),  # what remote storage holds of the offsets that are here
    ("expired_to", _LONG),  # below it `tiersnap expire` deleted the copies; exclusive, null where it never did
    ("encryption", _TEXT),  # Encryption; null where nobody looked
    ("encrypted_by", _TEXT),  # key of a manifest that shows that the plugin encrypts; null where none does
    ("lacks_beginning", pa.bool_()),  # replay.place_doubt; null where nobody looked, or a look tells nothing
    ("forgotten", FORGOTTEN),  # null where the replica knows all living producers, or nobody asked
    ("leftover_count", _LONG),  # what attempts left there that are over; null where nobody looked
    ("remote_error", _TEXT),  # why nobody knows what it holds, or null
    ("is_transient", pa.bool_()),  # that may pass
    ("error_type", _TEXT),
    ("hint", _TEXT),
    ("fingerprint", _TEXT),
)


_REMOTE = RowCodec(RemoteListing, without=("copies",))
_START = RowCodec(ClaimedStart)
_ERROR = RowCodec(RecordedError, columns={"message": "remote_error"})
_COPY = RowCodec(
    ListedCopy,
    columns={"size": "segment_size_bytes", "written_at": "event_timestamp"},
    pairs={"leader_epochs": LEADER_EPOCH},
    without=("end_offset", "is_finished"),
)
_NO_ERROR = dict.fromkeys(("remote_error", *RECORDED))
_INDEXES = {"offset_index": "index", "time_index": "timeindex", "transaction_index": "txnindex"}


def to_row(log_dir: str, partition: Partition, *, properties: MetaProperties | None = None) -> Row:
    """The row of LISTED; `log_dir` is the URI the user named, `properties` those of the log directory."""
    cuts = cut_offsets(partition)
    snapshots = sorted(partition.snapshots.items())
    row: Row = {
        "log_dir": log_dir,
        "topic": partition.topic,
        "topic_id": partition.topic_id,
        "partition": partition.partition,
        "directory_id": properties.directory_id if properties else None,
        "cluster_id": properties.cluster_id if properties else None,
        "segments": [
            _segment_row(segment, cuts, chain)
            for segment, chain in zip(partition.segments, chains(partition), strict=True)
        ],
        "snapshots": [
            {"end_offset": offset, "size_bytes": ref.size, "modified_ns": ref.modified_ns, "object": None}
            for offset, ref in snapshots
        ],
        "orphan_indexes": list(partition.orphan_indexes),
        "leader_epochs": structs_of(partition.leader_epochs, LEADER_EPOCH_NAMES),
        "high_watermark": partition.high_watermark,
        "log_start_offset": partition.log_start_offset,
        "log_start_checkpoint": partition.log_start_checkpoint,
        "cleaner_offset": partition.cleaner_offset,
        "findings": [finding.as_dict() for finding in partition.findings],
    }
    row["fingerprint"] = fingerprint(row)
    nothing = dict.fromkeys(("window_offset", "start", "lacks_beginning", "forgotten"))
    return row | nothing | _REMOTE.to_row(NOTHING_SEEN) | _NO_ERROR | {"copies": []}


def _segment_row(segment: Segment, cuts: list[int], chain: str) -> Row:
    row: Row = {
        "base_offset": segment.base_offset,
        "next_base_offset": segment.next_base_offset,
        "size_bytes": segment.log.size,
        "modified_ns": segment.log.modified_ns,
        "cuts": [cut for cut in inside(cuts, segment) if cut != segment.base_offset],
        "chain": chain,
        "is_tiered": False,
        "largest_timestamp": None,
        "decode": None,
    }
    for name in _INDEXES:
        ref: FileRef | None = getattr(segment, name)
        row[f"{name}_bytes"] = None if ref is None else ref.size
    return row


def chains(partition: Partition) -> Iterator[str]:
    """For each segment the digest of what a state at its base offset is made of."""
    origin: tuple[object, ...] = (partition.topic_id, partition.cleaner_offset)
    first = partition.first_base_offset
    if partition.may_begin_in_remote_storage:
        origin += ("may begin in remote storage",)
    if orphans := [offset for offset in partition.orphan_indexes if offset > first]:
        origin += ("indexes without a log file", *orphans)
    digest = hashlib.blake2b(repr(origin).encode(), digest_size=12)
    snapshots = sorted(partition.snapshots.items())
    place = 0
    for segment in partition.segments:
        # Also the file at the base offset itself: the replay judges it, and may go on from it.
        while place < len(snapshots) and snapshots[place][0] <= segment.base_offset:
            offset, ref = snapshots[place]
            digest.update(repr((offset, ref.size, ref.modified_ns)).encode())
            place += 1
        yield digest.hexdigest()
        digest.update(repr((segment.base_offset, segment.log.size, segment.log.modified_ns)).encode())


def partition_folder(log_dir: str, topic: str, partition: int) -> tuple[FileSystem, str]:
    """Return file system and folder of a partition; `log_dir` is its URI."""
    filesystem, path = resolve(log_dir)
    return filesystem, f"{path.rstrip('/')}/{topic}-{partition}"


def from_row(path: str, row: Mapping[str, Any]) -> Partition:
    """The inverse of `to_row`; `path` is the log directory inside its filesystem, or the collected folder."""
    folder = f"{path}/{row['topic']}-{row['partition']}"
    return Partition(
        path=folder,
        topic=row["topic"],
        partition=row["partition"],
        topic_id=row["topic_id"],
        segments=tuple(_segment(folder, segment) for segment in row["segments"]),
        snapshots={
            file["end_offset"]: FileRef(
                f"{folder}/{file['object'] or file_name(file['end_offset'])}", file["size_bytes"], file["modified_ns"]
            )
            for file in row["snapshots"]
        },
        leader_epochs=pairs_of(row["leader_epochs"]),
        high_watermark=row["high_watermark"],
        log_start_offset=row["log_start_offset"],
        log_start_checkpoint=row["log_start_checkpoint"],
        cleaner_offset=row["cleaner_offset"],
        findings=msgspec.convert(row["findings"], tuple[Finding, ...]),
        orphan_indexes=tuple(row["orphan_indexes"]),
    )


def _segment(folder: str, row: Mapping[str, Any]) -> Segment:
    stem = f"{folder}/{row['base_offset']:020d}"
    indexes = {
        name: None if row[f"{name}_bytes"] is None else FileRef(f"{stem}.{suffix}", row[f"{name}_bytes"], 0)
        for name, suffix in _INDEXES.items()
    }
    log = FileRef(f"{stem}.log", row["size_bytes"], row["modified_ns"])
    return Segment(row["base_offset"], row["next_base_offset"], log, **indexes)


def listing_of(row: Mapping[str, Any]) -> PartitionListing:
    """Return the partition that a row of LISTED lists, as a replay is given it."""
    filesystem, path = resolve(row["log_dir"])
    segments = row["segments"]
    times = ((each["base_offset"], each["largest_timestamp"]) for each in segments)
    objects = ((each["base_offset"], each["decode"]) for each in segments)
    start = row["start"]
    return PartitionListing(
        filesystem,
        from_row(path.rstrip("/"), row),
        row["cluster_id"],
        _REMOTE.of_row(row, copies=tuple(copies_of(row["copies"] or ()))),
        None if row["remote_error"] is None else _ERROR.of_row(row),
        None if start is None else _START.of_row(start),
        frozenset(each["base_offset"] for each in segments if each["is_tiered"]),
        row["window_offset"],
        {base: found for base, found in times if found is not None},
        {base: name for base, name in objects if name is not None},
    )


def remote_columns(listing: PartitionListing) -> Row:
    """Return the columns of LISTED that say what remote storage holds of a partition."""
    view, error, start = listing.remote, listing.remote_error, listing.start
    return {
        **_REMOTE.to_row(view),
        **(_NO_ERROR if error is None else _ERROR.to_row(error)),
        "copies": [_copy_row(copy) for copy in view.copies],
        "lacks_beginning": lacks_beginning(listing.partition, view) if listing.is_remote_known else None,
        "start": None if start is None else _START.to_row(start),
    }


def copies_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[ListedCopy]:
    """Yield the copies that rows of COPY, or of REMOTE_LOG_SEGMENTS, tell of: what is finished, or under way."""
    for row in rows:
        if row["state"] in (COPY_STARTED, COPY_FINISHED):
            yield _COPY.of_row(
                row,
                end_offset=row["end_offset"] + 1,
                is_finished=row["state"] == COPY_FINISHED,
                is_ours=bool(row["is_ours"]),
                is_brokers=bool(row["is_brokers"]),
            )


def _copy_row(copy: ListedCopy) -> Row:
    state = COPY_FINISHED if copy.is_finished else COPY_STARTED
    return _COPY.to_row(copy) | {"end_offset": copy.end_offset - 1, "state": state}
