"""Producer snapshots as objects, and what a run says of them.

A snapshot object is the bytes of a `.snapshot` file. What is not in those bytes is said twice: as the object's user
metadata (`tiersnap-…`, where the store keeps any) and in the run's manifest of the partition, which is written when
all its snapshots are there. One line of JSON:

    version            1
    tool               "tiersnap 0.1.0"
    runId              of the run that wrote it
    topic, topicId, partition    topicId is null for topics without one
    snapshots          in ascending offset, each:
        offset           exclusive end offset
        size, crc32c     bytes, and CRC-32C of all of them as 8 hex digits
        entries          producers
        provenance       BROKER, COMPUTED, or COMPUTED_FROM_ and where (Provenance)
        foldStartOffset  first offset that was folded into it; null for BROKER, where nobody knows

Nothing in it depends on the clock, so that the same run again writes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiersnap.remote_storage.errors import InvalidKeyError, ObjectNotFoundError
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.strict_json import has_version, parse_object
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import CorruptDataError, CorruptSnapshotError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.replay.trust import Provenance

FORMAT_VERSION = 1
_LARGEST_MANIFEST = 64 << 20  # bytes; a snapshot is about 130 of them
TOOL = f"tiersnap {__version__}"


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """What a manifest says of one snapshot; offsets exclusive for `offset`, inclusive for `fold_start_offset`."""

    offset: int
    size: int
    crc32c: int
    entries: int
    provenance: Provenance
    fold_start_offset: int | None


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """What one run says of the snapshots of one partition."""

    partition: TopicIdPartition
    run_id: str
    tool: str
    snapshots: tuple[SnapshotRecord, ...]

    def encode(self) -> bytes:
        """One line of JSON."""
        rows = [
            {
                "offset": row.offset,
                "size": row.size,
                "crc32c": f"{row.crc32c:08x}",
                "entries": row.entries,
                "provenance": str(row.provenance),
                "foldStartOffset": row.fold_start_offset,
            }
            for row in sorted(self.snapshots, key=lambda row: row.offset)
        ]
        manifest = {
            "version": FORMAT_VERSION,
            "tool": self.tool,
            "runId": self.run_id,
            "topic": self.partition.topic,
            "topicId": self.partition.topic_id,
            "partition": self.partition.partition,
            "snapshots": rows,
        }
        return json.dumps(manifest, separators=(",", ":")).encode("utf-8")

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> SnapshotManifest:
        """The inverse of `encode`.

        Raises:
            NewerFormatError: a newer tiersnap wrote it.
            CorruptDataError: not a manifest.
        """
        try:
            found: dict[str, Any] = parse_object(data, name=name, limit=_LARGEST_MANIFEST)
            if not has_version(found["version"], FORMAT_VERSION, name=name):
                raise CorruptDataError(f"{name}: its version is {str(found['version'])[:40]!r}")
            partition = TopicIdPartition(found["topic"], found["topicId"], found["partition"])
            return cls(partition, found["runId"], found["tool"], tuple(map(_record, found["snapshots"])))
        except (ValueError, KeyError, TypeError, InvalidKeyError) as error:
            raise CorruptDataError(f"{name}: not a snapshot manifest: {str(error)[:200]}") from error


def _record(row: dict[str, object]) -> SnapshotRecord:
    offset, size, entries, start = (row[name] for name in ("offset", "size", "entries", "foldStartOffset"))
    if not (isinstance(offset, int) and isinstance(size, int) and isinstance(entries, int)):
        raise TypeError(offset, size, entries)
    if not (start is None or isinstance(start, int)):
        raise TypeError(start)
    return SnapshotRecord(offset, size, int(str(row["crc32c"]), 16), entries, Provenance(str(row["provenance"])), start)


def list_manifests(store: ObjectStore, keys: ObjectKeys, partition: TopicIdPartition) -> Iterator[SnapshotManifest]:
    """What every run says of a partition's snapshots, by run id."""
    for found in store.list(keys.partition_snapshots(partition)):
        parsed = keys.recognise(found.key)
        if parsed is not None and parsed.kind is KeyKind.SNAPSHOT_MANIFEST:
            yield SnapshotManifest.decode(store.get(found.key, limit=_LARGEST_MANIFEST), name=store.uri + found.key)


def list_snapshots(store: ObjectStore, keys: ObjectKeys, partition: TopicIdPartition) -> Iterator[int]:
    """Exclusive end offsets of the snapshot objects of a partition, ascending."""
    for found in store.list(keys.partition_snapshots(partition)):
        parsed = keys.recognise(found.key)
        if parsed is not None and parsed.kind is KeyKind.SNAPSHOT and parsed.offset is not None:
            yield parsed.offset


def read_snapshot(store: ObjectStore, keys: ObjectKeys, partition: TopicIdPartition, offset: int) -> bytes | None:
    """Bytes of the snapshot at an exclusive end offset, None if there is none.

    Raises:
        CorruptSnapshotError: a broker could not read them.
    """
    key = keys.snapshot(partition, offset)
    try:
        data = store.get(key)
    except ObjectNotFoundError:
        return None
    except CorruptDataError as error:
        raise CorruptSnapshotError(error.message, hint=error.hint, key=key) from error
    snapshot_file.decode(data, name=store.uri + key)
    return data
