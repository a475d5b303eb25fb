"""Segments are read whole before brokers are told of them, and before a copy of their offsets is removed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.protocol import commands, damages
from tests.protocol.installed import installed
from tests.protocol.logs import BASES, END, PARTITION, Clone, new_disk, template
from tests.protocol.memory_store import MemoryStore
from tests.protocol.world import DAY, World
from tests.reference.command import tiersnap
from tests.reference.interleaved import Killed
from tests.reference.log_builder import TIMESTAMP, data_batch
from tests.reference.model_cluster import ENDLESS, STORAGE_MANAGER
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.verify.compare_whole import find_problems
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.units import utc

pytestmark = pytest.mark.unit


def swap(store: MemoryStore, key: str) -> None:
    damages.swap(store, key, AivenLayout(), Clone(0, payload=b"w"), whole=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Copying is off, and nothing is in remote storage."""
    world = World(Random("read first"), tmp_path, snapshots={*BASES})
    world.is_damaged = world.is_lost = True
    world.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    world.cluster.create(PARTITION, end=20, settings=ENDLESS)
    with installed(world, 1):
        yield world


def run(world: World, command: Callable[..., ExitCode], *words: object) -> ExitCode | None:
    return world.run({"command": lambda hand: command(world, hand, *words)})["command"]


def log_at(world: World, base: int) -> str:
    (key,) = (key for key in world.store.objects if key.endswith(".log") and f"/{base:020d}-" in key)
    return key


@pytest.mark.parametrize(
    ("expiration", "why"), [(DAY, []), (None, ["snapshot: the snapshot is empty, but the log has 1 producer"])]
)
def test_publish_takes_a_snapshot_without_producers_that_brokers_forgot(
    tmp_path: Path, expiration: int | None, why: list[str]
) -> None:
    """Producer 7 wrote ten days before the last record of its log, and brokers forget it after a day."""
    log_dir, remote = tmp_path / "data", tmp_path / "tier"
    remote.mkdir()
    folder = log_dir / "orders-0"
    folder.mkdir(parents=True)
    for base, producer, time in ((0, 7, TIMESTAMP), (5, 8, TIMESTAMP + 10 * DAY), (10, 8, TIMESTAMP + 10 * DAY)):
        (folder / f"{base:020d}.log").write_bytes(data_batch(base, 5, producer, 0, base, timestamp=time))
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: 5GXaOJXiRzOuReKRIUWzvw\n")
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nnode.id=7\n")
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\norders 0 15\n")
    now = TIMESTAMP + 11 * DAY
    ran = tiersnap("tier", log_dir, "--remote", remote, "--now", utc(now), "--as-of", utc(now), "--apply")
    assert ran.exit_code == 0, ran.err

    shutil.rmtree(remote / "claims")
    location = RemoteLocation(DirectoryStore(remote), AivenLayout())
    uploaded = finished_segments(location, lambda name: name == "orders")
    ids = {each.id.segment_id for each in uploaded}
    assert len(ids) == 2
    partition, expiry = uploaded[0].id.topic_id_partition, BrokerExpiry(now, expiration)
    doubts = find_problems(location, partition, ids, None, expiry)
    assert list(doubts.values()) == why


def copy_by_brokers(world: World) -> None:
    with world.event("brokers copy"):
        for each in tier(template(BASES) / "orders-0", world.store):
            world.cluster.append(SegmentRecord(replace(each, state=SegmentState.COPY_SEGMENT_STARTED)))
            world.cluster.append(SegmentUpdate(each.id, 1, 1, SegmentState.COPY_SEGMENT_FINISHED))


@pytest.mark.parametrize("damage", [damages.rot, damages.flip, damages.zero, swap])
def test_publish_tells_of_no_upload_that_is_not_the_log(world: World, damage: damages.Damage) -> None:
    assert run(world, commands.tier, "a") is ExitCode.OK, world.story()
    key = log_at(world, 5)
    with world.event():
        damage(world.store, key)
    assert run(world, commands.publish) is ExitCode.DATA_CORRUPT, world.story()
    assert world.brokers.index().finished() == []
    with world.event():
        world.store.delete([each for each in world.store.objects if each.startswith(key.removesuffix("log"))])
    assert run(world, commands.tier, "a") is ExitCode.OK, world.story()
    assert run(world, commands.publish) is ExitCode.OK, world.story()
    assert world.readable(sound=True) == {*range(END)}


def test_unblock_uploads_again_what_was_damaged_before_brokers_knew_it(tmp_path: Path) -> None:
    world = World(Random("read first"), tmp_path, snapshots={5})
    world.is_damaged = world.is_lost = True
    world.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    world.cluster.create(PARTITION, end=20, settings={"retention.ms": "-1"})
    with installed(world, 1):
        world.advance(10_000)
        assert run(world, commands.tier, "a") is ExitCode.OK, world.story()
        with world.event():
            world.store.flip(log_at(world, 5))
        assert run(world, commands.unblock) is ExitCode.OK, world.story()
        assert world.readable(sound=True) == {*range(END)}


def test_tier_finishes_no_damaged_copy_of_a_killed_attempt(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_if = world.store.replace_if

    def die(key: str, *rest: bytes | str | None) -> object:
        parsed = keys.recognise(key)
        if parsed is not None and parsed.kind is KeyKind.CLAIM:
            raise Killed
        return replace_if(key, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "replace_if", die)
        assert run(world, commands.tier, "a") is None
    with world.event():
        world.store.flip(log_at(world, 0))
    world.advance(2 * DAY)
    assert run(world, commands.tier, "a") is ExitCode.OK, world.story()
    assert run(world, commands.publish) is ExitCode.OK, world.story()
    assert world.readable(sound=True) == {*range(END)}


def test_remove_orphans_keeps_a_copy_when_the_other_one_is_damaged(world: World) -> None:
    assert run(world, commands.tier, "a") is ExitCode.OK, world.story()
    ours = {base: log_at(world, base) for base in BASES[:-1]}
    copy_by_brokers(world)
    with world.event():
        (theirs,) = (
            key for key in world.store.objects if f"/{0:020d}-" in key and key.endswith(".log") and key != ours[0]
        )
        world.store.flip(theirs)
    world.advance(2 * DAY)
    assert run(world, commands.remove_orphans) is ExitCode.OK, world.story()
    assert [base for base, key in ours.items() if key in world.store.objects] == [0]


def test_mend_refuses_a_clone_by_whose_log_all_segments_are_wrong(world: World) -> None:
    copy_by_brokers(world)
    world.disks["a"] = new_disk(world.folder / "clone", BASES, {*BASES}, Clone(0, payload=b"w"))
    lost = log_at(world, 0)
    with world.event():
        world.store.flip(lost)
    before = dict(world.store.objects)
    assert run(world, commands.mend) is not ExitCode.OK, world.story()
    logs = {key for key in world.store.objects if key.endswith(".log")}
    assert logs == {key for key in before if key.endswith(".log")}
