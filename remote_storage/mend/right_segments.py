"""Make remote segments right, as `tier` would upload them: from a log on this host, or from the tier's other objects.

The producer snapshot is the fold of that log, or the state that the tier tells at the start of the segment, by the rule
of snapshot.replay.remote_state, and the fold of the segment on top. Nothing is derived from a segment that is wrong.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from tiersnap.remote_storage.check.local_log import LocalLog
from tiersnap.remote_storage.errors import NotRebuiltError, ObjectNotFoundError
from tiersnap.remote_storage.inventory.observe import Observe
from tiersnap.remote_storage.inventory.segment_bytes import fetch_into
from tiersnap.remote_storage.inventory.segment_objects import SegmentObjects
from tiersnap.remote_storage.inventory.starts import state_at
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.stored_files import not_rebuilt, stored_copy, stored_index_files
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    epochs_in_range,
)
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile
from tiersnap.snapshot.errors import CorruptDataError, UnknownStateError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.formats.transaction_index import ongoing_transactions
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment
from tiersnap.snapshot.readiness.judge_partition import open_at
from tiersnap.snapshot.replay.examine import Examination, examine_decodes
from tiersnap.snapshot.replay.expiry import BrokerExpiry, Expiry
from tiersnap.snapshot.replay.partition_replay import snapshot_reader
from tiersnap.snapshot.replay.partition_state import Boundary, SnapshotAt
from tiersnap.snapshot.replay.producer_fold import ProducerFold, from_entries, to_entries
from tiersnap.snapshot.replay.remote_state import RemoteState
from tiersnap.snapshot.replay.replay_start import Beginnings, beginning
from tiersnap.snapshot.replay.segment_runs import LocalDecodes, Run, fold_segment
from tiersnap.snapshot.replay.snapshot_verdict import Provenance

_log = logging.getLogger(__name__)

_NO_FILE = FileRef("", 0, 0)
_DIFFER = "its log in the tier and the one in --log-dir differ, both are whole, and nobody knows which is right"
Opened = tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class MendRules:
    """The rules of time: see Expiry; `producer_expiration` is the broker's, in ms."""

    expiry: Expiry
    producer_expiration: int | None

    @property
    def now(self) -> int:
        """Return the run's time, ms."""
        return self.expiry.now

    @property
    def broker_expiry(self) -> BrokerExpiry:
        """Return what a broker drops now."""
        return BrokerExpiry(self.now, self.producer_expiration)


