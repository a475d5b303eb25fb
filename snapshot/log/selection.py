"""Select the partitions of log directories for a command, and find topics that are never tiered.

Brokers never tier internal topics, the metadata topics of remote storage and of the cluster, and topics with `compact`
in their cleanup.policy (kafka.log.UnifiedLog.remoteLogEnabled). If the policy is unknown, the log cleaner's checkpoint
decides. Missing offsets inside a segment do not show whether the topic is compacted now, because its policy may have
changed.
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
    """The conditions for selected partitions. All of them must be true."""

    topic: re.Pattern[str] | None = None  # must match a topic's whole name; None selects all topics
    # The only selected partitions, as (topic, partition); empty selects all.
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)

    def takes(self, partition: TopicPartition) -> bool:
        """Return whether the partition is selected."""
        is_named = not self.partitions or partition in self.partitions
        return is_named and matches_topic(partition[0], self.topic)

    def __str__(self) -> str:
        """Return the conditions, for messages."""
        names = [f"{topic}-{number}" for topic, number in sorted(self.partitions)]
        if self.topic is not None:
            names.insert(0, repr(self.topic.pattern))
        return ", ".join(names)


@dataclass(frozen=True)
class NamedLogDir:
    """A log directory with its URI from the command line."""

    source: str = field(repr=False)  # URI for opening the log directory again; may contain secrets
    log_dir: LogDir

    @property
    def uri(self) -> str:
        """Return the URI for outputs, with password and query masked."""
        return masked_uri(self.source)


def matches_topic(topic: str, pattern: re.Pattern[str] | None) -> bool:
    """Return whether the pattern of --topic selects the topic. A pattern of None selects every topic."""
    return pattern is None or pattern.fullmatch(topic) is not None


def open_log_dirs(uris: Sequence[str]) -> tuple[NamedLogDir, ...]:
    """Open each log directory. Raises SourceNotFoundError, NotALogDirError: see `open_log_dir`."""
    return tuple(NamedLogDir(uri, open_log_dir(uri)) for uri in uris)


def selected(log_dir: LogDir, uri: str, topic: re.Pattern[str] | None) -> Iterator[Partition]:
    """Yield the partitions of one log directory whose topics match `topic`. Raises the errors of `selected_of`."""
    for _, partition in selected_of((NamedLogDir(uri, log_dir),), Selection(topic)):
        yield partition


def selected_of(log_dirs: Sequence[NamedLogDir], selection: Selection) -> Iterator[tuple[NamedLogDir, Partition]]:
    """List the selected partitions one by one, directory by directory.

    Raises:
        UsageError: nothing is selected. Without this error, a mistyped name would give an empty result that looks
            healthy.
        NotALogDirError: the folders have names like partitions but no segments. For example, `disk-1` and `disk-2` may
            be folders that contain log directories.
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
        return  # a new broker's disks have no partition yet
    if left or not has_partition:
        raise _nothing_selected(log_dirs, selection, left)
    if not has_content:
        raise NotALogDirError(
            f"{uris}: no partition has a segment",
            hint="give one directory in log.dirs, not the folder above it",
        )


def _nothing_selected(
    log_dirs: Sequence[NamedLogDir], selection: Selection, left: Iterable[TopicPartition]
) -> UsageError:
    """Return the error for a selection that selects nothing. `left`: requested partitions that do not exist."""
    uris = ", ".join(each.uri for each in log_dirs)
    if not selection.partitions:
        hint = f"--topic must match the whole name of a topic; {_there_are(log_dirs, of_topics=True)}"
        return UsageError(f"{uris}: no topic matches {selection}", hint=hint)
    names = ", ".join(f"{topic}-{number}" for topic, number in sorted(left)) or str(selection)
    hint = f"--partition takes the name of a partition folder; {_there_are(log_dirs, of_topics=False)}"
    return UsageError(f"{uris}: no partition {names}", hint=hint)


def _there_are(log_dirs: Sequence[NamedLogDir], *, of_topics: bool) -> str:
    """Return a clause that names the first topics or partitions, for a user who mistyped one."""
    names: set[str] = set()
    for each in log_dirs:
        names.update(folders_of(each.log_dir, Selection()))
    if of_topics:
        names = {folder.rpartition("-")[0] for folder in names}
    if not names:
        return "there is none"
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"the log directories have {', '.join(sorted(names)[:MOST_NAMED])}{more}"


def selected_folders(log_dirs: Sequence[NamedLogDir], selection: Selection) -> list[list[str]]:
    """Return the folder names of the selected partitions for each directory. Raises the errors of `selected_of`."""
    for _, partition in selected_of(log_dirs, selection):
        if partition.segments or partition.findings:
            break
    return [list(folders_of(each.log_dir, selection)) for each in log_dirs]


