"""Plan the snapshots that `repair` writes into a partition.

At its next start, a broker loads the newest valid snapshot as its live state. A computed snapshot may become the live
state only with the user's consent. So no new file is written above a limit, as ADR 3 decides
(docs/contributing/adr/0003-repair-limits.md):

    with snapshots      the highest file that decodes and is above the log start offset. A broker loads this file, after
                        it has deleted corrupt files above this file, and all files at or below the log start
    without snapshots   the newest segment's base offset (at a clean start, a broker writes an empty snapshot at it)

Above the limit, existing files may be replaced, but no new file is written. The log end offset gets no file, because a
broker folds its active segment itself. An existing file is replaced only with --replace, and only if it is SUSPECT or
CORRUPT. Topics that are never tiered (compacted, internal) get no files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tiersnap.snapshot.errors import CorruptSnapshotError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import unloaded_below
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.repair.repair_action import PlannedSnapshot, RepairAction
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry, Expiry
from tiersnap.snapshot.replay.partition_state import Boundary
from tiersnap.snapshot.replay.snapshot_comparison import ReadSnapshot

Write = Callable[[PlannedSnapshot, bytes], None]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a plan."""

    expiry: Expiry  # rules for omitted producers; its `now` is also the time of the verdicts on existing files
    # ms, the broker's producer.id.expiration.ms; None if it never drops producers.
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS
    # Whether to write a snapshot at each segment's end and at the log end, for any topic and even if a file exists. Use
    # it only for a directory that is not a broker's.
    every_boundary: bool = False
    replace: bool = False  # whether to replace files that are CORRUPT or SUSPECT
    above_newest: bool = False  # whether to write above the newest file that a broker can load

    @property
    def broker_expiry(self) -> BrokerExpiry:
        """Return the rules by which a broker drops producers now."""
        return BrokerExpiry(self.expiry.now, self.producer_expiration)


def highest_allowed(partition: Partition, options: PlanOptions, read_snapshot: ReadSnapshot) -> int:
    """Return the offset above which no new file is written.

    Args:
        read_snapshot: returns the bytes of the file at an offset; after an OSError the file counts as corrupt.
    """
    last_base = max((segment.base_offset for segment in partition.segments), default=0)
    if options.above_newest:
        return last_base
    for offset in sorted(partition.snapshots, reverse=True):
        if offset <= unloaded_below(partition):
            break
        if options.replace or _decodes(read_snapshot, offset):
            return offset
    return last_base


def _decodes(read_snapshot: ReadSnapshot, offset: int) -> bool:
    try:
        data = read_snapshot(offset)
        if data is None:
            return False
        snapshot_file.decode(data)
    except (CorruptSnapshotError, OSError):
        return False
    return True


def strays(partition: Partition) -> frozenset[int]:
    """Return the offsets of the files that a broker deletes without reading them when it opens the partition.

    These are the snapshot files at whose offset no segment begins. If no segment begins above the highest of them, the
    broker keeps this file, and its offset is not returned (ProducerStateManager.removeStraySnapshots).
    """
    bases = {segment.base_offset for segment in partition.segments}
    unaligned = partition.snapshots.keys() - bases
    highest = max(unaligned, default=-1)
    if highest >= max(bases, default=0):
        unaligned = unaligned - {highest}
    return frozenset(unaligned)


@dataclass
class Planner:
    """The planner of a partition. Call it with each boundary, ascending.

    Each snapshot is passed to `write` immediately, because all snapshots of a long partition would not fit in memory.
    """

    partition: Partition
    options: PlanOptions
    read_snapshot: ReadSnapshot
    write: Write | None = None  # writes a snapshot; None writes nothing
    # Whether snapshots need the state at the first local offset; False if they come from another source.
    needs_start: bool = field(default=True, kw_only=True)
    planned: list[PlannedSnapshot] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._bases = {segment.base_offset for segment in self.partition.segments}
        self._limit = highest_allowed(self.partition, self.options, self.read_snapshot)
        self._strays = strays(self.partition)
        self._is_never_tiered = bool(never_tiered_reason(self.partition))

    def __call__(self, boundary: Boundary) -> None:
        """Plan one boundary."""
        options = self.options
        found = boundary.found.verdict(options.broker_expiry)
        action = self._action(boundary.offset, found)
        if action is None:
            return
        entries = options.expiry.live(boundary.entries, boundary.max_timestamp)
        planned = PlannedSnapshot(
            offset=boundary.offset,
            action=action,
            found=found,
            reason=boundary.found.reason(options.broker_expiry),
            provenance=boundary.provenance,
            producers=int(entries.size),
            size_bytes=snapshot_file.size_of(entries.size),
        )
        if self.needs_start and boundary.provenance.lacks_start:
            planned = _without_state(planned)
        if planned.action.writes and self.write is not None:
            self.write(planned, snapshot_file.encode(entries))
        self.planned.append(planned)

    def _action(self, offset: int, found: SnapshotVerdict) -> RepairAction | None:
        options = self.options
        if offset in self._strays:
            return RepairAction.STRAY
        if options.every_boundary:
            return RepairAction.WRITE
        if found.is_trusted:
            return RepairAction.KEEP
        if found is SnapshotVerdict.MISSING:
            return self._action_if_missing(offset)
        if self._is_never_tiered:
            return RepairAction.NEVER_TIERED
        if found in _NOT_JUDGED:
            return _NOT_JUDGED[found]
        if options.replace:
            return RepairAction.REPLACE
        return RepairAction.NEEDS_REPLACE

    def _action_if_missing(self, offset: int) -> RepairAction | None:
        if offset not in self._bases:
            return None
        if self._is_never_tiered:
            return RepairAction.NEVER_TIERED
        if offset > self._limit:
            return RepairAction.ABOVE_NEWEST
        return RepairAction.WRITE


_NOT_JUDGED = {
    SnapshotVerdict.NOT_COMPARED: RepairAction.NOT_COMPARED,
    SnapshotVerdict.UNVERIFIED: RepairAction.UNVERIFIED,
}


def _without_state(planned: PlannedSnapshot) -> PlannedSnapshot:
    """Return the plan for an offset whose state is unknown, because the state at the first local offset is unknown."""
    action = planned.action
    if action.writes or action is RepairAction.UNVERIFIED:
        action = RepairAction.NO_START
    return replace(planned, action=action, provenance=None, producers=None, size_bytes=None)
