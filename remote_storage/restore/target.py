"""The log directory that a restore writes to: its cluster, and the checkpoint files that all its partitions share."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from tiersnap.remote_storage.errors import MissingMetaPropertiesError, OtherClusterError, UnknownClusterError
from tiersnap.remote_storage.metadata.segment_metadata import is_uuid
from tiersnap.snapshot.atomic_file import cannot_write, sync_directory, write_atomically
from tiersnap.snapshot.errors import CorruptCheckpointError, SourceNotFoundError, UsageError
from tiersnap.snapshot.formats import meta_properties
from tiersnap.snapshot.formats.checkpoints import TopicPartition, format_offsets, is_topic_id, parse_offsets
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES, MetaProperties
from tiersnap.snapshot.log.log_dir import CLEAN_SHUTDOWN, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from tiersnap.snapshot.regular_file import read_text

_log = logging.getLogger(__name__)

_MOVE_AWAY = "move the file away: the broker creates a new file"
_AS_WHOM = "run the same command as the user that runs the broker, or as root"


@dataclass(frozen=True, slots=True)
class Target:
    """A log directory of a stopped broker."""

    path: Path
    meta: MetaProperties

    def offsets(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets in a checkpoint file. Empty if the file does not exist.

        Raises:
            CorruptCheckpointError: the file is damaged, so restore cannot add an entry.
            UsageError: this user may not read the file.
        """
        path = self.path / name
        try:
            if not os.path.lexists(path):
                return {}
            return parse_offsets(read_text(path), name=str(path))
        except PermissionError as error:
            raise _cannot_read(path, error) from error
        except OSError as error:
            raise CorruptCheckpointError(f"{path}: {error.strerror}", hint=_MOVE_AWAY) from error
        except CorruptCheckpointError as error:
            error.hint = _MOVE_AWAY
            raise

    def set_offset(self, name: str, partition: TopicPartition, offset: int) -> bool:
        """Set the entry of a partition in a checkpoint file. Return whether this changed the file."""
        offsets = self.offsets(name)
        if offsets.get(partition) == offset:
            return False
        path = self.path / name
        like = self.path / META_PROPERTIES
        if os.path.lexists(path):
            like = path
        offsets[partition] = offset
        write_atomically(path, format_offsets(offsets).encode("utf-8"), replace=True, like=like)
        return True

    def set_checkpoints(self, partition: TopicPartition, *, log_start: int, log_end: int, recovery_point: int) -> None:
        """Set the recovery point, the high watermark and the log start offset of a partition in the checkpoint files.

        The high watermark is `log_end`. A log start offset of 0 is written only over an existing entry.
        """
        self.set_offset(RECOVERY_POINTS, partition, recovery_point)
        self.set_offset(HIGH_WATERMARKS, partition, log_end)
        if log_start > 0 or partition in self.offsets(LOG_START_OFFSETS):
            self.set_offset(LOG_START_OFFSETS, partition, log_start)

    def forget_clean_shutdown(self) -> bool:
        """Remove the marker of a clean stop, so that the broker checks its logs. Return whether the marker existed."""
        path = self.path / CLEAN_SHUTDOWN
        if not path.exists():
            return False
        try:
            path.unlink()
            sync_directory(self.path)
        except OSError as error:
            raise cannot_write(path, error) from error
        return True

    def rename(self, folder: Path, name: str) -> None:
        """Rename a finished folder to its final name."""
        try:
            folder.rename(self.path / name)
            sync_directory(self.path)
        except OSError as error:
            raise cannot_write(self.path / name, error) from error
        _log.info("%s is complete", self.path / name)


