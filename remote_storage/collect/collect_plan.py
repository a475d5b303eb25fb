"""Plan the collection of one partition: compare its log directory with the last shipped listing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tiersnap.snapshot.collected.listing import CollectedDecode, Listing
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment
from tiersnap.snapshot.tables.decodes import SegmentFile
from tiersnap.snapshot.tables.listed import ListedPartition, ListedSnapshot

# ms. After this time, every run that reads an older listing has ended.
GRACE_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class CollectPlan:
    """A partition to collect.

    Attributes:
        listed: the partition on disk. Its segments have no `decode` yet, and its snapshots no `object`.
        before: the last shipped listing; None the first time.
        decodes: decoded segments of `before` whose files are unchanged, by base offset.
        segments: segments to decode and ship, ascending.
        snapshots: shipped snapshot objects that remain valid, by exclusive end offset.
        snapshot_files: snapshot files to ship, by exclusive end offset.
        gone: base offsets of shipped segments that the log no longer has.
        is_due: whether `before` names superseded objects that are older than GRACE_MS, and so can be deleted.
    """

    partition: Partition
    listed: ListedPartition
    before: Listing | None
    decodes: Mapping[int, CollectedDecode]
    segments: tuple[Segment, ...]
    snapshots: Mapping[int, str]
    snapshot_files: Mapping[int, FileRef]
    gone: tuple[int, ...]
    is_due: bool

    @property
    def bytes_to_read(self) -> int:
        """Return the bytes of the segment files to read."""
        return sum(segment.log.size for segment in self.segments)

    @property
    def listing(self) -> Listing:
        """Return the listing to ship.

        Raises:
            KeyError: `decodes` or `snapshots` lacks a segment or file.
        """
        segments, files = self.listed.segments, self.listed.snapshots
        listed = replace(
            self.listed,
            segments=tuple(replace(each, decode=self.decodes[each.base_offset].object) for each in segments),
            snapshots=tuple(replace(each, object=self.snapshots[each.end_offset]) for each in files),
        )
        return Listing(listed, self.decodes, {} if self.before is None else self.before.superseded)

    def files(self) -> dict[int, SegmentFile]:
        """Return the segment files of the partition by base offset."""
        return {each.base_offset: SegmentFile.of(self.listed, each) for each in self.listed.segments}

    @property
    def progress(self) -> Listing:
        """Return the last shipped listing, extended by the segments that this collection decoded."""
        before = self.before or Listing(replace(self.listed, segments=(), snapshots=()))
        return replace(before, decodes={**before.decodes, **self.decodes})

    @property
    def is_changed(self) -> bool:
        """Return whether anything must be written or deleted."""
        if self.segments or self.snapshot_files or self.before is None:
            return True
        return self.is_due or self.listing.listed != self.before.listed


def plan_partition(
    log_dir: str,
    partition: Partition,
    before: Listing | None,
    *,
    properties: MetaProperties | None,
    with_batches: bool,
    now: int,
) -> CollectPlan:
    """Plan the collection of a partition.

    Args:
        log_dir: the log directory as the user named it.
        before: the last shipped listing; None the first time.
        properties: meta.properties of the log directory.
        with_batches: whether batch headers are shipped, too.
        now: epoch ms.
    """
    listed = ListedPartition.of(log_dir, partition, properties)
    known = _known_decodes(listed, before)
    stays = _right_decodes(listed, known, with_batches=with_batches)
    objects = {} if before is None else dict(_same_files(listed.snapshots, before.listed.snapshots))
    bases = {segment.base_offset for segment in partition.segments}
    return CollectPlan(
        partition=partition,
        listed=listed,
        before=before,
        decodes=stays,
        segments=tuple(segment for segment in partition.segments if segment.base_offset not in stays),
        snapshots=objects,
        snapshot_files=_without(partition.snapshots, objects),
        gone=tuple(sorted(known.keys() - bases)),
        is_due=_is_due(before, now),
    )


def _known_decodes(listed: ListedPartition, before: Listing | None) -> Mapping[int, CollectedDecode]:
    """Return the decodes of the last listing by base offset; none if the topic was deleted and created again."""
    if before is None or before.listed.topic_id != listed.topic_id:
        return {}
    return before.decodes


def _without(files: Mapping[int, FileRef], shipped: Mapping[int, str]) -> dict[int, FileRef]:
    """Return the snapshot files that were not shipped, ascending by exclusive end offset."""
    return {end: files[end] for end in sorted(files.keys() - shipped.keys())}


def _is_due(before: Listing | None, now: int) -> bool:
    """Return whether an object in `before.superseded` is at least GRACE_MS old, so that it can be deleted."""
    return before is not None and any(since + GRACE_MS <= now for since in before.superseded.values())


def _right_decodes(
    listed: ListedPartition, known: Mapping[int, CollectedDecode], *, with_batches: bool
) -> dict[int, CollectedDecode]:
    """Return the decodes in `known` whose segments are unchanged, by base offset.

    If `with_batches` is True, skip decodes without batch headers.
    """
    found: dict[int, CollectedDecode] = {}
    for segment in listed.segments:
        decode = known.get(segment.base_offset)
        if decode is None:
            continue
        lacks_batches = with_batches and decode.batches is None
        if decode.is_right(segment) and not lacks_batches:
            found[segment.base_offset] = decode
    return found


def _same_files(files: Iterable[ListedSnapshot], before: Iterable[ListedSnapshot]) -> Iterator[tuple[int, str]]:
    """Yield exclusive end offset and object name of each file that is unchanged since it was shipped."""
    known = {replace(each, object=None): each.object for each in before}
    for file in files:
        if (name := known.get(file)) is not None:
            yield file.end_offset, name
