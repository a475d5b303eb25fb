"""Plan the missing snapshots of one host's log directories, and write them unless only a plan is wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tiersnap.snapshot.errors import NoSpaceError, TiersnapError, UsageError
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.disk import on_disk
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.log_dir import Partition, read_properties
from tiersnap.snapshot.log.selection import NamedLogDir, findings_of
from tiersnap.snapshot.repair.files import nowhere
from tiersnap.snapshot.repair.other_files import FileRepair
from tiersnap.snapshot.repair.partition import OpenFiles, repair_into
from tiersnap.snapshot.repair.repair_action import PlannedFile, PlannedSnapshot, RepairAction
from tiersnap.snapshot.repair.repair_plan import PlanOptions
from tiersnap.snapshot.replay.replay_start import Beginning, Beginnings
from tiersnap.snapshot.replay.segment_runs import FoldSegment, fold_segment


@dataclass
class HostRepair:
    """The repair of a host, partition by partition, with the counts of its results."""

    log_dirs: Sequence[NamedLogDir]
    options: PlanOptions
    check_crc: bool = True
    beginnings: Beginnings = field(default_factory=Beginnings)  # finds the beginning of logs in remote storage
    actions: Counter[RepairAction] = field(default_factory=Counter)  # number of snapshot offsets by action
    needed: Counter[str] = field(default_factory=Counter)  # bytes that new snapshots take on disk, by log directory
    findings: list[Finding] = field(default_factory=list)  # damaged and unreadable files
    # Errors of partitions whose files could not all be written; the other partitions are still repaired.
    errors: list[TiersnapError] = field(default_factory=list)
    # Number of snapshots that do not fit on a full disk, by log directory. No further files are written to it.
    unwritten: Counter[str] = field(default_factory=Counter)
    lacking: Counter[str] = field(default_factory=Counter)  # bytes that the unwritten snapshots take on disk
    undone: list[str] = field(default_factory=list)  # warnings about snapshots that a broker's next start deletes
    files: FileRepair | None = None  # repairs the small files; None skips them
    file_actions: Counter[RepairAction] = field(default_factory=Counter)  # number of small files by action
    waiting: set[Problem] = field(default_factory=set)  # why snapshots and small files are not written

    def __post_init__(self) -> None:
        self.findings += findings_of(self.log_dirs)

    def plans(
        self,
        partitions: Iterable[tuple[NamedLogDir, Partition]],
        open_files: OpenFiles,
        fold: FoldSegment = fold_segment,
    ) -> Iterator[tuple[NamedLogDir, Partition, Sequence[PlannedSnapshot], Sequence[PlannedFile]]]:
        """Fold each partition, and yield it after its files were written. Add failures to `errors`."""
        for each, partition in partitions:
            begins = self.beginnings.of(partition)
            # On a full disk, only plan, to count the missing bytes.
            opener = nowhere if each.uri in self.unwritten else open_files
            try:
                try:
                    planned, files = self._planned(each, partition, begins, opener, fold)
                except NoSpaceError as error:
                    self.errors.append(error)
                    self.unwritten[each.uri] += 0
                    planned, files = self._planned(each, partition, begins, nowhere, fold)
            except TiersnapError as error:
                self.errors.append(error)
                continue
            if each.uri not in self.unwritten:
                self._count(planned)
                self.needed[each.uri] += _bytes(planned)
                self.file_actions.update(one.action for one in files)
                if any(one.action.waits for one in files):
                    self.waiting.add(OtherProblem.UNREPAIRED_FILE)
                yield each, partition, planned, files
            else:
                self._count_unwritten(each, planned)

    def _planned(
        self, each: NamedLogDir, partition: Partition, begins: Beginning, open_files: OpenFiles, fold: FoldSegment
    ) -> tuple[Sequence[PlannedSnapshot], Sequence[PlannedFile]]:
        filesystem = each.log_dir.filesystem
        files = self._files_of(each, writes=open_files is not nowhere)
        about = self.options, self.check_crc, begins
        repaired = repair_into(open_files, filesystem, partition, *about, files, fold)
        mended: frozenset[str] = frozenset()
        if files is not None and files.apply:
            mended = _written_paths(partition, repaired.files)
        self.findings.extend(one for one in repaired.examination.findings if one.path not in mended)
        self.undone.extend(repaired.undone)
        return repaired.planned, repaired.files

    def _files_of(self, each: NamedLogDir, *, writes: bool) -> FileRepair | None:
        if self.files is None:
            return None
        properties = read_properties(each.log_dir.filesystem, each.log_dir.path)
        is_kraft = properties is not None and properties.is_kraft
        return replace(self.files, is_kraft=is_kraft, apply=self.files.apply and writes)

    def _count_unwritten(self, each: NamedLogDir, planned: Sequence[PlannedSnapshot]) -> None:
        left: list[PlannedSnapshot] = []
        for one in planned:
            if one.action.writes:
                self.unwritten[each.uri] += 1
            else:
                left.append(one)
        self._count(left)
        self.lacking[each.uri] += _bytes(planned)

    def _count(self, planned: Iterable[PlannedSnapshot]) -> None:
        for one in planned:
            self.actions[one.action] += 1
            if one.action is RepairAction.NO_START:
                self.waiting.add(Verdict.UNKNOWN_LOG_START)
            elif one.action.waits:
                self.waiting.add(one.found)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that remain after the repair, for the exit code."""
        yield from self.findings
        yield from self.errors
        yield from self.waiting
        yield from self.beginnings.errors()
        if self.undone:
            yield OtherProblem.LOST_INDEX


def _bytes(planned: Iterable[PlannedSnapshot]) -> int:
    return sum(on_disk(one.size_bytes or 0) for one in planned if one.action.writes)


def _written_paths(partition: Partition, files: Iterable[PlannedFile]) -> frozenset[str]:
    return frozenset(f"{partition.path}/{one.file}" for one in files if one.action.writes)


@contextmanager
def all_locked(log_dirs: Iterable[NamedLogDir]) -> Iterator[None]:
    """Hold the locks of all log directories, as a broker does.

    Raises:
        LogDirInUseError: a broker holds a lock.
        UsageError: a directory is on another host, or this user may not lock it.
    """
    with ExitStack() as locks:
        for each in log_dirs:
            if not is_local(each):
                raise UsageError(
                    f"{each.uri}: --apply needs a directory on this host", hint="write to another place with --out DIR"
                )
            locks.enter_context(locked(Path(each.log_dir.path)))
        yield


def is_local(each: NamedLogDir) -> bool:
    """Return whether the log directory is on this host."""
    return bool(each.log_dir.filesystem.is_local)
