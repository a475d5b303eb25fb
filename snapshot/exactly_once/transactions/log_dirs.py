"""Log directories of one cluster, and their partitions that were asked about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.log_dir import LogDir, Partition, read_properties
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, open_log_dirs, selected_of


def open_of_one_cluster(uris: Sequence[str]) -> tuple[NamedLogDir, ...]:
    """Open the log directories; a host with several disks has several.

    Raises:
        UsageError: they are of several clusters, whose producer ids have nothing to do with each other.
    """
    opened = open_log_dirs(uris)
    properties = [read_properties(each.log_dir.filesystem, each.log_dir.path) for each in opened]
    clusters = {each.cluster_id for each in properties if each is not None}
    if len(clusters) > 1:
        raise UsageError(
            f"{', '.join(uris)}: of {len(clusters)} clusters, {', '.join(sorted(clusters))}",
            hint="name the log directories of one cluster",
        )
    return opened


def partitions_of(log_dirs: Sequence[NamedLogDir], selection: Selection) -> Iterator[tuple[LogDir, Partition]]:
    """Return the partitions asked for, each with its directory; raises as `selected_of`."""
    for each, partition in selected_of(log_dirs, selection):
        yield each.log_dir, partition
