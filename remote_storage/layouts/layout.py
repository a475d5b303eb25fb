"""The base of layouts: the objects of a remote segment, their order, and the way to read its indexes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.stores.object_store import ObjectStore


class IndexType(StrEnum):
    """Kafka's RemoteStorageManager.IndexType, in the order of the Aiven plugin's indexes object."""

    OFFSET = "OFFSET"
    TIMESTAMP = "TIMESTAMP"
    PRODUCER_SNAPSHOT = "PRODUCER_SNAPSHOT"
    LEADER_EPOCH = "LEADER_EPOCH"
    TRANSACTION = "TRANSACTION"


INDEXES_OF_ENTRIES = {
    "offset index": IndexType.OFFSET,
    "time index": IndexType.TIMESTAMP,
    "transaction index": IndexType.TRANSACTION,
}
"""The indexes whose entries must ascend, by the names that `formats.index_order` gives them in its faults."""


class StoredState(StrEnum):
    """The completeness of an attempt's objects in the store."""

    ABSENT = "ABSENT"
    PARTIAL = "PARTIAL"  # readers do not see a segment
    COMPLETE = "COMPLETE"


@dataclass(frozen=True, slots=True)
class PlannedObject:
    """An object to write."""

    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Layout(ABC):
    """The objects of a remote segment. A layout has no state, and can be pickled."""

    name: ClassVar[str]  # for reports and settings
    is_local: ClassVar[bool]  # whether this is the layout of LocalTieredStorage
    kinds: ClassVar[tuple[KeyKind, ...]]  # of all possible objects of a segment, the log first

    def object_keys(self, metadata: RemoteLogSegmentMetadata) -> tuple[str, ...]:
        """Return all possible keys of a remote segment's objects, in the order of `kinds`."""
        return tuple(keys.segment(kind, metadata) for kind in self.kinds)

    def log_key(self, metadata: RemoteLogSegmentMetadata) -> str:
        """Return the key of the segment file. In both layouts, tiersnap stores the file unchanged."""
        return keys.segment(self.kinds[0], metadata)

    def stem(self, metadata: RemoteLogSegmentMetadata) -> str:
        """Return the prefix of the keys of the segment's objects. No other key has this prefix."""
        return keys.segment_stem(metadata, local=self.is_local)

    @abstractmethod
    def plan(self, indexes: Mapping[IndexType, bytes], metadata: RemoteLogSegmentMetadata) -> tuple[PlannedObject, ...]:
        """Return the objects to write after the log object, in the order of writing.

        When the last of them is written, the segment is visible to readers.

        Args:
            indexes: all indexes; the transaction index may be missing.
        """

    @abstractmethod
    def inspect(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata) -> StoredState:
        """Return whether the segment's objects in the store are absent, partial or complete."""

    @abstractmethod
    def fetch_index(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata, index: IndexType) -> bytes | None:
        """Return the content of an index. Return None for the transaction index if the segment has none.

        Raises:
            ObjectNotFoundError: the segment or the index is not in the store.
        """
