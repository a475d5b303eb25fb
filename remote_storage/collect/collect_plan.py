"""Plan the collection of one partition: compare its log directory with the listing that was shipped before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tiersnap.snapshot.collected.listing import CollectedDecode, Listing
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment
from tiersnap.snapshot.tables.listed import ListedPartition, ListedSnapshot

# A run that reads by an older listing is over after this long.
GRACE_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class CollectPlan:
    """A partition to collect.

    Attributes:
        listed: as it is listed now; `decode` and `object` are not filled in.
        before: what was shipped, None before the first time.
        decodes: that stay, by base offset.
        segments: to be decoded and shipped, ascending.
        snapshots: objects that stay, by exclusive end offset.
        snapshot_files: to be shipped, by exclusive end offset.
        gone: base offsets that were shipped and are no longer there.
        is_due: objects that nobody reads any more can be deleted.
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
        """Return the bytes of segment files to read."""
        return sum(segment.log.size for segment in self.segments)

    @property
    def listing(self) -> Listing:
        """Return the listing to ship, once `decodes` and `snapshots` name everything.

        Raises:
            KeyError: they do not.
        """
        segments, files = self.listed.segments, self.listed.snapshots
        listed = replace(
            self.listed,
            segments=tuple(replace(each, decode=self.decodes[each.base_offset].object) for each in segments),
            snapshots=tuple(replace(each, object=self.snapshots[each.end_offset]) for each in files),
        )
        return Listing(listed, self.decodes, {} if self.before is None else self.before.superseded)

    @property
    def progress(self) -> Listing:
        """The listing as it was shipped before, with the decodes that were made since."""
        before = self.before or Listing(replace(self.listed, segments=(), snapshots=()))
        return replace(before, decodes={**before.decodes, **self.decodes})

    @property
    def is_changed(self) -> bool:
        """Return whether anything has to be written."""
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
        log_dir: as the user named it.
        before: what was shipped, None before the first time.
        properties: of the log directory.
        with_batches: batch headers are shipped, too.
        now: epoch ms.
    """
    listed = ListedPartition.of(log_dir, partition, properties)
    # The id of a topic that was made again says that its segments are others.
    is_same_topic = before is not None and before.listed.topic_id == listed.topic_id
    known = before.decodes if before is not None and is_same_topic else {}
    found = ((each.base_offset, known.get(each.base_offset), each) for each in listed.segments)
    stays = {
        base: decode
        for base, decode, segment in found
        if decode is not None and decode.is_right(segment) and not (with_batches and decode.batches is None)
    }
    objects = {} if before is None else dict(_same_files(listed.snapshots, before.listed.snapshots))
    bases = {segment.base_offset for segment in partition.segments}
    return CollectPlan(
        partition=partition,
        listed=listed,
        before=before,
        decodes=stays,
        segments=tuple(segment for segment in partition.segments if segment.base_offset not in stays),
        snapshots=objects,
        snapshot_files={end: ref for end, ref in sorted(partition.snapshots.items()) if end not in objects},
        gone=tuple(sorted(base for base in known if base not in bases)),
        is_due=before is not None and any(since + GRACE_MS <= now for since in before.superseded.values()),
    )


def _same_files(files: Iterable[ListedSnapshot], before: Iterable[ListedSnapshot]) -> Iterator[tuple[int, str]]:
    """Yield the objects of files that are as they were shipped."""
    known = {replace(each, object=None): each.object for each in before}
    for file in files:
        if (name := known.get(file)) is not None:
            yield file.end_offset, name