def count(log_dirs: Sequence[NamedLogDir], selection: Selection) -> int:
    """Return the number of selected partitions. Only the names of their folders are read."""
    total = 0
    for each in log_dirs:
        total += len(list(folders_of(each.log_dir, selection)))
    return total


def named(log_dir: LogDir, names: Collection[TopicPartition]) -> Iterator[Partition]:
    """Yield the named partitions that exist in the log directory. A partition is listed when the caller requests it."""
    for folder in log_dir.folders:
        if split_folder_name(folder) in names:
            yield log_dir.partition(folder)


def folders_of(log_dir: LogDir, selection: Selection) -> Iterator[str]:
    """Yield the folder names of the selected partitions."""
    for folder in log_dir.folders:
        name = split_folder_name(folder)
        if name is not None and selection.takes(name):
            yield folder


_METADATA_TOPICS = frozenset({"__remote_log_metadata", "__cluster_metadata"})


def internal_reason(topic: str) -> str:
    """Return why the topic is internal to Kafka, or ""."""
    if topic in INTERNAL_COMPACTED_TOPICS:
        return "internal topic"
    return "the topic holds the metadata of remote storage or of the cluster" if topic in _METADATA_TOPICS else ""


def compaction_reason(partition: Partition) -> str:
    """Return why tiersnap treats the topic as compacted, or ""."""
    if partition.cleaner_offset is not None:
        return f"the log cleaner has compacted the log up to offset {partition.cleaner_offset}"
    return ""


def never_tiered_reason(partition: Partition) -> str:
    """Return why the partition is never tiered, or ""."""
    return internal_reason(partition.topic) or compaction_reason(partition)


_WITH_BOTH = "no broker starts with both folders"


class PartitionTwiceError(CorruptDataError):
    """Raised when two log directories of one broker contain the same partition."""


def findings_of(log_dirs: Sequence[NamedLogDir]) -> Iterator[Finding]:
    """Yield the findings about the log directories; see `named_findings`."""
    for _, finding in named_findings(log_dirs):
        yield finding


def named_findings(log_dirs: Sequence[NamedLogDir]) -> Iterator[tuple[NamedLogDir, Finding]]:
    """Yield each finding with its directory: damage, unknown folders, and partitions that are in two directories."""
    for each in log_dirs:
        for finding in (*each.log_dir.findings, *_foreign(each.log_dir)):
            yield each, finding
    for folder, first, second in twice(log_dirs):
        if not _are_of_two_brokers(first.log_dir, second.log_dir):
            other = f"{first.log_dir.path}/{folder}"
            told = (
                f"{other} is a folder of the same partition, and {_WITH_BOTH}: delete the folder with the lower end "
                "offset"
            )
            yield second, Finding(FindingKind.BAD_FILE_NAME, f"{second.log_dir.path}/{folder}", -1, told)


def twice(
    log_dirs: Sequence[NamedLogDir], selection: Selection | None = None
) -> Iterator[tuple[str, NamedLogDir, NamedLogDir]]:
    """Yield (folder, first directory, second directory) for each selected partition that is in two directories.

    A broker that has moved a partition to another disk renames the new folder first, then the old one
    (LogManager.replaceCurrentWithFutureLog). So this function checks that both folders still exist before it yields
    them.
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
    """Raise an error if a partition is in two of the directories.

    Raises:
        PartitionTwiceError: both directories belong to one broker, which cannot start with them.
        UsageError: the directories belong to two brokers, so the user must choose between the replicas.
    """
    for folder, first, second in twice(log_dirs):
        where = f"{folder} exists in two of the log directories"
        if _are_of_two_brokers(first.log_dir, second.log_dir):
            raise UsageError(
                f"{where}, and these belong to two brokers", hint="give the directories of only one broker"
            )
        raise PartitionTwiceError(
            f"{where}: {_WITH_BOTH}",
            hint="delete the folder with the lower end offset; to see both folders: tiersnap doctor LOGDIR...",
        )


def _foreign(log_dir: LogDir) -> Iterator[Finding]:
    """Yield a finding for each folder that keeps a broker from starting (UnifiedLog.parseTopicPartitionName)."""
    for other in log_dir.others:
        if other.state == "unknown":
            todo = "move it away"
            if other.name.startswith("tiersnap-restore."):
                todo = "run the same `tiersnap restore` command again, or delete the folder"
            told = f"no broker starts while a folder of this name is in its log directory: {todo}"
            yield Finding(FindingKind.BAD_FILE_NAME, f"{log_dir.path}/{other.name}", -1, told)


def _are_of_two_brokers(first: LogDir, second: LogDir) -> bool:
    """Return whether the meta.properties of the directories name two different brokers."""
    one, other = read_properties(first.filesystem, first.path), read_properties(second.filesystem, second.path)
    if one is None or other is None:
        return False
    return (one.cluster_id, one.node_id) != (other.cluster_id, other.node_id)
