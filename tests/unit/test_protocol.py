"""Commands of two hosts, brokers and a store that fails, interleaved request by request: see tests.protocol.world.

A failure names its seed: play(Scenario(seed, folder, kind, trouble)).
"""

from __future__ import annotations

import shutil
from random import SystemRandom

import pytest

from tests.protocol.installed import installed
from tests.protocol.scenario import TROUBLES, Kind, Scenario

pytestmark = pytest.mark.unit

EVERYTHING = "everything"
SEEDS = {Kind.PUBLISHED: 9, Kind.STUCK: 9, Kind.UNMANAGED: 20}
"""How many there are of each trouble; without a cluster there is nobody else who cleans up."""
FOUND = {
    "the claim of an attempt is lost that leaves an upload": (Kind.UNMANAGED, EVERYTHING, 1000),
    "a lost segment is lost again while it is uploaded again": (Kind.PUBLISHED, "lying puts", 190504648),
    "a lost segment has a record that its copy is begun": (Kind.PUBLISHED, EVERYTHING, 173635600),
    "a late put arrives when its segment was uploaded again": (Kind.UNMANAGED, "late puts", 58),
    "a copy leaves an upload and is replaced by a longer one": (Kind.PUBLISHED, "left uploads", 533167338),
    "tier deletes what mend put back": (Kind.PUBLISHED, "mended losses", 13),
    "mend uploads a segment of a topic that is being deleted": (Kind.STUCK, "mended trouble", 89),
    "the manifest of the only copy is damaged": (Kind.STUCK, "mended damage", 2011),
    "all manifests are damaged": (Kind.STUCK, "mended damage", 2095),
    "mend replaces a segment as the store does not answer": (Kind.PUBLISHED, "mended losses", 9076),
    "mend leaves an upload of what it puts back": (Kind.STUCK, "mended losses", 30267),
    "mend leaves an upload of an object that is lost twice": (Kind.STUCK, "mended losses", 50027),
    "what mend uploaded is lost before brokers know it": (Kind.STUCK, "mended trouble", 71093),
}
"""What random seeds have found, and what few of them meet."""
UNMANAGED = [name for name in sorted(TROUBLES) if not TROUBLES[name].mends]
"""Troubles of a topic that no cluster has: `mend` asks one."""
MET = [(kind, name) for kind in Kind for name in (UNMANAGED if kind is Kind.UNMANAGED else sorted(TROUBLES))]


def play(scenario: Scenario) -> str:
    """Play one scenario in a process that sees its world and no other; returns what happened."""
    try:
        with installed(scenario.world, scenario.seed):
            scenario.play()
    except BaseException as broken:
        broken.add_note(f"{scenario.kind} {scenario.seed}, {scenario.trouble}")
        raise
    shutil.rmtree(scenario.folder)
    return scenario.world.story()


@pytest.mark.parametrize(("kind", "trouble"), [each for each in MET if each[1] != EVERYTHING])
def test_commands_keep_their_promises_in_trouble(kind, trouble, tmp_path):
    for seed in range(SEEDS[kind]):
        play(Scenario(seed, tmp_path / str(seed), kind, TROUBLES[trouble]))


@pytest.mark.parametrize(("kind", "trouble", "seed"), FOUND.values(), ids=FOUND)
def test_commands_keep_their_promises_where_they_once_did_not(kind, trouble, seed, tmp_path):
    play(Scenario(seed, tmp_path / "world", kind, TROUBLES[trouble]))


@pytest.mark.parametrize("kind", Kind)
def test_scenario_is_the_same_again(kind, tmp_path):
    first, again = (play(Scenario(1, tmp_path / "1", kind, TROUBLES[EVERYTHING])) for _ in range(2))
    assert first == again


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "trouble"), MET)
def test_commands_keep_their_promises_in_much_trouble(kind, trouble, tmp_path):
    first = SystemRandom().randrange(1_000_000_000)
    for seed in range(first, first + 300):
        play(Scenario(seed, tmp_path / str(seed), kind, TROUBLES[trouble]))
