"""Plan the missing snapshots of one partition, and write them unless only a plan is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.repair.files import in_place, nowhere
from tiersnap.snapshot.repair.other_files import FileRepair
from tiersnap.snapshot.repair.repair_action import PlannedFile, PlannedSnapshot
from tiersnap.snapshot.repair.repair_plan import Planner, PlanOptions, Write
from tiersnap.snapshot.repair.undone import undone_at_start
from tiersnap.snapshot.replay.examine import Examination, examine
from tiersnap.snapshot.replay.partition_replay import snapshot_reader
from tiersnap.snapshot.replay.replay_start import NOT_LOOKED, Beginning
from tiersnap.snapshot.replay.segment_runs import FoldSegment, fold_segment

# One of files.in_place, files.elsewhere and files.nowhere.
OpenFiles = Callable[[Partition], AbstractContextManager[Write | None]]


@dataclass(frozen=True, slots=True)
class Repaired:
    """The plan for a partition, with the examination before the repair."""

    examination: Examination
    # By ascending offset. With `apply`, those whose `action.writes` is True were written.
    planned: tuple[PlannedSnapshot, ...]
    undone: tuple[str, ...]  # warnings about snapshots that a broker's next start deletes
    files: tuple[PlannedFile, ...] = ()  # missing and wrong small files; written like `planned`


def repair_partition(
    filesystem: FileSystem,
    partition: Partition,
    options: PlanOptions,
    *,
    apply: bool,
    check_crc: bool,
    topic_ids: Mapping[str, str],
) -> Repaired:
    """Return the plan of `tiersnap repair` for a partition. If `apply` is True, write it; see whole_log_dir.repair.

    Raises:
        LogDirInUseError: a broker holds the lock.
        UsageError: the folder is on another host, or this user may not write to it.
        NoSpaceError: the disk is full; no file was written.
    """
    if apply and not filesystem.is_local:
        raise UsageError(f"{partition.path}: apply needs a directory on this host")
    with locked(Path(partition.path).parent) if apply else nullcontext():
        opener = in_place if apply else nowhere
        files = FileRepair(options.replace, topic_ids.get, apply=apply)
        return repair_into(opener, filesystem, partition, options, check_crc, NOT_LOOKED, files)


def repair_into(
    open_files: OpenFiles,
    filesystem: FileSystem,
    partition: Partition,
    options: PlanOptions,
    check_crc: bool,
    begins: Beginning,
    files: FileRepair | None = None,
    fold: FoldSegment = fold_segment,
) -> Repaired:
    """Fold a partition, and write its snapshots with `open_files`.

    Args:
        files: repairs the small files; None skips them.

    Raises:
        TiersnapError: see `open_files`.
    """
    partition = begins.opened(partition)
    with open_files(partition) as write:
        planner = Planner(partition, options, snapshot_reader(filesystem, partition), write)
        examination = examine(filesystem, partition, check_crc=check_crc, on_boundary=planner, begins=begins, fold=fold)
    others = () if files is None else files.repaired(filesystem, partition, examination, begins)
    mended = {each.file for each in others if each.action.writes}
    undone = undone_at_start(filesystem, examination.partition, mended)
    return Repaired(examination, tuple(planner.planned), tuple(undone), others)
