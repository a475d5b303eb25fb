"""The snapshots of one partition's boundaries into object storage: which are wanted, and what became of each.

Where a store does not answer, no boundary is asked of it again: each would wait for its time-outs.
"""

from __future__ import annotations

from collections.abc import Collection

from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.never_tiered import never_tiered_reason
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.partition_replay import may_be_stored
from tiersnap.snapshot.replay.partition_state import Boundary
from tiersnap.snapshot.replay.replay_options import ReplayOptions
from tiersnap.snapshot.replay.snapshot_sink import SnapshotObject, SnapshotSink, StoredSnapshot
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict


class BoundaryStore:
    """Stores the boundaries of one partition, and says in a manifest what it stored.

    Attributes:
        errors: what went wrong, in order; each says in its attribute `at` where.
    """

    def __init__(
        self,
        sink: SnapshotSink,
        partition: Partition,
        cluster_id: str | None,
        options: ReplayOptions,
        *,
        now: int,
        away: list[str],
        errors: list[TiersnapError],
    ) -> None:
        """Begin with a partition.

        Args:
            now: ms.
            away: what a sink said that does not answer, of all partitions; see ListingReplay.
            errors: of the partition; what goes wrong is added.
        """
        self._sink, self._partition, self._cluster_id, self._options = sink, partition, cluster_id, options
        self._now, self._away, self.errors = now, away, errors
        # Nothing of a compacted topic is ever tiered, so nobody waits for its snapshots.
        self._is_never_tiered = bool(never_tiered_reason(partition))
        self._bases: Collection[int] = {segment.base_offset for segment in partition.segments}
        self._stored: list[StoredSnapshot] = []

    def put(self, boundary: Boundary) -> StoredSnapshot | None:
        """Store the boundary's snapshot if it is wanted; what is there then, None where nothing was stored."""
        found = boundary.found.verdict(self._now, self._options.producer_expiration)
        if not self._is_wanted(boundary.offset, found, boundary.provenance):
            return None
        if self._away:
            if not self.errors:
                message = f"not written, as remote storage does not answer: {self._away[0]}"
                self.errors.append(TransientError(message, at=f" {boundary.offset}"))
            return None
        try:
            stored = self._sink.put(self._object(boundary))
        except TiersnapError as error:
            error.attrs["at"] = f" {boundary.offset}"
            self.errors.append(error)
            if isinstance(error, TransientError):
                self._away.append(error.message)
            return None
        self._stored.append(stored)
        return stored

    def commit(self) -> None:
        """Say in a manifest what was stored."""
        if not self._stored or self._away:
            return
        partition = self._partition
        try:
            self._sink.commit(partition.topic, partition.topic_id, partition.partition, self._stored)
        except TiersnapError as error:
            error.attrs["at"] = ""
            self.errors.append(error)

    def _object(self, boundary: Boundary) -> SnapshotObject:
        expiry = Expiry(self._options.expiration, self._now, self._options.as_of)
        entries = expiry.live(boundary.entries, boundary.max_timestamp)
        return SnapshotObject(
            self._partition.topic,
            self._partition.topic_id,
            self._partition.partition,
            self._cluster_id,
            boundary.offset,
            snapshot_file.encode(entries),
            str(boundary.provenance),
            boundary.folded_from,
            int(entries.size),
            boundary.gaps,
        )

    def _is_wanted(self, offset: int, found: SnapshotVerdict, provenance: Provenance) -> bool:
        options = self._options
        if not may_be_stored(self._partition, offset) or provenance.lacks_start:
            return False
        if options.every_boundary:
            return True
        if offset not in self._bases or self._is_never_tiered:
            return False
        return found is SnapshotVerdict.MISSING or (
            options.replace and found in (SnapshotVerdict.CORRUPT, SnapshotVerdict.SUSPECT)
        )
