"""A READY segment: where its files lie, and what was recorded of them when they were judged."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.bundle import JudgedSegment, SegmentBundle
from tiersnap.remote_storage.upload.snapshot_source import SnapshotSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSegment(JudgedSegment):
    """A READY segment; its snapshot, which may be large, is fetched when its turn comes."""

    snapshot: SnapshotSource

    def bundle(self, store: ObjectStore) -> SegmentBundle:
        """The segment with its snapshot.

        Raises:
            SnapshotVanishedError, SnapshotChangedError: see SnapshotSource.load.
            MissingProducerSnapshotError, IncompleteBundleError: see SegmentBundle.
        """
        judged = {field.name: getattr(self, field.name) for field in fields(JudgedSegment)}
        return SegmentBundle(**judged, producer_snapshot=self.snapshot.load(store))
