"""What is said of segments that are left to brokers whose copy tasks work."""

from __future__ import annotations

from collections.abc import Mapping

from tiersnap.jobs.output import Output
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.units import count_of


def tell_left_to_brokers(output: Output, verdicts: Mapping[Verdict, int]) -> None:
    """Say how many segments are left to brokers, and why; nothing where none is."""
    if count := verdicts.get(Verdict.LEFT_TO_BROKER, 0):
        output.talk(
            f"left to brokers: {count_of(count, 'segment')}, since what is uploaded beside a copy task that works is "
            "copied a second time; where none works, --leave-to-broker none uploads them"
        )
