"""Find the log start offset of a partition, which may be in remote storage or in a local segment.

The first of these sources that has the offset decides:

    the checkpoint    log-start-offset-checkpoint names the partition, or --log-start or the cluster gives its log start
    remote storage    remote segments of the log's lineage cover all offsets from the first leader epoch to the first
                      local segment
    leader epochs     the first leader epoch begins at the first local segment or above it: when the log start moves,
                      a broker removes older epochs

If no source has the offset, the log start is unknown. A replay then cannot start at the first local segment. An unknown
log start is common up to Kafka 3.7.0, which never checkpoints the log start of a tiered log (KAFKA-16146). Later
releases do so after a minute. The log start may also be unknown if a broker was killed right after retention, or if a
directory was copied without its checkpoint. If leader-epoch-checkpoint lost epochs, it does not show the log start.
Epochs that were rebuilt from batches prove nothing below the first segment. The log of a topic that is never tiered
begins at its first local segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.leader_epochs import Interval
from tiersnap.snapshot.log.log_dir import LEADER_EPOCHS, LOG_START_OFFSETS, LogDir, Partition, split_at
from tiersnap.snapshot.log.selection import NamedLogDir, never_tiered_reason


def log_start_of(partition: Partition, covered: Iterable[Interval] = ()) -> int | None:
    """Return the log start offset, or None if it is unknown.

    Args:
        covered: offsets of the log's lineage that remote segments cover; empty if remote storage was not asked.
    """
    if partition.log_start_checkpoint is not None:
        return partition.log_start_checkpoint
    first = partition.first_base_offset
    if not first or never_tiered_reason(partition):
        return first
    epochs = partition.whole_epochs
    if not epochs:
        return None
    begin = epochs[0][1]
    remote = next((start for start, end in covered if start < first <= end), None)
    if begin < first:
        return begin if remote is not None and remote <= begin else None
    if remote is not None:
        return remote
    return first if partition.log_start_is_known else None


def begins_below(partition: Partition, covered: Iterable[Interval] = ()) -> bool | None:
    """Return whether the log begins in remote storage, below its first local segment; None if that is unknown."""
    start = log_start_of(partition, covered)
    return None if start is None else start < partition.first_base_offset


def may_begin_below(partition: Partition) -> bool:
    """Return whether remote storage may be needed for the log start, or for producers below the first local segment."""
    told = partition.log_start_checkpoint
    return partition.first_base_offset > (told or 0)


def unloaded_below(partition: Partition) -> int:
    """Return the offset below which a broker deletes snapshots without reading them when it loads the partition.

    If no checkpoint names the log start of a tiered log, the broker assumes 0 (LogLoader.load).
    """
    if partition.log_start_checkpoint is not None:
        return partition.log_start_checkpoint
    return partition.log_start_offset if begins_below(partition) is False else 0


def why_unknown(partition: Partition) -> str:
    """Return why the local files do not show the log start. Call it only if the log start is unknown."""
    first = f"below the first local segment {partition.first_base_offset}"
    if not partition.log_start_is_known:
        return f"{LOG_START_OFFSETS} cannot be read"
    unnamed = f"{LOG_START_OFFSETS} does not name the partition"
    if partition.epochs_lost_below:
        return f"{unnamed}, and {LEADER_EPOCHS} lost epochs of the partition"
    if not partition.leader_epochs:
        return f"{unnamed}, and {LEADER_EPOCHS} has no entry"
    return f"{unnamed}, and {LEADER_EPOCHS} begins at offset {partition.leader_epochs[0][1]}, {first}"


@dataclass
class LogStarts:
    """Counts of the partitions whose log begins in remote storage, or whose log start is unknown."""

    continued: int = 0  # partitions whose log begins in remote storage
    unlocated: dict[str, str] = field(default_factory=dict)  # by partition name: why the log start is unknown

    def add(self, partition: Partition, covered: Iterable[Interval] = ()) -> bool | None:
        """Count a partition, and return the result of `begins_below` for it."""
        is_below, why = begins_below(partition, covered), ""
        if is_below is None:
            why = why_unknown(partition)
        self.count(partition.name, is_continued=is_below is True, why=why)
        return is_below

    def count(self, name: str, *, is_continued: bool, why: str) -> None:
        """Count a partition. `why` is the reason if its log start is unknown, and "" if it is known."""
        self.continued += is_continued
        if why:
            self.unlocated[name] = why


def with_log_start(partition: Partition, offset: int | None) -> Partition:
    """Return the partition with this log start offset.

    If a checkpoint already has the log start offset, or if `offset` is None, return the partition unchanged.
    """
    if offset is None or partition.log_start_checkpoint is not None:
        return partition
    log_start, deleted, live = split_at((*partition.deleted_segments, *partition.segments), offset)
    return replace(
        partition,
        segments=live,
        deleted_segments=deleted,
        log_start_offset=log_start,
        log_start_checkpoint=offset,
    )


def may_take_leaders(partition: Partition) -> bool:
    """Return whether the log start is unknown or in remote storage, so that the leader's log start may be used."""
    return begins_below(partition) is not False


