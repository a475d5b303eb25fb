"""A listed partition: one nested Arrow row that the stages of a run exchange. No table stores it.

Each segment has a `chain`, a digest of all files that determine the producer state at its base offset. A stored state
at a base offset may be used as long as the chain of that offset is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.formats.snapshot_file import file_name
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import FileRef, Partition, PartitionLog, Segment
from tiersnap.snapshot.log.log_start import begins_below, log_start_of, may_begin_below
from tiersnap.snapshot.log.places import resolve
from tiersnap.snapshot.members import fields_of, plain_members
from tiersnap.snapshot.replay.expiry import fingerprint
from tiersnap.snapshot.replay.partition_listing import PartitionListing, copy_before
from tiersnap.snapshot.replay.partition_replay import cut_offsets, inside
from tiersnap.snapshot.replay.remote_listing import (
    NOTHING_SEEN,
    ClaimedStart,
    RemoteListing,
    lacks_beginning,
)
from tiersnap.snapshot.replay.replay_start import is_continued
from tiersnap.snapshot.replay.window_start import LeaderOffsets
from tiersnap.snapshot.rows import Rows


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """The files of a segment.

    Attributes:
        cuts: offsets inside the segment at which a state is wanted.
        is_tiered: whether remote storage has the whole segment.
        largest_timestamp: ms, from the time index; None if the index was not read or has no timestamp.
        decode: name of the object with its decode; None outside a collected folder.
    """

    base_offset: int
    next_base_offset: int | None
    size_bytes: int
    modified_ns: int
    offset_index_bytes: int | None
    time_index_bytes: int | None
    transaction_index_bytes: int | None
    cuts: tuple[int, ...]
    chain: str
    is_tiered: bool = False
    largest_timestamp: int | None = None
    decode: str | None = None

    @classmethod
    def of(cls, segment: Segment, cuts: list[int], chain: str) -> ListedSegment:
        """Return the files of a segment. `cuts` may contain cuts of other segments, which are skipped."""
        return cls(
            segment.base_offset,
            segment.next_base_offset,
            segment.log.size,
            segment.log.modified_ns,
            _size(segment.offset_index),
            _size(segment.time_index),
            _size(segment.transaction_index),
            tuple(cut for cut in inside(cuts, segment) if cut != segment.base_offset),
            chain,
        )

    def on_disk(self, folder: str) -> Segment:
        """Return the segment with the paths of its files in the partition's folder."""
        stem = f"{folder}/{self.base_offset:020d}"
        return Segment(
            self.base_offset,
            self.next_base_offset,
            FileRef(f"{stem}.log", self.size_bytes, self.modified_ns),
            _index(f"{stem}.index", self.offset_index_bytes),
            _index(f"{stem}.timeindex", self.time_index_bytes),
            _index(f"{stem}.txnindex", self.transaction_index_bytes),
        )


def _size(index: FileRef | None) -> int | None:
    return None if index is None else index.size


def _index(path: str, size: int | None) -> FileRef | None:
    return None if size is None else FileRef(path, size, 0)


