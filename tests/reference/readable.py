"""Judge of a publication: which offsets brokers read of complete copies after each record, and which must stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.reference.random_publications import EPOCHS, OFFSETS, Publication, Record
from tests.reference.remote_index import RemoteIndex
from tests.reference.remote_segments import PARTITION
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan, SegmentToPublish, plan_segments
from tiersnap.snapshot.errors import TiersnapError

Cell = tuple[int, int]
"""A leader epoch and an offset."""


@dataclass(frozen=True)
class Planned:
    """What becomes of a publication; no records if it is refused."""

    segments: Sequence[SegmentToPublish] = ()
    records: Sequence[Record] = ()
    refusal: TiersnapError | None = None


def planned(case: Publication) -> Planned:
    """The plan of the product."""
    cache = MetadataCache()
    for record in case.records:
        cache.apply(record)
    try:
        segments = plan_segments(
            PARTITION,
            case.ours,
            cache,
            log_start_offset=case.log_start,
            why_outside=case.why_outside,
            complete_segments=lambda ids: set(ids) - set(case.lost),
        )
    except TiersnapError as refusal:
        return Planned(refusal=refusal)
    plan = PublishPlan(PARTITION, segments, leader=1)
    return Planned(segments, list(plan.records(broker_id=None, now=9)))


def readable_after_each(case: Publication, records: Sequence[Record]) -> Iterator[dict[Cell, str]]:
    """Segment ids that brokers read, before the records and after each, by the reference."""
    index = RemoteIndex()
    for record in case.records:
        index.apply(record)
    yield complete(case, index.table(EPOCHS, OFFSETS))
    for record in records:
        index.apply(record)
        yield complete(case, index.table(EPOCHS, OFFSETS))


def complete(case: Publication, found: dict[Cell, str]) -> dict[Cell, str]:
    """What of it is read: from the log start on, of copies that are not lost."""
    return {cell: copy for cell, copy in found.items() if cell[1] >= case.log_start and copy not in case.lost}


def epoch_of(case: Publication, offset: int) -> int:
    """The leader epoch under which brokers look for an offset."""
    return max(epoch for epoch, start in case.lineage if start <= offset)


def lost_copies_read(case: Publication, records: Sequence[Record]) -> set[str]:
    """Ids of lost copies that brokers find, once they have the records, for offsets of finished copies of this log."""
    index = RemoteIndex()
    for record in [*case.records, *records]:
        index.apply(record)
    of_this_log = [
        each for each in index.finished() if each.end_offset >= case.log_start and not case.why_outside(each)
    ]
    offsets = {offset for each in of_this_log for offset in range(each.start_offset, each.end_offset + 1)}
    found = {index.find(epoch_of(case, offset), offset) for offset in offsets if offset >= case.log_start}
    return found.intersection(case.lost)
