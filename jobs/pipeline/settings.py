"""What one run was asked to do."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tiersnap.snapshot.stages.carry_plan import CarryOptions


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run; every command that runs stages builds one.

    Attributes:
        sources: log directories, one replica of a partition each.
        remote: URI of remote storage, None for stages that need none.
        partitions: of the topics that `topic` selects only these (topic, partition); None for all.
        topic_ids: ids by topic, for topics of brokers before 2.8.
        keep_headers: store record_batches, not deltas only.
        apply: write to remote storage.
    """

    sources: tuple[str, ...]
    warehouse: str
    run_id: str
    now: int
    carry: CarryOptions
    remote: str | None = None
    topic: re.Pattern[str] | None = None
    partitions: frozenset[tuple[str, int]] | None = None
    topic_ids: dict[str, str] = field(default_factory=dict)
    check_crc: bool = True
    keep_headers: bool = True
    apply: bool = False
