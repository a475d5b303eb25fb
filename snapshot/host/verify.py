"""Compare the snapshot files of log directories, or of another folder, with the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tiersnap.snapshot.errors import CorruptSnapshotError, SourceNotFoundError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.exit_code import Problem
from tiersnap.snapshot.gate.trusted import TRUSTED, SnapshotVerdict
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.listed_again import Locate, listed_again
from tiersnap.snapshot.log.log_dir import LEADER_EPOCHS, Partition
from tiersnap.snapshot.log.log_start import unloaded_below
from tiersnap.snapshot.log.selection import NamedLogDir, findings_of
from tiersnap.snapshot.regular_file import read_regular
from tiersnap.snapshot.replay.comparison import Comparison, JudgedFile
from tiersnap.snapshot.replay.examine import Examination, examine, lost_epochs
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.partition_state import Boundary
from tiersnap.snapshot.replay.replay_start import Beginning, Beginnings
from tiersnap.snapshot.replay.segment_runs import FoldSegment, fold_segment
from tiersnap.snapshot.replay.snapshot_comparison import compare


@dataclass
class Verification:
    """The verification of snapshot files, partition by partition, with its totals.

    Raises:
        SourceNotFoundError: `against` is no directory.
    """

    log_dirs: Sequence[NamedLogDir]
    # A folder with files <topic>-<partition>/<20 digits>.snapshot, which must equal the fold of the log exactly. None
    # verifies the files of the log directories.
    against: Path | None
    expiry: BrokerExpiry  # producers that a broker would drop are ignored
    check_crc: bool = True
    beginnings: Beginnings = field(default_factory=Beginnings)  # finds the beginning of logs in remote storage
    # Returns the partition with its leader's log start if that is above the checkpoint's, else None.
    moved: Callable[[Partition], Partition | None] = lambda _: None
    located: Locate = iter  # adds the cluster's log start to a partition that is listed again
    fold: FoldSegment = fold_segment
    # Number of files by verdict, without the files that a broker deletes at its start.
    counts: Counter[SnapshotVerdict] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)  # damaged and unreadable files

    def __post_init__(self) -> None:
        if self.against is not None and not self.against.is_dir():
            raise SourceNotFoundError(
                f"{self.against}: the directory does not exist", hint="to write one: tiersnap repair LOGDIR --out DIR"
            )
        self.findings += findings_of(self.log_dirs)

    def snapshots(
        self, partitions: Iterable[tuple[NamedLogDir, Partition]]
    ) -> Iterator[tuple[NamedLogDir, Partition, JudgedFile]]:
        """Yield each snapshot file with its verdict.

        Raises:
            SourceNotFoundError: after the last partition, if `against` has no file of any partition.
        """
        for named, listed in partitions:
            partition, compared = self._compared(named, listed)
            for offset, comparison in compared.items():
                if comparison.compared is not SnapshotVerdict.MISSING:
                    verdict, reason = comparison.verdict(self.expiry), comparison.reason(self.expiry)
                    found = JudgedFile(offset, verdict, reason, comparison)
                    # No broker loads a file below the log start, so such a file is yielded but not counted.
                    if self.against is not None or offset > unloaded_below(partition):
                        self.counts[found.verdict] += 1
                    yield named, partition, found
        if self.against is not None and not self.counts.total():
            raise SourceNotFoundError(
                f"{self.against}: the directory has no snapshot of these partitions",
                hint="the files must be DIR/<topic>-<partition>/<20 digits>.snapshot",
            )

    def _begun(self, partition: Partition) -> tuple[Partition, Beginning]:
        """Return the partition with the log start that a broker would use, and the beginning of its log."""
        begins = self.beginnings.of(partition)
        if begins.why and (moved := self.moved(partition)) is not None:
            partition, begins = moved, self.beginnings.again(moved)
        return begins.opened(partition), begins

    @property
    def not_compared(self) -> int:
        """Return the number of files that were not compared: their log begins in remote storage, which was not read."""
        return self.counts[SnapshotVerdict.NOT_COMPARED]

    @property
    def compared(self) -> int:
        """Return the number of files that were compared."""
        return self.counts.total() - self.not_compared

    @property
    def right(self) -> int:
        """Return the number of files that agree with the log."""
        return sum(self.counts[each] for each in TRUSTED)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that decide the exit code."""
        yield from self.findings
        yield from +self.counts
        yield from self.beginnings.errors()

    def _compared(
        self, named: NamedLogDir, listed: Partition, *, may_look_again: bool = True
    ) -> tuple[Partition, dict[int, Comparison]]:
        """Return the partition and the comparisons of its files. Read it again if retention deletes a segment."""
        partition, begins = self._begun(listed)
        filesystem, exactly = named.log_dir.filesystem, None
        if self.against is not None:
            exactly = ExactComparison(self.against / partition.name, is_unasked=begins.is_unasked(partition))
        examination = examine(
            filesystem, partition, check_crc=self.check_crc, on_boundary=exactly, begins=begins, fold=self.fold
        )
        if may_look_again:
            again = listed_again(named, listed, examination.findings, self.located)
            if again is not None:
                return self._compared(named, again, may_look_again=False)
        self.findings.extend(examination.findings)
        self.findings.extend(_wrong_indexes(examination))
        if exactly is None:
            return partition, dict(examination.snapshots)
        exactly.note_unreached()
        return partition, exactly.found


