"""A world in which all closed segments are tiered and published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.protocol import commands
from tests.protocol.installed import installed
from tests.protocol.logs import PARTITION
from tests.protocol.world import World
from tests.reference.model_cluster import ENDLESS, STORAGE_MANAGER
from tiersnap.snapshot.errors import ExitCode


@contextmanager
def published_world(name: str, folder: Path) -> Iterator[World]:
    """Lay the world out below a folder; `name` seeds its order of requests."""
    made = World(Random(name), folder)
    made.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    made.cluster.create(PARTITION, end=20, settings=ENDLESS)
    with installed(made, 1):
        assert made.run({"tier": lambda hand: commands.tier(made, hand, "a")}) == {"tier": ExitCode.OK}
        assert made.run({"publish": lambda hand: commands.publish(made, hand)}) == {"publish": ExitCode.OK}
        yield made
