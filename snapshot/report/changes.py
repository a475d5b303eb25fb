"""Compare two runs: partition by partition, and summed up.

A partition is known by its log directory, topic and number; that of a topic that was made again counts as the same.
States come from a report at hand or from a readiness.json that was kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from tiersnap.snapshot.gate.verdict import RANK, WAITING, Verdict
from tiersnap.snapshot.report.files import read_json
from tiersnap.snapshot.report.model import Report, TieringProgress
from tiersnap.snapshot.report.run_info import Size


class PartitionKey(NamedTuple):
    """One replica of a partition."""

    log_dir: str
    topic: str
    partition: int


@dataclass(frozen=True, kw_only=True)
class PartitionState(TieringProgress):
    """The state of a partition in one run; `worst` is its worst verdict, None without segments."""

    log_dir: str
    partition: Size
    worst: Verdict | None


@dataclass(frozen=True)
class _Topic:
    topic: str
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True)
class _Run:
    """The part of a report, or of its readiness.json, that comparisons read."""

    schema_version: Literal[1]
    topics: tuple[_Topic, ...]

    def states(self) -> States:
        return {
            PartitionKey(each.log_dir, topic.topic, each.partition): each
            for topic in self.topics
            for each in topic.partitions
        }


States = dict[PartitionKey, PartitionState]


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A partition that stands elsewhere than before; `before` or `after` is None where it was not there."""

    key: PartitionKey
    before: PartitionState | None
    after: PartitionState | None

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes more wait now; negative if fewer do."""
        return _waiting_bytes(self.after) - _waiting_bytes(self.before)

    @property
    def is_worse(self) -> bool:
        """Return whether something stands in its way that did not, or that is worse than before."""
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
    """Return what is different in `after`."""
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


def states_of(report: Report) -> States:
    """Return where every partition of a report stands."""
    return msgspec.convert(report, _Run, from_attributes=True).states()


def states_of_json(text: bytes) -> States:
    """Return the same of a readiness.json.

    Raises:
        ValueError: it is not of this version's form.
    """
    return read_json(text, _Run, "readiness.json").states()


def _waiting_bytes(state: PartitionState | None) -> int:
    return 0 if state is None else state.waiting_bytes


def _worst(state: PartitionState | None) -> Verdict | None:
    return None if state is None else state.worst


def _trouble(state: PartitionState | None) -> int:
    """Less is worse; one number for all that nothing stands in the way of."""
    worst = _worst(state)
    return RANK[worst] if worst in WAITING else len(RANK)
