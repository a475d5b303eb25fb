"""The producers of a partition at its log end, as DescribeProducers of a broker gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.examine import Examination, conclude
from tiersnap.snapshot.replay.partition_replay import AS_BROKER, local_replay
from tiersnap.snapshot.replay.producer_state import ENTRY_DTYPE, live_entries
from tiersnap.snapshot.replay.trust import Comparison
from tiersnap.snapshot.units import utc


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    """A replayed partition.

    Attributes:
        entries: ENTRY_DTYPE ascending by producer id, nothing expired; None where damage hides the log end.
    """

    examination: Examination
    entries: np.ndarray | None

    def live(self, *, as_of: int, expiration: int | None) -> np.ndarray:
        """The entries that a broker still has at `as_of`.

        Args:
            as_of: ms since the epoch.
            expiration: ms, producer.id.expiration.ms; None if it never drops producers.
        """
        return _NONE if self.entries is None else live_entries(self.entries, as_of=as_of, expiration=expiration)


_NONE = np.empty(0, ENTRY_DTYPE)


def replay_to_end(filesystem: FileSystem, partition: Partition, *, check_crc: bool = True) -> PartitionProducers:
    """Replay a partition as a broker that opens it does, and keep the state at its end."""
    replay, boundaries = local_replay(filesystem, partition, check_crc=check_crc, begins=AS_BROKER)
    snapshots: dict[int, Comparison] = {}
    entries: np.ndarray | None = None
    for boundary in boundaries:
        snapshots[boundary.offset] = boundary.found
        entries = boundary.entries if boundary.offset == replay.log_end else None
    is_whole = replay.damage is None and replay.refusal is None
    if not is_whole:
        entries = None
    elif entries is None:
        entries = replay.entries_of_no_batches()
    return PartitionProducers(conclude(replay, snapshots), entries)


def producer_rows(partition: Partition, entries: np.ndarray) -> Iterator[dict[str, object]]:
    """A row an entry, as DescribeProducers answers: -1 where there is no batch and no marker, ms since the epoch.

    `transaction_start_offset` is None without an open transaction, `last_time` where there is no time.
    """
    for entry in entries:
        start = int(entry["current_txn_first_offset"])
        yield {
            "topic": partition.topic,
            "partition": partition.partition,
            "producer_id": int(entry["producer_id"]),
            "producer_epoch": int(entry["producer_epoch"]),
            "coordinator_epoch": int(entry["coordinator_epoch"]),
            "last_sequence": int(entry["last_sequence"]),
            "last_timestamp": int(entry["timestamp"]),
            "last_time": utc(int(entry["timestamp"])),
            "transaction_start_offset": start if start >= 0 else None,
            "last_offset": int(entry["last_offset"]),
        }
