"""The answer to one question about a store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProbeVerdict(StrEnum):
    """The verdict about one property of a store."""

    OK = "OK"
    WARN = "WARN"  # the store works, but has a drawback
    FAIL = "FAIL"  # segments are not safe in the store
    UNKNOWN = "UNKNOWN"  # the store does not answer the question


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer of a store. `next_step` is "" if the user need not do anything."""

    probe: str
    verdict: ProbeVerdict
    message: str
    next_step: str = ""
