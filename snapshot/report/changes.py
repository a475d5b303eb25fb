"""Comparison of two runs, partition by partition.

Log directory, topic name and partition number identify a partition, so a re-created topic has the same partitions. The
states are read from a report or from the readiness.json of an earlier run.
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
    """The identity of a partition's replica."""

    log_dir: str
    topic: str
    partition: int


@dataclass(frozen=True, kw_only=True)
class PartitionState(TieringProgress):
    """The state of a partition in one run. `worst` is its worst verdict, or None if it has no segments."""

    log_dir: str
    partition: Size
    worst: Verdict | None


@dataclass(frozen=True)
class _Topic:
    topic: str
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True)
class _Run:
    """The fields of a report or a readiness.json that a comparison needs."""

    schema_version: Literal[1]
    topics: tuple[_Topic, ...]

    def states(self) -> States:
        found: States = {}
        for topic in self.topics:
            for each in topic.partitions:
                found[PartitionKey(each.log_dir, topic.topic, each.partition)] = each
        return found


States = dict[PartitionKey, PartitionState]


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A partition whose state changed. `before` or `after` is None if that run does not have the partition."""

    key: PartitionKey
    before: PartitionState | None
    after: PartitionState | None

    @property
    def waiting_bytes(self) -> int:
        """Return the change of the waiting bytes; negative if fewer bytes wait in the later run."""
        return _waiting_bytes(self.after) - _waiting_bytes(self.before)

    @property
    def is_worse(self) -> bool:
        """Return whether the partition is blocked now, and was blocked less badly or not at all in the earlier run."""
        return _blocking_rank(self.after) < _blocking_rank(self.before)


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between two runs.

    Attributes:
        partitions: changed partitions. Partitions that became worse precede the others. Both groups are sorted by worst
            verdict, then by the change of waiting bytes, largest first.
        moves: (worst verdict in the earlier run, worst verdict in the later run, number of partitions), largest number
            first. A verdict is None if the run does not have the partition.
        appeared: number of partitions that only the later run has.
        gone: number of partitions that only the earlier run has.
        unchanged: number of partitions with equal states in both runs.
    """

    partitions: tuple[PartitionChange, ...]
    moves: tuple[tuple[Verdict | None, Verdict | None, int], ...]
    appeared: int
    gone: int
    unchanged: int


def compare_states(before: States, after: States) -> Changes:
    """Return the changes from `before` to `after`."""
    changed: list[PartitionChange] = []
    unchanged = 0
    counts = Counter[tuple[Verdict | None, Verdict | None]]()
    for key in {**before, **after}:
        change = PartitionChange(key, before.get(key), after.get(key))
        if change.before == change.after:
            unchanged += 1
            continue
        changed.append(change)
        counts[_worst(change.before), _worst(change.after)] += 1
    moves = tuple((old, new, count) for (old, new), count in counts.most_common() if old is not new)
    return Changes(
        partitions=tuple(sorted(changed, key=_by_badness)),
        moves=moves,
        appeared=len(after.keys() - before.keys()),
        gone=len(before.keys() - after.keys()),
        unchanged=unchanged,
    )


def _by_badness(change: PartitionChange) -> tuple[bool, int, int, PartitionKey]:
    return not change.is_worse, _blocking_rank(change.after), -abs(change.waiting_bytes), change.key


def states_of(report: Report) -> States:
    """Return the states of all partitions of a report."""
    return msgspec.convert(report, _Run, from_attributes=True).states()


def states_of_json(text: bytes) -> States:
    """Return the states of all partitions of a readiness.json.

    Raises:
        ValueError: the text is not JSON of this version.
    """
    return read_json(text, _Run, "readiness.json").states()


def _waiting_bytes(state: PartitionState | None) -> int:
    return 0 if state is None else state.waiting_bytes


def _worst(state: PartitionState | None) -> Verdict | None:
    return None if state is None else state.worst


def _blocking_rank(state: PartitionState | None) -> int:
    """Return the rank of the worst verdict, 0 for the worst of all.

    If this verdict does not block, return len(RANK).
    """
    worst = _worst(state)
    return RANK[worst] if worst in WAITING else len(RANK)
