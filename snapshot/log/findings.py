"""Findings about damaged, missing or unreadable files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.errors import CorruptCheckpointError


class FindingKind(StrEnum):
    """The kinds of findings; docs/runbook.md explains each."""

    BAD_SIZE = "BAD_SIZE"
    BAD_MAGIC = "BAD_MAGIC"
    BAD_CRC = "BAD_CRC"
    BAD_OFFSET = "BAD_OFFSET"
    BAD_CONTROL_RECORD = "BAD_CONTROL_RECORD"
    TRUNCATED_SEGMENT = "TRUNCATED_SEGMENT"
    EMPTY_SEGMENT = "EMPTY_SEGMENT"
    OFFSETS_OVERLAP = "OFFSETS_OVERLAP"
    OFFSETS_MISSING = "OFFSETS_MISSING"
    NON_TRANSACTIONAL_IN_TRANSACTION = "NON_TRANSACTIONAL_IN_TRANSACTION"
    UNREADABLE_FILE = "UNREADABLE_FILE"
    DELETED_FILE = "DELETED_FILE"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    CORRUPT_CHECKPOINT = "CORRUPT_CHECKPOINT"
    MISSING_CHECKPOINT = "MISSING_CHECKPOINT"
    CORRUPT_SNAPSHOT = "CORRUPT_SNAPSHOT"
    CORRUPT_INDEX = "CORRUPT_INDEX"
    BAD_FILE_NAME = "BAD_FILE_NAME"
    UNFINISHED_SWAP = "UNFINISHED_SWAP"
    NO_LOG_FILE = "NO_LOG_FILE"
    BAD_RECORD = "BAD_RECORD"
    CORRUPT_TRANSACTION_STATE = "CORRUPT_TRANSACTION_STATE"
    UNKNOWN_VERSION = "UNKNOWN_VERSION"
    WRONG_PARTITION = "WRONG_PARTITION"
    MISSING_PARTITION = "MISSING_PARTITION"
    STRAY_PARTITION = "STRAY_PARTITION"


# Findings about a file that could not be read. A retry may succeed although the file's size and time are unchanged.
NOT_READ = (FindingKind.UNREADABLE_FILE, FindingKind.DELETED_FILE, FindingKind.PERMISSION_DENIED)
# Findings that prove no damage: the file is missing here, or this user may not read it.
NOT_DAMAGED = frozenset({FindingKind.PERMISSION_DENIED, FindingKind.MISSING_PARTITION, FindingKind.MISSING_CHECKPOINT})
# Findings without damaged records that a person must still fix.
WAITS = frozenset({FindingKind.CORRUPT_INDEX, FindingKind.STRAY_PARTITION})
# The message about a file or folder that a broker deleted or moved during the run.
DELETED = "deleted since it was listed"


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged or missing file, or a damaged position in a file."""

    finding_kind: Annotated[FindingKind, Meta(description="kind of the damage; null without damage")]
    path: Annotated[str, Meta(description="path of the damaged file")]
    position: Annotated[int, Meta(description="byte position in the file; -1 if the finding is about the whole file")]
    message: Annotated[str, Meta(description="description of the damage")]

    def __str__(self) -> str:
        if self.position < 0:
            return f"{self.finding_kind}: {self.path}: {self.message}"
        return f"{self.finding_kind}: {self.path} at byte {self.position}: {self.message}"

    @property
    def is_gone(self) -> bool:
        """Return whether the file was deleted after it was listed, which is no damage."""
        return self.finding_kind is FindingKind.DELETED_FILE

    def as_dict(self) -> dict[str, object]:
        """Return the finding as a dict of plain values."""
        return {
            "finding_kind": str(self.finding_kind),
            "path": self.path,
            "position": self.position,
            "message": self.message,
        }


def unreadable(path: str, error: OSError) -> Finding:
    """Return the finding about a listed file or folder that cannot be read.

    If the file was deleted after the listing, the kind is DELETED_FILE. If this user may not read it, the kind is
    PERMISSION_DENIED. Neither kind proves damage.
    """
    if isinstance(error, FileNotFoundError):
        return Finding(FindingKind.DELETED_FILE, path, -1, DELETED)
    kind = FindingKind.PERMISSION_DENIED if isinstance(error, PermissionError) else FindingKind.UNREADABLE_FILE
    return Finding(kind, path, -1, error.strerror or str(error))


def corrupt_checkpoint(path: str, error: CorruptCheckpointError) -> Finding:
    """Return the finding for a corrupt checkpoint. Its message omits the path, which is a separate field."""
    return Finding(FindingKind.CORRUPT_CHECKPOINT, path, -1, error.message.removeprefix(f"{path}: "))


def missing_checkpoint(path: str) -> Finding:
    """Return the finding for a missing replication-offset-checkpoint in a log directory that has partitions."""
    told = (
        "the file does not exist, so high watermarks are unknown and nothing may be tiered; a running broker writes "
        "the file every 5 s"
    )
    return Finding(FindingKind.MISSING_CHECKPOINT, path, -1, told)
