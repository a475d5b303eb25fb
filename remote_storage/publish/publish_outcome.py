"""The intermediate result of a publication."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.cluster.copy_progress import Watched
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan
from tiersnap.snapshot.errors import TiersnapError


@dataclass
class Done:
    """The result of a publication so far; see `Published`."""

    plans: dict[TopicIdPartition, PublishPlan] = field(default_factory=dict)
    records: int = 0
    written: set[TopicIdPartition] = field(default_factory=set)  # partitions whose records were all written
    doubts: list[TiersnapError] = field(default_factory=list)
    watched: dict[TopicIdPartition, Watched] = field(default_factory=dict)  # partitions whose copy task must be watched
    stuck_ahead: list[TopicIdPartition] = field(default_factory=list)
    still_off: list[str] = field(default_factory=list)

    def take(self, plans: Iterable[PublishPlan]) -> None:
        """Store these plans, each in place of an earlier plan of the same partition."""
        self.plans.update((plan.partition, plan) for plan in plans)

    @property
    def opened(self) -> list[PublishPlan]:
        """Return the plans with segments to publish and without a refusal."""
        return [plan for plan in self.plans.values() if plan.is_open]

    @property
    def watched_topics(self) -> set[str]:
        """Return the names of topics whose copy tasks must be watched."""
        return {each.topic for each in self.watched}

    def refuse_unwritten(self, opened: Iterable[TopicIdPartition], error: TiersnapError) -> None:
        """Refuse the plans of partitions whose records were not all written. Do not replace earlier refusals."""
        for each in opened:
            if each not in self.written:
                plan = self.plans[each]
                self.plans[each] = replace(plan, refusal=plan.refusal or error)
