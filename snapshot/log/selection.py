"""Select the partitions of log directories for a command.

Topics that are never tiered are left out, as in kafka.log.UnifiedLog.remoteLogEnabled: internal topics, the metadata
topics of remote storage and of the cluster, and topics with `compact` in their cleanup.policy. If the policy is
unknown, the cleaner's checkpoint decides. A gap inside a segment proves nothing: it may be years old.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tiersnap.snapshot.errors import CorruptDataError, NotALogDirError, UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import (
    INTERNAL_COMPACTED_TOPICS,
    LogDir,
    Partition,
    open_log_dir,
    read_properties,
    split_folder_name,
)
from tiersnap.snapshot.masking import masked_uri

MOST_NAMED = 10


@dataclass(frozen=True)
class Selection:
    """The selected partitions; all conditions must hold."""

    topic: re.Pattern[str] | None = None  # must match a topic's whole name; None for all
    # (topic, partition) of the only ones that are wanted; empty for all.
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)

    def takes(self, partition: TopicPartition) -> bool:
        """Return whether the partition is selected."""
        is_named = not self.partitions or partition in self.partitions
        return is_named and matches_topic(partition[0], self.topic)

    def __str__(self) -> str:
        """Return the conditions, for messages."""
        names = [f"{topic}-{number}" for topic, number in sorted(self.partitions)]
        of_topic = [] if self.topic is None else [repr(self.topic.pattern)]
        return ", ".join([*of_topic, *names])


@dataclass(frozen=True)
class NamedLogDir:
    """A log directory and its URI as the user wrote it."""

    source: str = field(repr=False)  # opens the log directory again; may hold secrets
    log_dir: LogDir

    @property
    def uri(self) -> str:
        """Return the URI for outputs, with its password and query masked."""
        return masked_uri(self.source)


def matches_topic(topic: str, pattern: re.Pattern[str] | None) -> bool:
    """Return whether --topic selects the topic."""
    return pattern is None or pattern.fullmatch(topic) is not None


def open_log_dirs(uris: Sequence[str]) -> tuple[NamedLogDir, ...]:
    """Open each. Raises SourceNotFoundError, NotALogDirError: as `open_log_dir`."""
    return tuple(NamedLogDir(uri, open_log_dir(uri)) for uri in uris)


def selected(log_dir: LogDir, uri: str, topic: re.Pattern[str] | None) -> Iterator[Partition]:
    """Return the partitions of one log directory whose topics match `topic`; raise the errors of `selected_of`."""
    for _, partition in selected_of((NamedLogDir(uri, log_dir),), Selection(topic)):
        yield partition


def selected_of(log_dirs: Sequence[NamedLogDir], selection: Selection) -> Iterator[tuple[NamedLogDir, Partition]]:
    """List, one by one, the partitions that are selected, directory by directory.

    Raises:
        UsageError: nothing is selected, so that a mistyped name is not taken for good news.
        NotALogDirError: folders are named like partitions and hold no segments (`disk-1`, `disk-2`: the log
            directories are below).
    """
    has_partition = has_content = False
    left = set(selection.partitions)
    for each in log_dirs:
        for folder in folders_of(each.log_dir, selection):
            partition = each.log_dir.partition(folder)
            has_partition = True
            has_content |= bool(partition.segments or partition.findings)
            left.discard((partition.topic, partition.partition))
            yield each, partition
    uris = ", ".join(each.uri for each in log_dirs)
    if not has_partition and selection == Selection():
        return  # a broker's disks that hold no partition yet
    if left or not has_partition:
        raise _nothing_selected(log_dirs, selection, left)
    if not has_content:
        raise NotALogDirError(
            f"{uris}: no segments in any of its partitions",
            hint="name one entry of log.dirs, not the folder above them",
        )


def _nothing_selected(
    log_dirs: Sequence[NamedLogDir], selection: Selection, left: Iterable[TopicPartition]
) -> UsageError:
    """Return the error of names that select nothing; `left` are the partitions that do not exist."""
    uris = ", ".join(each.uri for each in log_dirs)
    if not selection.partitions:
        hint = f"--topic must match a topic's whole name; {_there_are(log_dirs, of_topics=True)}"
        return UsageError(f"{uris}: no topic matches {selection}", hint=hint)
    names = ", ".join(f"{topic}-{number}" for topic, number in sorted(left)) or str(selection)
    hint = f"--partition takes a folder's name; {_there_are(log_dirs, of_topics=False)}"
    return UsageError(f"{uris}: no partition {names}", hint=hint)


def _there_are(log_dirs: Sequence[NamedLogDir], *, of_topics: bool) -> str:
    """Return a sentence that names the first topics or partitions, for a user who mistyped one."""
    names: set[str] = set()
    for each in log_dirs:
        names.update(folders_of(each.log_dir, Selection()))
    if of_topics:
        names = {folder.rpartition("-")[0] for folder in names}
    if not names:
        return "there is none"
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"there are {', '.join(sorted(names)[:MOST_NAMED])}{more}"


def selected_folders(log_dirs: Sequence[NamedLogDir], selection: Selection) -> list[list[str]]:
    """Return the folder names of the selected partitions, for each directory; raise the errors of `selected_of`."""
    for _, partition in selected_of(log_dirs, selection):
        if partition.segments or partition.findings:
            break
    return [list(folders_of(each.log_dir, selection)) for each in log_dirs]


def count(log_dirs: Sequence[NamedLogDir], selection: Selection) -> int:
    """Return the number of selected partitions, by the names of their folders."""
    return sum(1 for each in log_dirs for _ in folders_of(each.log_dir, selection))


def named(log_dir: LogDir, names: Collection[TopicPartition]) -> Iterator[Partition]:
    """Yield the named partitions that the log directory has; each is listed when it is requested."""
    for folder in log_dir.folders:
        if split_folder_name(folder) in names:
            yield log_dir.partition(folder)


def folders_of(log_dir: LogDir, selection: Selection) -> Iterator[str]:
    """Return the folder names of the selected partitions."""
    for folder in log_dir.folders:
        name = split_folder_name(folder)
        if name is not None and selection.takes(name):
            yield folder


_METADATA_TOPICS = frozenset({"__remote_log_metadata", "__cluster_metadata"})


def internal_reason(topic: str) -> str:
    """Return why the topic is Kafka's own, or ""."""
    if topic in INTERNAL_COMPACTED_TOPICS:
        return "internal topic"
    return "metadata topic of remote storage or of the cluster" if topic in _METADATA_TOPICS else ""


