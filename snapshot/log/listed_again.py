"""A second look at a partition whose segment was deleted while a command read it, as retention does at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir, read_partition
from tiersnap.snapshot.log.selection import NamedLogDir

# Returns partitions with log starts from a cluster, see cluster.log_starts.located.
Locate = Callable[[Iterator[tuple[NamedLogDir, Partition]]], Iterator[tuple[NamedLogDir, Partition]]]


def listed_again(
    named: NamedLogDir, partition: Partition, findings: Iterable[Finding], located: Locate = iter
) -> Partition | None:
    """List the partition again if a segment was deleted after its listing; return None if none was.

    Return None, too, if it has no segments left: its topic was deleted, or it moved to another disk.

    Args:
        findings: findings of the replay of the listed partition.

    Raises:
        TiersnapError: the log directory was deleted, or the cluster did not return the log start.
    """
    if not any(each.is_gone for each in findings):
        return None
    listed, now = named.log_dir.checkpoints, open_log_dir(named.source).checkpoints
    starts = {**listed.log_start_offsets, **now.log_start_offsets}  # also those that --log-start states
    found = read_partition(named.log_dir.filesystem, partition.path, replace(now, log_start_offsets=starts))
    if not found.segments:
        return None
    ((_, again),) = located(iter([(named, found)]))
    return again
