"""The remote segments of a host's partitions, from `__remote_log_metadata` records. Remote storage is not read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
from tiersnap.snapshot.log.coverage import NOTHING_REMOTE, RemoteCoverage
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.leader_epochs import ENDLESS
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.remote_records import Records, records_of
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning


@dataclass
class RecordedInventory:
    """An Inventory from `__remote_log_metadata` records, which contain neither the beginning of a log nor producers."""

    records: Records
    errors: list[TiersnapError] = field(default_factory=list)  # always empty

    def beginning(self, partition: Partition) -> Beginning:
        """Return NOT_LOOKED, because records do not show the beginning of a log."""
        return NOT_LOOKED

    def coverage(self, partition: Partition, log_end_offset: int = ENDLESS) -> RemoteCoverage:
        """Return the offsets of the partition that brokers read from remote storage."""
        found = records_of(self.records, partition.topic, partition.partition, partition.topic_id)
        if found is None:
            return NOTHING_REMOTE
        return found.listing.coverage(partition.leader_epochs, log_end_offset)

    def lost_producers(self, filesystem: FileSystem, partition: Partition) -> LostProducers | None:
        """Return None, because the producers are unknown."""
        return None
