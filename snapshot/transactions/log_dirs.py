"""Log directories of one cluster, and their partitions that were asked about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from re import Pattern

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.log_dir import LogDir, Partition, open_log_dir
from tiersnap.snapshot.log.selection import matches_topic, selected
from tiersnap.snapshot.tasks.sources import read_properties


def open_of_one_cluster(sources: Sequence[str]) -> tuple[LogDir, ...]:
    """The log directories; a host with several disks has several.

    Raises:
        UsageError: they are of several clusters, whose producer ids have nothing to do with each other.
    """
    log_dirs = tuple(map(open_log_dir, sources))
    properties = [read_properties(each.filesystem, each.path) for each in log_dirs]
    clusters = {each.cluster_id for each in properties if each is not None}
    if len(clusters) > 1:
        raise UsageError(
            f"{', '.join(sources)}: of {len(clusters)} clusters, {', '.join(sorted(clusters))}",
            hint="name the log directories of one cluster",
        )
    return log_dirs


def partitions_of(
    log_dirs: Sequence[LogDir], sources: Sequence[str], topic: Pattern[str] | None, number: int | None
) -> Iterator[tuple[LogDir, Partition]]:
    """The partitions asked for, each with its directory.

    Raises:
        UsageError: there is none of them in any directory.
    """
    found = False
    for log_dir, source in zip(log_dirs, sources, strict=True):
        if len(log_dirs) > 1 and not _has_topic(log_dir, topic):
            continue
        for partition in selected(log_dir, source, topic):
            if number is None or partition.partition == number:
                found = True
                yield log_dir, partition
    if not found:
        wanted = "" if number is None else f" with partition {number}"
        pattern = topic.pattern if topic else ""
        raise UsageError(
            f"{', '.join(sources)}: no topic matches {pattern!r}{wanted}",
            hint="--topic must match a topic's whole name",
        )


def _has_topic(log_dir: LogDir, topic: Pattern[str] | None) -> bool:
    return any(matches_topic(folder.rpartition("-")[0], topic) for folder in log_dir.folders)
