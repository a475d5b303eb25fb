"""The result of tiering the partitions of one host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, name_of
from tiersnap.remote_storage.upload.tier_host import HostPartition
from tiersnap.remote_storage.upload.tier_plan import TierPlan
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.gate.exit_code import Problem
from tiersnap.snapshot.gate.verdict import Verdict, problems_of
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.places import place_of
from tiersnap.snapshot.replay.remote_listing import CopyEvent
from tiersnap.snapshot.report.run_info import RunCounts


@dataclass(frozen=True)
class HostOutcome:
    """The results of all partitions, in the order of their examination."""

    partitions: tuple[HostPartition, ...]
    of_log_dirs: tuple[Finding, ...] = ()  # findings about the log directories themselves
    # reasons why brokers may read another remote location; reported only if no partition failed
    of_place: tuple[TiersnapError, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """Return the findings about damaged and unreadable files."""
        found = [*self.of_log_dirs]
        for each in self.partitions:
            found += each.findings
        return found

    @property
    def errors(self) -> list[TiersnapError]:
        """Return the errors of the partitions. If there are none, return the errors of the remote location."""
        found: list[TiersnapError] = []
        for each in self.partitions:
            found += each.errors
        return found or list(self.of_place)

    @property
    def copied(self) -> list[CopyEvent]:
        """Return the events of finished copy attempts."""
        found: list[CopyEvent] = []
        for each in self.partitions:
            found += (event for event in each.events if event.is_finished)
        return found

    @property
    def copies_finished(self) -> int:
        """Return the number of segments that an earlier attempt uploaded and whose claim this run finished."""
        return sum(not event.object_bytes for event in self.copied)

    @property
    def encryption(self) -> Counter[str]:
        """Return the number of partitions with segments to tier, by encryption."""
        found: Counter[str] = Counter()
        for each in self.partitions:
            if each.encryption is not None and each.is_to_tier:
                found[str(each.encryption)] += 1
        return found

    @property
    def leftovers_removed(self) -> int:
        """Return the number of deleted leftover objects."""
        return sum(each.leftovers_removed for each in self.partitions)

    @property
    def counts(self) -> RunCounts:
        """Return the counts of objects that this run wrote. Segments that an earlier attempt uploaded do not count."""
        sent = [event.object_bytes for event in self.copied if event.object_bytes]
        return RunCounts(
            snapshots_written=sum(each.snapshots_written for each in self.partitions),
            snapshots_mended=sum(each.snapshots_mended for each in self.partitions),
            segments_uploaded=len(sent),
            bytes_uploaded=sum(sent),
        )

    @property
    def plan(self) -> TierPlan:
        """Return what --apply would write; empty if this run had --apply."""
        return TierPlan.of_run(each.plan for each in self.partitions)

    @property
    def planned_verdicts(self) -> Counter[Verdict]:
        """Return the number of segments by the verdict that they would have after --apply."""
        found: Counter[Verdict] = Counter()
        for each in self.partitions:
            found.update(judged.readiness.verdict for judged in each.planned or each.segments)
        return found

    @property
    def verdicts(self) -> Counter[Verdict]:
        """Return the number of segments by verdict."""
        return sum((each.verdicts for each in self.partitions), Counter[Verdict]())

    @property
    def verdicts_to_clear(self) -> Counter[Verdict]:
        """Return the number of segments by verdict.

        If the cluster refuses a partition, omit its verdicts that an upload or `publish` would clear.
        """
        return sum((each.verdicts_to_clear for each in self.partitions), Counter[Verdict]())

    @property
    def unlocated(self) -> dict[str, str]:
        """Return why the log start offset is unknown, by partition name.

        Only partitions with UNKNOWN_LOG_START segments are included.
        """
        reasons = {}
        for each in self.partitions:
            if each.verdicts[Verdict.UNKNOWN_LOG_START]:
                reasons[each.partition.name] = each.facts.log_start_unknown
        return reasons

    def file_of(self, verdict: Verdict) -> str:
        """Return the path of the first segment with a verdict; "FILE" if there is none."""
        for each in self.partitions:
            for judged, segment in zip(each.segments, each.partition.segments, strict=False):
                if judged.readiness.verdict is verdict:
                    return segment.log.path
        return "FILE"

    def readiness(self) -> Iterator[pa.RecordBatch]:
        """Yield rows of the READINESS schema, one batch per partition with segments."""
        from tiersnap.snapshot.tables.readiness import readiness_batch

        for each in self.partitions:
            if each.segments:
                yield readiness_batch(place_of(each.log_dir), each.partition, each.facts, each.segments)

    def replicas_without_producers(self) -> tuple[ReplicaWithoutProducers, ...]:
        """Return the replicas that lost active producers."""
        from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers

        return tuple(
            ReplicaWithoutProducers.of(place_of(each.log_dir), each.partition, lost)
            for each in self.partitions
            if (lost := each.lost_producers) is not None
        )

    @property
    def uploaded_ids(self) -> set[str]:
        """Return the ids of the segments that this run uploaded."""
        # If another attempt had uploaded the segment, this run read none of its objects, and the event has 0 bytes.
        return {event.segment_id for event in self.copied if event.segment_id and event.object_bytes}

    @property
    def planned_uploads(self) -> dict[TopicIdPartition, int]:
        """Return the number of segments that a plan would upload, by partition."""
        return {name_of(each.partition): each.plan.segments for each in self.partitions if each.plan.segments}

    @property
    def may_write(self) -> bool:
        """Return whether this run, repeated with --apply, may write or delete an object."""
        if self.plan:
            return True
        if any(each.refusal is None and each.leftover_count for each in self.partitions):
            return True
        return any(isinstance(error, TransientError) for error in self.errors)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the run. For a plan, these are the problems that --apply would leave."""
        yield from self.findings
        yield from self.errors
        yield from problems_of(self.planned_verdicts)
