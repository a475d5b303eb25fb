"""Leftovers of partitions deleted by a Spark task: rows in, rows out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiersnap.remote_storage.inventory.remote_inventory import list_remote_partition
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.retire.leftovers import sweep_partition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.tables.schemas import schema_of

# `local_start` is the base offset of the first local segment.
LEFT = schema_of(
    ("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()), ("local_start", pa.int64())
)
# `failure` says why something is left; null where nothing is.
SWEPT = schema_of(("partition", pa.string()), ("objects", pa.int64()), ("failure", pa.string()))


@dataclass(frozen=True)
class SweepTask:
    """LEFT rows -> SWEPT rows; `is_local` says that copies lie as LocalTieredStorage lays them."""

    store: ObjectStore
    is_local: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sweep one partition after the other."""
        for batch in batches:
            yield pa.RecordBatch.from_pylist([self._sweep(row) for row in batch.to_pylist()], schema=SWEPT)

    def _sweep(self, row: dict[str, Any]) -> dict[str, Any]:
        keys, partition = ObjectKeys(), TopicIdPartition(row["topic"], row["topic_id"], row["partition"])
        try:
            found = list_remote_partition(
                self.store, keys, partition, local=self.is_local, local_start=row["local_start"]
            )
            swept = sweep_partition(self.store, keys, found)
            failure = f"{swept.failures[0].key}: {swept.failures[0].reason}" if swept.failures else None
            return {"partition": str(partition), "objects": swept.objects, "failure": failure}
        except TiersnapError as error:
            return {"partition": str(partition), "objects": 0, "failure": error.message}
