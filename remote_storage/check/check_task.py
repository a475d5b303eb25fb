"""Partitions as rows -> rows of the table `remote_checks`: what a Spark task does."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from tiersnap.remote_storage.check.partition_check import PartitionCheck
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.codecs import RowCodec
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.readiness.remote_check import CheckRequest, ComparedWith, RemoteCheck, RemoteVerdict
from tiersnap.snapshot.tables.schemas import REMOTE_CHECKS

_log = logging.getLogger(__name__)

CHECKED = pa.schema([field for field in REMOTE_CHECKS if field.name != "run"])
KNOWN = pa.struct(list(CHECKED))
COMPARED = pa.struct([("offset", pa.int64()), ("crc", pa.int64())])
# A partition, the newest checks of its segments, and CRCs of snapshots that a run compared with the log or computed.
_FIELDS: list[pa.Field[Any]] = [
    pa.field("topic", pa.string()),
    pa.field("topic_id", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("known", pa.list_(KNOWN)),
    pa.field("compared", pa.list_(COMPARED)),
]
TO_CHECK = pa.schema(_FIELDS)
_CODEC = RowCodec(RemoteCheck)
_ROWS = 1_000


@dataclass(frozen=True)
class CheckTask:
    """TO_CHECK rows -> CHECKED rows; `is_local` says that segments lie as LocalTieredStorage lays them."""

    store: ObjectStore
    is_local: bool
    asked: CheckRequest

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Verify one partition after the other; what remote storage does not tell is a row as well."""
        for batch in batches:
            for row in batch.to_pylist():
                rows = (_CODEC.to_row(each) for each in self._checks(row))
                while some := list(islice(rows, _ROWS)):
                    yield pa.RecordBatch.from_pylist(some, schema=CHECKED)

    def _checks(self, row: Mapping[str, Any]) -> Iterator[RemoteCheck]:
        known = {each["segment_id"]: _CODEC.of_row(each) for each in row["known"] or ()}
        compared = {each["offset"]: each["crc"] for each in row["compared"] or ()}
        of = TopicIdPartition(row["topic"], row["topic_id"], row["partition"])
        try:
            yield from PartitionCheck(self.store, of, self.asked, self.is_local, known, None, compared).checks()
        except TiersnapError as error:
            _log.warning("%s: %s", of, error.message)
            yield RemoteCheck(
                row["topic"], row["topic_id"], row["partition"], "", 0, None, -1, False, 0, 0, 0, 0,
                self.asked.depth, RemoteVerdict.UNVERIFIED, ComparedWith.NOTHING, error.message, self.asked.now,
            )  # fmt: skip
