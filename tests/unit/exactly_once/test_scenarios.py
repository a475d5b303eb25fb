"""Scenarios of exactly-once, one test each, by number; they are in tests/unit/exactly_once/scenarios, a module a theme.

T73, T74, T76 to T79 and T82 are questions for `risk`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.unit.exactly_once.scenarios.registry import SCENARIOS

pytestmark = pytest.mark.unit

OF_RISK = {73, 74, *range(76, 80), 82}
for theme in ("transaction_state", "coordinator", "appends", "clients", "snapshots", "losses", "hanging"):
    importlib.import_module(f"tests.unit.exactly_once.scenarios.{theme}")


@pytest.mark.parametrize("number", sorted(SCENARIOS, key=lambda number: (int(number[1:].rstrip("abcd")), number)))
def test_scenario(number: str, tmp_path: Path) -> None:
    for index, check in enumerate(SCENARIOS[number]):
        folder = tmp_path / str(index)
        folder.mkdir()
        check(folder)


def test_every_scenario_is_here_but_those_of_risk():
    assert {int(number[1:].rstrip("abcd")) for number in SCENARIOS} == {*range(1, 108)} - OF_RISK
