"""The answer to one question about a store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProbeVerdict(StrEnum):
    """The verdict of a probe."""

    OK = "OK"
    WARN = "WARN"  # works, but has a drawback
    FAIL = "FAIL"  # not to be trusted with segments
    UNKNOWN = "UNKNOWN"  # the store does not answer the question


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer of a store; `next_step` is "" if there is nothing to do."""

    probe: str
    verdict: ProbeVerdict
    message: str
    next_step: str = ""
