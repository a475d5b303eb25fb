"""The two kinds of source of a run: a log directory, and a folder that `tiersnap collect` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tiersnap.snapshot.collected.source import CollectedSource, open_collected
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import LogDir, Partition, open_log_dir, read_properties
from tiersnap.snapshot.tables.listed import ListedPartition


@dataclass(frozen=True, slots=True)
class LogDirSource:
    """A log directory as a source.

    Attributes:
        uri: URI or path from the command line.
        log_dir: the opened directory.
        properties: its meta.properties; None if it has none.
        collected_from, collected_log_dir: always None here; a CollectedSource has values.
    """

    uri: str
    log_dir: LogDir
    properties: MetaProperties | None
    collected_from: ClassVar[None] = None
    collected_log_dir: ClassVar[None] = None

    @property
    def filesystem(self) -> FileSystem:
        """Return the file system of the directory."""
        return self.log_dir.filesystem

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the names of the partition folders."""
        return self.log_dir.folders

    @property
    def log_starts(self) -> Mapping[TopicPartition, int]:
        """Return the offsets in `log-start-offset-checkpoint`, by partition."""
        return self.log_dir.checkpoints.log_start_offsets

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings about the directory itself, not about one partition."""
        return self.log_dir.findings

    def listed(
        self, folder: str, topic_ids: Mapping[str, str], located: Callable[[Partition], Partition] = lambda each: each
    ) -> tuple[ListedPartition, Partition]:
        """Return the row of a partition, and its files. If the folder is unreadable, the row has a finding.

        Args:
            folder: name of the partition folder.
            topic_ids: topic ids by name, for topics without an id on disk.
            located: returns the partition with its log start offset, which may come from --log-start or the leader.
        """
        found = self.log_dir.partition(folder)
        partition = located(replace(found, topic_id=found.topic_id or topic_ids.get(found.topic)))
        return ListedPartition.of(self.uri, partition, self.properties), partition


PartitionSource = LogDirSource | CollectedSource


def open_source(uri: str) -> PartitionSource:
    """Return the source at a URI or path.

    Raises:
        SourceNotFoundError: `uri` does not exist.
        NotALogDirError: `uri` is neither a log directory nor a collected folder, or no partition was collected yet.
        UsageError: a newer tiersnap wrote the collected folder.
        CorruptDataError: the file `collected.json` of the collected folder is damaged.
    """
    collected = open_collected(uri)
    if collected is not None:
        return collected
    log_dir = open_log_dir(uri)
    return LogDirSource(uri, log_dir, read_properties(log_dir.filesystem, log_dir.path))
