"""The plan and the result of `unblock` for one stuck partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tiersnap.remote_storage.cluster.copy_progress import CopyProgress, Watched
from tiersnap.remote_storage.cluster.stuck import StuckPartition
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.publish.segments_to_publish import KNOWN_TO_BROKERS, TO_PUBLISH, PublishAction, PublishPlan
from tiersnap.remote_storage.unblock.unblock_outcome import End
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.gate.judge import Readiness
from tiersnap.snapshot.gate.verdict import IN_REMOTE_STORAGE, Verdict

_PROBLEMS = {
    End.STUCK_AHEAD: OtherProblem.STUCK_COPY_AHEAD,
    End.RESTART: OtherProblem.RESTART_NEEDED,
    End.BLOCKED: OtherProblem.STUCK_COPY,
}


@dataclass
class Freeing:
    """The plan and the result for one stuck partition."""

    stuck: StuckPartition
    tier: int = 0  # number of segments from `stuck.next_offset` on that tiersnap uploaded; in a plan, would upload
    publish: int = 0  # number of segments that tiersnap published; in a plan, would publish
    next_offset: int = 0  # exclusive end of the remote log after the publication
    end: End = End.PLANNED
    reason: str = ""
    hint: str = ""
    waits_for: Verdict | None = None  # verdict of the first segment that cannot be uploaded
    refusal: TiersnapError | None = None  # the error that forbids publishing uploaded segments
    failure: TransientError | None = None  # a failed request to remote storage during the upload
    is_published: bool = False  # whether the records were written and read back

    @property
    def name(self) -> tuple[str, int]:
        """Return topic name and partition number."""
        return self.stuck.partition.topic, self.stuck.partition.partition

    def needs_restart(self, reason: str) -> None:
        """Set `end` to RESTART, because the cluster refuses to disable copying and the leader must be restarted."""
        self.end, self.reason = End.RESTART, reason
        self.hint = (
            "when the segments are published, restart the broker that leads the partition: its copy task then "
            "continues after the published segments"
        )

    def plan(self, readiness: Iterable[Readiness], plan: PublishPlan | None, planned: Collection[int] = ()) -> None:
        """Set `tier`, `publish`, `end` and `reason` of this partition, after its upload was finished or planned.

        Args:
            readiness: the readiness of the partition's segments.
            plan: the publication plan; None if there is none.
            planned: base offsets of segments that --apply would upload and publish; empty with --apply.
        """
        if self.stuck.hung is not None and not self.reason:
            self.reason = self.stuck.hung.says()
        segments = tuple(readiness)
        ahead = self._count_ahead(planned)
        self.tier = ahead + self._count_done(segments)
        if plan is not None:
            self.take(plan)
            if plan.blocked_by is not None:
                self.refuse(plan.blocked_by)
                return
        self.publish += ahead
        if not self.publish and not self._must_look(plan):
            self._block(self._first_waiting(segments, planned))

    def _first_waiting(self, segments: Iterable[Readiness], uploads: Collection[int]) -> Readiness | None:
        """Return the first segment that is neither in remote storage nor in `uploads`."""
        waiting = self._waiting(segments, uploads)
        return min(waiting, key=lambda each: each.base_offset, default=None)

    def _waiting(self, segments: Iterable[Readiness], uploads: Collection[int]) -> Iterator[Readiness]:
        for each in segments:
            is_sent = each.verdict in IN_REMOTE_STORAGE or each.base_offset in uploads
            if not is_sent and not self._is_passed_by(each):
                yield each

    def _count_done(self, segments: Iterable[Readiness]) -> int:
        """Return the number of segments in remote storage from `stuck.next_offset` on."""
        return self._count_ahead(each.base_offset for each in segments if each.verdict in IN_REMOTE_STORAGE)

    def _count_ahead(self, bases: Iterable[int]) -> int:
        return sum(base >= self.stuck.next_offset for base in bases)

    def _block(self, first: Readiness | None) -> None:
        """Set `end` to BLOCKED with the reason of the first missing segment, or to REFUSED after a failed request."""
        if self.failure is not None:
            self.refuse(self.failure)
            return
        self.end = End.BLOCKED
        if first is None:
            self.reason, self.waits_for, self.hint = "no segment is left to tier", None, ""
            return
        self.reason = f"{first.verdict}: {first.reason}"
        self.waits_for, self.hint = first.verdict, first.next_step

    def refuse(self, refusal: TiersnapError) -> None:
        """Set `end` to REFUSED with an error that forbids publishing uploaded segments."""
        self.end, self.reason, self.hint = End.REFUSED, refusal.message, refusal.hint
        self.refusal = refusal

    def interrupt(self, error: TiersnapError) -> None:
        """Set `end` after an error that stopped the run. The error itself has the hint."""
        if self.end is End.PLANNED and self.is_published:
            self.end, self.reason = End.UNWATCHED, error.message
        elif self.end in (End.PLANNED, End.RESTART) and not self.is_published:
            self.refuse(error)
            self.hint = ""

    @property
    def problem(self) -> Problem | None:
        """Return why the partition remains stuck; None if its copy task continues, or would continue after --apply."""
        if self.end is End.REFUSED:
            return self.refusal
        return _PROBLEMS.get(self.end)

    def take(self, plan: PublishPlan) -> None:
        """Set `publish` and `next_offset` from a publication plan."""
        self.publish = len(plan.to_tell)
        self.next_offset = self._end_of(plan, TO_PUBLISH | KNOWN_TO_BROKERS)

    def skip_freed_by_others(self, plan: PublishPlan) -> None:
        """Set the counts of a partition whose copy task continues without this run, so that nothing is published."""
        self.publish, self.next_offset = 0, self._end_of(plan, KNOWN_TO_BROKERS)
        if self.end is End.RESTART:
            self.end, self.reason, self.hint = (
                End.FREED,
                "the copy task continues, because of a new leader, a restart or another run",
                "",
            )

    def _must_look(self, plan: PublishPlan | None) -> bool:
        """Return whether the copy task perhaps missed the records of published segments."""
        is_done = plan is not None and self._end_of(plan, KNOWN_TO_BROKERS) > self.stuck.next_offset
        return is_done or self.stuck.ignores_published

    def _end_of(self, plan: PublishPlan, actions: Collection[PublishAction]) -> int:
        """Return the exclusive end of the remote log, including the plan's segments with one of these actions.

        `stuck.next_offset` already includes the segments that had a record when the partition was found stuck.
        """
        end = self.stuck.next_offset
        for each in plan.segments:
            was_seen = each.action is PublishAction.KNOWN and each.metadata.id.segment_id in self.stuck.seen
            if each.action in actions and not was_seen:
                end = max(end, each.metadata.end_offset + 1)
        return end

    def _is_passed_by(self, segment: Readiness) -> bool:
        return segment.verdict == Verdict.GAP_IN_REMOTE and segment.base_offset < self.stuck.next_offset

    def watched(self, cache: MetadataCache) -> Watched:
        """Return the copy task to watch, with the segment ids that the records contain now."""
        return Watched(self.stuck.partition, self.next_offset, frozenset(cache.segments(self.stuck.partition)))

    def conclude(self, progress: CopyProgress) -> None:
        """Set `end` from the progress of the copy task. If the progress is FAILING, keep `end`."""
        if progress is CopyProgress.STUCK_AHEAD:
            self.end, self.reason = (
                End.STUCK_AHEAD,
                f"the copy task has continued, and now fails at offset {self.next_offset}",
            )
            self.hint = (
                f"run the same command again once the segment at offset {self.next_offset} is READY; to see the "
                "verdict of the segment: tiersnap scan"
            )
            if self.failure is not None:
                self.reason, self.hint = f"{self.reason}: {self.failure.message}", self.failure.hint
        elif progress is CopyProgress.MOVED_ON:
            self.end, self.reason = End.FREED, "the copy task continues"
        elif progress is not CopyProgress.FAILING:
            self.end, self.reason = End.FREED, "no segment is left to upload, and no copy fails"
            if self.stuck.hung is not None:
                self.reason = "the copy task uploads again, and no copy fails"