@dataclass(frozen=True, slots=True)
class ListedSnapshot:
    """A producer snapshot file. In a collected folder `object` names the object with its bytes, else it is None."""

    end_offset: int
    size_bytes: int
    modified_ns: int
    object: str | None = None

    def on_disk(self, folder: str) -> FileRef:
        """Return the file with its path in the partition's folder."""
        return FileRef(f"{folder}/{self.object or file_name(self.end_offset)}", self.size_bytes, self.modified_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPartition(PartitionLog):
    """A partition's files, and the remote segments of its offsets.

    Attributes:
        log_dir: URI of --source.
        directory_id, cluster_id: ids of the log directory; None if meta.properties lacks them.
        log_start: log start offset by the partition's files, None if unknown; see `snapshot.log.log_start`.
        window_offset: first offset of a scan that is limited to a window; None if everything is scanned.
        leader: offsets of the partition's leader, for the window; None without a cluster.
        start: remote snapshot that the replay may start from; None if the run did not search or found no snapshot.
        lacks_beginning: see `remote_listing.lacks_beginning`; None if remote storage was not listed, or if unknown.
        lost_producers: active producers that the replica lost; None without a loss, or if the run checked no producers.
        remote_error: error that prevented the listing of remote storage.
    """

    log_dir: str
    directory_id: str | None = None
    cluster_id: str | None = None
    segments: tuple[ListedSegment, ...] = ()
    snapshots: tuple[ListedSnapshot, ...] = ()
    log_start: int | None = None
    window_offset: int | None = None
    leader: LeaderOffsets | None = None
    start: ClaimedStart | None = None
    remote: RemoteListing = NOTHING_SEEN
    lacks_beginning: bool | None = None
    lost_producers: LostProducers | None = None
    remote_error: RecordedError | None = None
    fingerprint: str = ""

    @classmethod
    def of(cls, log_dir: str, partition: Partition, properties: MetaProperties | None) -> ListedPartition:
        """Return the files of a partition. `properties` are the meta.properties of its log directory."""
        cuts = cut_offsets(partition)
        listed = cls(
            log_dir=log_dir,
            directory_id=properties.directory_id if properties else None,
            cluster_id=properties.cluster_id if properties else None,
            segments=tuple(
                ListedSegment.of(segment, cuts, chain)
                for segment, chain in zip(partition.segments, chains(partition), strict=True)
            ),
            snapshots=tuple(
                ListedSnapshot(offset, ref.size, ref.modified_ns) for offset, ref in sorted(partition.snapshots.items())
            ),
            log_start=log_start_of(partition),
            **fields_of(PartitionLog, partition),
        )
        return replace(listed, fingerprint=fingerprint(plain_members(listed)))

    def on_disk(self, path: str) -> Partition:
        """Return the partition with the paths of its files.

        Args:
            path: path of the log directory inside its file system, or of the collected folder.
        """
        folder = f"{path}/{self.topic}-{self.partition}"
        return Partition(
            path=folder,
            segments=tuple(each.on_disk(folder) for each in self.segments),
            snapshots={each.end_offset: each.on_disk(folder) for each in self.snapshots},
            **fields_of(PartitionLog, self),
        )

    @property
    def listing(self) -> PartitionListing:
        """Return the partition as the input of a replay."""
        filesystem, path = resolve(self.log_dir)
        tiered: set[int] = set()
        times: dict[int, int] = {}
        objects: dict[int, str] = {}
        for each in self.segments:
            if each.is_tiered:
                tiered.add(each.base_offset)
            if each.largest_timestamp is not None:
                times[each.base_offset] = each.largest_timestamp
            if each.decode is not None:
                objects[each.base_offset] = each.decode
        return PartitionListing(
            filesystem,
            self.on_disk(path.rstrip("/")),
            self.cluster_id,
            self.remote,
            self.remote_error,
            self.start,
            frozenset(tiered),
            self.window_offset,
            self.leader,
            times,
            objects,
        )

    def with_remote(self, found: PartitionListing) -> ListedPartition:
        """Return the row with the remote segments. The fingerprint changes if these change the results of a replay."""
        remote, known = found.remote, self.fingerprint
        if remote.encrypted_by is not None:
            known = fingerprint(known, "encrypted")
        # Replay again if a remote segment now precedes the first local segment, or now proves the log start.
        if (before := copy_before(found)) is not None:
            known = fingerprint(known, before.segment_id)
        if begins_below(found.partition) is None and is_continued(found.partition, remote.copies):
            known = fingerprint(known, "continued")
        return replace(
            self,
            segments=tuple(replace(each, is_tiered=each.base_offset in found.tiered) for each in self.segments),
            remote=remote,
            remote_error=found.remote_error,
            start=found.start,
            lacks_beginning=lacks_beginning(found.partition, remote) if found.is_remote_known else None,
            fingerprint=known,
        )


LISTED_ROWS = Rows(ListedPartition)
LISTED = LISTED_ROWS.schema


def chains(partition: Partition) -> Iterator[str]:
    """Yield the `chain` of each segment: the digest of all inputs of the producer state at its base offset."""
    origin: tuple[object, ...] = (partition.topic_id, partition.cleaner_offset)
    first = partition.first_base_offset
    if may_begin_below(partition):
        origin += ("may begin in remote storage", begins_below(partition))
    if orphans := [offset for offset in partition.orphan_indexes if offset > first]:
        origin += ("indexes without a log file", *orphans)
    digest = hashlib.blake2b(repr(origin).encode(), digest_size=12)
    snapshots = sorted(partition.snapshots.items())
    place = 0
    for segment in partition.segments:
        # The snapshot at the base offset is an input of the state: the replay judges it and may continue from it.
        while place < len(snapshots) and snapshots[place][0] <= segment.base_offset:
            offset, ref = snapshots[place]
            digest.update(repr((offset, ref.size, ref.modified_ns)).encode())
            place += 1
        yield digest.hexdigest()
        digest.update(repr((segment.base_offset, segment.log.size, segment.log.modified_ns)).encode())


def partition_folder(log_dir: str, topic: str, partition: int) -> tuple[FileSystem, str]:
    """Return the file system and the path of a partition's folder. `log_dir` is the URI of its log directory."""
    filesystem, path = resolve(log_dir)
    return filesystem, f"{path.rstrip('/')}/{topic}-{partition}"
