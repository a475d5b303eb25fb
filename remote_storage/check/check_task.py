"""Partitions as rows -> rows of the table `remote_checks`: what a Spark task does."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from tiersnap.remote_storage.check.partition_check import PartitionCheck
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.codecs import RowCodec
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.readiness.remote_check import CheckRequest, ComparedWith, RemoteCheck, RemoteVerdict
from tiersnap.snapshot.tables.schemas import REMOTE_CHECKS

_log = logging.getLogger(__name__)

CHECKED = pa.schema([field for field in REMOTE_CHECKS if field.name != "run"])
COMPARED = pa.struct([("offset", pa.int64()), ("crc", pa.int64())])
_CODEC = RowCodec(RemoteCheck)
_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class PartitionToCheck:
    """A partition that is verified.

    Attributes:
        known: the newest checks of its segments.
        compared: offset and CRC of snapshots that a run compared with the log or computed.
    """

    topic: str
    topic_id: str
    partition: int
    known: tuple[RemoteCheck, ...] = ()
    compared: tuple[tuple[int, int], ...] = ()


_PARTITIONS = RowCodec(PartitionToCheck, structs={"known": _CODEC}, pairs={"compared": COMPARED})
TO_CHECK = _PARTITIONS.schema


@dataclass(frozen=True)
class CheckTask:
    """TO_CHECK rows -> CHECKED rows."""

    location: RemoteLocation
    asked: CheckRequest

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Verify one partition after the other; what remote storage does not tell is a row as well."""
        for partition in _PARTITIONS.read(batches):
            checks = self._checks(partition)
            while some := list(islice(checks, _ROWS)):
                yield _CODEC.batch(some, CHECKED)

    def _checks(self, partition: PartitionToCheck) -> Iterator[RemoteCheck]:
        known, compared = {each.segment_id: each for each in partition.known}, dict(partition.compared)
        of = TopicIdPartition(partition.topic, partition.topic_id, partition.partition)
        try:
            yield from PartitionCheck(self.location, of, self.asked, known, None, compared).checks()
        except TiersnapError as error:
            _log.warning("%s: %s", of, error.message)
            yield RemoteCheck(
                partition.topic, partition.topic_id, partition.partition, "", 0, None, -1, False, 0, 0, 0, 0,
                self.asked.depth, RemoteVerdict.UNVERIFIED, ComparedWith.NOTHING, error.message, self.asked.now,
                self.asked.producer_expiration, self.location.store.uri,
            )  # fmt: skip
