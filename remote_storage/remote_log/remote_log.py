"""The finished remote segments of one log, with their claims, snapshots and state deltas, for remote_state.py."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from tiersnap.remote_storage.errors import EncryptedSegmentError, ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSegment, ClaimedSnapshot
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    name_of,
)
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.remote_state import ClaimFacts, RemoteSnapshot
from tiersnap.remote_storage.remote_log.segment_bytes import fetched_segment
from tiersnap.remote_storage.remote_log.segment_objects import group, ids_of
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.trusted import Provenance, may_start_replay
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import PartitionLog
from tiersnap.snapshot.producer_fold import ProducerFold
from tiersnap.snapshot.replay.segment_runs import fold_segment


@dataclass(frozen=True)
class RemoteLog:
    """The remote segments of one log below an offset.

    Each method raises TransientError or RemoteStorageError if the store does not answer or refuses a request.
    """

    location: RemoteLocation
    partition: PartitionLog
    offset: int  # exclusive end of the offsets that are read
    copies: dict[str, RemoteSegment]  # finished segments of the log's lineage that begin below `offset`, by segment id
    claimed: frozenset[ClaimedSegment]  # segments that have a claim
    untrusted: Collection[str] = ()  # ids of segments whose snapshots start no replay
    _claims: dict[str, Claim | None] = field(default_factory=dict)
    _folded: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    @classmethod
    def listed(cls, location: RemoteLocation, partition: PartitionLog, offset: int, *, since: int | None) -> RemoteLog:
        """List the segments, newest first. If `since` (ms) is given, stop at segments with only older records."""
        local_start = offset
        if since is None:
            local_start = 0
        found = list_remote_partition(location, name_of(partition), local_start=local_start, since=since)
        superseded = ids_of(found.superseded)
        lineage, copies = partition.whole_epochs, {}
        for copy in found.segments:
            if copy.is_unfinished or copy.segment_id in superseded:
                continue
            if copy.start_offset < offset and copy.facts.is_of(lineage):
                copies[copy.segment_id] = copy
        return cls(location, partition, offset, copies, found.claimed)

    @property
    def snapshots(self) -> list[RemoteSnapshot]:
        """Return the snapshots at or below `offset`, in descending end offset, then the newest attempt first."""
        ending = list(filter(self._may_start, self.copies.values()))
        ending.sort(key=lambda copy: (copy.end_offset, copy.written_at), reverse=True)
        return [RemoteSnapshot(copy.start_offset, copy.end_offset, copy.segment_id) for copy in ending]

    def _may_start(self, copy: RemoteSegment) -> bool:
        return copy.end_offset <= self.offset and copy.segment_id not in self.untrusted

    def claim_facts(self, of: RemoteSnapshot) -> ClaimFacts:
        """Return the facts that our claim contains about a snapshot.

        The provenance is None if the claim does not mark the snapshot as trusted.
        """
        try:
            claim = self._claim(self.copies[of.segment_id])
        except CorruptDataError:
            return ClaimFacts(is_ours=True)  # a damaged claim may name the segment, so do not trust the snapshot
        if claim is None or not claim.names(of.segment_id):
            return ClaimFacts()
        snapshot = snapshot_in_claim(claim, of.segment_id)
        provenance = None if snapshot is None else Provenance(snapshot.provenance)
        # An earlier run may have used --log-start for a log that begins below its files.
        if provenance is Provenance.COMPUTED_FROM_LOG_START and not self.partition.log_start_checkpoint:
            provenance = None
        return ClaimFacts(is_ours=True, provenance=provenance)

    def _claim(self, copy: RemoteSegment) -> Claim | None:
        if copy.segment_id not in self._claims:
            of = copy.claimed_as
            known = copy.claim or (read_claim(self.location.store, of) if of in self.claimed else None)
            self._claims[copy.segment_id] = known
        return self._claims[copy.segment_id]

    def entries(self, of: RemoteSnapshot) -> np.ndarray:
        """Return the entries of a snapshot: ENTRY_DTYPE, ascending producer id.

        Raises:
            CorruptDataError: the snapshot does not exist, is damaged or contradicts its claim.
        """
        metadata = self.copies[of.segment_id].metadata
        name = f"{self.location.log_uri(metadata)}: producer snapshot"
        try:
            data = self.location.layout.fetch_index(self.location.store, metadata, IndexType.PRODUCER_SNAPSHOT) or b""
        except (ObjectNotFoundError, EncryptedSegmentError) as error:
            raise CorruptDataError(error.message) from error
        claimed = snapshot_in_claim(self._claims.get(of.segment_id), of.segment_id)
        if claimed is not None and (why := differs_from_claim(data, claimed.crc32c)):
            raise CorruptDataError(f"{name} {why}")
        return snapshot_file.decode(data, name=name)

    def deltas(self, start: int, end: int) -> np.ndarray:
        """Return the state deltas of the batches in [start, end): DELTA_DTYPE, ascending producer id.

        Raises:
            CorruptDataError: the remote segments have a gap in these offsets, or a segment is damaged.
        """
        if (start, end) not in self._folded:
            pieces = list(self._pieces(start, end))
            fold = ProducerFold()
            for copy, first, last in pieces:
                fold.combine(self._fold(copy, first, last))
            self._folded.clear()  # keep one range only: the deltas of a million producers are 56 MB
            self._folded[start, end] = fold.deltas()
        return self._folded[start, end]

    def _pieces(self, start: int, end: int) -> Iterator[tuple[RemoteSegment, int, int]]:
        """Yield segments that cover [start, end) without gaps, each with the range [first, last) to replay."""
        while start < end:
            holding = [copy for copy in self.copies.values() if copy.start_offset <= start < copy.end_offset]
            if not holding:
                uri, what = self.location.store.uri, "the location has no complete remote segment"
                if self.copies:
                    what = f"no complete remote segment has offset {start}"
                raise CorruptDataError(f"{uri}: {what} of {self.partition.name}")
            copy = max(holding, key=lambda copy: (copy.start_offset == start, copy.end_offset, copy.segment_id))
            yield copy, start, min(end, copy.end_offset)
            start = copy.end_offset

    def _fold(self, found: RemoteSegment, first: int, last: int) -> np.ndarray:
        copy = self._copy(found)
        fold = ProducerFold()
        with fetched_segment(self.location.store, copy) as segment:
            runs, end = fold_segment(LOCAL, segment, cuts=[first, last])
        if end.finding is not None:
            name = self.location.log_uri(copy.metadata)
            raise CorruptDataError(
                f"{name}: {end.finding.finding_kind} at byte {end.finding.position}: {end.finding.message}"
            )
        for run in runs:
            if first <= run.start_offset < last:
                fold.combine(run.deltas)
        return fold.deltas()

    def _copy(self, found: RemoteSegment) -> RemoteSegment:
        """Read the segment's manifest again. Raise CorruptDataError if the segment is deleted or encrypted."""
        metadata = found.metadata
        local = self.location.is_local
        listed = group(self.location.store.list(keys.segment_stem(metadata, local=local)), local=local)
        for attempt in listed.get(metadata.id.topic_id_partition, ()):
            copy = read_segment(self.location.store, attempt)
            if isinstance(copy, IncompleteSegment):
                raise CorruptDataError(f"remote segment {copy.segment_id} is not complete: {copy.problem}")
            if copy.is_encrypted:
                raise CorruptDataError(f"remote segment {copy.segment_id} is encrypted by the plugin")
            return copy
        raise CorruptDataError(f"remote segment {found.segment_id} was deleted")


