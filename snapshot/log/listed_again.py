"""List a partition again if retention deleted a segment while a command read the partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir, read_partition
from tiersnap.snapshot.log.selection import NamedLogDir

# A function that adds log start offsets from the cluster to partitions; see remote_storage.cluster.log_starts.located.
Locate = Callable[[Iterator[tuple[NamedLogDir, Partition]]], Iterator[tuple[NamedLogDir, Partition]]]


def listed_again(
    named: NamedLogDir, partition: Partition, findings: Iterable[Finding], located: Locate = iter
) -> Partition | None:
    """List the partition again if one of its segments was deleted after the first listing; else return None.

    If the partition has no segments now, also return None: its topic was deleted, or the partition was moved to another
    disk.

    Args:
        findings: findings of the replay of the listed partition.

    Raises:
        TiersnapError: the log directory was deleted, or the cluster did not return the log start.
    """
    if not any(each.is_gone for each in findings):
        return None
    listed, now = named.log_dir.checkpoints, open_log_dir(named.source).checkpoints
    starts = {**listed.log_start_offsets, **now.log_start_offsets}  # the older ones include those of --log-start
    found = read_partition(named.log_dir.filesystem, partition.path, replace(now, log_start_offsets=starts))
    if not found.segments:
        return None
    ((_, again),) = located(iter([(named, found)]))
    return again
