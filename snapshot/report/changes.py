"""What changed between two runs: partition by partition, and summed up.

A partition is known by its log directory, topic and number; that of a topic that was made again counts as the same.
States come from a report at hand or from a readiness.json that was kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tiersnap.snapshot.readiness.verdict import RANK, WAITING, Verdict
from tiersnap.snapshot.report.files import SCHEMA_VERSION
from tiersnap.snapshot.report.model import Count, Report


class PartitionKey(NamedTuple):
    """One replica of a partition."""

    log_dir: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Where a partition stood: its worst verdict (None without segments), and sums over its segments."""

    worst: Verdict | None
    tiered: Count
    ready: Count
    waiting: Count


NO_STATE = PartitionState(None, Count(), Count(), Count())
States = Mapping[PartitionKey, PartitionState]


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A partition that stands elsewhere than before; `before` or `after` is None where it was not there."""

    key: PartitionKey
    before: PartitionState | None
    after: PartitionState | None

    @property
    def waiting_bytes(self) -> int:
        """How many bytes more wait now; negative where fewer do."""
        return (self.after or NO_STATE).waiting.bytes - (self.before or NO_STATE).waiting.bytes

    @property
    def is_worse(self) -> bool:
        """Whether something stands in its way that did not, or that is worse than what did."""
        return _trouble(self.after) < _trouble(self.before)


@dataclass(frozen=True, slots=True)
class Changes:
    """Two runs compared.

    Attributes:
        partitions: those that changed; first what became worse, then by how much waits more or less.
        moves: how many partitions went from one worst verdict to another, most first; None is "not there".
        appeared: partitions that the earlier run does not know.
        gone: partitions that the later run does not know.
        unchanged: partitions that stand as they stood.
    """

    partitions: tuple[PartitionChange, ...]
    moves: tuple[tuple[Verdict | None, Verdict | None, int], ...]
    appeared: int
    gone: int
    unchanged: int


def compare_states(before: States, after: States) -> Changes:
    """What is different in `after`."""
    found = [
        PartitionChange(key, before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
    moves = Counter((_worst(each.before), _worst(each.after)) for each in found)
    return Changes(
        partitions=tuple(sorted(found, key=lambda each: (not each.is_worse, -abs(each.waiting_bytes), each.key))),
        moves=tuple((old, new, count) for (old, new), count in moves.most_common() if old is not new),
        appeared=sum(each.before is None for each in found),
        gone=sum(each.after is None for each in found),
        unchanged=len({**before, **after}) - len(found),
    )


def states_of(report: Report) -> dict[PartitionKey, PartitionState]:
    """Where every partition of a report stands."""
    return {
        PartitionKey(each.log_dir, each.topic, each.partition): PartitionState(
            each.totals.worst, each.totals.tiered, each.totals.ready, each.totals.waiting
        )
        for topic in report.topics
        for each in topic.partitions
    }


def states_of_json(found: Mapping[str, Any]) -> dict[PartitionKey, PartitionState]:
    """The same of a readiness.json.

    Raises:
        ValueError: it is not of this version's form.
    """
    try:
        if found["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {found['schema_version']}, {SCHEMA_VERSION} is known")
        return dict(_states(found))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no readiness.json: {error!r}") from error


def _states(found: Mapping[str, Any]) -> Iterator[tuple[PartitionKey, PartitionState]]:
    for topic in found["topics"]:
        for each in topic["partitions"]:
            counts = {name: _count(each[name]) for name in _COUNTS}
            groups = (Count(counts[f"{name}_segments"], counts[f"{name}_bytes"]) for name in _GROUPS)
            worst = None if each["worst"] is None else Verdict(each["worst"])
            key = PartitionKey(str(each["log_dir"]), str(topic["topic"]), _count(each["partition"]))
            yield key, PartitionState(worst, *groups)


_GROUPS = ("tiered", "ready", "waiting")
_COUNTS = tuple(f"{group}_{of}" for group in _GROUPS for of in ("segments", "bytes"))


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise TypeError(f"{str(value)[:40]} is no count")
    return value


def _worst(state: PartitionState | None) -> Verdict | None:
    return None if state is None else state.worst


def _trouble(state: PartitionState | None) -> int:
    """Less is worse; one number for all that nothing stands in the way of."""
    worst = _worst(state)
    return RANK[worst] if worst in WAITING else len(RANK)
