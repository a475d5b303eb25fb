"""The kinds of Kafka storage files that `dump` reads, recognised by file name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tiersnap.snapshot.errors import SourceNotFoundError, UsageError
from tiersnap.snapshot.log import log_dir
from tiersnap.snapshot.log.file_names import LARGEST_OFFSET
from tiersnap.snapshot.regular_file import open_regular


class FileKind(StrEnum):
    """A kind of Kafka storage file."""

    LOG = "log"
    KRAFT_SNAPSHOT = "kraft_snapshot"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    TRANSACTION_INDEX = "transaction_index"
    LEADER_EPOCHS = "leader_epochs"
    OFFSET_CHECKPOINT = "offset_checkpoint"
    PARTITION_METADATA = "partition_metadata"


_BY_SUFFIX = {
    "log": FileKind.LOG,
    "snapshot": FileKind.PRODUCER_SNAPSHOT,
    "index": FileKind.OFFSET_INDEX,
    "timeindex": FileKind.TIME_INDEX,
    "txnindex": FileKind.TRANSACTION_INDEX,
}
_BY_NAME = {
    log_dir.LEADER_EPOCHS: FileKind.LEADER_EPOCHS,
    log_dir.HIGH_WATERMARKS: FileKind.OFFSET_CHECKPOINT,
    log_dir.RECOVERY_POINTS: FileKind.OFFSET_CHECKPOINT,
    log_dir.LOG_START_OFFSETS: FileKind.OFFSET_CHECKPOINT,
    log_dir.CLEANER_OFFSETS: FileKind.OFFSET_CHECKPOINT,
    log_dir.PARTITION_METADATA: FileKind.PARTITION_METADATA,
}
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"

# Keys of remote storage managers have an id between the offset and the suffix: <20 digits>-<id>.log
_NUMBERED = re.compile(r"^(?P<number>\d+)(-[\w-]+)?\.(?P<suffix>log|snapshot|index|timeindex|txnindex)$")
_KRAFT_SNAPSHOT = re.compile(r"^(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint$")
_LEFTOVER = re.compile(r"\.(deleted|cleaned|swap|part|tmp)$")


@dataclass(frozen=True, slots=True)
class StorageFile:
    """One file to dump."""

    path: str  # path from the command line
    kind: FileKind
    # Number in the name: a base offset, or the snapshot offset (exclusive). None if the name has no number.
    offset: int | None = None
    epoch: int | None = None  # leader epoch of a KRaft snapshot, None for other files

    @property
    def name(self) -> str:
        """Return the file name without folders."""
        return Path(self.path).name


def identify(path: str) -> StorageFile:
    """Return the file at `path` with its kind.

    Raises:
        SourceNotFoundError: the file does not exist.
        UsageError: the path is a directory, cannot be read, or has a name that Kafka does not use.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise UsageError(f"{path} is a directory", hint=f"give its files: tiersnap dump {path}/*")
        os.close(open_regular(target, follow=True))
    except FileNotFoundError:
        raise SourceNotFoundError(
            f"{path} does not exist", hint="to see the files of a log directory: tiersnap scan LOGDIR --segments"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="run the command as the user that runs the broker"
        ) from error
    name = _LEFTOVER.sub("", target.name)
    if name in _BY_NAME:
        return StorageFile(path, _BY_NAME[name])
    if name == BOOTSTRAP_CHECKPOINT:
        return StorageFile(path, FileKind.KRAFT_SNAPSHOT)
    if match := _KRAFT_SNAPSHOT.match(name):
        return StorageFile(path, FileKind.KRAFT_SNAPSHOT, int(match["offset"]), int(match["epoch"]))
    if (match := _NUMBERED.match(name)) and int(match["number"]) <= LARGEST_OFFSET:
        return StorageFile(path, _BY_SUFFIX[match["suffix"]], int(match["number"]))
    known = ", ".join([*(f"<offset>.{suffix}" for suffix in _BY_SUFFIX), "<offset>-<epoch>.checkpoint", *_BY_NAME])
    raise UsageError(f"{path}: the file name is not one of Kafka's storage files", hint=f"known names: {known}")


def next_base_offset(file: StorageFile) -> int | None:
    """Return the base offset of the next segment in the file's folder, None if the file is the active segment."""
    own = file.offset or 0
    offsets = map(_base_offset, Path(file.path).parent.glob("*.log"))
    return min((each for each in offsets if each is not None and each > own), default=None)


def _base_offset(log: Path) -> int | None:
    if not (log.stem.isascii() and log.stem.isdigit()):
        return None
    offset = int(log.stem)
    return offset if offset <= LARGEST_OFFSET else None
