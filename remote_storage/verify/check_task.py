"""The Spark task that verifies partitions. It yields rows of the table `remote_checks`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.log_head import unknown_log_start
from tiersnap.remote_storage.remote_log.segment_objects import by_id
from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.remote_check import CHECKS, CheckRequest, ComparedWith, RemoteCheck, RemoteVerdict
from tiersnap.snapshot.rows import Int32, Rows

_log = logging.getLogger(__name__)

_ROWS = 1_000


class ComparedSnapshot(NamedTuple):
    """The CRC-32C of a snapshot, and its exclusive snapshot offset."""

    offset: int
    crc: int


@dataclass(frozen=True, slots=True)
class PartitionToCheck:
    """A partition to verify.

    Attributes:
        known: the newest earlier check of each segment; None if no segment has one.
        compared: snapshots that a run computed or compared with the log; None if there are none.
    """

    topic: str
    topic_id: str
    partition: Int32
    known: tuple[RemoteCheck, ...] | None = None
    compared: tuple[ComparedSnapshot, ...] | None = None


_PARTITIONS = Rows(PartitionToCheck)
TO_CHECK = _PARTITIONS.schema


@dataclass(frozen=True)
class CheckTask:
    """Maps rows of TO_CHECK to rows of RemoteCheck."""

    location: RemoteLocation
    asked: CheckRequest

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Verify the partitions one by one. If a request fails, yield an UNVERIFIED row for the partition."""
        for partition in _PARTITIONS.read(batches):
            checks = self._checks(partition)
            while some := list(islice(checks, _ROWS)):
                yield CHECKS.batch(some)

    def _checks(self, partition: PartitionToCheck) -> Iterator[RemoteCheck]:
        known = by_id(partition.known or ())
        compared = dict(partition.compared or ())
        of = TopicIdPartition(partition.topic, partition.topic_id, partition.partition)
        try:
            check = PartitionCheck(
                self.location, of, self.asked, known, compared=compared, log_start_of=unknown_log_start
            )
            yield from check.checks()
        except TiersnapError as error:
            _log.warning("%s: %s", of, error.message)
            yield RemoteCheck(
                partition.topic, partition.topic_id, partition.partition, "", 0, None, -1, False, 0, 0, 0, 0,
                self.asked.depth, RemoteVerdict.UNVERIFIED, ComparedWith.NOTHING, error.message, self.asked.now,
                self.asked.producer_expiration, self.location.store.uri,
            )  # fmt: skip
