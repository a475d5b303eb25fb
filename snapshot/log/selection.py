"""The partitions of a log directory that a command was asked about."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tiersnap.snapshot.errors import NotALogDirError, UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.log_dir import LogDir, Partition, read_partition, split_folder_name


def matches_topic(topic: str, pattern: re.Pattern[str] | None) -> bool:
    """Whether --topic selects the topic."""
    return pattern is None or pattern.fullmatch(topic) is not None


def selected(log_dir: LogDir, uri: str, topic: re.Pattern[str] | None) -> Iterator[Partition]:
    """List, one by one, the partitions of the topics that `topic` selects.

    Raises:
        UsageError: no topic is selected, so that a mistyped name is not taken for good news.
        NotALogDirError: folders are named like partitions and hold no segments (`disk-1`, `disk-2`: the log
            directories are below).
    """
    has_partition = has_content = False
    for folder in log_dir.folders:
        name, _ = split_folder_name(folder) or ("", -1)
        if not matches_topic(name, topic):
            continue
        partition = read_partition(log_dir.filesystem, f"{log_dir.path}/{folder}", log_dir.checkpoints)
        has_partition = True
        has_content |= bool(partition.segments or partition.findings)
        yield partition
    if not has_partition:
        pattern = topic.pattern if topic else ""
        raise UsageError(f"{uri}: no topic matches {pattern!r}", hint="--topic must match a topic's whole name")
    if not has_content:
        raise NotALogDirError(
            f"{uri}: no segments in any of its partitions", hint="name one entry of log.dirs, not the folder above them"
        )


def selected_folders(log_dir: LogDir, uri: str, topic: re.Pattern[str] | None) -> list[str]:
    """Names of the folders of the partitions that `selected` gives; raises what it raises."""
    for partition in selected(log_dir, uri, topic):
        if partition.segments or partition.findings:
            break
    names = ((folder, split_folder_name(folder) or ("", -1)) for folder in log_dir.folders)
    return [folder for folder, name in names if matches_topic(name[0], topic)]


def named(log_dir: LogDir, names: Collection[TopicPartition]) -> Iterator[Partition]:
    """List, one by one, those of the named partitions that are there."""
    for folder in log_dir.folders:
        if split_folder_name(folder) in names:
            yield read_partition(log_dir.filesystem, f"{log_dir.path}/{folder}", log_dir.checkpoints)
