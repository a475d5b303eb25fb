"""Brokers' attempts whose objects exist and whose storage manager threw (KAFKA-19981)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from tests.broker.harness.meanwhile import after_the_first
from tests.protocol import commands
from tests.protocol.installed import installed
from tests.protocol.logs import BASES, END, PARTITION, template
from tests.protocol.world import World
from tests.reference.log_builder import data_batch
from tests.reference.model_cluster import ENDLESS, STORAGE_MANAGER
from tests.reference.tiered import tier
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.unblock import unblock
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit


@dataclass
class Stuck:
    """A partition whose copier copied the segment at 0, and fails at 5 after the objects of an attempt exist."""

    world: World
    attempt: str

    def change(self, suffix: str, old: bytes, new: bytes) -> None:
        """Replace bytes in an object of the attempt; the store keeps what it was sent."""
        (key,) = (key for key in self.world.store.objects if key.endswith(f"{self.attempt}{suffix}"))
        data = self.world.store.objects[key].data
        assert old in data and len(old) == len(new)
        self.world.store.replace(key, data.replace(old, new, 1))

    def run(self, command: str) -> ExitCode | None:
        work = {"unblock": commands.unblock, "publish": commands.publish}[command]
        return self.world.run({command: lambda hand: work(self.world, hand)})[command]

    @property
    def finished(self) -> set[str]:
        return {each.id.segment_id for each in self.world.brokers.index().finished()}


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Stuck]:
    world = World(Random("attempts"), tmp_path, snapshots={5})
    world.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    world.cluster.create(PARTITION, end=20, settings={"retention.ms": "-1"})
    with installed(world, 1):
        world.advance(10_000)
        yield Stuck(world, attempt_of_broker(world))


def attempt_of_broker(world: World) -> str:
    """Write all objects of the segment at 5 and the record that its copy began; return its id."""
    (copied,) = tier(template(BASES) / "orders-0", world.store, bases={5})
    world.cluster.append(SegmentRecord(replace(copied, broker_id=1, state=SegmentState.COPY_SEGMENT_STARTED)))
    return copied.id.segment_id


def test_unblock_finishes_an_attempt_that_equals_the_log(stuck: Stuck) -> None:
    assert stuck.run("unblock") is ExitCode.OK, stuck.world.story()
    assert stuck.attempt in stuck.finished
    assert stuck.world.readable() == {*range(END)}


LOG = (template(BASES) / "orders-0" / f"{5:020d}.log").read_bytes()


@pytest.mark.parametrize(
    ("suffix", "old", "new"),
    [
        (".log", LOG[-40:], bytes(40)),
        (".log", LOG[: len(data_batch(5, 4, 7, 0, 4))], data_batch(5, 4, 6, 0, 4)),
        (".indexes", b"\x00\x00\x00\x00\x00\x00\x00\x07", b"\x00\x00\x00\x00\x00\x00\x00\x06"),
    ],
    ids=["damaged batch", "another log", "snapshot of another producer"],
)
def test_unblock_uploads_a_segment_again_when_its_attempt_is_wrong(
    stuck: Stuck, suffix: str, old: bytes, new: bytes
) -> None:
    stuck.change(suffix, old, new)
    before = {key: stored.data for key, stored in stuck.world.store.objects.items() if stuck.attempt in key}
    assert stuck.run("unblock") is ExitCode.OK, stuck.world.story()
    assert stuck.attempt not in stuck.finished
    assert stuck.world.readable() == {*range(END)}
    after = {key: stored.data for key, stored in stuck.world.store.objects.items() if stuck.attempt in key}
    assert after == before


def test_unblock_uploads_a_segment_that_a_broker_began_again_after_the_comparison(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unread attempt counted as the segment, so it was not uploaded, and nothing behind it could be published."""
    stuck.change(".log", LOG[-40:], bytes(40))
    begun: list[str] = []
    after_the_first(monkeypatch, unblock, "compare_attempts", lambda: begun.append(attempt_of_broker(stuck.world)))
    assert stuck.run("unblock") is ExitCode.OK, stuck.world.story()
    assert len(begun) == 1 and not stuck.finished & {stuck.attempt, *begun}
    assert stuck.world.readable() == {*range(END)}


def test_publish_finishes_no_attempt_of_a_broker(stuck: Stuck) -> None:
    """It reads no local log, so it cannot tell a right attempt from a damaged one."""
    stuck.change(".log", LOG[-40:], bytes(40))
    stuck.world.cluster.change_settings(PARTITION.topic, ENDLESS)
    stuck.run("publish")
    assert stuck.attempt not in stuck.finished
