"""A segment with all parts that remote storage requires. A bundle with a missing part cannot be constructed.

A broker passes a LogSegmentData to its storage plugin: log, offset index, time index, producer snapshot, leader epochs
and an optional transaction index. If the snapshot is missing, the broker fails after it published
COPY_SEGMENT_STARTED, and tiers no later segment of the partition. So tiersnap builds the bundle before it claims the
segment. During the upload of the log, tiersnap compares the indexes with the batches, and rebuilds wrong or missing
indexes.

Kafka: org.apache.kafka.server.log.remote.storage.LogSegmentData, RemoteLogManager.RLMCopyTask.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    epochs_in_range,
    without_empty,
)
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile, TrustedSnapshot
from tiersnap.snapshot.errors import IncompleteBundleError, MissingProducerSnapshotError, TiersnapError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs, format_leader_epochs
from tiersnap.snapshot.formats.transaction_index import ONGOING_TXN_DTYPE
from tiersnap.snapshot.repair.index_check import CheckedIndexes, FoundIndexes

# Limit in bytes: several times the broker's log.index.size.max.bytes.
LARGEST_INDEX = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSegment:
    """A local segment with offsets [base_offset, next_base_offset), as snapshot.gate judged it."""

    base_offset: int
    next_base_offset: int  # exclusive end: the base offset of the next segment, not the last offset + 1
    max_timestamp: int  # largest timestamp in ms, as in LogSegment.largestTimestamp
    log: SourceFile
    # (epoch, start offset) below `next_base_offset`, ascending. The constructor accepts a whole
    # leader-epoch-checkpoint, and removes empty and later entries.
    leader_epochs: LeaderEpochs
    # the index files of the segment; None for a missing file
    offset_index: SourceFile | None = None
    time_index: SourceFile | None = None
    transaction_index: SourceFile | None = None
    # (producer id, first offset) of the transactions open at `base_offset`; None if unknown.
    open_transactions: tuple[tuple[int, int], ...] | None = None
    header_digest: str | None = None  # SegmentEnd.digest of the decode; None if the segment was not decoded

    def __post_init__(self) -> None:
        below = (entry for entry in self.leader_epochs if entry[1] < self.next_base_offset)
        object.__setattr__(self, "leader_epochs", without_empty(below))

    @property
    def segment_leader_epochs(self) -> LeaderEpochs:
        """Return (epoch, first offset in this segment), ascending, as published in records."""
        return epochs_in_range(self.leader_epochs, self.base_offset, self.next_base_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBundle(JudgedSegment):
    """A segment with all parts that KIP-405 requires.

    Raises:
        MissingProducerSnapshotError: the snapshot offset is not `next_base_offset`.
        IncompleteBundleError: a mandatory part is missing or empty.
    """

    producer_snapshot: TrustedSnapshot  # at `next_base_offset`

    def __post_init__(self) -> None:
        JudgedSegment.__post_init__(self)
        if not 0 <= self.base_offset < self.next_base_offset:
            raise self._incomplete(f"log: the offsets [{self.base_offset}, {self.next_base_offset}) are not possible")
        if self.log.size <= 0:
            raise self._incomplete("log: the file is empty, but a remote segment needs at least one batch")
        if self.producer_snapshot.offset != self.next_base_offset:
            raise MissingProducerSnapshotError(
                f"segment {self.base_offset} needs the snapshot at its end offset {self.next_base_offset}, but "
                f"got the snapshot at {self.producer_snapshot.offset}",
                hint="to list the snapshots: tiersnap scan SOURCE",
                base_offset=self.base_offset,
                next_base_offset=self.next_base_offset,
                found=self.producer_snapshot.offset,
            )
        for before, after in pairwise(self.leader_epochs):
            if after[0] <= before[0] or after[1] < before[1]:
                raise self._incomplete(
                    f"leader epochs: {after} comes after {before}, but leader epochs and offsets must ascend"
                )
        if not self.segment_leader_epochs:
            raise self._incomplete("leader epochs: none covers the offsets of the segment")

    def metadata(
        self, segment_id: RemoteLogSegmentId, *, broker_id: int, event_timestamp: int
    ) -> RemoteLogSegmentMetadata:
        """Return the metadata of an attempt, in the state COPY_SEGMENT_STARTED."""
        return RemoteLogSegmentMetadata(
            id=segment_id,
            start_offset=self.base_offset,
            end_offset=self.next_base_offset - 1,
            broker_id=broker_id,
            max_timestamp=self.max_timestamp,
            event_timestamp=event_timestamp,
            segment_leader_epochs=self.segment_leader_epochs,
            segment_size=self.log.size,
            state=SegmentState.COPY_SEGMENT_STARTED,
        )

    def found_indexes(self) -> FoundIndexes:
        """Return the bytes of the index files; None for a missing or unreadable file."""
        return FoundIndexes(_read(self.offset_index), _read(self.time_index), _read(self.transaction_index))

    def ongoing(self) -> np.ndarray | None:
        """Return `open_transactions` as an array (ONGOING_TXN_DTYPE), sorted by first offset."""
        if self.open_transactions is None:
            return None
        return np.sort(np.array(list(self.open_transactions), ONGOING_TXN_DTYPE), order="first_offset")

    def index_contents(self, checked: CheckedIndexes) -> dict[IndexType, bytes]:
        """Return the contents of all objects but the log. `checked` has the indexes that match the batches."""
        contents = {
            IndexType.OFFSET: checked.offset_index,
            IndexType.TIMESTAMP: checked.time_index,
            IndexType.PRODUCER_SNAPSHOT: self.producer_snapshot.data,
            IndexType.LEADER_EPOCH: format_leader_epochs(self.leader_epochs).encode("ascii"),
        }
        if checked.transaction_index is not None:
            contents[IndexType.TRANSACTION] = checked.transaction_index
        return contents

    def _incomplete(self, what: str) -> IncompleteBundleError:
        return IncompleteBundleError(
            f"segment {self.base_offset}: {what}",
            hint="to see what each segment lacks: tiersnap scan SOURCE",
            base_offset=self.base_offset,
        )


def _read(file: SourceFile | None) -> bytes | None:
    if file is None or file.size > LARGEST_INDEX:
        return None
    try:
        return file.read()
    except TiersnapError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSegment(JudgedSegment):
    """A READY segment. `bundle` loads its snapshot, which may be large."""

    snapshot: SnapshotSource

    def bundle(self, store: ObjectStore) -> SegmentBundle:
        """Load the snapshot, and return the complete bundle.

        Raises:
            SnapshotVanishedError, SnapshotChangedError: see SnapshotSource.load.
            MissingProducerSnapshotError, IncompleteBundleError: see SegmentBundle.
        """
        judged = {field.name: getattr(self, field.name) for field in fields(JudgedSegment)}
        return SegmentBundle(**judged, producer_snapshot=self.snapshot.load(store))
