"""Plan the repair of small files that a power loss or an old bug damaged: partition.metadata, leader epochs, indexes.

    partition.metadata        Written with the topic's id, if `find_topic_id` returns an id. A KRaft broker does not
                              start with an empty file, and sets a partition without the file aside (-stray). So the
                              file is never moved away.
    leader-epoch-checkpoint   Written with the leader epochs of the batches, followed by the epochs in the file. It is
                              not written if the log may begin in remote storage: remote segments have epochs that no
                              local batch has, and a leader deletes remote segments that are older than its first epoch.
    .index .timeindex         Rebuilt from the batches of the segment (index_check). A broker rebuilds indexes only if
    .txnindex                 the .index is missing, and then deletes later snapshots.

A file that is empty or contains only zeros counts as missing, and is written. Other files are replaced only with
--replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass

import numpy as np

from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import LeaderEpoch, format_leader_epochs, format_topic_id
from tiersnap.snapshot.formats.transaction_index import ONGOING_TXN_DTYPE
from tiersnap.snapshot.gate.judge_partition import open_at
from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.log_dir import LEADER_EPOCHS, PARTITION_METADATA, FileRef, Partition, Segment
from tiersnap.snapshot.log.log_start import may_begin_below
from tiersnap.snapshot.log.rebuilt_epochs import epochs_of_batches
from tiersnap.snapshot.log.windows import open_windows, pieces
from tiersnap.snapshot.repair.files import beside_log
from tiersnap.snapshot.repair.index_check import CheckedIndexes, FoundIndexes, IndexCheck
from tiersnap.snapshot.repair.repair_action import PlannedFile, RepairAction
from tiersnap.snapshot.replay.examine import Examination, lost_epochs
from tiersnap.snapshot.replay.replay_start import Beginning

_NO_ID = (
    "the topic id is unknown on this host: give --bootstrap-server; or --topic-ids FILE with the TopicId that "
    "kafka-topics.sh --describe prints"
)
_GOES_BACK = "the log begins or may begin in remote storage: copy the file from another replica"
_UNASKED = f"{_GOES_BACK}; or give --remote, which may show that the log begins on this host"


# A planned file, and the bytes to write.
_Planned = tuple[PlannedFile, bytes]


@dataclass(frozen=True)
class FileRepair:
    """The repair of a partition's small files. It plans the files, and writes them if `apply` is True."""

    replace: bool = False  # whether to replace files that are not empty
    find_topic_id: Callable[[str], str | None] = lambda _: None  # returns the id of a topic by its name
    is_kraft: bool = False  # whether the broker is in KRaft mode, and so sets a partition without a topic id aside
    apply: bool = False

    def repaired(
        self, filesystem: FileSystem, partition: Partition, found: Examination, begins: Beginning
    ) -> tuple[PlannedFile, ...]:
        """Return the planned files. If `apply` is True, write them.

        Args:
            found: the examination of the partition.
            begins: the beginning of the log, from remote storage.

        Raises:
            UsageError: this user may not write to the folder.
            NoSpaceError: the disk is full.
        """
        done = []
        with beside_log(partition) if self.apply else nullcontext() as write:
            for each, data in self._planned(filesystem, partition, found, begins):
                if write is not None and each.action.writes:
                    write(each.file, data, each.is_there)
                done.append(each)
        return tuple(done)

    def _planned(
        self, filesystem: FileSystem, partition: Partition, found: Examination, begins: Beginning
    ) -> Iterator[_Planned]:
        if partition.topic_id is None:
            yield from self._topic_id(filesystem, partition)
        if partition.epochs_lost_below:
            yield self._epochs(filesystem, partition, begins)
        for segment, facts in zip(partition.segments, found.segments, strict=True):
            is_wrong = set(facts.index_faults) - set(lost_epochs(partition, segment))
            if is_wrong and facts.damage_kind is None:
                opened = open_at(segment.base_offset, found.reached.get(segment.base_offset))
                yield from self._indexes(filesystem, segment, opened)

    def _topic_id(self, filesystem: FileSystem, partition: Partition) -> Iterator[_Planned]:
        """Plan partition.metadata, or nothing if the file is missing, the id is unknown, and the broker needs no id."""
        try:
            data = _read(filesystem, f"{partition.path}/{PARTITION_METADATA}")
        except OSError:
            return
        topic_id = self.find_topic_id(partition.topic)
        if topic_id is None and data is None and not self.is_kraft:
            return
        why = "it is missing" if data is None else _size_of(data)
        if topic_id is None:
            reason = f"{why}; {_NO_ID}"
            yield PlannedFile(PARTITION_METADATA, None, RepairAction.NOT_TOLD, reason, data is not None), b""
        else:
            yield self._file(PARTITION_METADATA, None, data, format_topic_id(topic_id).encode("ascii"), why)

    def _epochs(self, filesystem: FileSystem, partition: Partition, begins: Beginning) -> _Planned:
        try:
            there = _read(filesystem, f"{partition.path}/{LEADER_EPOCHS}")
        except OSError as error:
            return PlannedFile(LEADER_EPOCHS, None, RepairAction.UNVERIFIED, error.strerror or str(error), True), b""
        lacks = "the file lacks leader epochs that batches of the log have"
        why_not = _why_epochs_are_unknown(filesystem, partition, begins)
        if why_not:
            reason = f"{lacks}; {why_not}"
            return PlannedFile(LEADER_EPOCHS, None, RepairAction.NOT_TOLD, reason, there is not None), b""
        data = format_leader_epochs(partition.leader_epochs or ()).encode("ascii")
        return self._file(LEADER_EPOCHS, None, there, data, lacks)

    def _indexes(
        self, filesystem: FileSystem, segment: Segment, opened: tuple[tuple[int, int], ...] | None
    ) -> Iterator[_Planned]:
        try:
            found = FoundIndexes(*(_read_index(filesystem, each) for each in _refs(segment)))
            right = _checked(filesystem, segment, found, opened)
        except (OSError, CorruptDataError):
            return  # the segment changed after its examination
        for name, suffix, there, data in _wrong_indexes(found, right):
            why = right.rebuilt.get(name, "the file ends with zeros")
            yield self._file(f"{segment.base_offset:020d}.{suffix}", segment.base_offset, there, data, why)

    def _file(self, name: str, base_offset: int | None, there: bytes | None, data: bytes, why: str) -> _Planned:
        action = RepairAction.REPLACE if self.replace else RepairAction.NEEDS_REPLACE
        if not (there or b"").strip(b"\0"):
            action = RepairAction.WRITE
        return PlannedFile(name, base_offset, action, why, there is not None), data


