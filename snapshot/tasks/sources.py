"""The two kinds of source of a run: log directories, and what `tiersnap collect` shipped of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tiersnap.snapshot.collected.source import open_collected
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import LogDir, Partition, open_log_dir, read_partition, read_properties
from tiersnap.snapshot.tables.listed import ListedPartition


class PartitionSource(Protocol):
    """A source of partitions."""

    @property
    def filesystem(self) -> FileSystem:
        """Return its file system."""
        ...

    @property
    def folders(self) -> tuple[str, ...]:
        """Names of its partition folders."""
        ...

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings about the source as a whole."""
        ...

    @property
    def properties(self) -> MetaProperties | None:
        """Return meta.properties of the disk, or of the one it was collected from; None if it has none."""
        ...

    @property
    def collected_from(self) -> str | None:
        """The log directory that holds the segments, where this source has no more than their decodes; else None."""
        ...

    @property
    def collected_log_dir(self) -> str | None:
        """The same as a path on its host."""
        ...

    def listed(self, folder: str, topic_ids: Mapping[str, str]) -> tuple[ListedPartition, Partition]:
        """The listed partition; one that cannot be read has a finding and no segments.

        Args:
            topic_ids: ids by topic, for topics that have none on disk.
        """
        ...


@dataclass(frozen=True, slots=True)
class LogDirSource:
    """A log directory."""

    uri: str
    log_dir: LogDir
    properties: MetaProperties | None

    @property
    def filesystem(self) -> FileSystem:
        """See PartitionSource."""
        return self.log_dir.filesystem

    @property
    def folders(self) -> tuple[str, ...]:
        """See PartitionSource."""
        return self.log_dir.folders

    @property
    def findings(self) -> tuple[Finding, ...]:
        """See PartitionSource."""
        return self.log_dir.findings

    @property
    def collected_from(self) -> str | None:
        """See PartitionSource."""
        return None

    @property
    def collected_log_dir(self) -> str | None:
        """See PartitionSource."""
        return None

    def listed(self, folder: str, topic_ids: Mapping[str, str]) -> tuple[ListedPartition, Partition]:
        """See PartitionSource."""
        found = read_partition(self.log_dir.filesystem, f"{self.log_dir.path}/{folder}", self.log_dir.checkpoints)
        partition = replace(found, topic_id=found.topic_id or topic_ids.get(found.topic))
        return ListedPartition.of(self.uri, partition, self.properties), partition


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
