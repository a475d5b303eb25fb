"""The totals of a scan, and its exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.readiness.exit_codes import exit_code_of_all, is_refused
from tiersnap.snapshot.readiness.scanned import Scanned
from tiersnap.snapshot.readiness.verdict import Verdict
from tiersnap.snapshot.repair.plan import strays
from tiersnap.snapshot.repair.undone import lost_below_log_start, lost_index
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict

_FOR_SNAPSHOTS = (Verdict.MISSING_SNAPSHOT, Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT)


class ScanTotals:
    """Only snapshots that somebody will read decide: not those of topics that are never tiered, nor strays.

    Where a segment is tiered, nobody reads the snapshot at its end but a broker that starts, if it is the newest.

    Attributes:
        verdicts: segments by verdict.
        snapshots: snapshots by verdict.
        wanted: likewise, those that somebody will read.
        deleted_segments: below the log start offset.
        waiting_bytes: of closed segments behind the first one of a partition that lacks a right snapshot.
        continued: partitions whose log begins in remote storage.
        unread: closed segments whose snapshot could not be compared, although its log begins here.
        lost_indexes: partitions with a closed segment without an .index.
        lost_below_log_start: partitions that lost one below the log start offset.
        forgotten: of each replica that forgot producers, what it forgot.
        errors: why remote storage does not say what it holds.
        was_asked: a cluster said what brokers copy by themselves.
    """

    def __init__(
        self, findings: Iterable[Finding] = (), errors: Sequence[TiersnapError] = (), *, was_asked: bool = False
    ) -> None:
        """Begin with what was found before any partition; `errors` may grow meanwhile."""
        self.was_asked = was_asked
        self.verdicts: Counter[Verdict] = Counter()
        self.snapshots: Counter[SnapshotVerdict] = Counter()
        self.wanted: Counter[SnapshotVerdict] = Counter()
        self.findings = list(findings)
        self.errors = errors
        self.deleted_segments = 0
        self.waiting_bytes = 0
        self.continued = 0
        self.unread = 0
        self.lost_indexes = 0
        self.lost_below_log_start = 0
        self.forgotten: list[str] = []

    def add(self, scanned: Scanned) -> None:
        """Count one partition."""
        examination = scanned.examination
        partition, facts = examination.partition, examination.facts
        verdicts = [each.verdict for each in scanned.readiness]
        self.verdicts.update(verdicts)
        self.snapshots.update(scanned.snapshots.values())
        if not (facts.internal or facts.compacted):
            ignored = strays(partition) | _unread(scanned)
            self.wanted.update(verdict for offset, verdict in scanned.snapshots.items() if offset not in ignored)
            self.lost_indexes += lost_index(partition) is not None
            self.lost_below_log_start += lost_below_log_start(partition)
        self.findings.extend(examination.findings)
        self.forgotten += [] if scanned.forgotten is None else [scanned.forgotten.says(partition.name)]
        self.deleted_segments += len(partition.deleted_segments)
        self.continued += partition.begins_in_remote_storage
        self.unread += sum(
            verdict is Verdict.UNVERIFIED_SNAPSHOT
            and scanned.snapshots.get(segment.next_base_offset or 0) is not SnapshotVerdict.NOT_COMPARED
            for segment, verdict in zip(partition.segments, verdicts, strict=True)
        )
        is_waiting = False
        for segment, verdict in zip(partition.segments, verdicts, strict=True):
            is_waiting |= verdict in _FOR_SNAPSHOTS
            if is_waiting and verdict is not Verdict.ACTIVE_SEGMENT:
                self.waiting_bytes += segment.log.size

    @property
    def exit_code(self) -> ExitCode:
        """5 for damage, that of `errors`, 6 for what may not be read, 4 for what waits for a person."""
        if self.wanted[SnapshotVerdict.CORRUPT]:
            return ExitCode.DATA_CORRUPT
        return exit_code_of_all(self.findings, self.errors, self._of_snapshots())

    def _of_snapshots(self) -> ExitCode:
        if self.unread:
            return ExitCode.PARTIAL
        lost = self.lost_indexes or self.lost_below_log_start
        wrong = self.wanted[SnapshotVerdict.MISSING] or self.wanted[SnapshotVerdict.SUSPECT]
        refuses = is_refused(self.verdicts) or lost or wrong or self.forgotten
        return ExitCode.GATE_REFUSED if refuses else ExitCode.OK


def _unread(scanned: Scanned) -> frozenset[int]:
    """Offsets of the snapshots that nobody reads any more: their segments are tiered, and a newer file is there."""
    segments, snapshots = scanned.examination.segments, scanned.examination.partition.snapshots
    tiered = {
        segment.next_base_offset
        for segment, readiness in zip(segments, scanned.readiness, strict=True)
        if readiness.verdict is Verdict.ALREADY_TIERED and segment.next_base_offset is not None
    }
    return frozenset(tiered - {max(snapshots, default=-1)})