def _why_epochs_are_unknown(filesystem: FileSystem, partition: Partition, begins: Beginning) -> str:
    """Return why the lost leader epochs cannot be rebuilt, or "" if the batches of the log have all of them."""
    if begins.is_continued is None and may_begin_below(partition):
        return _UNASKED
    if begins.goes_back(partition):
        return _GOES_BACK
    of_batches = set(epochs_of_batches(filesystem, partition.segments, reads_all=True))
    if of_batches.issuperset(_lost_epochs(partition)):
        return ""
    return "the batches of the log lack some of the lost epochs: copy the file from another replica"


def _lost_epochs(partition: Partition) -> list[LeaderEpoch]:
    below = partition.epochs_lost_below
    return [each for each in partition.leader_epochs or () if each[1] < below]


def _wrong_indexes(found: FoundIndexes, right: CheckedIndexes) -> Iterator[tuple[str, str, bytes | None, bytes]]:
    """Yield (name, suffix, file's bytes, right bytes) for each wrong index. An empty file counts as missing."""
    for name, suffix, there, data in (
        ("offset index", "index", found.offset_index, right.offset_index),
        ("time index", "timeindex", found.time_index, right.time_index),
        ("transaction index", "txnindex", found.transaction_index, right.transaction_index or b""),
    ):
        if (there or b"") != data:
            yield name, suffix, there, data


def _read(filesystem: FileSystem, path: str) -> bytes | None:
    try:
        return read_bounded(filesystem, path)
    except FileNotFoundError:
        return None


def _size_of(data: bytes) -> str:
    if data.strip(b"\0"):
        return "the file contains no topic id"
    if not data:
        return "0 bytes"
    return f"the file has {len(data)} bytes, and all of them are 0"


def _refs(segment: Segment) -> tuple[FileRef | None, FileRef | None, FileRef | None]:
    return segment.offset_index, segment.time_index, segment.transaction_index


def _read_index(filesystem: FileSystem, ref: FileRef | None) -> bytes | None:
    return None if ref is None else read_bounded(filesystem, ref.path)


def _checked(
    filesystem: FileSystem, segment: Segment, found: FoundIndexes, opened: tuple[tuple[int, int], ...] | None
) -> CheckedIndexes:
    """Read a segment, and return the indexes that agree with its batches; see IndexCheck."""
    ongoing = None if opened is None else np.sort(np.array(list(opened), ONGOING_TXN_DTYPE), order="first_offset")
    check = IndexCheck(segment.base_offset, found, ongoing)
    with closing(open_windows(filesystem, segment.log.path, may_shrink=False)) as windows:
        for piece in pieces(windows, 0, windows.size):
            check.update(piece.data)
    return check.finish()
