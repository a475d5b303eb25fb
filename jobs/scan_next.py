"""What the rows of `scan` add up to: the exit code, and for each cause the one command that comes next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tiersnap.jobs.output import cell
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.examine import Examination
from tiersnap.snapshot.gate.readiness import NEXT_STEP, Readiness, Verdict
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.repair.plan import strays
from tiersnap.snapshot.state.trust import SnapshotVerdict
from tiersnap.snapshot.units import human_bytes

_FOR_SNAPSHOTS = (Verdict.MISSING_SNAPSHOT, Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT)
# Said with the verdict's own next step; those of snapshots are said with the source's name, and a gap is no cause.
_CAUSES = (
    Verdict.CORRUPT_SEGMENT,
    Verdict.UNREADABLE_SEGMENT,
    Verdict.UNVERIFIED_SNAPSHOT,
    Verdict.MISSING_INDEX,
    Verdict.TOPIC_ID_UNKNOWN,
    Verdict.ABOVE_LSO,
)


class Totals:
    """Only snapshots that somebody will read decide: not those of topics that are never tiered, nor strays."""

    def __init__(self, log_dirs: Sequence[str], selection: Selection) -> None:
        """What was given, for the commands that are named."""
        topic = [] if selection.topic is None else ["--topic", selection.topic.pattern]
        names = [f"{name}-{number}" for name, number in sorted(selection.partitions)]
        partitions = [word for name in names for word in ("--partition", name)]
        self._arguments = shlex.join([*log_dirs, *topic, *partitions])
        # `tier` takes one directory.
        self._one_of = shlex.join([*(log_dirs if len(log_dirs) == 1 else ["LOGDIR"]), *topic])
        self._source = shlex.quote(log_dirs[0]) if len(log_dirs) == 1 else "LOGDIR"
        self._verdicts: Counter[Verdict] = Counter()
        self._snapshots: Counter[SnapshotVerdict] = Counter()
        self._wanted: Counter[SnapshotVerdict] = Counter()
        self.findings: list[Finding] = []
        self._deleted_segments = 0
        self._waiting_bytes = 0
        self._lost_indexes = 0

    def add(
        self, examination: Examination, readiness: Iterable[Readiness], snapshots: Mapping[int, SnapshotVerdict]
    ) -> None:
        """Count one partition."""
        partition, facts = examination.partition, examination.facts
        verdicts = [each.verdict for each in readiness]
        self._verdicts.update(verdicts)
        self._snapshots.update(snapshots.values())
        if not (facts.internal or facts.compacted):
            ignored = strays(partition)
            self._wanted.update(verdict for offset, verdict in snapshots.items() if offset not in ignored)
            self._lost_indexes += any(not each.is_active and each.offset_index is None for each in partition.segments)
        self.findings.extend(examination.findings)
        self._deleted_segments += partition.deleted_segments
        is_waiting = False
        for segment, verdict in zip(partition.segments, verdicts, strict=True):
            is_waiting |= verdict in _FOR_SNAPSHOTS
            if is_waiting and verdict is not Verdict.ACTIVE_SEGMENT:
                self._waiting_bytes += segment.log.size

    @property
    def exit_code(self) -> ExitCode:
        """5 for damage, 6 for what may not be read, 4 for waiting segments."""
        is_denied = {finding.kind is FindingKind.PERMISSION_DENIED for finding in self.findings}
        if False in is_denied or self._wanted[SnapshotVerdict.CORRUPT]:
            return ExitCode.DATA_CORRUPT
        if is_denied or self._verdicts[Verdict.UNVERIFIED_SNAPSHOT]:
            return ExitCode.PARTIAL
        waiting = any(self._verdicts[verdict] for verdict in (*_FOR_SNAPSHOTS, Verdict.MISSING_INDEX))
        wrong = self._wanted[SnapshotVerdict.MISSING] or self._wanted[SnapshotVerdict.SUSPECT]
        return ExitCode.GATE_REFUSED if waiting or wrong else ExitCode.OK

    def lines(self) -> Iterator[str]:
        """Counts, and the next command for each cause."""
        yield f"segments: {_counts(self._verdicts)}; snapshots: {_counts(self._snapshots)}"
        if self._deleted_segments:
            yield f"not scanned: {self._deleted_segments} segments below the log start offset, which brokers remove"
        if self._waiting_bytes:
            yield f"{human_bytes(self._waiting_bytes)} cannot be tiered for want of right snapshots"
        for verdict in _CAUSES:
            if self._verdicts[verdict]:
                yield f"next for {verdict}: {NEXT_STEP[verdict].replace('LOGDIR', self._source)}"
        is_missing = self._wanted[SnapshotVerdict.MISSING]
        is_wrong = self._wanted[SnapshotVerdict.CORRUPT] or self._wanted[SnapshotVerdict.SUSPECT]
        if self._lost_indexes:
            yield (
                f"{self._lost_indexes} partitions have lost an .index: at its next start the broker makes it again, "
                "and deletes the later snapshots of the partition as it does"
                + ("; start it once, stop it, and then go on" if is_missing or is_wrong else "")
            )
        if is_wrong:
            yield f"next for wrong snapshots: tiersnap repair {self._arguments} --replace"
        elif is_missing:
            yield f"next for missing snapshots: tiersnap repair {self._arguments}"
        if self._verdicts[Verdict.READY]:
            tier = f"tiersnap tier {self._one_of} --remote s3://bucket/prefix"
            yield f"next for READY: a broker tiers them; where none does: {tier}"


def _counts(counter: Counter[Verdict] | Counter[SnapshotVerdict]) -> str:
    return cell(dict(counter.most_common()))
