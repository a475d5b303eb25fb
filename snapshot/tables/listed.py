"""A listed partition: what travels between the stages of a run as one nested Arrow row, and is in no table.

Each segment has a `chain`: a digest of everything below its base offset that a replayed state is made of. A state that
was kept at a base offset is good for as long as the chain there is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.exactly_once.simulate.kinds import Forgotten
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
    """A segment's files.

    Attributes:
        cuts: offsets inside the segment at which a state is wanted.
        is_tiered: remote storage holds all of it.
        largest_timestamp: ms, by its time index; None where that was not asked or does not say.
        decode: of a collected folder: the object that holds its decode; None where the log file lies.
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
        """Return a segment as its files are; `cuts` are those of the partition."""
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
        """Return the segment in a partition's folder."""
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
    """A snapshot file; `object` is that of a collected folder which holds its bytes, None where the file lies."""

    end_offset: int
    size_bytes: int
    modified_ns: int
    object: str | None = None

    def on_disk(self, folder: str) -> FileRef:
        """Return the file in a partition's folder."""
        return FileRef(f"{folder}/{self.object or file_name(self.end_offset)}", self.size_bytes, self.modified_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPartition(PartitionLog):
    """A partition's files, and what remote storage holds of its offsets.

    Attributes:
        log_dir: URI that the user named.
        directory_id, cluster_id: of the log directory; None where it does not say.
        log_start: of the whole log, as its files tell it; None where they do not. See log.log_start.
        window_offset: where a bounded scan begins; None where all is scanned.
        leader: what the partition's leader told for that; None where nobody asked.
        start: None where nobody asked for one, or none is there.
        lacks_beginning: see the function; None where nobody looked, or a look tells nothing.
        forgotten: None where the replica knows all living producers, or nobody asked.
        remote_error: why nobody knows what remote storage holds.
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
    forgotten: Forgotten | None = None
    remote_error: RecordedError | None = None
    fingerprint: str = ""

    @classmethod
    def of(cls, log_dir: str, partition: Partition, properties: MetaProperties | None) -> ListedPartition:
        """Return a partition as its files are; `properties` are those of the log directory."""
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
        """Return the partition; `path` is the log directory inside its file system, or the collected folder."""
        folder = f"{path}/{self.topic}-{self.partition}"
        return Partition(
            path=folder,
            segments=tuple(each.on_disk(folder) for each in self.segments),
            snapshots={each.end_offset: each.on_disk(folder) for each in self.snapshots},
            **fields_of(PartitionLog, self),
        )

    @property
    def listing(self) -> PartitionListing:
        """Return the partition as a replay is given it."""
        filesystem, path = resolve(self.log_dir)
        times = ((each.base_offset, each.largest_timestamp) for each in self.segments)
        objects = ((each.base_offset, each.decode) for each in self.segments)
        return PartitionListing(
            filesystem,
            self.on_disk(path.rstrip("/")),
            self.cluster_id,
            self.remote,
            self.remote_error,
            self.start,
            frozenset(each.base_offset for each in self.segments if each.is_tiered),
            self.window_offset,
            self.leader,
            {base: found for base, found in times if found is not None},
            {base: name for base, name in objects if name is not None},
        )

    def with_remote(self, found: PartitionListing) -> ListedPartition:
        """Return it with what remote storage holds; the fingerprint knows what a replay keeps of that."""
        remote, known = found.remote, self.fingerprint
        if remote.encrypted_by is not None:
            known = fingerprint(known, "encrypted")
        # A copy that comes to be where the files begin is a reason to replay again, as is a log start that it tells.
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
    """Yield for each segment the digest of what a state at its base offset is made of."""
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
