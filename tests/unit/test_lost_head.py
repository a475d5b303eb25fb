"""Remote storage whose first segments are gone: the log start tells what is lost from what retention deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.protocol import commands
from tests.protocol.installed import installed
from tests.protocol.logs import BASES, PARTITION
from tests.protocol.world import World
from tests.reference.model_cluster import ENDLESS, STORAGE_MANAGER
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """All closed segments are tiered and published."""
    made = World(Random("lost head"), tmp_path)
    made.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    made.cluster.create(PARTITION, end=20, settings=ENDLESS)
    with installed(made, 1):
        assert made.run({"tier": lambda hand: commands.tier(made, hand, "a")}) == {"tier": ExitCode.OK}
        assert made.run({"publish": lambda hand: commands.publish(made, hand)}) == {"publish": ExitCode.OK}
        yield made


def verify(world: World, *, asks: bool) -> ExitCode | None:
    return world.run({"verify": lambda hand: commands.verify(world, hand, asks=asks)})["verify"]


def lose(world: World, *bases: int) -> None:
    """The store loses all objects of the segments that begin there."""
    world.is_damaged = True
    with world.event(f"segments {bases} are gone"):
        for key in [key for key in world.store.objects if any(f"/{base:020d}-" in key for base in bases)]:
            if not key.startswith("claims/"):
                world.store.delete([key])


@pytest.mark.parametrize("asks", [True, False])
def test_verify_finds_a_whole_partition_sound(world: World, *, asks: bool) -> None:
    assert verify(world, asks=asks) is ExitCode.OK, world.story()


@pytest.mark.parametrize("lost", [BASES[:1], BASES[:2]])
def test_verify_tells_a_lost_head_from_retention_by_the_log_start_of_the_cluster(
    world: World, lost: tuple[int, ...]
) -> None:
    lose(world, *lost)
    assert verify(world, asks=False) is ExitCode.PARTIAL, "it may be either"
    assert verify(world, asks=True) is ExitCode.DATA_CORRUPT, "the log starts at 0"
    world.cluster.there[PARTITION.topic].offsets[0] = BASES[len(lost)], 20
    assert verify(world, asks=True) is ExitCode.OK, "retention deleted them"
    assert verify(world, asks=False) is ExitCode.PARTIAL


def test_verify_does_not_know_the_log_start_of_a_topic_that_the_cluster_made_anew(world: World) -> None:
    lose(world, 0)
    world.cluster.there[PARTITION.topic].topic_id = "BBBBBBBBBBBBBBBBBBBBBQ"
    assert verify(world, asks=True) is ExitCode.PARTIAL
