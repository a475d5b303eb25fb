"""Which fault comes when: a pure function of the seed, so that a seed gives the same storm each time."""

from __future__ import annotations

import random
from dataclasses import dataclass

NODES = (1, 2, 3)
CALM_SECONDS = 10.0  # at the beginning: logs get a few segments

# Weights. What needs a broker to be down takes half a minute here, and the rest a few seconds.
FAULTS = {
    "kill": 5,
    "restart": 2,
    "pause": 3,
    "kill_controller": 2,
    "jump_clock": 3,
    "lose_snapshots": 4,
    "lose_indexes": 2,
    "stick": 3,
    "unclean_election": 2,
    "trim": 3,
    "shorten_retention": 2,
    "make_topic_again": 2,
    "move_replica": 3,
    "fill_disk": 2,
    "fill_remote": 2,
}


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        at: seconds since the start; it waits for those before it.
        node: the broker that is meant, where one is.
        draw: in [0, 1), for what is chosen when the fault comes, from what there is then.
        seconds: for how long.
    """

    at: float
    name: str
    node: int
    draw: float
    seconds: float


def schedule(seed: int, minutes: float) -> list[Fault]:
    """Faults of `minutes`; each round begins with one of each, in an order of its own."""
    chance = random.Random(seed)
    faults: list[Fault] = []
    at = CALM_SECONDS
    while True:
        once = list(FAULTS)
        again = [name for name, weight in FAULTS.items() for _ in range(weight - 1)]
        chance.shuffle(once)
        chance.shuffle(again)
        for name in once + again:
            fault = Fault(at, name, chance.choice(NODES), chance.random(), chance.uniform(1.0, 6.0))
            at += chance.uniform(3.0, 9.0)
            if fault.at > minutes * 60:
                return faults
            faults.append(fault)
