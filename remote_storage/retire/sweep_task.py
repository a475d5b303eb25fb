"""Delete the leftovers of partitions in a Spark task: rows in, rows out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.retire.partition_leftovers import sweep_partition
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.rows import Rows


@dataclass(frozen=True, slots=True)
class SweepablePartition:
    """A row of LEFT: a partition with leftovers. `local_start` is the base offset of the first local segment."""

    partition: TopicIdPartition
    local_start: int


@dataclass(frozen=True, slots=True)
class SweptPartition:
    """A row of SWEPT: the number of deleted objects, and the first reason why objects remain, or None."""

    partition: str
    objects: int
    failure: str | None


_LEFT_ROWS = Rows(SweepablePartition)
_SWEPT_ROWS = Rows(SweptPartition)
LEFT, SWEPT = _LEFT_ROWS.schema, _SWEPT_ROWS.schema


@dataclass(frozen=True)
class SweepTask:
    """Maps LEFT rows to SWEPT rows."""

    location: RemoteLocation

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sweep one partition after the other."""
        for batch in batches:
            yield _SWEPT_ROWS.batch(map(self._sweep, _LEFT_ROWS.read([batch])))

    def _sweep(self, left: SweepablePartition) -> SweptPartition:
        name = str(left.partition)
        try:
            found = list_remote_partition(self.location, left.partition, local_start=left.local_start)
            swept = sweep_partition(self.location.store, found)
        except TiersnapError as error:
            return SweptPartition(name, 0, error.message)
        if swept.failures:
            first = swept.failures[0]
            return SweptPartition(name, swept.objects, f"{first.key}: {first.reason}")
        if swept.doubts:
            return SweptPartition(name, swept.objects, swept.doubts[0].message)
        return SweptPartition(name, swept.objects, None)
