"""The number of tests of each tier, at a landing and in all, for the table of docs/contributing/README.md.

Usage: python -m tests.tier_counts
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/contributing/README.md"
SIDE_TIERS = ("s3", "spark", "broker", "install", "artefact", "airflow", "browser", "prometheus")
"""All but the unit tests, of which a landing runs nearly all: each change has some more."""
MOST_AT_A_LANDING = {"spark": 42, "broker": 25}
"""The most tests for which a landing has time. Give a new one the marker `nightly`, or another one in its place."""


class _Collected:
    """A pytest plugin that keeps the collected tests."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)


def collect(*tiers: str) -> list[pytest.Item]:
    """Return every test of the tiers, the nightly ones among them, collected in this process.

    Raises:
        ValueError: a test file cannot be imported.
    """
    plugin, said = _Collected(), io.StringIO()
    folders = [f"tests/{tier}" for tier in tiers]
    with contextlib.redirect_stdout(said):
        # Nothing runs, so that no assertion needs to be rewritten.
        code = pytest.main(["--collect-only", "-q", "--assert=plain", "-m", "", *folders], plugins=[plugin])
    if code != 0:
        raise ValueError(said.getvalue())
    return plugin.items


def counts(items: Iterable[pytest.Item]) -> dict[str, tuple[int, int]]:
    """Return the tests at a landing and all tests, by tier."""
    landing, every = Counter[str](), Counter[str]()
    for item in items:
        tier = item.path.relative_to(ROOT / "tests").parts[0]
        every[tier] += 1
        landing[tier] += item.get_closest_marker("nightly") is None
    return {tier: (landing[tier], every[tier]) for tier in every}


def documented() -> dict[str, tuple[int, int]]:
    """Return the counts that the page names, by tier."""
    rows = re.findall(r"^\|[^|]*\| `make test-([a-z0-9]+)` \| ([\d,]+) \| ([\d,]+) \|", PAGE.read_text(), re.MULTILINE)
    return {tier: (int(landing.replace(",", "")), int(every.replace(",", ""))) for tier, landing, every in rows}


def differences(counted: dict[str, tuple[int, int]], told: dict[str, tuple[int, int]]) -> Iterator[str]:
    """Yield a sentence for each tier with another count in the docs, or with more tests than a landing has time for."""
    for tier, found in counted.items():
        if told.get(tier) != found:
            yield f"{PAGE}: {tier}: {found[0]} tests at a landing and {found[1]} in all, not {told.get(tier)}"
        if found[0] > MOST_AT_A_LANDING.get(tier, found[0]):
            yield f"{tier}: {found[0]} tests at a landing, which has time for {MOST_AT_A_LANDING[tier]}"


def main() -> None:
    """Print a line for each tier: its name, its tests at a landing, all of its tests."""
    for tier, found in counts(collect("unit", *SIDE_TIERS)).items():
        print(tier, *found)


if __name__ == "__main__":
    main()