def compaction_reason(partition: Partition) -> str:
    """Return why the topic counts as compacted, or ""."""
    if partition.cleaner_offset is not None:
        return f"the cleaner passed offset {partition.cleaner_offset}"
    return ""


def never_tiered_reason(partition: Partition) -> str:
    """Return why the partition is never tiered, or ""."""
    return internal_reason(partition.topic) or compaction_reason(partition)


_WITH_BOTH = "no broker starts with both"


class PartitionTwiceError(CorruptDataError):
    """Raised when two log directories of a broker hold the same partition."""


def findings_of(log_dirs: Sequence[NamedLogDir]) -> Iterator[Finding]:
    """Yield the findings about the directories."""
    for _, finding in named_findings(log_dirs):
        yield finding


def named_findings(log_dirs: Sequence[NamedLogDir]) -> Iterator[tuple[NamedLogDir, Finding]]:
    """Yield the findings about each directory, and about several together."""
    for each in log_dirs:
        for finding in (*each.log_dir.findings, *_foreign(each.log_dir)):
            yield each, finding
    for folder, first, second in twice(log_dirs):
        if not _are_of_two_brokers(first.log_dir, second.log_dir):
            there = f"{first.log_dir.path}/{folder}"
            told = f"{there} is the same partition, and {_WITH_BOTH}: delete the one that is behind"
            yield second, Finding(FindingKind.BAD_FILE_NAME, f"{second.log_dir.path}/{folder}", -1, told)


def twice(
    log_dirs: Sequence[NamedLogDir], selection: Selection | None = None
) -> Iterator[tuple[str, NamedLogDir, NamedLogDir]]:
    """Yield the folder of each selected partition that is in two of the directories, with these two.

    A broker that has moved one to another disk renames it there, then here (LogManager.replaceCurrentWithFutureLog), so
    both are looked at again.
    """
    seen: dict[str, NamedLogDir] = {}
    for each in log_dirs:
        for folder in folders_of(each.log_dir, selection or Selection()):
            first = seen.setdefault(folder, each)
            if first is each:
                continue
            if _is_gone(first.log_dir, folder) or _is_gone(each.log_dir, folder):
                continue
            yield folder, first, each


def _is_gone(log_dir: LogDir, folder: str) -> bool:
    return log_dir.filesystem.is_gone(f"{log_dir.path}/{folder}")


def refuse_twice(log_dirs: Sequence[NamedLogDir]) -> None:
    """Refuse a partition that is in two of the directories.

    Raises:
        PartitionTwiceError: both directories are of one broker, which would not start with them.
        UsageError: the directories are of two brokers, so the choice between replicas is the user's.
    """
    for folder, first, second in twice(log_dirs):
        where = f"{folder} is in two of the log directories"
        if _are_of_two_brokers(first.log_dir, second.log_dir):
            raise UsageError(f"{where}, which are of two brokers", hint="name the directories of one broker")
        raise PartitionTwiceError(
            f"{where}: {_WITH_BOTH}", hint="delete the one that is behind; tiersnap doctor LOGDIR... names them"
        )


def _foreign(log_dir: LogDir) -> Iterator[Finding]:
    """Return the folders that keep a broker from starting (UnifiedLog.parseTopicPartitionName)."""
    for other in log_dir.others:
        if other.state == "unknown":
            is_ours = other.name.startswith("tiersnap-restore.")
            todo = "run that restore again, or delete it" if is_ours else "move it away"
            told = f"no broker starts while a folder of this name is here: {todo}"
            yield Finding(FindingKind.BAD_FILE_NAME, f"{log_dir.path}/{other.name}", -1, told)


def _are_of_two_brokers(first: LogDir, second: LogDir) -> bool:
    """Return whether both name a broker, and the brokers differ."""
    known = [read_properties(each.filesystem, each.path) for each in (first, second)]
    brokers = [(each.cluster_id, each.node_id) for each in known if each is not None]
    return len(brokers) == len(known) and len(set(brokers)) > 1
