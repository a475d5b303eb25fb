"""The brokers of a cluster as far as tiered storage goes: a partition's copier, and what becomes of a deleted topic.

What they know is tests.reference.remote_index, which tests/broker/test_remote_index.py holds against Kafka's own
RemoteLogMetadataCache: lookups, the highest offset of an epoch, and all segments of a partition. What they do follows
RLMCopyTask.copyLogSegmentsToRemote, findHighestRemoteOffset and RemoteLogManager.deleteRemoteLogPartition of
org.apache.kafka.server.log.remote.storage.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from tests.protocol.logs import END, LINEAGE, PARTITION, TOPIC_ID, epoch_of
from tests.protocol.memory_store import MemoryStore
from tests.reference.model_cluster import ModelCluster
from tests.reference.remote_index import RemoteIndex
from tests.reference.tiered import tier
from tiersnap.remote_storage.cluster.topic_checks import is_copying_off
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    new_segment_id,
)

STARTED, FINISHED, DELETING, DELETED = SegmentState
BROKER = 1


@dataclass
class ModelBrokers:
    """The leader of the partition, and whoever deletes it.

    Attributes:
        disk: the leader's log directory.
        copied: last offset that its copier has copied, as far as it remembers; None makes it look.
        deleting: segments of the deleted topic.
        storage_throws: whether its storage manager throws RemoteStorageException once the objects exist, and again when
            the copy task deletes them.
        copied_again: ids of segments that its copier has copied although they were finished already.
    """

    cluster: ModelCluster
    store: MemoryStore
    disk: Path
    copied: int | None = None
    deleting: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    storage_throws: bool = False
    copied_again: list[str] = field(default_factory=list)

    def index(self) -> RemoteIndex:
        """What brokers know of the partition."""
        index = RemoteIndex()
        for record in self.cluster.records(PARTITION):
            index.apply(record)
        return index

    def run_copier(self) -> None:
        """One run of its task: it copies up to the first segment that it cannot copy."""
        if PARTITION.topic not in self.cluster.there or is_copying_off(self.cluster.settings(PARTITION.topic)):
            self.copied = None
            return
        if self.copied is None:
            self.copied = self._highest_remote_offset()
        bases = sorted(int(path.stem) for path in self._folder.glob("*.log"))
        for base, following in pairwise(bases):
            if following - 1 > self.copied and following <= END:
                if not self._copy(base, following):
                    return
                self.copied = following - 1

    def restart(self) -> None:
        """The leader starts anew, or another replica leads."""
        self.copied = None

    def mend(self, snapshots: Path) -> None:
        """Somebody puts the missing snapshots there, as `tiersnap repair` makes them."""
        for each in snapshots.glob("*.snapshot"):
            shutil.copy(each, self._folder)

    def begin_deletion(self) -> None:
        """The topic is deleted: clients do not see it any more, and its segments are being deleted."""
        del self.cluster.there[PARTITION.topic]
        self.deleting = self.index().segments()
        for segment in self.deleting:
            self._tell(segment, DELETING)

    def end_deletion(self) -> None:
        """Objects of what brokers knew then are deleted, and then it is recorded."""
        for segment in self.deleting:
            self.store.delete(key for key in list(self.store.objects) if segment.id.segment_id in key)
        for segment in self.deleting:
            self._tell(segment, DELETED)

    @property
    def _folder(self) -> Path:
        return self.disk / "orders-0"

    def _highest_remote_offset(self) -> int:
        index, ends = self.index(), {epoch: start for (epoch, _), (_, start) in pairwise(LINEAGE)}
        for epoch, _ in reversed(LINEAGE):
            highest = index.highest(epoch)
            if highest is not None:
                return min(highest, ends.get(epoch, END + 1) - 1)
        return -1

    def _copy(self, base: int, following: int) -> bool:
        segment_id = RemoteLogSegmentId(PARTITION.topic, TOPIC_ID, PARTITION.partition, new_segment_id())
        before = max(entry for entry in LINEAGE if entry[1] <= base)
        epochs = ((before[0], base), *(entry for entry in LINEAGE if base < entry[1] < following))
        now = self.store.time
        size = (self._folder / f"{base:020d}.log").stat().st_size
        told = RemoteLogSegmentMetadata(segment_id, base, following - 1, BROKER, now, now, epochs, size, STARTED)
        if not (self._folder / f"{following:020d}.snapshot").exists():
            self.cluster.append(SegmentRecord(told))
            return False  # NullPointerException: the producer snapshot is null
        index, offsets = self.index(), range(base, following)
        if all(index.find(epoch_of(offset), offset) for offset in offsets):
            self.copied_again.append(segment_id.segment_id)
        (copied,) = tier(self._folder, self.store, bases={base}, event_timestamp=now)
        self.cluster.append(SegmentRecord(replace(copied, broker_id=BROKER, state=STARTED)))
        if self.storage_throws:
            self._tell(copied, DELETING)
            return False
        self._tell(copied, FINISHED)
        return True

    def _tell(self, segment: RemoteLogSegmentMetadata, state: SegmentState) -> None:
        self.cluster.append(SegmentUpdate(segment.id, BROKER, self.store.time, state))