def _wrong_indexes(examination: Examination) -> Iterator[Finding]:
    """Yield a finding for each index that disagrees with its segment, unless the topic is never tiered."""
    if examination.facts.internal or examination.facts.compacted:
        return
    partition = examination.partition
    path = f"{partition.path}/{LEADER_EPOCHS}"
    if partition.epochs_lost_below and path not in {each.path for each in partition.findings}:
        yield Finding(
            FindingKind.CORRUPT_INDEX, path, -1, "the checkpoint lacks leader epochs that batches of the log have"
        )
    yield from _index_faults(examination)


def _index_faults(examination: Examination) -> Iterator[Finding]:
    """Yield a finding for each fault of an index. Lost leader epochs have a separate finding."""
    partition = examination.partition
    for segment, facts in zip(partition.segments, examination.segments, strict=True):
        for fault in facts.index_faults:
            if fault not in lost_epochs(partition, segment):
                yield Finding(FindingKind.CORRUPT_INDEX, segment.log.path, -1, fault)


class ExactComparison:
    """Compares the snapshot files of another folder with the producer state that the replay computes at their offsets.

    Every difference makes a file wrong.
    """

    def __init__(self, folder: Path, *, is_unasked: bool = False) -> None:
        """Compare the files `folder`/<20 digits>.snapshot; see Beginning.is_unasked for `is_unasked`."""
        self._folder = folder
        self._not_judged = SnapshotVerdict.NOT_COMPARED if is_unasked else SnapshotVerdict.UNVERIFIED
        self.found: dict[int, Comparison] = {}

    def __call__(self, boundary: Boundary) -> None:
        """Compare the file at a boundary, if it exists."""
        name = snapshot_file.file_name(boundary.offset)
        path = self._folder / name
        if not path.exists():
            return
        try:
            entries = snapshot_file.decode(read_regular(path), name=str(path))
        except CorruptSnapshotError as error:
            self.found[boundary.offset] = Comparison(SnapshotVerdict.CORRUPT, str(error))
            return
        except OSError as error:
            self.found[boundary.offset] = Comparison(SnapshotVerdict.UNVERIFIED, str(error))
            return
        if boundary.provenance.lacks_start:
            why = "not compared: the producer state at the first local offset is unknown"
            self.found[boundary.offset] = Comparison(self._not_judged, why)
            return
        self.found[boundary.offset] = compare(entries, boundary.entries, history_from=0)

    def note_unreached(self) -> None:
        """Add a Comparison with the verdict UNVERIFIED for each file at whose offset the replay had no boundary."""
        for path in sorted(self._folder.glob("[0-9]*.snapshot")):
            if path.stem.isdecimal():
                reason = (
                    "not compared: no segment ends at the offset of the file, or the log is damaged below that offset"
                )
                self.found.setdefault(int(path.stem), Comparison(SnapshotVerdict.UNVERIFIED, reason))