def open_target(path: Path, source_cluster: str | None) -> Target:
    """Return the log directory at `path`.

    Raises:
        SourceNotFoundError: the directory does not exist.
        MissingMetaPropertiesError: the directory has no meta.properties, so no broker would start with it.
        CorruptCheckpointError: its meta.properties names no cluster, or a checkpoint is damaged.
        UsageError: this user may not read one of these files.
    """
    if not path.is_dir():
        raise SourceNotFoundError(
            f"{path}: the directory does not exist", hint="give as --to one directory in log.dirs of the broker"
        )
    file = path / META_PROPERTIES
    if not os.path.lexists(file):
        raise MissingMetaPropertiesError(
            f"{file} is missing: no broker starts on a log directory without this file",
            hint="write the file again with its four lines: version=1, "
            f"cluster.id={source_cluster or '<as on the other disks>'}, node.id=<as on the other disks>, "
            "directory.id=<the SAME as before>. With a new directory.id, the partitions of the directory have no "
            "leader until the broker's second start. To find the old id, run kafka-dump-log "
            "--cluster-metadata-decoder: RegisterBrokerRecord.logDirs lists the ids of all disks; use the id that no "
            "other disk of the broker has. In ZooKeeper mode write three lines: version=0, cluster.id, broker.id",
        )
    try:
        text = read_text(file)
    except OSError as error:
        raise _cannot_read(file, error) from error
    target = Target(path, meta_properties.parse(text, name=str(file)))
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS):
        target.offsets(name)  # check all files before the first fetch: restore adds an entry to each
    return target


def _cannot_read(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot read {path}: {error.strerror or error}", hint=_AS_WHOM)


def _check_topic_id(topic_id: str) -> None:
    if not (is_uuid(topic_id) and is_topic_id(topic_id)):
        raise UsageError(f"--as-topic-id {topic_id!r} is not a topic id, which has 22 characters")


@dataclass(frozen=True, slots=True)
class Destination:
    """A partition in the target cluster."""

    topic_id: str
    is_same_cluster: bool
    empty_state: bool


def choose_destination(
    target: Target,
    name: str,
    *,
    source_cluster: str | None,
    topic_id: str,
    as_topic_id: str | None,
    producer_state: str | None,
) -> Destination:
    """Return the topic id and the producer state of a partition in the target cluster.

    Args:
        source_cluster: id of the cluster that wrote the segments; None if it is unknown.
        topic_id: topic id in the keys of the segments.
        as_topic_id: topic id in the target cluster; None if the user gave none.
        producer_state: `keep` or `empty`; None if the user gave none.

    Raises:
        UnknownClusterError: the source cluster is unknown.
        OtherClusterError: the source is another cluster, and `as_topic_id` or `producer_state` is missing.
        UsageError: `as_topic_id` is no topic id.
    """
    if as_topic_id is not None:
        _check_topic_id(as_topic_id)
    if source_cluster is None:
        raise UnknownClusterError(
            f"{name}: no object in remote storage names the cluster that wrote the segments",
            hint="only tiersnap records the cluster, the plugin of a broker does not. Give --cluster-id ID from "
            "meta.properties of a broker that wrote the topic. If the cluster of "
            f"{target.path} wrote the topic: --cluster-id {target.meta.cluster_id}",
        )
    if source_cluster == target.meta.cluster_id:
        return Destination(as_topic_id or topic_id, True, producer_state == "empty")
    where = f"{name} comes from cluster {source_cluster}, but {target.path} belongs to cluster {target.meta.cluster_id}"
    if producer_state is None:
        raise OtherClusterError(
            f"{where}: choose --producer-state. Each cluster assigns producer ids from 0, so a new producer may "
            "get the id of a restored producer. Brokers would then silently drop the first records of the new "
            "producer, or refuse these records as out of order",
            hint="give --producer-state empty, which restores no producers, if no producer of the old cluster "
            "continues to write. Give --producer-state keep only if the new cluster's next producer id is above all "
            "restored ids, for example if the new cluster was formatted with a ProducerIdsRecord",
        )
    if as_topic_id is None:
        raise OtherClusterError(
            f"{where}: the topic has another topic id in the target cluster, and a broker renames a folder with "
            "the wrong topic id",
            hint="create the topic in the target cluster, stop the broker, and remove the broker's folder of the "
            "partition. Then give the TopicId that kafka-topics --describe prints: --as-topic-id ID. The id is "
            f"{topic_id} only if the topic was created with the old id",
        )
    return Destination(as_topic_id, False, producer_state == "empty")