def with_leaders(partition: Partition, offset: int | None) -> Partition:
    """Return the partition with the leader's log start offset, or unchanged.

    If the leader's log start is unknown, `offset` is None, and the partition is unchanged. The leader's log start is
    used if the partition's log start is unknown. If the log begins in remote storage, the leader's log start is also
    used if it is above the checkpoint's. Brokers checkpoint a new log start once a minute, and may delete the remote
    segments below it earlier.
    """
    if offset is None or not may_take_leaders(partition):
        return partition
    return moved_up(partition, offset) or with_log_start(partition, offset)


def moved_up(partition: Partition, offset: int | None) -> Partition | None:
    """Return the partition with the leader's log start offset if this is above the checkpoint's offset, else None."""
    told = partition.log_start_checkpoint
    if offset is None or told is None or offset <= told:
        return None
    return with_log_start(replace(partition, log_start_checkpoint=None), offset)


def with_stated(log_dirs: Sequence[NamedLogDir], stated: Mapping[TopicPartition, int]) -> tuple[NamedLogDir, ...]:
    """Return the log directories with the log start offsets of --log-start added to their checkpoints.

    Raises:
        UsageError: a checkpoint names another offset, or no directory has the partition.
    """
    folders = set(chain.from_iterable(each.log_dir.folders for each in log_dirs))
    for (topic, partition), offset in stated.items():
        if f"{topic}-{partition}" not in folders:
            raise unknown_partition(f"{topic}-{partition}", offset, [each.uri for each in log_dirs])
    return tuple(replace(each, log_dir=_stated(each.log_dir, stated)) for each in log_dirs)


def unknown_partition(folder: str, stated: int, uris: Iterable[str]) -> UsageError:
    """Return the error about a --log-start for a partition that no log directory has."""
    return UsageError(
        f"--log-start {folder}={stated}: {', '.join(uris)} has no such partition",
        hint="--log-start takes a partition and an offset, such as --log-start orders-0=100",
    )


def _stated(log_dir: LogDir, stated: Mapping[TopicPartition, int]) -> LogDir:
    checkpoints = log_dir.checkpoints
    known, is_read = checkpoints.log_start_offsets, checkpoints.has_log_starts and checkpoints.log_starts_are_known
    for name, offset in stated.items():
        refuse_other(name, known.get(name), offset)
        if is_read and name not in known:
            _refuse_above_first(log_dir, name, offset)
    return replace(log_dir, checkpoints=replace(checkpoints, log_start_offsets={**known, **stated}))


def _refuse_above_first(log_dir: LogDir, name: TopicPartition, stated: int) -> None:
    """Raise UsageError if the log certainly starts at its first segment, and --log-start states a larger offset.

    If the log started above its first segment's base offset, the broker would have written it to the checkpoint.
    """
    folder = f"{name[0]}-{name[1]}"
    if folder not in log_dir.folders:
        return
    start = log_start_of(log_dir.partition(folder))
    if start is not None and start < stated:
        raise UsageError(
            f"--log-start {folder}={stated}: the offset is above the log start {start}: {LOG_START_OFFSETS} does not "
            "name the partition, so the log starts at its first segment",
            hint="leave out --log-start for this partition",
        )


def refuse_other(name: TopicPartition, known: int | None, stated: int) -> None:
    """Raise UsageError if --log-start contradicts the checkpoint; `known` is None if the checkpoint has no entry."""
    if known not in (None, stated):
        raise UsageError(
            f"--log-start {name[0]}-{name[1]}={stated}: contradicts {LOG_START_OFFSETS}, which has {known}",
            hint="remove --log-start for this partition",
        )
