"""List a log directory (an entry of `log.dirs`): its partitions, segments, checkpoints and other folders.

    <topic>-<partition>/                         live; a topic's name may contain `-` and `.`, so split at the last `-`
    <topic>-<partition>.<32 hex>-delete|-stray|-future/   not live: scheduled deletion, stray replica, move target
    remote-log-index-cache/, __cluster_metadata-0/        skipped, as brokers skip these folders

Files of a partition: <20 digits>.log .index .timeindex .txnindex .snapshot; leader-epoch-checkpoint;
partition.metadata; and leftovers of interrupted work: .cleaned .swap .deleted .tmp. The number in the name of a
`.snapshot` is the exclusive snapshot offset. The number in any other name is the base offset of the segment. Follows
org.apache.kafka.storage.internals.log.LogFileUtils and kafka.log.LogManager.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from tiersnap.snapshot.errors import CorruptCheckpointError, NotALogDirError, SourceNotFoundError
from tiersnap.snapshot.formats import checkpoints
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs, TopicPartition
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES, MetaProperties, parse
from tiersnap.snapshot.log.file_names import INDEXES, SUFFIXES, is_of_running_cleaner, numbered_name, wrong_name
from tiersnap.snapshot.log.file_system import FOLDER, Entry, FileSystem, read_bounded
from tiersnap.snapshot.log.findings import Finding, FindingKind, corrupt_checkpoint, missing_checkpoint, unreadable
from tiersnap.snapshot.log.places import log_dir_below, resolve, unlisted, without_partitions
from tiersnap.snapshot.log.rebuilt_epochs import complete
from tiersnap.snapshot.regular_file import TEXT_BYTES
from tiersnap.snapshot.rows import Int32

HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
COLLECTED = "collected.json"  # written by tiersnap, see snapshot.collected
INTERNAL_COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

# In the order of the fields of Checkpoints.
_OFFSET_CHECKPOINTS = (HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, CLEANER_OFFSETS)
_SKIPPED_FOLDERS = frozenset({"remote-log-index-cache", "__cluster_metadata-0"})
_LIVE_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
_OTHER_FOLDER = re.compile(r"^\S+-\S+\.\S+-(?P<state>delete|stray|future)$")


@dataclass(frozen=True, slots=True)
class FileRef:
    """A listed file: path inside its file system, size in bytes, modification time in ns since the epoch."""

    path: str
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The files of a segment.

    If `log` is a link or another file that is not regular, the partition has a finding, and reads fail.
    """

    base_offset: int
    next_base_offset: int | None  # None for the active segment
    log: FileRef
    offset_index: FileRef | None = None
    time_index: FileRef | None = None
    transaction_index: FileRef | None = None

    @property
    def is_active(self) -> bool:
        """Return whether this is the partition's last segment, to which a broker appends."""
        return self.next_base_offset is None


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The offset checkpoints of a log directory. Each maps (topic, partition) to an offset."""

    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    cleaner_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    # False if log-start-offset-checkpoint exists and could not be read.
    log_starts_are_known: bool = field(default=True, kw_only=True)
    has_log_starts: bool = field(default=False, kw_only=True)  # whether log-start-offset-checkpoint exists


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """A partition's log without its files: identity, checkpoints and findings."""

    topic: str
    topic_id: str | None = None  # 22 characters, None before Kafka 2.8
    partition: Int32
    # (epoch, start offset), from leader-epoch-checkpoint and, for epochs that the file lost, from batches.
    leader_epochs: LeaderEpochs | None = None
    epochs_lost_below: int = 0  # leader-epoch-checkpoint lost its entries below this offset; 0 if it lost none
    high_watermark: int | None = None  # None if replication-offset-checkpoint lacks the partition
    log_start_offset: int = 0  # the larger of `log_start_checkpoint` and the first segment's base offset
    # The log start offset from log-start-offset-checkpoint, --log-start or the cluster; None without one.
    log_start_checkpoint: int | None = None
    log_start_is_known: bool = True  # False if log-start-offset-checkpoint exists and could not be read
    # First offset that the log cleaner has not cleaned; None if it never cleaned this partition.
    cleaner_offset: int | None = None
    findings: tuple[Finding, ...] = ()
    # Ascending base offsets that have an index and no `.log`. A broker deletes such an index when it starts
    # (LogLoader.loadSegmentFiles).
    orphan_indexes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return `<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"

    @property
    def whole_epochs(self) -> LeaderEpochs:
        """Return the leader epochs that decide which remote segments belong to the log; () if the checkpoint lost some.

        Epochs that were rebuilt from local batches are not returned. They cannot show whether a remote segment below
        the first rebuilt epoch belongs to the log.
        """
        if self.epochs_lost_below:
            return ()
        return self.leader_epochs or ()


@dataclass(frozen=True, slots=True)
class Partition(PartitionLog):
    """A live partition folder, which is neither scheduled for deletion nor stray nor a move target."""

    path: str  # the folder, inside its filesystem
    segments: tuple[Segment, ...]  # ascending; the first one contains the log start offset
    snapshots: dict[int, FileRef]  # snapshot files by exclusive snapshot offset
    # Ascending segments below the log start offset: DeleteRecords or retention deleted their records and leader epochs.
    # A broker opens these files when it starts, does not read or tier them, and deletes them later.
    deleted_segments: tuple[Segment, ...] = ()
    # Whether the folder is in a log directory of this host, and was not collected from another host.
    is_of_this_host: bool = field(default=False, compare=False)

    @property
    def first_base_offset(self) -> int:
        """Return the base offset of the first segment; 0 without segments."""
        return self.segments[0].base_offset if self.segments else 0

    @property
    def log_bytes(self) -> int:
        """Return the total size in bytes of the segments' `.log` files."""
        return sum(segment.log.size for segment in self.segments)


@dataclass(frozen=True, slots=True)
class OtherFolder:
    """A folder that is not a live partition. `state` is `delete`, `stray`, `future` or `unknown`."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory: the names of its live partition folders, its checkpoints and its other folders."""

    filesystem: FileSystem
    path: str
    folders: tuple[str, ...]
    others: tuple[OtherFolder, ...]
    checkpoints: Checkpoints
    is_clean: bool
    findings: tuple[Finding, ...]

    def partitions(self) -> Iterable[Partition]:
        """List the live partitions, ascending by folder name."""
        return map(self.partition, self.folders)

    def partition(self, folder: str) -> Partition:
        """List a partition by the name of its folder; see `read_partition`."""
        return read_partition(self.filesystem, f"{self.path}/{folder}", self.checkpoints)


def split_folder_name(name: str) -> TopicPartition | None:
    """Return (topic, partition) for the name of a live partition folder; None for any other name."""
    match = _LIVE_FOLDER.fullmatch(name)
    if match is None or int(match["partition"]) >= 1 << 31:
        return None
    return match["topic"], int(match["partition"])


def open_log_dir(uri: str) -> LogDir:
    """List a log directory without its partitions. A new broker's log directory may have none.

    Raises:
        SourceNotFoundError: the directory does not exist.
        NotALogDirError: the directory has neither a partition folder nor a meta.properties file.
    """
    filesystem, path = resolve(uri)
    path = path.rstrip("/")
    try:
        listing = filesystem.list_folder(path)
    except OSError as error:
        reason, hint = unlisted(error)
        raise SourceNotFoundError(f"{uri}: {reason}", hint=hint) from error
    folders, others, findings = [], [], []
    files = {}
    for entry in listing:
        if entry.kind != FOLDER or entry.name in _OFFSET_CHECKPOINTS:
            files[entry.name] = entry.path
        elif entry.name in _SKIPPED_FOLDERS:
            continue
        elif split_folder_name(entry.name):
            folders.append(entry.name)
        else:
            other = _OTHER_FOLDER.match(entry.name)
            others.append(OtherFolder(entry.name, other["state"] if other else "unknown"))
    if COLLECTED in files:
        raise NotALogDirError(
            f"{uri}: not a log directory, but a folder that `tiersnap collect` wrote",
            hint="give this folder to `tiersnap run --source`; other commands need the log directory itself",
        )
    if not folders and META_PROPERTIES not in files:
        below = log_dir_below(filesystem, listing, split_folder_name)
        hint = without_partitions(path.rpartition("/")[2], [entry.name for entry in listing], below)
        raise NotALogDirError(f"{uri}: the folder contains no partition folders", hint=hint)
    if folders and HIGH_WATERMARKS not in files:
        findings.append(missing_checkpoint(f"{path}/{HIGH_WATERMARKS}"))
    tables: list[dict[TopicPartition, int]] = []
    unread = set()
    for name in _OFFSET_CHECKPOINTS:
        offsets, finding = _read_offsets(filesystem, files.get(name))
        tables.append(offsets)
        if finding is not None:
            findings.append(finding)
            unread.add(name)
    return LogDir(
        filesystem=filesystem,
        path=path,
        folders=tuple(folders),
        others=tuple(others),
        checkpoints=Checkpoints(
            *tables, log_starts_are_known=LOG_START_OFFSETS not in unread, has_log_starts=LOG_START_OFFSETS in files
        ),
        is_clean=CLEAN_SHUTDOWN in files,
        findings=tuple(findings),
    )


def read_text(filesystem: FileSystem, path: str) -> str:
    """Return the text of a small UTF-8 file. Invalid bytes become U+FFFD, which the file's parser then refuses.

    Raises:
        OSError: the file is missing, unreadable, no regular file, or larger than TEXT_BYTES.
    """
    return read_bounded(filesystem, path, limit=TEXT_BYTES).decode("utf-8", "replace")


def _read_offsets(filesystem: FileSystem, path: str | None) -> tuple[dict[TopicPartition, int], Finding | None]:
    if path is None:
        return {}, None
    try:
        return checkpoints.parse_offsets(read_text(filesystem, path), name=path), None
    except CorruptCheckpointError as error:
        return {}, corrupt_checkpoint(path, error)
    except OSError as error:
        return {}, unreadable(path, error)


def read_partition(filesystem: FileSystem, path: str, known: Checkpoints) -> Partition:
    """List a partition folder, and read its small text files.

    Damage is a finding, never an error. If the folder was deleted after the listing, the result has no segments.
    """
    topic, number = split_folder_name(path.rsplit("/", 1)[-1]) or ("", -1)
    empty = Partition(
        path=path, segments=(), snapshots={}, topic=topic, partition=number, is_of_this_host=filesystem.is_local
    )
    try:
        listing = filesystem.list_folder(path)
    except OSError as error:
        return replace(empty, findings=(unreadable(path, error),))
    texts: dict[str, str] = {}
    findings: list[Finding] = []
    numbered, indexed = _by_suffix(filesystem, listing, texts, findings)
    findings += _orphan_indexes(numbered)
    key = (topic, number)
    checkpoint = known.log_start_offsets.get(key)
    log_start, deleted, live = split_at(_segments(numbered), checkpoint)
    in_file = _parsed(filesystem, texts.get(LEADER_EPOCHS), checkpoints.parse_leader_epochs, findings)
    epochs = complete(filesystem, in_file, live, log_start)
    return replace(
        empty,
        segments=live,
        deleted_segments=deleted,
        snapshots=numbered["snapshot"],
        topic_id=_parsed(filesystem, texts.get(PARTITION_METADATA), checkpoints.parse_topic_id, findings),
        leader_epochs=epochs.epochs,
        epochs_lost_below=epochs.lost_below,
        high_watermark=known.high_watermarks.get(key),
        log_start_offset=log_start,
        log_start_checkpoint=checkpoint,
        log_start_is_known=known.log_starts_are_known,
        cleaner_offset=known.cleaner_offsets.get(key),
        findings=tuple(findings),
        orphan_indexes=tuple(sorted(indexed - numbered["log"].keys())),
    )


def _by_suffix(
    filesystem: FileSystem, listing: Iterable[Entry], texts: dict[str, str], findings: list[Finding]
) -> tuple[dict[str, dict[int, FileRef]], set[int]]:
    """Return segment files by suffix and offset, and offsets of index files. Add text files to `texts`, by name."""
    numbered: dict[str, dict[int, FileRef]] = {suffix: {} for suffix in SUFFIXES}
    indexed: set[int] = set()
    for name, file, kind, size, modified_ns in listing:
        found, is_text = numbered_name(name), name in (LEADER_EPOCHS, PARTITION_METADATA)
        if kind is not None and (found or is_text):
            findings.append(Finding(FindingKind.UNREADABLE_FILE, file, -1, f"not a regular file: {kind}"))
        if found:
            suffix, offset = found
            if suffix in INDEXES:
                indexed.add(offset)
            # A `.log` that is no regular file is listed, too. Without it, its neighbours would look adjacent.
            if kind is None or suffix == "log":
                numbered[suffix][offset] = FileRef(file, size, modified_ns)
        elif kind is None and is_text:
            texts[name] = file
        elif kind is None and (wrong := wrong_name(name, file)) and not is_of_running_cleaner(filesystem, wrong):
            findings.append(wrong)
    return numbered, indexed


def _orphan_indexes(numbered: Mapping[str, Mapping[int, FileRef]]) -> Iterator[Finding]:
    """Yield a finding for each index file whose segment has no .log file."""
    for suffix in INDEXES:
        for base, ref in numbered[suffix].items():
            if base not in numbered["log"]:
                yield Finding(FindingKind.NO_LOG_FILE, ref.path, -1, "the segment of this index file has no .log file")


def _segments(numbered: dict[str, dict[int, FileRef]]) -> tuple[Segment, ...]:
    bases = sorted(numbered["log"])
    indexes = [numbered[suffix] for suffix in INDEXES]
    return tuple(
        Segment(base, following, numbered["log"][base], *(each.get(base) for each in indexes))
        for base, following in zip(bases, [*bases[1:], None], strict=False)
    )


def split_at(
    segments: tuple[Segment, ...], checkpoint: int | None
) -> tuple[int, tuple[Segment, ...], tuple[Segment, ...]]:
    """Return the log start offset of the local log, the segments below it, and the other segments.

    Args:
        segments: ascending.
        checkpoint: log start offset of the partition, local or remote; None if no checkpoint has it.
    """
    start = checkpoint or 0
    if segments:
        start = max(start, segments[0].base_offset)
    live = tuple(each for each in segments if each.next_base_offset is None or each.next_base_offset > start)
    return start, segments[: len(segments) - len(live)], live


_T = TypeVar("_T", covariant=True)


# Without partition.metadata, a KRaft broker would rename the partition's folder and create an empty partition.
_CURES = {
    PARTITION_METADATA: "never move partition.metadata away: tiersnap repair rewrites it with the topic's id",
    LEADER_EPOCHS: "tiersnap repair rewrites leader-epoch-checkpoint from the batches",
}


class _Parser(Protocol[_T]):
    def __call__(self, text: str, *, name: str) -> _T: ...


def _parsed(filesystem: FileSystem, path: str | None, parse: _Parser[_T], findings: list[Finding]) -> _T | None:
    if path is None:
        return None
    try:
        return parse(read_text(filesystem, path), name=path)
    except CorruptCheckpointError as error:
        finding = corrupt_checkpoint(path, error)
        findings.append(replace(finding, message=f"{finding.message}; {_CURES[path.rpartition('/')[2]]}"))
    except OSError as error:
        findings.append(unreadable(path, error))
    return None


def read_properties(filesystem: FileSystem, path: str) -> MetaProperties | None:
    """Return the `meta.properties` of a log directory; None if the file is missing, unreadable or corrupt."""
    name = f"{path}/{META_PROPERTIES}"
    try:
        return parse(read_text(filesystem, name), name=name)
    except (OSError, CorruptCheckpointError):
        return None
