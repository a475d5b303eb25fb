"""The gate: all that one segment needs to enter remote storage, or nothing.

A broker hands its storage plugin a LogSegmentData of log, offset index, time index, producer snapshot and leader
epochs, all mandatory, and the transaction index if there is one. Where the snapshot is missing it fails half-way, after
COPY_SEGMENT_STARTED was published, and tiers nothing more of that partition. Here such a bundle cannot be made.

Follows org.apache.kafka.server.log.remote.storage.LogSegmentData and RemoteLogManager.RLMCopyTask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.remote_storage.upload.source_file import SourceFile
from tiersnap.remote_storage.upload.trusted_snapshot import TrustedSnapshot
from tiersnap.snapshot.errors import CorruptIndexError, IncompleteBundleError, MissingProducerSnapshotError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs, format_leader_epochs
from tiersnap.snapshot.units import count_of

_ENTRY_LENGTHS = {"offset index": 8, "time index": 12, "transaction index": 34}


def epochs_in_range(epochs: Iterable[tuple[int, int]], start: int, end: int) -> LeaderEpochs:
    """The (epoch, start offset) entries of offsets [start, end), the first clamped to `start`.

    Follows org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.epochEntriesInRange.
    """
    below = [entry for entry in epochs if entry[1] < end]
    before = [(epoch, start) for epoch, first in below if first <= start]
    return (*before[-1:], *(entry for entry in below if entry[1] > start))


def without_empty(epochs: Iterable[tuple[int, int]]) -> LeaderEpochs:
    """The entries without those under which nothing was written: the next one begins at the same offset.

    A broker drops such an entry when it assigns the next (LeaderEpochFileCache.truncateAndAppend).
    """
    entries = tuple(epochs)
    return (*(entry for entry, after in pairwise(entries) if entry[1] != after[1]), *entries[-1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBundle:
    """Segment [base_offset, next_base_offset) with all that KIP-405 demands; made by `build`.

    Attributes:
        next_base_offset: exclusive end; the base offset of the next segment, not the last offset + 1.
        max_timestamp: ms, the largest of the segment.
        offset_index: as the other indexes file bytes, checked against the batches or made of them.
        leader_epochs: the partition's whole lineage below `next_base_offset`, ascending (epoch, start offset); none
            that is empty.
        producer_snapshot: at `next_base_offset`.

    Raises:
        MissingProducerSnapshotError: the snapshot is of another offset.
        IncompleteBundleError: a part is empty that cannot be.
        CorruptIndexError: an index that is no whole number of entries.
    """

    base_offset: int
    next_base_offset: int
    max_timestamp: int
    log: SourceFile
    offset_index: bytes
    time_index: bytes
    leader_epochs: LeaderEpochs
    producer_snapshot: TrustedSnapshot
    transaction_index: bytes | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.base_offset < self.next_base_offset:
            raise self._incomplete(f"log: no segment has offsets [{self.base_offset}, {self.next_base_offset})")
        if self.log.size <= 0:
            raise self._incomplete("log: the file is empty, and remote storage keeps no empty segments")
        if self.producer_snapshot.offset != self.next_base_offset:
            raise MissingProducerSnapshotError(
                f"segment {self.base_offset} needs the snapshot at the next base offset {self.next_base_offset}, "
                f"this one is at {self.producer_snapshot.offset}",
                hint="tiersnap scan SOURCE shows which snapshots there are",
                base_offset=self.base_offset,
                next_base_offset=self.next_base_offset,
                found=self.producer_snapshot.offset,
            )
        for before, after in zip(self.leader_epochs, self.leader_epochs[1:], strict=False):
            if after[0] <= before[0] or after[1] < before[1]:
                raise self._incomplete(f"leader epochs: {after} after {before} does not ascend")
        if not self.segment_leader_epochs or self.leader_epochs[-1][1] >= self.next_base_offset:
            raise self._incomplete("leader epochs: no entry says who led while these offsets were written")
        indexes = {"offset index": self.offset_index, "time index": self.time_index}
        if self.transaction_index is not None:
            indexes["transaction index"] = self.transaction_index
        for name, part in indexes.items():
            if (size := len(part)) % _ENTRY_LENGTHS[name]:
                raise CorruptIndexError(
                    f"segment {self.base_offset}: {name} of {count_of(size, 'byte')} is not a multiple of "
                    f"{_ENTRY_LENGTHS[name]}",
                    hint="start the broker once: it rebuilds a damaged index from the segment",
                )

    @classmethod
    def build(
        cls,
        *,
        base_offset: int,
        next_base_offset: int,
        max_timestamp: int,
        log: SourceFile | None,
        offset_index: bytes | None,
        time_index: bytes | None,
        leader_epochs: Iterable[tuple[int, int]],
        producer_snapshot: TrustedSnapshot | None,
        transaction_index: bytes | None = None,
    ) -> SegmentBundle:
        """The bundle, from what was found; `leader_epochs` is the whole leader-epoch-checkpoint.

        Raises:
            MissingProducerSnapshotError: there is no trusted snapshot at `next_base_offset`.
            IncompleteBundleError: another mandatory part is missing; the message names it.
            CorruptIndexError: an index that is no whole number of entries.
        """
        parts = {"log": log, "offset index": offset_index, "time index": time_index}
        missing = [name for name, part in parts.items() if part is None]
        if log is None or offset_index is None or time_index is None:
            raise IncompleteBundleError(
                f"segment {base_offset} has no {' and no '.join(missing)}",
                hint="start the broker once: it rebuilds a missing index from the segment",
                base_offset=base_offset,
                missing=missing,
            )
        if producer_snapshot is None:
            raise MissingProducerSnapshotError(
                f"segment {base_offset} has no trusted producer snapshot at the next base offset {next_base_offset}",
                hint="tiersnap run --apply, or on the broker host: tiersnap repair LOGDIR --apply",
                base_offset=base_offset,
                next_base_offset=next_base_offset,
            )
        return cls(
            base_offset=base_offset,
            next_base_offset=next_base_offset,
            max_timestamp=max_timestamp,
            log=log,
            offset_index=offset_index,
            time_index=time_index,
            transaction_index=transaction_index,
            leader_epochs=without_empty(entry for entry in leader_epochs if entry[1] < next_base_offset),
            producer_snapshot=producer_snapshot,
        )

    @property
    def segment_leader_epochs(self) -> LeaderEpochs:
        """(epoch, first offset in this segment)."""
        return epochs_in_range(self.leader_epochs, self.base_offset, self.next_base_offset)

    @property
    def leader_epoch_checkpoint(self) -> bytes:
        """The LEADER_EPOCH index: the lineage as the text of a leader-epoch-checkpoint."""
        return format_leader_epochs(self.leader_epochs).encode("ascii")

    def metadata(
        self, segment_id: RemoteLogSegmentId, *, broker_id: int, event_timestamp: int
    ) -> RemoteLogSegmentMetadata:
        """COPY_SEGMENT_STARTED of one attempt, to be recorded before the first byte is copied."""
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

    def _incomplete(self, what: str) -> IncompleteBundleError:
        return IncompleteBundleError(
            f"segment {self.base_offset}: {what}",
            hint="tiersnap scan SOURCE says what each segment lacks",
            base_offset=self.base_offset,
        )
