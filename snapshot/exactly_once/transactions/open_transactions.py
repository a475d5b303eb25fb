"""The open transactions of a partition, and the segments that each keeps from being tiered.

A segment may be tiered only when its next base offset is at or below the last stable offset, which an open transaction
holds at its first offset (the verdict ABOVE_LSO).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.exactly_once.log_replay import LogReplay
from tiersnap.snapshot.exactly_once.transactions.producers import entries_at_end
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.never_tiered import never_tiered_reason


@dataclass(frozen=True, slots=True)
class PartitionTransaction:
    """A producer's open transaction on one partition.

    Attributes:
        coordinator_epoch: of the producer's last marker, -1 without one.
        start_offset: of its first record.
        last_timestamp: ms, of the producer's last batch.
        blocked_segments: base offsets of the closed segments that end above `start_offset`; none in a topic that is
            never tiered.
        blocked_bytes: of those segments' log files.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    blocked_segments: tuple[int, ...]
    blocked_bytes: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Where it is open."""
        return self.topic, self.partition


def open_transactions(replayed: LogReplay) -> Iterator[PartitionTransaction]:
    """Return the partition's open transactions, ascending by start offset."""
    partition, entries = replayed.examination.partition, entries_at_end(replayed)
    is_open = entries["current_txn_first_offset"] >= 0
    for entry in np.sort(entries[is_open], order=("current_txn_first_offset", "producer_id")):
        start_offset = int(entry["current_txn_first_offset"])
        blocked = list(_blocked(partition, start_offset))
        yield PartitionTransaction(
            partition.topic,
            partition.partition,
            int(entry["producer_id"]),
            int(entry["producer_epoch"]),
            int(entry["coordinator_epoch"]),
            start_offset,
            int(entry["timestamp"]),
            tuple(segment.base_offset for segment in blocked),
            sum(segment.log.size for segment in blocked),
        )


def _blocked(partition: Partition, start_offset: int) -> Iterator[Segment]:
    if never_tiered_reason(partition):
        return
    for segment in partition.segments:
        if segment.next_base_offset is not None and segment.next_base_offset > start_offset:
            yield segment
