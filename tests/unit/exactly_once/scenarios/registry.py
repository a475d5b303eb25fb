"""Where scenarios are kept by number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Scenario = Callable[[Path], None]
SCENARIOS: dict[str, list[Scenario]] = {}


def scenario(number: str) -> Callable[[Scenario], Scenario]:
    """Of what is checked by the function, which gets a folder of its own."""

    def add(check: Scenario) -> Scenario:
        SCENARIOS.setdefault(number, []).append(check)
        return check

    return add
