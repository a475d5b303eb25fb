"""The base of layouts: which objects a remote segment has, their order, and how a reader finds its indexes."""

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
"""Indexes whose entries have an order, by the names that their faults give them (formats.index_order)."""


class StoredState(StrEnum):
    """The part of one attempt's objects that is in the store."""

    ABSENT = "ABSENT"
    PARTIAL = "PARTIAL"  # no reader will take it for a segment
    COMPLETE = "COMPLETE"


@dataclass(frozen=True, slots=True)
class PlannedObject:
    """An object to be written."""

    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Layout(ABC):
    """The objects of a segment; layouts are values and can be pickled."""

    name: ClassVar[str]  # for reports and settings
    is_local: ClassVar[bool]  # whether this is the layout of LocalTieredStorage
    kinds: ClassVar[tuple[KeyKind, ...]]  # of all objects that a segment can have, the log first

    def object_keys(self, metadata: RemoteLogSegmentMetadata) -> tuple[str, ...]:
        """Return every key that a remote segment can have, in the order of `kinds`."""
        return tuple(keys.segment(kind, metadata) for kind in self.kinds)

    def log_key(self, metadata: RemoteLogSegmentMetadata) -> str:
        """Return the key of the segment file, which all layouts here store unchanged."""
        return keys.segment(self.kinds[0], metadata)

    def stem(self, metadata: RemoteLogSegmentMetadata) -> str:
        """Return the prefix that the keys of the segment's objects share with no others."""
        return keys.segment_stem(metadata, local=self.is_local)

    @abstractmethod
    def plan(self, indexes: Mapping[IndexType, bytes], metadata: RemoteLogSegmentMetadata) -> tuple[PlannedObject, ...]:
        """Return the objects to write after the log, in this order; the last one makes the segment visible.

        Args:
            indexes: all but the transaction index, which not every segment has.
        """

    @abstractmethod
    def inspect(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata) -> StoredState:
        """Return how much of the segment is in the store."""

    @abstractmethod
    def fetch_index(self, store: ObjectStore, metadata: RemoteLogSegmentMetadata, index: IndexType) -> bytes | None:
        """Return the content of one index; None for a transaction index that the segment never had.

        Raises:
            ObjectNotFoundError: the segment, or that index, is not in the store.
        """
