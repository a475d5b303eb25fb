"""One line of what was asked of a store, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProbeVerdict(StrEnum):
    """The verdict of a probe."""

    OK = "OK"
    WARN = "WARN"  # works, and somebody should know
    FAIL = "FAIL"  # not to be trusted with segments
    UNKNOWN = "UNKNOWN"  # the store does not tell


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer of a store; `next_step` is "" if there is nothing to do."""

    probe: str
    verdict: ProbeVerdict
    message: str
    next_step: str = ""
