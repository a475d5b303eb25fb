"""The outcome of tiering the partitions of one host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from tiersnap.snapshot.report.exactly_once import ForgetfulReplica

from tiersnap.remote_storage.upload.tier_host import HostPartition
from tiersnap.remote_storage.upload.tier_plan import TierPlan
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.exit_code import Problem
from tiersnap.snapshot.gate.verdict import Verdict, problems_of
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.places import place_of
from tiersnap.snapshot.replay.remote_listing import CopyEvent
from tiersnap.snapshot.report.run_info import RunCounts


@dataclass(frozen=True)
class HostOutcome:
    """The outcome of each partition, in the order in which they were examined."""

    partitions: tuple[HostPartition, ...]
    of_log_dirs: tuple[Finding, ...] = ()  # findings about the log directories themselves
    # Why the brokers seem to read another remote location; reported only if no partition failed.
    of_place: tuple[TiersnapError, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """Return the findings about damaged and unreadable files."""
        return [*self.of_log_dirs, *(finding for each in self.partitions for finding in each.findings)]

    @property
    def errors(self) -> list[TiersnapError]:
        """Return the errors of the partitions; without any, those of the remote location."""
        return [error for each in self.partitions for error in each.errors] or list(self.of_place)

    @property
    def copied(self) -> list[CopyEvent]:
        """Return the events of the segments whose copy attempts were finished."""
        return [event for each in self.partitions for event in each.events if event.is_finished]

    @property
    def copies_finished(self) -> int:
        """Return the number of segments that other attempts had sent, and whose claims this run finished."""
        return sum(not event.object_bytes for event in self.copied)

    @property
    def encryption(self) -> Counter[str]:
        """Return the counts of partitions with segments to tier, by the encryption that their manifests show."""
        wanted = (each for each in self.partitions if each.encryption is not None and each.is_to_tier)
        return Counter(str(each.encryption) for each in wanted)

    @property
    def leftovers_removed(self) -> int:
        """Return the number of removed leftover objects."""
        return sum(each.leftovers_removed for each in self.partitions)

    @property
    def counts(self) -> RunCounts:
        """Return the counts of objects that this run wrote; a segment whose claim alone was finished is not counted."""
        sent = [event.object_bytes for event in self.copied if event.object_bytes]
        return RunCounts(
            snapshots_written=sum(each.snapshots_written for each in self.partitions),
            snapshots_mended=sum(each.snapshots_mended for each in self.partitions),
            segments_uploaded=len(sent),
            bytes_uploaded=sum(sent),
        )

    @property
    def plan(self) -> TierPlan:
        """Return the plan of --apply; it is empty if this run applied it."""
        return TierPlan.of_run(each.plan for each in self.partitions)

    @property
    def planned_verdicts(self) -> Counter[Verdict]:
        """Return the counts of segments by the verdict that --apply would reach."""
        judged = (each.planned or each.segments for each in self.partitions)
        return Counter(each.readiness.verdict for segments in judged for each in segments)

    @property
    def verdicts(self) -> Counter[Verdict]:
        """Return the counts of segments by verdict."""
        return sum((each.verdicts for each in self.partitions), Counter[Verdict]())

    @property
    def unlocated(self) -> dict[str, str]:
        """Return why the log start offset is unknown, for each partition with a segment that waits for it."""
        waiting = (each for each in self.partitions if each.verdicts[Verdict.UNKNOWN_LOG_START])
        return {each.partition.name: each.facts.log_start_unknown for each in waiting}

    def file_of(self, verdict: Verdict) -> str:
        """Return the path of the first segment with the verdict; "FILE" without one."""
        for each in self.partitions:
            for judged, segment in zip(each.segments, each.partition.segments, strict=False):
                if judged.readiness.verdict is verdict:
                    return segment.log.path
        return "FILE"

    def readiness(self) -> Iterator[pa.RecordBatch]:
        """Yield rows of READINESS, one batch for each partition with segments."""
        from tiersnap.snapshot.tables.readiness import readiness_batch

        for each in self.partitions:
            if each.segments:
                yield readiness_batch(place_of(each.log_dir), each.partition, each.facts, each.segments)

    def forgetful(self) -> tuple[ForgetfulReplica, ...]:
        """Return the replicas that lost active producers."""
        from tiersnap.snapshot.report.exactly_once import ForgetfulReplica

        return tuple(
            ForgetfulReplica.of(place_of(each.log_dir), each.partition, lost)
            for each in self.partitions
            if (lost := each.forgotten) is not None
        )

    @property
    def may_write(self) -> bool:
        """Return whether the same run with `apply` may write or delete an object."""
        if self.plan:
            return True
        lasting: list[TiersnapError | None] = []
        for each in self.partitions:
            if each.refusal is None and each.leftover_count:
                return True
            lasting += (each.refusal, each.lost_error)
        return any(error not in lasting for error in self.errors)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the run; of a plan, only problems that `apply` would not clear."""
        yield from self.findings
        yield from self.errors
        yield from problems_of(self.planned_verdicts)
