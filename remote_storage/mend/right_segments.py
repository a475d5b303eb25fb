"""Build right remote segments, as `tier` would upload them, from a local log or from remaining remote objects.

The producer snapshot comes from the replay of the local log. Without a local log, tiersnap finds the producer state at
the segment's start in remote storage, and replays the segment from there. Wrong segments are never used.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.mend_rules import MendRules
from tiersnap.remote_storage.mend.record_lineage import lineage_of_record
from tiersnap.remote_storage.mend.stored_files import (
    computed_snapshot,
    not_rebuilt,
    stored_copy,
    stored_entries,
    stored_index_files,
)
from tiersnap.remote_storage.mend.stored_logs import StoredLogs
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment
from tiersnap.remote_storage.remote_log.segment_bytes import fetch_into
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects
from tiersnap.remote_storage.remote_log.starts import state_at
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource, SourceFile
from tiersnap.remote_storage.verify.local_log import LocalLog
from tiersnap.remote_storage.verify.segment_log import combined
from tiersnap.snapshot.errors import UnknownStateError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.formats.transaction_index import ongoing_transactions
from tiersnap.snapshot.gate.judge_partition import open_at
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import FileRef, PartitionLog, Segment
from tiersnap.snapshot.log.segment_walk import SegmentEnd
from tiersnap.snapshot.producer_fold import ProducerFold, from_entries, to_entries
from tiersnap.snapshot.replay.examine import Examination, examine_decodes
from tiersnap.snapshot.replay.partition_replay import snapshot_reader
from tiersnap.snapshot.replay.partition_state import Boundary, SnapshotAt
from tiersnap.snapshot.replay.remote_listing import RemoteState
from tiersnap.snapshot.replay.replay_start import Beginnings, beginning
from tiersnap.snapshot.replay.segment_runs import LocalDecodes, Run, fold_segment
from tiersnap.snapshot.replay.snapshot_comparison import compare

_NO_FILE = FileRef("", 0, 0)
_DIFFER = (
    "this segment has two different complete logs, in remote storage or in LOGDIR, and nothing shows which log is right"
)
Opened = tuple[tuple[int, int], ...] | None


@dataclass
class RightSegments:
    """The right content of segments of one partition.

    Attributes:
        listed: the objects of each remote segment, by segment id.
        lineage: leader epochs of the partition; empty if they are unknown.
        log_start: log start offset, which may be in a remote segment.
        wrong: ids of segments whose snapshots are not trusted.
        ends: exclusive end offsets of the segments that the caller may ask for.
        stored: logs of the partition's remote segments.
        local: the log on this host; None if there is none.
        folder: for temporary files.
    """

    location: RemoteLocation
    partition: TopicIdPartition
    listed: Mapping[str, SegmentObjects]
    lineage: LeaderEpochs
    log_start: int
    rules: MendRules
    wrong: Collection[str]
    ends: Collection[int]
    stored: StoredLogs
    local: LocalLog | None
    folder: Path
    _states: dict[int, RemoteState] = field(default_factory=dict)
    _snapshots: dict[int, SnapshotSource] = field(default_factory=dict)

    @contextmanager
    def of(self, record: RemoteLogSegmentMetadata, *, prefers_local: bool) -> Iterator[PlannedSegment]:
        """Yield the segment of a record as `tier` would upload it. The end of the `with` block deletes its files.

        Args:
            prefers_local: whether to use the log of this host even if remote storage has a log.

        Raises:
            NotRebuiltError: the segment cannot be built.
            CorruptDataError: a batch is damaged.
            TransientError: remote storage does not answer.
            RemoteStorageError: remote storage refuses a request.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            yield self._made(record, Path(scratch), prefers_local=prefers_local)

    def _made(self, record: RemoteLogSegmentMetadata, folder: Path, *, prefers_local: bool) -> PlannedSegment:
        local, own = None, self.own(record)
        if self.local is not None:
            local = self.local.segment_of(record)
        if local is not None and (prefers_local or own is None):
            segment, witness = local, own
            log = SourceFile(self._local.filesystem, segment.log.path, segment.log.size)
            files = self._local_files(local)
            if not prefers_local:
                files |= stored_index_files(folder, self.location.store, self.listed.get(record.id.segment_id))
        else:
            source = self._source(record, own, replaces=prefers_local)
            segment, witness = self._fetched(record, source, folder), own
            if source is own:
                witness = None
            log = SourceFile(LOCAL, segment.log.path, segment.log.size)
            files = stored_index_files(folder, self.location.store, source.objects)
        runs, told = self._read(record, segment, log)
        self.refuse_other_logs(record, witness, told.digest)
        if segment is local and (own is None or self.stored.digest(own) is None):
            self._refuse_other_lineage(record, runs, told.digest)
        opened, snapshot = self._folded(record, runs, told, folder)
        return PlannedSegment(
            base_offset=record.start_offset,
            next_base_offset=record.end_offset + 1,
            max_timestamp=_max_timestamp(record, told),
            log=log,
            leader_epochs=lineage_of_record(record, self.lineage, self.log_start),
            offset_index=files.get(IndexType.OFFSET),
            time_index=files.get(IndexType.TIMESTAMP),
            transaction_index=files.get(IndexType.TRANSACTION),
            open_transactions=opened,
            header_digest=told.digest,
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

    def own(self, record: RemoteLogSegmentMetadata) -> RemoteSegment | None:
        """Return the remote segment of a record, or None if remote storage lacks its log."""
        there = self.listed.get(record.id.segment_id)
        if there is None or there.log is None:
            return None
        return stored_copy(self.location.store, record, there)

    def _source(self, record: RemoteLogSegmentMetadata, own: RemoteSegment | None, *, replaces: bool) -> RemoteSegment:
        """Return the remote segment whose log is used: the segment itself, or another one with the same batches.

        Args:
            replaces: whether the segment gets a new id. If so, an undamaged log of another segment is preferred to the
                damaged log of `own`.
        """
        if own is not None:
            if not replaces:
                return own
            return self.stored.itself_or_twin(record, own)
        twin = None
        if replaces or record.id.segment_id in self.listed:
            twin = self.stored.undamaged_twin(record)
        if twin is None:
            raise not_rebuilt(record, "neither remote storage nor LOGDIR has the log with these offsets")
        return twin

    def _fetched(self, record: RemoteLogSegmentMetadata, source: RemoteSegment, folder: Path) -> Segment:
        segment = fetch_into(folder, self.location.store, source)
        if (size := segment.log.size) != record.segment_size:
            raise not_rebuilt(
                record, f"the log has {size} bytes in remote storage, but {record.segment_size} in the record"
            )
        return segment

    def _read(
        self, record: RemoteLogSegmentMetadata, segment: Segment, log: SourceFile
    ) -> tuple[Sequence[Run], SegmentEnd]:
        runs, told = fold_segment(log.filesystem, segment)
        if (finding := told.finding) is not None:
            raise not_rebuilt(
                record, f"log: {finding.finding_kind} at byte {max(finding.position, 0)}: {finding.message}"
            )
        return runs, told

    # Witnesses of the log.

    def refuse_other_logs(self, record: RemoteLogSegmentMetadata, own: RemoteSegment | None, digest: str) -> None:
        """Refuse a log if an undamaged log of the same segment, in remote storage or on this host, has other batches.

        Args:
            own: the remote segment of `record`, whose log is compared, too. None if the segment has no log, or if
                `digest` is the digest of that log.
        """
        copies = self.stored.twins(record)
        if own is not None:
            copies = [own, *copies]
        for each in copies:
            if self.stored.digest(each) not in (None, digest):
                raise not_rebuilt(record, _DIFFER)
        if self._local_digest(record) not in (None, digest):
            raise not_rebuilt(record, _DIFFER)

    def _local_digest(self, record: RemoteLogSegmentMetadata) -> str | None:
        """Return the digest of the local segment of a record. None if the segment is damaged or does not exist."""
        if self.local is None or self.local.segment_of(record) is None:
            return None
        return self._local_digests.get(record.start_offset)

    def refuse_diverged_log(self, record: RemoteLogSegmentMetadata, digest: str) -> bool:
        """Return whether a later segment confirms the local log. Refuse this log if it diverged from the remote log.

        Below `record`, the nearest segment that exists in both logs must have the same batches in both. Above `record`,
        one segment with the same batches in both logs is enough, because logs that diverged never agree again. If no
        segment above exists in both logs, other remote segments with the record's offsets must agree with `digest`.
        """
        before, behind = self.stored.neighbours(record)
        agreements = self._agreements(behind)
        agrees = next(agreements, None)
        if agrees is False:
            agrees = any(agreements)
        witnesses = [agrees, next(self._agreements(before), None)]
        if not agrees:
            copies = map(self.stored.digest, self.stored.twins(record, also_wrong=True))
            witnesses += [each == digest for each in copies if each is not None]
        if False in witnesses:
            raise not_rebuilt(record, "the log in LOGDIR has other batches than the log in remote storage")
        return bool(agrees)

    def _refuse_other_lineage(self, record: RemoteLogSegmentMetadata, runs: Sequence[Run], digest: str) -> None:
        """Refuse a local log that diverged, or that is not confirmed and contradicts the segment's remote snapshot."""
        agrees = self.refuse_diverged_log(record, digest)
        there = self.listed.get(record.id.segment_id)
        if agrees or there is None:
            return
        entries = stored_entries(self.location.store, there)
        if entries is None:
            return
        fold = to_entries(combined(runs))
        found = compare(entries, fold, history_from=record.start_offset)
        if found.differing or found.unexplained or found.does_harm(self.rules.broker_expiry):
            says = found.reason(self.rules.broker_expiry)
            raise not_rebuilt(record, f"the segment's remote snapshot contradicts the log in LOGDIR: {says}")

    def _agreements(self, copies: Iterable[RemoteSegment]) -> Iterator[bool]:
        """For each of `copies` that the local log also has, yield whether the batches are the same."""
        for each in copies:
            known = self._local_digests.get(each.start_offset)
            if known is None or self._local.segment_of(each.metadata) is None:
                continue
            if (digest := self.stored.digest(each)) is not None:
                yield digest == known

    @cached_property
    def _local_digests(self) -> Mapping[int, str]:
        """Return the digests of segments by base offset, without segments that are damaged or were not read."""
        segments = self._replayed.segments
        return {each.base_offset: each.digest for each in segments if each.damage_kind is None and each.digest}

    # The state.

    def _folded(
        self,
        record: RemoteLogSegmentMetadata,
        runs: Sequence[Run],
        told: SegmentEnd,
        folder: Path,
    ) -> tuple[Opened, SnapshotSource]:
        """Return the transactions that are open at a segment's start, and the snapshot at its end."""
        start, end = record.start_offset, record.end_offset + 1
        if self.local is not None:
            replayed = self._replayed
            if end in self._snapshots:
                return open_at(start, replayed.reached.get(start)), self._snapshots[end]
        before = self._state_before(record)
        after = self._continued(record, before, runs)
        live = self.rules.expiry.live(after.entries, told.max_timestamp)
        provenance = Provenance.COMPUTED_FROM_SNAPSHOT
        if before.is_complete:
            provenance = Provenance.COMPUTED
        snapshot = computed_snapshot(folder / "snapshot", end, snapshot_file.encode(live), provenance)
        opened = ongoing_transactions(before.entries)[["producer_id", "first_offset"]].tolist()
        return tuple((producer, first) for producer, first in opened), snapshot

    def fold_at_end(self, record: RemoteLogSegmentMetadata, runs: Sequence[Run]) -> tuple[np.ndarray, int]:
        """Return the producers at a segment's end (ENTRY_DTYPE), and the offset from which batches were replayed."""
        end = record.end_offset + 1
        local = self._local_snapshot(end)
        if local is not None:
            return snapshot_file.decode(local.load(self.location.store).data), 0
        try:
            before = self._state_at(record.start_offset)
        except UnknownStateError:
            return to_entries(combined(runs)), record.start_offset
        entries = self._continued(record, before, runs).entries
        if before.is_complete:
            return entries, 0
        return entries, record.start_offset

    def _local_snapshot(self, offset: int) -> SnapshotSource | None:
        """Return the snapshot that the replay of the local log computed at an offset; None if there is none."""
        if self.local is None or not self._replayed:
            return None
        return self._snapshots.get(offset)

    def _state_before(self, record: RemoteLogSegmentMetadata) -> RemoteState:
        try:
            return self._state_at(record.start_offset)
        except UnknownStateError as error:
            local = "the log in LOGDIR does not have this state either"
            if self.local is None:
                local = "no LOGDIR was given"
            why = f"remote storage lacks the producer state at offset {record.start_offset} ({error.message}); {local}"
            raise not_rebuilt(record, why) from error

    def _continued(self, record: RemoteLogSegmentMetadata, before: RemoteState, runs: Sequence[Run]) -> RemoteState:
        """Return the producer state at a segment's end: the state at its start, combined with the segment's replay.

        The result is kept as the state at the start of the next segment.
        """
        fold = ProducerFold()
        fold.combine(from_entries(before.entries))
        for run in runs:
            if (bad := fold.combine(run.deltas)) >= 0:
                raise not_rebuilt(record, f"log: a broker could not replay the batch at offset {bad}")
        end = record.end_offset + 1
        self._states[end] = RemoteState(end, to_entries(fold.deltas()), before.is_complete)
        return self._states[end]

    def _state_at(self, offset: int) -> RemoteState:
        if offset in self._states:
            return self._states[offset]
        of = self.partition
        log = PartitionLog(
            topic=of.topic,
            topic_id=of.topic_id,
            partition=of.partition,
            leader_epochs=self.lineage,
            log_start_checkpoint=self.log_start,
        )
        return state_at(self.location, log, offset, self.rules.broker_expiry, untrusted=self.wrong)

    @cached_property
    def _replayed(self) -> Examination:
        """Replay the log on this host. Keep the computed snapshots at the offsets `ends`."""
        local, rules = self._local, self.rules
        wanted = {end: _NO_FILE for end in self.ends if end > local.partition.first_base_offset}
        own = local.partition
        if own.log_start_checkpoint is None and self.log_start < own.first_base_offset:
            # Without the log start, the log would seem to begin at its first file.
            own = replace(own, log_start_checkpoint=self.log_start)
        partition = replace(own, snapshots=wanted | own.snapshots)
        read = snapshot_reader(local.filesystem, own)
        look = Observe(self.location, untrusted=frozenset(self.wrong))

        def settle(boundary: Boundary) -> SnapshotAt:
            is_known = not boundary.provenance.lacks_start and not list(boundary.gaps())
            if boundary.offset in self.ends and is_known:
                data = snapshot_file.encode(rules.expiry.live(boundary.entries, boundary.max_timestamp))
                path = self.folder / f"{boundary.offset:020d}.snapshot"
                self._snapshots[boundary.offset] = computed_snapshot(path, boundary.offset, data, boundary.provenance)
            return replace(boundary.snapshot, open_transactions=boundary.open_transactions)

        return examine_decodes(
            partition,
            LocalDecodes(local.filesystem, local.check_crc),
            lambda offset: read(offset) if offset in own.snapshots else None,
            on_boundary=settle,
            begins=Beginnings(partial(beginning, look, rules.broker_expiry)).of(own),
        )


def _max_timestamp(record: RemoteLogSegmentMetadata, end: SegmentEnd) -> int:
    """Return the largest timestamp of the batches in ms. If no batch has a timestamp, return `record.max_timestamp`."""
    if end.max_timestamp >= 0:
        return end.max_timestamp
    return record.max_timestamp
