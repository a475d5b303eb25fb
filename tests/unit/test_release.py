"""A stuck partition that is released: what is saved before copying is off, and what others freed meanwhile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.protocol import commands
from tests.protocol.faults import Fault, Faults
from tests.protocol.installed import installed
from tests.protocol.logs import BASES, END, PARTITION, template
from tests.protocol.world import World
from tests.reference.listed_claims import list_claims
from tests.reference.log_builder import data_batch
from tests.reference.model_cluster import STORAGE_MANAGER, ModelCluster
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with playing(tmp_path) as made:
        yield made


@contextmanager
def playing(folder: Path) -> Iterator[World]:
    """One whose copier copied the segment at 0, and lacks all later snapshots."""
    made = World(Random("release"), folder, snapshots={5})
    made.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    made.cluster.create(PARTITION, end=20, settings={"retention.ms": "-1"})
    with installed(made, 1):
        made.advance(10_000)
        yield made


def unblock(world: World) -> ExitCode | None:
    return world.run({"unblock": lambda hand: commands.unblock(world, hand)})["unblock"]


def test_unblock_saves_the_settings_of_a_topic_before_it_changes_them(world: World) -> None:
    saved = []

    def look() -> None:
        if world.cluster.there[PARTITION.topic].own.get(COPY_DISABLE) == "true":
            (data,) = (stored.data for key, stored in world.store.objects.items() if key.endswith("/unblock.json"))
            saved.append(json.loads(data)["before"]["retention.ms"])

    world.meanwhile = look
    assert unblock(world) is ExitCode.OK, world.story()
    assert set(saved) == {"-1"}


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (lambda cluster: cluster.read_only.add(METADATA_TOPIC), ExitCode.USAGE),
        (lambda cluster: cluster.of_records.own.update({"cleanup.policy": "compact"}), ExitCode.GATE_REFUSED),
    ],
    ids=["read only", "compacted"],
)
def test_unblock_pauses_nothing_when_brokers_would_refuse_its_records(
    world: World, harm: Callable[[ModelCluster], object], code: ExitCode
) -> None:
    seen = set()
    world.meanwhile = lambda: seen.add(world.cluster.there[PARTITION.topic].own.get(COPY_DISABLE))
    harm(world.cluster)
    assert unblock(world) is code, world.story()
    assert seen == {None}


def test_unblock_writes_no_object_when_nothing_proves_the_location(world: World) -> None:
    """It probed the store before the proof, and left a file there."""
    before = world.store.changes
    words = (*commands.CLUSTER, *commands.REMOTE, world.disks["a"], *commands.now_of(world), "--apply")
    ran = world.run({"unblock": lambda _: commands.type_command("unblock", *words)})
    assert ran["unblock"] is ExitCode.GATE_REFUSED, world.story()
    assert world.store.changes == before


def test_unblock_publishes_nothing_of_a_partition_that_others_freed(world: World) -> None:
    """Its copy task copies the segment at 5 once its snapshot exists: it may be copying the next one now."""
    freed = []

    def free() -> None:
        manifests = (key for key in world.store.objects if key.endswith(".rsm-manifest"))
        if not freed and any(f"{BASES[2]:020d}" in key for key in manifests):
            freed.append(True)
            shutil.copy(template(BASES) / "orders-0" / f"{BASES[2]:020d}.snapshot", world.disks["a"] / "orders-0")
            with world.event("the leader starts anew, with one snapshot more"):
                world.brokers.restart()
                world.brokers.run_copier()

    world.meanwhile = free
    unblock(world)
    assert freed
    ours = {segment_id for held in list_claims(world.store, PARTITION) for segment_id in held.claim.segment_ids}
    finished = {each.id.segment_id for each in world.brokers.index().finished()}
    assert len(finished) == 2, world.story()
    assert ours.isdisjoint(finished)


def test_unblock_leaves_a_partition_that_another_broker_leads_since_to_its_copy_task(world: World) -> None:
    def lead() -> None:
        topic = world.cluster.there[PARTITION.topic]
        if topic.own.get(COPY_DISABLE) == "true":
            topic.leaders[PARTITION.partition] = 2

    world.meanwhile = lead
    assert unblock(world) is ExitCode.PARTIAL, world.story()  # the same command again plans for the new leader
    assert world.cluster.there[PARTITION.topic].leaders[PARTITION.partition] == 2
    assert len(list(world.brokers.index().finished())) == 1, world.story()


def test_unblock_publishes_nothing_of_a_diverged_clone(world: World) -> None:
    """Another host uploaded the segments of the log; the leader's disk is a clone with another batch."""
    assert world.run({"tier": lambda hand: commands.tier(world, hand, "b")}) == {"tier": ExitCode.OK}, world.story()
    path = world.disks["a"] / "orders-0" / f"{10:020d}.log"
    log, other = data_batch(10, 5, 7, 0, 8, leader_epoch=3), data_batch(10, 5, 6, 0, 8, leader_epoch=3)
    assert path.read_bytes() == log
    path.write_bytes(other)
    objects = {*world.store.objects}
    world.is_damaged = True
    assert unblock(world) is ExitCode.DATA_CORRUPT, world.story()
    known = {each.id.segment_id for each in world.brokers.index().finished()}
    assert len(known) == 1, world.story()
    assert {*world.store.objects} == objects


def test_unblock_frees_a_copy_task_whose_attempts_end_in_a_failed_deletion(tmp_path: Path) -> None:
    """The storage manager throws, and again when the copy task deletes what it left: DELETE_SEGMENT_STARTED stays."""
    world = World(Random("failed deletion"), tmp_path)
    world.cluster.create(PARTITION, end=20, settings={"retention.ms": "-1"})
    world.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    world.brokers.storage_throws = True
    with installed(world, 1):
        world.advance(3_000)
        attempts = {each.id.segment_id for each in world.brokers.index().segments()}
        assert len(attempts) > 1
        assert unblock(world) is ExitCode.OK, world.story()
    assert world.readable(sound=True) == set(range(END)), world.story()
    assert attempts.isdisjoint(each.id.segment_id for each in world.brokers.index().finished())


@dataclass
class OneRefusal(Faults):
    """The request of a number gets no answer."""

    number: int = 0
    asked: int = 0

    def of(self, name: str, key: str) -> Fault | None:
        self.asked += 1
        return Fault.LOST_REQUEST if self.asked - 1 == self.number else None


def test_unblock_ends_with_3_if_a_request_is_refused_and_continues_when_run_again(tmp_path: Path) -> None:
    """Every third request of a run, one by one."""
    ends, number, asked = {ExitCode.OK: 0, ExitCode.TRANSIENT: 0}, 0, 1
    while number < asked:
        with playing(tmp_path / str(number)) as world:
            world.faults = OneRefusal(Random(0), number=number)
            world.events.clear()
            code = unblock(world)
            ends[code] += 1
            if code is ExitCode.TRANSIENT:
                assert "run the same command again" in world.story(), world.story()
                assert "to see the verdict of the segment: tiersnap scan" not in world.story()
            again = (unblock(world) for _ in range(2) if world.advance(1_000_000) is None)
            assert ExitCode.OK in again, world.story()
            assert world.readable(sound=True) == set(range(END)), world.story()
            asked = max(asked, world.faults.asked)
        number += 3
    assert ends[ExitCode.TRANSIENT] > 20
