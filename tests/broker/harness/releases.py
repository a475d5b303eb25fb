"""Releases of Kafka, and the storage managers that they tier with, on which a test runs: one in CI, all each night."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker.harness import jars
from tests.broker.harness.tiering import AivenTier, LocalTier


@dataclass(frozen=True)
class Release:
    """A release of Kafka that tiers in `layout`."""

    version: str
    layout: str = LocalTier.layout

    def tier(self, directory: Path, interval_ms: int = 500) -> LocalTier:
        """Remote storage in `directory`; skips the test if the Aiven plugin is not to be had."""
        if self.layout == LocalTier.layout:
            return LocalTier(directory, interval_ms)
        try:
            return AivenTier(directory, interval_ms, jars=jars.aiven_plugin(self.version))
        except jars.JarsMissingError as missing:
            pytest.skip(str(missing))


NIGHTLY = [
    Release(version, layout)
    for version in ("3.9.1", "4.1.1", "4.4.0")
    for layout in (LocalTier.layout, AivenTier.layout)
]


def releases(in_ci: str) -> list[object]:
    """Parameters: `in_ci` with LocalTieredStorage each time, the others marked nightly."""
    first = Release(in_ci)
    return [
        pytest.param(
            each,
            marks=[pytest.mark.kafka(each.version), *([] if each == first else [pytest.mark.nightly])],
            id=f"{each.version}-{each.layout}",
        )
        for each in dict.fromkeys([first, *NIGHTLY])
    ]
