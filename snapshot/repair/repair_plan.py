"""Plan what `repair` writes into a partition, before anything is touched.

The newest snapshot that a broker can load becomes its live state at the next start, and what tiersnap computed should
only ever be that when somebody said so. Hence the limit, see docs/contributing/adr/0003-repair-limits.md:

    newest = the highest file that decodes and lies above the log start offset
             (a broker deletes a corrupt newest file and all at or below the log start, and takes the next)
    none   = the newest segment's base offset: a broker that starts cleanly without any would write empty ones there

Nothing is planned above it but a file to be replaced that lies there already. The log end offset gets no file of its
own: a broker folds its active segment itself. A file that is there is replaced only when asked, and only if it is
SUSPECT or CORRUPT. Topics that are never tiered (compacted, internal) are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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

    expiry: Expiry  # which producers are left out; its `now` also decides what a file that is there is worth
    # ms, the broker's producer.id.expiration.ms; None if it never drops producers.
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS
    # Write every aligned offset and the log end, whatever is there and whatever the topic (for a directory that is not
    # the broker's)
    every_boundary: bool = False
    replace: bool = False  # also write where a file is there that is CORRUPT or SUSPECT
    above_newest: bool = False  # also write above the newest file that a broker can load

    @property
    def broker_expiry(self) -> BrokerExpiry:
        """Return what a broker drops now."""
        return BrokerExpiry(self.expiry.now, self.producer_expiration)


def highest_allowed(partition: Partition, options: PlanOptions, read_snapshot: ReadSnapshot) -> int:
    """The offset above which nothing new is written.

    Args:
        read_snapshot: bytes of the partition's file at an offset; an OSError counts as a file that does not decode.
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
    """Offsets of the files that a broker deletes unread when it opens the partition.

    Of the files where no segment begins it keeps the highest, and that only if no segment begins above it
    (ProducerStateManager.removeStraySnapshots).
    """
    bases = {segment.base_offset for segment in partition.segments}
    unaligned = partition.snapshots.keys() - bases
    highest = max(unaligned, default=-1)
    return frozenset(unaligned - {highest} if highest >= max(bases, default=0) else unaligned)


@dataclass
class Planner:
    """Plans a partition; call it with each boundary in ascending order.

    Snapshot bytes go straight to `write`, because those of a long partition together would not fit in memory.
    """

    partition: Partition
    options: PlanOptions
    read_snapshot: ReadSnapshot
    write: Write | None = None  # without it nothing is written
    # Plan nothing where the state that the files begin with is unknown; False where what is written was made elsewhere.
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
        is_unknown = action.writes or action is RepairAction.UNVERIFIED
        if is_unknown and self.needs_start and boundary.provenance.lacks_start:
            action = RepairAction.NO_START
        entries = options.expiry.live(boundary.entries, boundary.max_timestamp)
        is_known = not (self.needs_start and boundary.provenance.lacks_start)
        planned = PlannedSnapshot(
            offset=boundary.offset,
            action=action,
            found=found,
            reason=boundary.found.reason(options.broker_expiry),
            provenance=boundary.provenance if is_known else None,
            producers=int(entries.size) if is_known else None,
            size_bytes=snapshot_file.size_of(entries.size) if is_known else None,
        )
        if action.writes and self.write is not None:
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
        if found is SnapshotVerdict.MISSING and offset not in self._bases:
            return None
        if self._is_never_tiered:
            return RepairAction.NEVER_TIERED
        if found is SnapshotVerdict.NOT_COMPARED:
            return RepairAction.NOT_COMPARED
        if found is SnapshotVerdict.UNVERIFIED:
            return RepairAction.UNVERIFIED
        if found is not SnapshotVerdict.MISSING:
            return RepairAction.REPLACE if options.replace else RepairAction.NEEDS_REPLACE
        return RepairAction.WRITE if offset <= self._limit else RepairAction.ABOVE_NEWEST
