"""Tiering into a directory with Kafka's own LocalTieredStorage or the Aiven plugin, and what is found there.

<directory>/kafka-tiered-storage/<topic>-<partition>-<topic id>/<20 digits>-<segment id><suffix>
<directory>/<topic>-<topic id>/<partition>/<20 digits>-<segment id><suffix>
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import boto3

TOPIC_SETTINGS = {"remote.storage.enable": "true"}
MANDATORY = {
    "local-tiered-storage": {".log", ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint"},
    "aiven": {".log", ".indexes", ".rsm-manifest"},
}
BASE_DIGITS = 20


@dataclass(frozen=True)
class TieredSegment:
    """One copy of one segment in remote storage; `files` by suffix."""

    base_offset: int
    segment_id: str
    files: dict[str, Path]

    @property
    def complete(self) -> bool:
        return any(self.files.keys() >= mandatory for mandatory in MANDATORY.values())

    @property
    def snapshot(self) -> bytes:
        """The producer snapshot."""
        if ".snapshot" in self.files:
            return self.files[".snapshot"].read_bytes()
        part = json.loads(self.files[".rsm-manifest"].read_text())["segmentIndexes"]["producerSnapshot"]
        return self.files[".indexes"].read_bytes()[part["position"] :][: part["size"]]


@dataclass(frozen=True)
class LocalTier:
    """A LocalTieredStorage below `directory`, its copier running every `interval_ms`.

    An interval of about 2 s suits a partition whose copying fails: a broker that is stopped between two quick failures
    waits 30 s for its metadata producer to close.
    """

    directory: Path
    interval_ms: int = 500
    metadata_partitions: int = 3  # more than one, so that a wrong partitioner is found out
    layout: ClassVar[str] = "local-tiered-storage"

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
        for path in self.directory.glob(self._objects(topic, partition)):
            name, dot, suffix = path.name.partition(".")
            by_name[name][dot + suffix] = path
        return [
            TieredSegment(int(name[:BASE_DIGITS]), name[BASE_DIGITS + 1 :], files)
            for name, files in sorted(by_name.items())
        ]

    def _objects(self, topic: str, partition: int) -> str:
        """A glob of all of a partition's objects."""
        return f"kafka-tiered-storage/{topic}-{partition}-*/*"

    def complete_bases(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """Base offsets of the copies that have every mandatory file."""
        return tuple(segment.base_offset for segment in self.segments(topic, partition) if segment.complete)


@dataclass(frozen=True)
class AivenTier(LocalTier):
    """The Aiven plugin on a file system; `directory` is the place, whose last part is the plugin's key.prefix."""

    jars: str = ""
    layout: ClassVar[str] = "aiven"

    def broker_settings(self) -> dict[str, str]:
        return {
            **super().broker_settings(),
            "remote.log.storage.manager.class.name": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
            "remote.log.storage.manager.class.path": self.jars,
            "rsm.config.chunk.size": "16384",
            "rsm.config.storage.backend.class": "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage",
            "rsm.config.storage.root": str(self.directory.parent),
            "rsm.config.key.prefix": f"{self.directory.name}/",
        }

    def _objects(self, topic: str, partition: int) -> str:
        return f"{topic}-*/{partition}/*"


@dataclass(frozen=True)
class AivenS3Tier(AivenTier):
    """The Aiven plugin on an S3 server, in the bucket `directory.name`; the environment has the credentials."""

    endpoint: str = ""

    def broker_settings(self) -> dict[str, str]:
        return {
            **super().broker_settings(),
            "rsm.config.storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage",
            "rsm.config.storage.s3.bucket.name": self.directory.name,
            "rsm.config.storage.s3.endpoint.url": self.endpoint,
            "rsm.config.storage.s3.region": "us-east-1",
            "rsm.config.storage.s3.path.style.access.enabled": "true",
            "rsm.config.key.prefix": "tiers/",
        }

    def complete_bases(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        s3 = boto3.client("s3", endpoint_url=self.endpoint)
        found: dict[str, set[str]] = defaultdict(set)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.directory.name, Prefix=f"tiers/{topic}-"):
            for each in page.get("Contents", ()):
                folder, _, file = each["Key"].rpartition("/")
                name, dot, suffix = file.partition(".")
                if folder.endswith(f"/{partition}"):
                    found[name].add(dot + suffix)
        return tuple(int(name[:BASE_DIGITS]) for name in sorted(found) if found[name] >= MANDATORY["aiven"])