def metadata_of(
    partition: TopicIdPartition, segment_id: str, start_offset: int, end_offset: int
) -> RemoteLogSegmentMetadata:
    """Return metadata that determines object keys. Fields that keys do not need are placeholders.

    `end_offset` is exclusive.
    """
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId.of(partition, segment_id),
        start_offset=start_offset,
        end_offset=end_offset - 1,
        broker_id=-1,
        max_timestamp=-1,
        event_timestamp=0,
        segment_leader_epochs=(LeaderEpoch(0, start_offset),),
        segment_size=1,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )


def snapshot_in_claim(claim: Claim | None, segment_id: str) -> ClaimedSnapshot | None:
    """Return the snapshot of `segment_id` if the claim marks it as trusted, otherwise None.

    The claim must be finished, and `may_start_replay` must accept the snapshot's provenance and verdict in the claim.
    """
    if claim is None or claim.finished != segment_id or claim.snapshot is None:
        return None
    snapshot = claim.snapshot
    return snapshot if may_start_replay(snapshot.provenance, snapshot.verdict) else None


def differs_from_claim(data: bytes, crc: str) -> str:
    """Return how the CRC-32C of a snapshot differs from the claim's `crc` (8 hex digits); "" if equal."""
    found = f"{crc32c(data):08x}"
    return "" if found == crc else f"has CRC {found}, but the claim of its segment says {crc}"
