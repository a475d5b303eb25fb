"""The plan and the outcome of freeing one stuck partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tiersnap.remote_storage.cluster.copy_progress import CopyProgress, Watched
from tiersnap.remote_storage.cluster.stuck import StuckPartition
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.publish.segments_to_publish import KNOWN_TO_BROKERS, TO_BE_TOLD, PublishAction, PublishPlan
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
    """A partition's plan and outcome."""

    stuck: StuckPartition
    tier: int = 0  # segments after the brokers' last remote segment that tiersnap uploaded, or may upload
    publish: int = 0  # finished segments that brokers do not know
    next_offset: int = 0  # end of the remote log after their publication; exclusive
    end: End = End.PLANNED
    reason: str = ""
    hint: str = ""
    waits_for: Verdict | None = None  # verdict of the first segment that cannot be uploaded
    refusal: TiersnapError | None = None  # why uploaded segments may not be published
    failure: TransientError | None = None  # a failed request to remote storage during the upload
    is_published: bool = False  # its records, if any, were written and read back

    @property
    def name(self) -> tuple[str, int]:
        """Return topic and partition number."""
        return self.stuck.partition.topic, self.stuck.partition.partition

    def needs_restart(self, reason: str) -> None:
        """Record that the cluster refuses to disable copying, so that the leader must be restarted."""
        self.end, self.reason = End.RESTART, reason
        self.hint = "restart the leader after this: its copier then goes on behind what was published"

    def plan(self, readiness: Iterable[Readiness], plan: PublishPlan | None, planned: Collection[int] = ()) -> None:
        """Set the plan from the uploaded segments and the plan of their publication.

        Args:
            readiness: the readiness of the partition's segments.
            planned: base offsets of the segments that --apply would upload and then publish; none with --apply.
        """
        if self.stuck.hung is not None and not self.reason:
            self.reason = self.stuck.hung.says()
        segments = tuple(readiness)
        ahead = sum(base >= self.stuck.next_offset for base in planned)
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
        """Return the first segment that is not in remote storage, not passed by, and not planned in `uploads`."""
        left = (each for each in segments if each.verdict not in IN_REMOTE_STORAGE and each.base_offset not in uploads)
        waiting = (each for each in left if not self._is_passed_by(each))
        return min(waiting, key=lambda each: each.base_offset, default=None)

    def _count_done(self, segments: Iterable[Readiness]) -> int:
        """Return the number of segments in remote storage from the next offset on."""
        done = (each.base_offset for each in segments if each.verdict in IN_REMOTE_STORAGE)
        return sum(base >= self.stuck.next_offset for base in done)

    def _block(self, first: Readiness | None) -> None:
        """Record that nothing can be published, because `first` is not uploaded, or could not be for now."""
        if self.failure is not None:
            self.refuse(self.failure)
            return
        self.end = End.BLOCKED
        self.reason = f"{first.verdict}: {first.reason}" if first else "nothing is left to tier"
        self.waits_for, self.hint = (first.verdict, first.next_step) if first else (None, "")

    def refuse(self, refusal: TiersnapError) -> None:
        """Record that uploaded segments may not be published."""
        self.end, self.reason, self.hint = End.REFUSED, refusal.message, refusal.hint
        self.refusal = refusal

    def interrupt(self, error: TiersnapError) -> None:
        """Record that an error ended the run before this partition was concluded; the error has the hint."""
        if self.end is End.PLANNED and self.is_published:
            self.end, self.reason = End.UNWATCHED, error.message
        elif self.end in (End.PLANNED, End.RESTART) and not self.is_published:
            self.refuse(error)
            self.hint = ""

    @property
    def problem(self) -> Problem | None:
        """Return why the partition is not freed; None if it is, or will be."""
        return self.refusal if self.end is End.REFUSED else _PROBLEMS.get(self.end)

    def take(self, plan: PublishPlan) -> None:
        """Record the number of published (or planned) segments, and the end of the remote log with them."""
        self.publish = len(plan.to_tell)
        self.next_offset = self._end_of(plan, TO_BE_TOLD | KNOWN_TO_BROKERS)

    def skip_freed_by_others(self, plan: PublishPlan) -> None:
        """Record that others freed the partition: publish nothing; the copy task continues after their segments."""
        self.publish, self.next_offset = 0, self._end_of(plan, KNOWN_TO_BROKERS)
        if self.end is End.RESTART:
            self.end, self.reason, self.hint = End.FREED, "the copier goes on: others freed it", ""

    def _must_look(self, plan: PublishPlan | None) -> bool:
        """Return whether the copy task may not have seen segments that others published, now or earlier."""
        is_done = plan is not None and self._end_of(plan, KNOWN_TO_BROKERS) > self.stuck.next_offset
        return is_done or self.stuck.has_not_looked

    def _end_of(self, plan: PublishPlan, actions: Collection[PublishAction]) -> int:
        """Return the exclusive end of the remote log with a plan's segments of `actions`.

        `stuck.next_offset` counts the segments of this log that brokers knew when the partition was found stuck.
        """
        ends = [
            each.metadata.end_offset + 1
            for each in plan.segments
            if each.action in actions
            and (each.action is not PublishAction.KNOWN or each.metadata.id.segment_id not in self.stuck.seen)
        ]
        return max([self.stuck.next_offset, *ends])

    def _is_passed_by(self, segment: Readiness) -> bool:
        return segment.verdict == Verdict.GAP_IN_REMOTE and segment.base_offset < self.stuck.next_offset

    def watched(self, cache: MetadataCache) -> Watched:
        """Return the copy task to watch, with the segments that the records name now."""
        return Watched(self.stuck.partition, self.next_offset, frozenset(cache.segments(self.stuck.partition)))

    def conclude(self, progress: CopyProgress) -> None:
        """Set the end by the progress of the copy task; FAILING changes nothing."""
        if progress is CopyProgress.STUCK_AHEAD:
            self.end, self.reason = End.STUCK_AHEAD, f"the copier has gone on and fails at offset {self.next_offset}"
            self.hint = "run the same command again once that segment is READY; tiersnap scan says what it lacks"
            if self.failure is not None:
                self.reason, self.hint = f"{self.reason}: {self.failure.message}", self.failure.hint
        elif progress is not CopyProgress.FAILING:
            gone_on = progress is CopyProgress.MOVED_ON
            self.end = End.FREED
            quiet = "nothing is left to copy" if self.stuck.hung is None else "the copy task begins anew"
            self.reason = "the copier goes on" if gone_on else f"{quiet}, and nothing fails"
