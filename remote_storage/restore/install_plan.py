"""Plan the actions of `install` on a partition, by snapshot offset.

The plan of `repair` decides at which offsets a snapshot may be written. `install` writes a stored snapshot at such an
offset if the manifest of a finished run contains the snapshot, and the snapshot agrees with the log. `install` never
writes a computed snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.snapshot_objects import (
    SnapshotRecord,
    list_manifests,
    list_snapshots,
    read_snapshot,
)
from tiersnap.remote_storage.restore.install_outcome import InstallOutcome, PlannedInstall, StoredBy
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import unloaded_below
from tiersnap.snapshot.repair.repair_action import PlannedSnapshot
from tiersnap.snapshot.repair.repair_plan import Planner, PlanOptions, Write
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.partition_state import Boundary
from tiersnap.snapshot.replay.snapshot_comparison import ReadSnapshot, compare
from tiersnap.snapshot.units import count_of


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """The entry of a stored snapshot in the manifest of a run."""

    run_id: str
    record: SnapshotRecord


class PartitionSnapshots:
    """The snapshots that runs stored for one partition, and their entries in manifests."""

    def __init__(self, store: ObjectStore, partition: TopicIdPartition) -> None:
        self._store, self._partition = store, partition
        self.offsets = frozenset(list_snapshots(store, partition))
        self._entries: dict[int, list[ManifestEntry]] = {}
        if not self.offsets:
            return
        for manifest in list_manifests(store, partition):
            for record in manifest.snapshots:
                self._entries.setdefault(record.offset, []).append(ManifestEntry(manifest.run_id, record))

    def read(self, offset: int) -> tuple[bytes | None, ManifestEntry | None]:
        """Return the snapshot at an offset and its entry in a manifest. Each is None if it is missing.

        Raises:
            CorruptDataError: the object is not a snapshot, or its size or CRC differs from all manifests.
        """
        name = self._store.uri + keys.snapshot(self._partition, offset)
        data = read_snapshot(self._store, self._partition, offset)
        if data is None:
            return None, None
        entry = self._entries.get(offset, [])
        found = len(data), f"{crc32c(data):08x}"
        for each in reversed(entry):
            if (each.record.size, each.record.crc32c) == found:
                return data, each
        if entry:
            record = entry[-1].record
            raise CorruptDataError(
                f"{name}: the object has {count_of(found[0], 'byte')} and CRC {found[1]}, but the manifest of run "
                f"{entry[-1].run_id} says {record.size} and {record.crc32c}"
            )
        return data, None


class InstallPlanner:
    """Plans the snapshots of a partition. Call it with each Boundary in ascending offset, then call `finish`."""

    def __init__(
        self,
        partition: Partition,
        stored: PartitionSnapshots,
        options: PlanOptions,
        read_here: ReadSnapshot,
        write: Write | None = None,
        *,
        compares: bool = True,
    ) -> None:
        self.planned: list[PlannedInstall] = []
        # A stored snapshot may lack producers that have expired at `options.now`.
        self._partition, self._stored, self._options = partition, stored, options
        self._write = write
        self._compares = compares  # whether the entries of boundaries were folded from the log; if not, ignore them
        self._repair = Planner(partition, options, read_here, needs_start=False)
        self._left = set(stored.offsets)
        self._bases = {segment.base_offset for segment in partition.segments}

    def __call__(self, boundary: Boundary) -> None:
        """Plan the snapshot at the offset of a boundary."""
        count = len(self._repair.planned)
        self._repair(boundary)
        if len(self._repair.planned) == count:
            return
        repair = self._repair.planned[-1]
        is_stored = boundary.offset in self._left
        self._left.discard(boundary.offset)
        if not repair.action.writes:
            if is_stored or repair.action.waits:
                outcome = InstallOutcome(str(repair.action))
                found = None
                if outcome is InstallOutcome.NEEDS_REPLACE:
                    found = repair.found
                self.planned.append(PlannedInstall(boundary.offset, outcome, repair.reason, found=found))
        elif not is_stored:
            self._add(boundary.offset, InstallOutcome.NOT_STORED, f"no run stored this snapshot: {repair.reason}")
        else:
            self._take(boundary, repair)

    def finish(self, why_not_reached: str) -> None:
        """Add the stored snapshots at offsets that the replay did not reach.

        `why_not_reached` is the reason, for messages.
        """
        for offset in sorted(self._left):
            if offset <= unloaded_below(self._partition):
                self._add(
                    offset,
                    InstallOutcome.STRAY,
                    "the offset is at or below the log start offset: a broker deletes the file without reading it",
                )
            elif offset in self._bases:
                self._add(offset, InstallOutcome.NOT_REACHED, why_not_reached)
            else:
                self._add(offset, InstallOutcome.NOT_ALIGNED, "no segment begins at this offset")
        self.planned.sort(key=lambda planned: planned.offset)

    def _take(self, boundary: Boundary, repair: PlannedSnapshot) -> None:
        offset = boundary.offset
        try:
            data, entry = self._stored.read(offset)
        except CorruptDataError as error:
            self._add(offset, InstallOutcome.CORRUPT, error.message)
            return
        if data is None:
            self._add(
                offset, InstallOutcome.NOT_STORED, f"the stored snapshot was deleted after the listing: {repair.reason}"
            )
            return
        entries = snapshot_file.decode(data)
        if entry is None:
            self._add(
                offset,
                InstallOutcome.NOT_VOUCHED,
                "no manifest names this snapshot, because the run that stored it did not finish",
            )
            return
        outcome, reason = InstallOutcome(str(repair.action)), "not compared with the log"
        if self._compares:
            comparison = self._comparison(boundary, entries)
            expiry = self._options.broker_expiry
            reason = comparison.reason(expiry)
            if not comparison.verdict(expiry).is_trusted:
                outcome = InstallOutcome.DISAGREES
        if outcome.writes and self._write is not None:
            self._write(repair, data)
        self._add(offset, outcome, reason, entry, int(entries.size))

    def _comparison(self, boundary: Boundary, stored: np.ndarray) -> Comparison:
        complete = boundary.provenance is Provenance.COMPUTED
        cleaned = self._partition.cleaner_offset
        return compare(
            stored,
            boundary.entries,
            history_from=0 if complete else boundary.folded_from,
            is_cleaned=cleaned is not None and boundary.offset <= cleaned,
        )

    def _add(
        self,
        offset: int,
        outcome: InstallOutcome,
        reason: str,
        entry: ManifestEntry | None = None,
        producers: int = 0,
    ) -> None:
        stored = None
        if entry is not None:
            stored = StoredBy(entry.run_id, producers, entry.record.provenance)
        self.planned.append(PlannedInstall(offset, outcome, reason, stored))


def without_folding(partition: Partition, stored: PartitionSnapshots, read_here: ReadSnapshot) -> list[Boundary]:
    """Return the boundaries for an InstallPlanner with `compares=False`. They have no entries.

    The verdict of a boundary only shows whether its snapshot file can be read.
    """
    bases = {segment.base_offset for segment in partition.segments}
    start = unloaded_below(partition)
    offsets = [offset for offset in sorted((stored.offsets & bases) | set(partition.snapshots)) if offset > start]
    return [Boundary(at, _no_entries, Provenance.BROKER, _readable(read_here, at), 0) for at in offsets]


def _no_entries() -> np.ndarray:
    return np.empty(0, ENTRY_DTYPE)


def _readable(read_here: ReadSnapshot, offset: int) -> Comparison:
    name = snapshot_file.file_name(offset)
    try:
        data = read_here(offset)
        if data is None:
            return Comparison(SnapshotVerdict.MISSING, f"no {name}")
        snapshot_file.decode(data, name=name)
    except CorruptDataError as error:
        return Comparison(SnapshotVerdict.CORRUPT, error.message)
    except OSError as error:
        return Comparison(SnapshotVerdict.UNVERIFIED, f"{name}: {error.strerror or error}")
    return Comparison(SnapshotVerdict.MATCHES, "the file is readable, and was not compared with the log")
