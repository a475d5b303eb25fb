"""The next step of each verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tiersnap.snapshot.gate.verdict import BLOCKED, NEXT_STEP, SEVERITY, Verdict
from tiersnap.snapshot.units import count_of


def next_steps(verdicts: Mapping[Verdict, int], step_of: Callable[[Verdict], str] = NEXT_STEP.__getitem__) -> list[str]:
    """Return a line for each verdict that a person must clear, the worst first."""
    waiting = [each for each in SEVERITY if each in BLOCKED and verdicts.get(each)]
    return [f"{count_of(verdicts[each], 'segment')} {each}: {step_of(each)}" for each in waiting]
