"""Plan the collection of one partition: compare its log directory with the listing that was shipped before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tiersnap.snapshot.collected.listing import Listing, Row, is_as_decoded
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment
from tiersnap.snapshot.tables.listed import to_row

# A run that reads by an older listing is over after this long.
GRACE_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class CollectPlan:
    """A partition to collect.

    Attributes:
        row: of LISTED, as it is listed now; `decode` and `object` are not filled in.
        before: what was shipped, None before the first time.
        decodes: rows of DECODED that stay, by base offset.
        segments: to be decoded and shipped, ascending.
        snapshots: objects that stay, by exclusive end offset.
        snapshot_files: to be shipped, by exclusive end offset.
        gone: base offsets that were shipped and are no longer there.
        is_due: objects that nobody reads any more can be deleted.
    """

    partition: Partition
    row: Row
    before: Listing | None
    decodes: Mapping[int, Row]
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
        segments = [
            {**segment, "decode": self.decodes[segment["base_offset"]]["object"]} for segment in self.row["segments"]
        ]
        files = [{**file, "object": self.snapshots[file["end_offset"]]} for file in self.row["snapshots"]]
        superseded = {} if self.before is None else self.before.superseded
        return Listing({**self.row, "segments": segments, "snapshots": files}, self.decodes, superseded)

    @property
    def progress(self) -> Listing:
        """The listing as it was shipped before, with the decodes that were made since."""
        empty = {**self.row, "segments": [], "snapshots": []}
        before = self.before or Listing(empty)
        return replace(before, decodes={**before.decodes, **self.decodes})

    @property
    def is_changed(self) -> bool:
        """Return whether anything has to be written."""
        if self.segments or self.snapshot_files or self.before is None:
            return True
        return self.is_due or self.listing.row != self.before.row


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
    row = to_row(log_dir, partition, properties=properties)
    # The id of a topic that was made again says that its segments are others.
    is_same_topic = before is not None and before.row["topic_id"] == row["topic_id"]
    known = before.decodes if before is not None and is_same_topic else {}
    stays = dict(_staying(row["segments"], known, with_batches))
    objects = {} if before is None else dict(_same_files(row["snapshots"], before.row["snapshots"]))
    bases = {segment.base_offset for segment in partition.segments}
    return CollectPlan(
        partition=partition,
        row=row,
        before=before,
        decodes=stays,
        segments=tuple(segment for segment in partition.segments if segment.base_offset not in stays),
        snapshots=objects,
        snapshot_files={end: ref for end, ref in sorted(partition.snapshots.items()) if end not in objects},
        gone=tuple(sorted(base for base in known if base not in bases)),
        is_due=before is not None and any(since + GRACE_MS <= now for since in before.superseded.values()),
    )


def _staying(segments: list[Row], known: Mapping[int, Row], with_batches: bool) -> Iterator[tuple[int, Row]]:
    for segment in segments:
        decode = known.get(segment["base_offset"])
        if decode is not None and is_as_decoded(segment, decode) and not (with_batches and decode["batches"] is None):
            yield segment["base_offset"], decode


def _same_files(files: list[Row], before: list[Row]) -> Iterator[tuple[int, str]]:
    known = {(file["end_offset"], file["size_bytes"], file["modified_ns"]): file["object"] for file in before}
    for file in files:
        name = known.get((file["end_offset"], file["size_bytes"], file["modified_ns"]))
        if name is not None:
            yield file["end_offset"], name
