"""A segment that may be tiered: where its files lie, and what was recorded of them when they were judged."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource
from tiersnap.remote_storage.upload.source_file import SourceFile
from tiersnap.remote_storage.upload.trusted_snapshot import TrustedSnapshot
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.formats.transaction_index import ONGOING_TXN_DTYPE
from tiersnap.snapshot.repair.index_check import CheckedIndexes, FoundIndexes

# Bytes: what a broker preallocates (log.index.size.max.bytes), several times over.
LARGEST_INDEX = 64 << 20
_NO_INDEXES = CheckedIndexes(b"", b"", None, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSegment:
    """Segment [base_offset, next_base_offset) as the gate judged it.

    Attributes:
        next_base_offset: exclusive end; the base offset of the next segment.
        max_timestamp: ms, the largest of the segment as LogSegment.largestTimestamp has it.
        leader_epochs: the whole leader-epoch-checkpoint, ascending (epoch, start offset).
        offset_index: as the time index and the transaction index the file beside the log, None where there is none.
        open_transactions: (producer id, first offset) of those open at `base_offset`; None where nobody knows.
        header_digest: SegmentEnd.digest of the decode; None for a segment that needed no decode.
    """

    base_offset: int
    next_base_offset: int
    max_timestamp: int
    log: SourceFile
    leader_epochs: LeaderEpochs
    offset_index: SourceFile | None = None
    time_index: SourceFile | None = None
    transaction_index: SourceFile | None = None
    open_transactions: tuple[tuple[int, int], ...] | None = None
    header_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSegment(JudgedSegment):
    """A READY segment; its snapshot, which may be large, is fetched when its turn comes."""

    snapshot: SnapshotSource

    def ready(self, store: ObjectStore) -> ReadySegment:
        """The segment with its snapshot.

        Raises:
            SnapshotVanishedError, SnapshotChangedError: see SnapshotSource.load.
            MissingProducerSnapshotError, IncompleteBundleError: see SegmentBundle.
        """
        judged = {field.name: getattr(self, field.name) for field in fields(JudgedSegment)}
        return ReadySegment(**judged, producer_snapshot=self.snapshot.load(store))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadySegment(JudgedSegment):
    """A segment with all that a bundle needs but its indexes, which the upload checks.

    Attributes:
        producer_snapshot: at `next_base_offset`.

    Raises:
        MissingProducerSnapshotError, IncompleteBundleError: see SegmentBundle.
    """

    producer_snapshot: TrustedSnapshot

    def __post_init__(self) -> None:
        self.bundle(_NO_INDEXES)

    def bundle(self, indexes: CheckedIndexes) -> SegmentBundle:
        """All that goes to remote storage, with indexes that the batches bear out."""
        return SegmentBundle.build(
            base_offset=self.base_offset,
            next_base_offset=self.next_base_offset,
            max_timestamp=self.max_timestamp,
            log=self.log,
            offset_index=indexes.offset_index,
            time_index=indexes.time_index,
            transaction_index=indexes.transaction_index,
            leader_epochs=self.leader_epochs,
            producer_snapshot=self.producer_snapshot,
        )

    def metadata(
        self, segment_id: RemoteLogSegmentId, *, broker_id: int, event_timestamp: int
    ) -> RemoteLogSegmentMetadata:
        """COPY_SEGMENT_STARTED of one attempt, to be recorded before the first byte is copied."""
        bundle = self.bundle(_NO_INDEXES)
        return bundle.metadata(segment_id, broker_id=broker_id, event_timestamp=event_timestamp)

    def segment_leader_epochs(self) -> LeaderEpochs:
        """(epoch, first offset in this segment), as they will be published."""
        return self.bundle(_NO_INDEXES).segment_leader_epochs

    def found_indexes(self) -> FoundIndexes:
        """File bytes of the indexes; None for one that is not there or cannot be read, since it can be made again."""
        return FoundIndexes(_read(self.offset_index), _read(self.time_index), _read(self.transaction_index))

    def ongoing(self) -> np.ndarray | None:
        """`open_transactions` as ONGOING_TXN_DTYPE."""
        if self.open_transactions is None:
            return None
        return np.sort(np.array(list(self.open_transactions), ONGOING_TXN_DTYPE), order="first_offset")


def _read(file: SourceFile | None) -> bytes | None:
    if file is None or file.size > LARGEST_INDEX:
        return None
    try:
        return file.read()
    except TiersnapError:
        return None
