"""Tiering into a directory with Kafka's own LocalTieredStorage, and what is found there.

<directory>/kafka-tiered-storage/<topic>-<partition>-<topic id>/<20 digits>-<segment id><suffix>
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

TOPIC_SETTINGS = {"remote.storage.enable": "true"}
MANDATORY = {".log", ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint"}
BASE_DIGITS = 20


@dataclass(frozen=True)
class TieredSegment:
    """One copy of one segment in remote storage; `files` by suffix."""

    base_offset: int
    segment_id: str
    files: dict[str, Path]

    @property
    def complete(self) -> bool:
        return self.files.keys() >= MANDATORY


@dataclass(frozen=True)
class LocalTier:
    """A LocalTieredStorage below `directory`, its copier running every `interval_ms`.

    An interval of about 2 s suits a partition whose copying fails: a broker that is stopped between two quick failures
    waits 30 s for its metadata producer to close.
    """

    directory: Path
    interval_ms: int = 500
    metadata_partitions: int = 3  # more than one, so that a wrong partitioner is found out

    def broker_settings(self) -> dict[str, str]:
        self.directory.mkdir(parents=True, exist_ok=True)
        return {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "remote.log.manager.task.interval.ms": str(self.interval_ms),
            "rsm.config.dir": str(self.directory),
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.topic.num.partitions": str(self.metadata_partitions),
        }

    def segments(self, topic: str, partition: int = 0) -> list[TieredSegment]:
        """Every copy there is, by base offset; a base tiered twice is there twice."""
        by_name: dict[str, dict[str, Path]] = defaultdict(dict)
        for path in self.directory.glob(f"kafka-tiered-storage/{topic}-{partition}-*/*"):
            name, dot, suffix = path.name.partition(".")
            by_name[name][dot + suffix] = path
        return [
            TieredSegment(int(name[:BASE_DIGITS]), name[BASE_DIGITS + 1 :], files)
            for name, files in sorted(by_name.items())
        ]

    def complete_bases(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """Base offsets of the copies that have every mandatory file."""
        return tuple(segment.base_offset for segment in self.segments(topic, partition) if segment.complete)
