"""The outcome of a run that publishes, while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.cluster.copy_progress import Watched
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan
from tiersnap.snapshot.errors import TiersnapError


@dataclass
class Done:
    """The outcome of a run so far."""

    plans: dict[TopicIdPartition, PublishPlan] = field(default_factory=dict)
    records: int = 0
    written: set[TopicIdPartition] = field(default_factory=set)  # partitions whose records are all written
    doubts: list[TiersnapError] = field(default_factory=list)
    watched: dict[TopicIdPartition, Watched] = field(default_factory=dict)  # partitions whose copy tasks must continue
    stuck_ahead: list[TopicIdPartition] = field(default_factory=list)
    still_off: list[str] = field(default_factory=list)

    def take(self, plans: Iterable[PublishPlan]) -> None:
        """Replace the plans of these plans' partitions."""
        self.plans.update((plan.partition, plan) for plan in plans)

    @property
    def opened(self) -> list[PublishPlan]:
        """Return the plans that may be carried out."""
        return [plan for plan in self.plans.values() if plan.is_open]

    def refuse_unwritten(self, opened: Iterable[TopicIdPartition], error: TiersnapError) -> None:
        """Refuse the plans of partitions without all their records, unless they are refused already."""
        for each in opened:
            if each not in self.written:
                plan = self.plans[each]
                self.plans[each] = replace(plan, refusal=plan.refusal or error)
