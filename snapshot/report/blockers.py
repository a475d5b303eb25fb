"""The verdicts that block segments of a partition or of the cluster, and the steps that clear them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from tiersnap.snapshot.gate.printed_steps import Step, commands, text
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.report.run_info import Size


@dataclass(frozen=True, kw_only=True)
class Clearing:
    """The next step that clears a verdict.

    Attributes:
        next_step: the step in words, with its commands.
        commands: commands of `next_step` that have no placeholder.
    """

    next_step: str
    commands: tuple[str, ...]


class Cleared(TypedDict):
    """The fields of PageBlocker and PageCause that describe the steps."""

    next_step: str
    commands: tuple[str, ...]
    steps: tuple[Step, ...]


def cleared_by(steps: tuple[Step, ...]) -> Cleared:
    """Return the fields that describe the steps."""
    return Cleared(next_step=text(steps), commands=commands(steps), steps=steps)


@dataclass(frozen=True, kw_only=True)
class _Blocked:
    verdict: Verdict
    base_offset: Size
    segments: Size
    bytes: Size
    reason: str


@dataclass(frozen=True, kw_only=True)
class Blocker(Clearing, _Blocked):
    """A verdict that blocks segments of a partition.

    Attributes:
        base_offset: base offset of the first segment with the verdict.
        segments, bytes: number and size of all segments of the partition with the verdict.
        reason: reason of the first segment.
    """


@dataclass(frozen=True, kw_only=True)
class PageBlocker(Blocker):
    """A blocker on a page. `steps` are the steps of `next_step`."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class _Cause:
    verdict: Verdict
    meaning: str
    partitions: Size
    segments: Size
    bytes: Size
    behind_segments: Size
    behind_bytes: Size


@dataclass(frozen=True, kw_only=True)
class Cause(Clearing, _Cause):
    """A verdict that blocks segments of the cluster. A file in its commands is from the worst partition.

    Attributes:
        partitions: number of partitions with the verdict.
        segments, bytes: number and size of the segments with the verdict.
        behind_segments, behind_bytes: number and size of the segments with GAP_BEFORE that wait for segments with this
            verdict.
    """


@dataclass(frozen=True, kw_only=True)
class PageCause(Cause):
    """A cause on a page. `steps` are the steps of `next_step`."""

    steps: tuple[Step, ...]
