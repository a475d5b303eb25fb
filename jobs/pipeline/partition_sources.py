"""The two kinds of source of a run: log directories, and what `tiersnap collect` shipped of one."""

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
    """A log directory.

    Attributes:
        uri: as the user named it.
        properties: None if it has no meta.properties.
    """

    uri: str
    log_dir: LogDir
    properties: MetaProperties | None
    collected_from: ClassVar[None] = None
    collected_log_dir: ClassVar[None] = None

    @property
    def filesystem(self) -> FileSystem:
        """Return its file system."""
        return self.log_dir.filesystem

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the names of its partition folders."""
        return self.log_dir.folders

    @property
    def log_starts(self) -> Mapping[TopicPartition, int]:
        """Return the log start offsets that its checkpoint names."""
        return self.log_dir.checkpoints.log_start_offsets

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings about the source as a whole."""
        return self.log_dir.findings

    def listed(
        self, folder: str, topic_ids: Mapping[str, str], located: Callable[[Partition], Partition] = lambda each: each
    ) -> tuple[ListedPartition, Partition]:
        """Return a partition; one that cannot be read has a finding and no segments.

        Args:
            topic_ids: ids by topic, for topics that have none on disk.
            located: gives the partition with its log start, if something else than its files tells it.
        """
        found = self.log_dir.partition(folder)
        partition = located(replace(found, topic_id=found.topic_id or topic_ids.get(found.topic)))
        return ListedPartition.of(self.uri, partition, self.properties), partition


PartitionSource = LogDirSource | CollectedSource


def open_source(uri: str) -> PartitionSource:
    """The source at a URI or path, whichever kind it is.

    Raises:
        SourceNotFoundError, NotALogDirError: it is neither.
        UsageError, CorruptDataError: it is a collected folder that cannot be read.
    """
    collected = open_collected(uri)
    if collected is not None:
        return collected
    log_dir = open_log_dir(uri)
    return LogDirSource(uri, log_dir, read_properties(log_dir.filesystem, log_dir.path))
