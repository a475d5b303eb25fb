"""The counts of publication plans, for output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan


@dataclass(frozen=True, slots=True)
class PublishCounts:
    """The segments to publish, the bytes of their logs, and the records to write."""

    segments: int = 0
    log_bytes: int = 0
    records: int = 0

    @classmethod
    def of(cls, plans: Iterable[PublishPlan]) -> PublishCounts:
        """Return the totals over the plans that publish segments. Refused plans do not count."""
        sizes: list[int] = []
        records = 0
        for plan in plans:
            if plan.is_open:
                sizes += [each.segment_size for each in plan.to_tell]
                records += len(list(plan.records(broker_id=None, now=0)))
        return cls(len(sizes), sum(sizes), records)

    @property
    def sentence(self) -> str:
        """Return the counts as one line of output."""
        records = count_of(self.records, "record")
        return f"plan: {count_of(self.segments, 'segment')} to publish, {human_bytes(self.log_bytes)}, by {records}"
