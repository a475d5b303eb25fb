"""`collected.json`: the log directory and the partitions of a collected folder.

    version       1
    logDir        LOGDIR of `tiersnap collect`
    nodeId, clusterId, directoryId    fields of meta.properties; null if it lacks them
    partitions    names of the partition folders with a complete listing, ascending
    absent        folders that are not in `partitions` but may have objects, each with the time of addition (epoch ms)

The file is one line of JSON.
"""

from __future__ import annotations

import re
import uuid
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.json_decoder import decoder
from tiersnap.snapshot.log.log_dir import COLLECTED, split_folder_name

VERSION = 1


class Marker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of `collected.json`."""

    version: int = VERSION
    log_dir: str
    node_id: int | None
    cluster_id: str | None
    directory_id: str | None
    partitions: tuple[str, ...]
    absent: dict[str, int]

    @classmethod
    def of(cls, log_dir: str, properties: MetaProperties | None) -> Marker:
        """Return the marker of a log directory that has no collected partition yet."""
        marker = cls(log_dir=log_dir, node_id=None, cluster_id=None, directory_id=None, partitions=(), absent={})
        if properties is None:
            return marker
        return replace(
            marker,
            node_id=properties.node_id,
            cluster_id=properties.cluster_id,
            directory_id=properties.directory_id,
        )

    @property
    def properties(self) -> MetaProperties | None:
        """Return the meta.properties of the log directory, None if it had none."""
        return None if self.cluster_id is None else MetaProperties(self.cluster_id, self.node_id, self.directory_id)

    @property
    def place(self) -> str:
        """Return the log directory and its broker in words, for messages."""
        return self.log_dir if self.node_id is None else f"{self.log_dir} of broker {self.node_id}"

    def is_same_disk(self, other: Marker) -> bool:
        """Return whether both markers describe the same log directory.

        The directory ids decide. If one is unknown, broker, cluster and path decide.
        """
        if self.directory_id is not None and other.directory_id is not None:
            return self.directory_id == other.directory_id
        return (self.log_dir, self.node_id, self.cluster_id) == (other.log_dir, other.node_id, other.cluster_id)

    def encode(self) -> bytes:
        """Return one line of JSON."""
        partitions, absent = tuple(sorted(self.partitions)), dict(sorted(self.absent.items()))
        return msgspec.json.encode(replace(self, partitions=partitions, absent=absent))

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> Marker:
        """Return the marker in the bytes of a `collected.json`.

        Raises:
            UsageError: a newer tiersnap wrote the marker.
            CorruptDataError: the bytes are damaged, or are no marker.
        """
        try:
            version = decoder(_Version).decode(data).version
            if version > VERSION:
                raise UsageError(
                    f"{name}: a newer tiersnap wrote this file, in version {version}", hint="upgrade tiersnap"
                )
            found = decoder(cls).decode(data)
        except (ValueError, RecursionError) as error:
            raise _corrupt(name, str(error)[:200]) from error
        if version != VERSION:
            raise _corrupt(name, f"unknown version {version}")
        if not all(map(split_folder_name, (*found.partitions, *found.absent))):
            raise _corrupt(name, "the name of a partition is not <topic>-<partition>")
        return found


class _Version(msgspec.Struct):
    version: int


def _corrupt(name: str, reason: str) -> CorruptDataError:
    hint = "collect again into an empty folder: tiersnap collect LOGDIR --to EMPTY_FOLDER --apply"
    return CorruptDataError(f"{name}: not a marker file that tiersnap collect wrote: {reason}", hint=hint)


MARKER = COLLECTED
LISTING = "listing.parquet"


class Part(StrEnum):
    """A kind of object of a collected partition. The value is the suffix of the object's name."""

    SEGMENTS = ".segments.parquet"
    BATCHES = ".batches.parquet"
    SNAPSHOT = ".snapshot"


_PART = re.compile(rf"[0-9]{{20}}-[0-9a-f]{{12}}({'|'.join(re.escape(part) for part in Part)})")


def new_name(offset: int, part: Part) -> str:
    """Return a unique object name. Two collections never write the same object."""
    return f"{offset:020d}-{uuid.uuid4().hex[:12]}{part}"


def batches_of(name: str) -> str:
    """Return the name of the object with the batch headers of some segments.

    Args:
        name: name of the object with the decodes of the same segments.
    """
    return f"{name.removesuffix(Part.SEGMENTS)}{Part.BATCHES}"


def is_part(name: str) -> bool:
    """Return whether a name has the form of `new_name`."""
    return _PART.fullmatch(name) is not None
