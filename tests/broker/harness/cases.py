"""Ways to harm the log of `scenarios.write_current_log`, and what a broker then makes of it, unmended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import Disks
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC, write_current_log
from tests.broker.harness.topics import wait_for_leader
from tests.broker.harness.writing import write_segments

INACTIVE = 10


@dataclass(frozen=True)
class Case:
    """One harm, done to the partition's folder while the broker is stopped; segments are counted from 0."""

    harm: Callable[[Path], object]
    tiered: int  # segments, from the first on
    lost: range = range(0)  # segments whose base offset has no snapshot after the start
    wrong: tuple[int, ...] = ()  # segments tiered with a wrong snapshot

    @property
    def stuck(self) -> bool:
        """Whether the copier fails for want of a snapshot."""
        return self.tiered < INACTIVE


CASES = {
    "nothing": Case(lambda folder: None, tiered=INACTIVE),
    "the index of the third segment lost": Case(
        lambda folder: damage.drop_index(folder, segment_bases(folder)[2]), tiered=3, lost=range(4, 9)
    ),
    "one snapshot deleted by hand": Case(
        lambda folder: damage.drop_snapshot(folder, segment_bases(folder)[5]), tiered=4, lost=range(5, 6)
    ),
    "all but the newest three snapshots deleted": Case(
        lambda folder: damage.drop_snapshots_but_newest(folder, 3), tiered=0, lost=range(1, 9)
    ),
    "one old snapshot corrupted": Case(
        lambda folder: damage.corrupt_snapshot(folder, segment_bases(folder)[4]), tiered=INACTIVE, wrong=(3,)
    ),
}


def write_log_with_empty_snapshots(root: Path) -> Disks:
    """Three segments, all snapshots deleted, then one clean start: the broker has written empty ones everywhere."""
    disks = write_current_log(root, segments=3)
    damage.drop_snapshots_but_newest(disks.partition(TOPIC), 0)
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
    return disks


def write_on(disks: Disks, segments: int, *, name: str = "later-") -> None:
    """Let other producers write to the log of `disks` until it has `segments` segments."""
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        write_segments(broker, TOPIC, segments, name=name)