@dataclass
class RightSegments:
    """The right content of segments of one partition.

    Attributes:
        listed: objects that are there, by segment id.
        lineage: leader epochs of the partition; empty where nobody tells them.
        log_start: of the whole log.
        wrong: ids of segments whose snapshots are not believed.
        ends: offsets (exclusive) at which segments end that may be asked for.
        local: the log on this host; None without one.
        folder: for files that nobody needs later.
    """

    location: RemoteLocation
    partition: TopicIdPartition
    listed: Mapping[str, SegmentObjects]
    lineage: LeaderEpochs
    log_start: int
    rules: MendRules
    wrong: Collection[str]
    ends: Collection[int]
    local: LocalLog | None
    folder: Path
    _states: dict[int, RemoteState] = field(default_factory=dict)
    _snapshots: dict[int, SnapshotSource] = field(default_factory=dict)

    @contextmanager
    def of(self, record: RemoteLogSegmentMetadata, *, prefers_local: bool) -> Iterator[PlannedSegment]:
        """Give the segment of a record as `tier` would upload it; its files go with the context.

        Args:
            prefers_local: take the log of this host even where the tier has one.

        Raises:
            NotRebuiltError: it cannot be made; says why.
            CorruptDataError: a batch is damaged.
            TransientError, RemoteStorageError: remote storage does not answer, or refuses.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            yield self._made(record, Path(scratch), prefers_local=prefers_local)

    def _made(self, record: RemoteLogSegmentMetadata, folder: Path, *, prefers_local: bool) -> PlannedSegment:
        local = None if self.local is None else self.local.segment_of(record)
        there = self.listed.get(record.id.segment_id)
        has_log = there is not None and there.log is not None
        if local is not None and (prefers_local or not has_log):
            segment, files = local, self._local_files(local)
            if there is not None and not prefers_local:
                files |= stored_index_files(folder, self.location.store, there)
            if has_log and there is not None:
                self._refuse_other_log(record, there, folder)
        elif has_log and there is not None:
            segment = self._fetched(record, there, folder)
            files = stored_index_files(folder, self.location.store, there)
        else:
            raise not_rebuilt(record, "its log is nowhere: neither in the tier, nor in a --log-dir with its offsets")
        log = SourceFile(LOCAL if local is not segment else self._local.filesystem, segment.log.path, segment.log.size)
        digest, opened, snapshot = self._folded(record, segment, log, has_local=local is not None, folder=folder)
        return PlannedSegment(
            base_offset=record.start_offset,
            next_base_offset=record.end_offset + 1,
            max_timestamp=record.max_timestamp,
            log=log,
            leader_epochs=self._leader_epochs(record),
            offset_index=files.get(IndexType.OFFSET),
            time_index=files.get(IndexType.TIMESTAMP),
            transaction_index=files.get(IndexType.TRANSACTION),
            open_transactions=opened,
            header_digest=digest,
            snapshot=snapshot,
        )

    # The log.

    @property
    def _local(self) -> LocalLog:
        assert self.local is not None
        return self.local

    def _local_files(self, segment: Segment) -> dict[IndexType, SourceFile]:
        refs = {
            IndexType.OFFSET: segment.offset_index,
            IndexType.TIMESTAMP: segment.time_index,
            IndexType.TRANSACTION: segment.transaction_index,
        }
        filesystem = self._local.filesystem
        return {index: SourceFile(filesystem, ref.path, ref.size) for index, ref in refs.items() if ref is not None}

    def _fetched(self, record: RemoteLogSegmentMetadata, there: SegmentObjects, folder: Path) -> Segment:
        segment = fetch_into(folder, self.location.store, stored_copy(self.location.store, record, there))
        if (size := segment.log.size) != record.segment_size:
            raise not_rebuilt(record, f"its log has {size} bytes in the tier, its record says {record.segment_size}")
        return segment

    def _refuse_other_log(self, record: RemoteLogSegmentMetadata, there: SegmentObjects, folder: Path) -> None:
        """Refuse a local log that differs from the one in the tier, unless that one is damaged."""
        try:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                _, told = fold_segment(LOCAL, self._fetched(record, there, Path(scratch)))
        except (CorruptDataError, NotRebuiltError, ObjectNotFoundError):
            return
        digests = {each.base_offset: each.digest for each in self._replayed.segments}
        if told.finding is None and digests.get(record.start_offset, told.digest) != told.digest:
            raise not_rebuilt(record, _DIFFER)

    # The state.

    def _folded(
        self, record: RemoteLogSegmentMetadata, segment: Segment, log: SourceFile, *, has_local: bool, folder: Path
    ) -> tuple[str, Opened, SnapshotSource]:
        """Return the digest of a segment's headers, the transactions open at its start, and the snapshot at its end.

        Args:
            has_local: the log on this host has a segment with these offsets and as many bytes.
        """
        runs, told = fold_segment(log.filesystem, segment)
        if (finding := told.finding) is not None:
            raise not_rebuilt(record, f"log: {finding.kind} at byte {max(finding.position, 0)}: {finding.message}")
        start, end = record.start_offset, record.end_offset + 1
        if self.local is not None:
            replayed = self._replayed
            digests = {each.base_offset: each.digest for each in replayed.segments} if has_local else {}
            if digests.get(start, told.digest) != told.digest:
                raise not_rebuilt(record, _DIFFER)
            if end in self._snapshots:
                return told.digest, open_at(start, replayed.reached.get(start)), self._snapshots[end]
        before = self._state_before(record)
        after = self._continued(record, before, runs)
        live = self.rules.expiry.live(after.entries, told.max_timestamp)
        provenance = Provenance.COMPUTED if before.is_complete else Provenance.COMPUTED_FROM_SNAPSHOT
        snapshot = _kept(folder / "snapshot", end, snapshot_file.encode(live), provenance)
        opened = ongoing_transactions(before.entries)[["producer_id", "first_offset"]].tolist()
        return told.digest, tuple((producer, first) for producer, first in opened), snapshot

    def _state_before(self, record: RemoteLogSegmentMetadata) -> RemoteState:
        try:
            return self._state_at(record.start_offset)
        except UnknownStateError as error:
            why = "no --log-dir tells the producer state at its end" if self.local is None else "nor does --log-dir"
            why = f"the tier does not tell the producer state at {record.start_offset}, {why}: {error.message}"
            raise not_rebuilt(record, why) from error

    def _continued(self, record: RemoteLogSegmentMetadata, before: RemoteState, runs: Sequence[Run]) -> RemoteState:
        """Fold a segment on top of the state before it, and keep the state for the next segment."""
        fold = ProducerFold()
        fold.combine(from_entries(before.entries))
        for run in runs:
            if (bad := fold.combine(run.deltas)) >= 0:
                raise not_rebuilt(record, f"log: no broker could replay the batch at {bad}")
        end = record.end_offset + 1
        self._states[end] = RemoteState(end, to_entries(fold.deltas()), before.is_complete)
        return self._states[end]

    def _state_at(self, offset: int) -> RemoteState:
        if offset in self._states:
            return self._states[offset]
        of = self.partition
        log = Partition("", of.topic, of.partition, (), {}, of.topic_id, self.lineage)
        log = replace(log, log_start_checkpoint=self.log_start)
        return state_at(self.location, log, offset, self.rules.broker_expiry, unbelieved=self.wrong)

    @cached_property
    def _replayed(self) -> Examination:
        """Replay the log on this host, and keep what it says at the wanted offsets."""
        local, rules = self._local, self.rules
        wanted = {end: _NO_FILE for end in self.ends if end > local.partition.first_base_offset}
        own = local.partition
        if own.log_start_checkpoint is None and self.log_start < own.first_base_offset:
            own = replace(own, log_start_checkpoint=self.log_start)  # else it may seem to begin at its first file
        partition = replace(own, snapshots=wanted | own.snapshots)
        read = snapshot_reader(local.filesystem, own)
        look = Observe(self.location, unbelieved=frozenset(self.wrong))

        def settle(boundary: Boundary) -> SnapshotAt:
            is_known = not boundary.provenance.lacks_start and not any(True for _ in boundary.gaps())
            if boundary.offset in self.ends and is_known:
                data = snapshot_file.encode(rules.expiry.live(boundary.entries, boundary.max_timestamp))
                path = self.folder / f"{boundary.offset:020d}.snapshot"
                self._snapshots[boundary.offset] = _kept(path, boundary.offset, data, boundary.provenance)
            return replace(boundary.snapshot, open_transactions=boundary.open_transactions)

        return examine_decodes(
            partition,
            LocalDecodes(local.filesystem, local.check_crc),
            lambda offset: read(offset) if offset in own.snapshots else None,
            on_boundary=settle,
            begins=Beginnings(partial(beginning, look, rules.broker_expiry)).of(own),
        )

    # The leader epochs.

    def _leader_epochs(self, record: RemoteLogSegmentMetadata) -> LeaderEpochs:
        """Return the lineage up to the end of a segment, as it was when its record was written."""
        own, first = record.segment_leader_epochs, record.segment_leader_epochs[0]
        before = [each for each in self.lineage if each[0] <= first[0] and each[1] <= first[1]]
        if not before and record.start_offset > self.log_start:
            raise not_rebuilt(record, "no other segment tells the leader epochs before it")
        told = (*before, *(own[1:] if before and before[-1][0] == first[0] else own))
        if epochs_in_range(told, record.start_offset, record.end_offset + 1) != own:
            raise not_rebuilt(record, f"its leader epochs {own} are not those of the log {self.lineage}")
        return told


def _kept(path: Path, offset: int, data: bytes, provenance: Provenance) -> SnapshotSource:
    path.write_bytes(data)
    _log.debug("computed the snapshot at %d: %s", offset, provenance)
    file = SourceFile(LOCAL, str(path), len(data))
    return SnapshotSource(offset=offset, provenance=provenance, crc32c=crc32c(data), file=file)
