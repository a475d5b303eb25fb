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
    of_log_dirs: tuple[Finding, ...] = ()  # found before any of them
    # why remote storage is not that of the brokers; told if nothing failed that may come of it
    of_place: tuple[TiersnapError, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """Return the findings about damaged and unreadable files."""
        return [*self.of_log_dirs, *(finding for each in self.partitions for finding in each.findings)]

    @property
    def errors(self) -> list[TiersnapError]:
        """Return the errors."""
        return [error for each in self.partitions for error in each.errors] or list(self.of_place)

    @property
    def copied(self) -> list[CopyEvent]:
        """Events of the segments that are now in remote storage."""
        return [event for each in self.partitions for event in each.events if event.is_finished]

    @property
    def copies_finished(self) -> int:
        """Copies that other attempts had made, and that count since: nothing was sent for them."""
        return sum(not event.object_bytes for event in self.copied)

    @property
    def encryption(self) -> Counter[str]:
        """Partitions with something to tier, by what manifests show (listed.Encryption)."""
        wanted = (each for each in self.partitions if each.encryption is not None and each.is_to_tier)
        return Counter(str(each.encryption) for each in wanted)

    @property
    def leftovers_removed(self) -> int:
        """Objects that ended attempts had left."""
        return sum(each.leftovers_removed for each in self.partitions)

    @property
    def counts(self) -> RunCounts:
        """Return the counts of what this run wrote; a copy that was finished without a byte is not counted."""
        sent = [event.object_bytes for event in self.copied if event.object_bytes]
        return RunCounts(
            snapshots_written=sum(each.snapshots_written for each in self.partitions),
            snapshots_mended=sum(each.snapshots_mended for each in self.partitions),
            segments_uploaded=len(sent),
            bytes_uploaded=sum(sent),
        )

    @property
    def plan(self) -> TierPlan:
        """Return what --apply would write; it is empty with --apply."""
        return TierPlan.of_run(each.plan for each in self.partitions)

    @property
    def planned_verdicts(self) -> Counter[Verdict]:
        """Segments by verdict, as --apply would judge them."""
        judged = (each.planned or each.segments for each in self.partitions)
        return Counter(each.readiness.verdict for segments in judged for each in segments)

    @property
    def verdicts(self) -> Counter[Verdict]:
        """Segments by verdict."""
        return sum((each.verdicts for each in self.partitions), Counter[Verdict]())

    @property
    def unlocated(self) -> dict[str, str]:
        """Return why nothing tells where a log begins, by partition, of those with a segment that waits for it."""
        waiting = (each for each in self.partitions if each.verdicts[Verdict.UNKNOWN_LOG_START])
        return {each.partition.name: each.facts.log_start_unknown for each in waiting}

    def file_of(self, verdict: Verdict) -> str:
        """Path of the first segment with the verdict, FILE without one."""
        found = (
            segment.log.path
            for each in self.partitions
            for judged, segment in zip(each.segments, each.partition.segments, strict=False)
            if judged.readiness.verdict is verdict
        )
        return next(found, "FILE")

    def readiness(self) -> Iterator[pa.RecordBatch]:
        """Rows of READINESS, a batch a partition that has any."""
        from tiersnap.snapshot.tables.readiness import readiness_batch

        for each in self.partitions:
            if each.segments:
                yield readiness_batch(place_of(each.log_dir), each.partition, each.facts, each.segments)

    def forgetful(self) -> tuple[ForgetfulReplica, ...]:
        """Return the replicas that have forgotten producers."""
        from tiersnap.snapshot.report.exactly_once import ForgetfulReplica

        return tuple(
            ForgetfulReplica.of(place_of(each.log_dir), each.partition, lost)
            for each in self.partitions
            if (lost := each.forgotten) is not None
        )

    @property
    def may_write(self) -> bool:
        """Return whether the same with `apply` may write or delete an object."""
        taken = [each for each in self.partitions if each.refusal is None]
        stay = [error for each in self.partitions for error in (each.refusal, each.lost_error)]
        has_failed = any(error not in stay for error in self.errors)
        return bool(self.plan or any(each.leftover_count for each in taken) or has_failed)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the run. A plan has those that `apply` would not clear."""
        yield from self.findings
        yield from self.errors
        yield from problems_of(self.planned_verdicts)
