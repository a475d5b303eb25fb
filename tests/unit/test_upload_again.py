"""A damaged upload of tiersnap that `publish` refuses: `tier` uploads the segment again under a new id."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.protocol import commands
from tests.protocol.damages import flip
from tests.protocol.faults import FaultStore
from tests.protocol.installed import installed
from tests.protocol.logs import END, PARTITION
from tests.protocol.world import World
from tests.reference.model_cluster import ENDLESS, STORAGE_MANAGER
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

ENDPOINT = "http://minio:9000"


@contextmanager
def tiered(tmp_path: Path) -> Iterator[World]:
    """All closed segments are tiered, and none is published."""
    made = World(Random("upload again"), tmp_path)
    made.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    made.cluster.create(PARTITION, end=20, settings=ENDLESS)
    made.is_damaged = True
    with installed(made, 1):
        assert tier(made) is ExitCode.OK
        yield made


def tier(world: World, *words: str) -> ExitCode | None:
    return world.run({"tier": lambda hand: commands.tier(world, hand, "a", *words)})["tier"]


def publish(world: World) -> ExitCode | None:
    return world.run({"publish": lambda hand: commands.publish(world, hand)})["publish"]


def objects(world: World, offset: int) -> dict[str, bytes]:
    return {key: each.data for key, each in world.store.objects.items() if key.startswith(f"{STEM}{offset:020d}-")}


STEM = f"{PARTITION.topic}-{PARTITION.topic_id}/0/"


@pytest.mark.parametrize("suffix", [".log", ".indexes"])
@pytest.mark.parametrize("offset", [0, 5, 10])
def test_tier_uploads_a_segment_again_that_publish_refused(
    tmp_path: Path, offset: int, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = S3Settings(endpoint_url=ENDPOINT, path_style=True)
    monkeypatch.setattr(FaultStore, "words", settings.words)
    with tiered(tmp_path) as world:
        upload_again(world, offset, suffix)


def upload_again(world: World, offset: int, suffix: str) -> None:
    (key,) = (each for each in objects(world, offset) if each.endswith(suffix))
    flip(world.store, key)
    damaged = objects(world, offset)
    assert publish(world) is ExitCode.DATA_CORRUPT
    named = rf"tiersnap tier LOGDIR --remote \S+ --endpoint-url {ENDPOINT} --path-style --upload-again (\S+) --apply"
    (segment_id,) = set(re.findall(named, world.story()))
    assert segment_id in key

    tier(world)
    assert objects(world, offset) == damaged, "the sizes are right"
    assert tier(world, "--upload-again", segment_id) is ExitCode.OK, world.story()
    assert damaged.items() < objects(world, offset).items(), "what records may name stays"
    assert publish(world) is ExitCode.OK, world.story()
    assert world.readable(sound=True) == set(range(END)), world.story()
    assert segment_id not in {each.id.segment_id for each in world.brokers.index().finished()}


def test_tier_uploads_nothing_again_that_is_right(tmp_path: Path) -> None:
    with tiered(tmp_path) as world:
        before = objects(world, 5)
        segment_id = next(iter(before))[len(STEM) + 21 :].partition(".")[0]
        assert tier(world, "--upload-again", segment_id) is ExitCode.OK
        assert objects(world, 5) == before


def test_tier_refuses_to_upload_an_id_again_that_it_does_not_find(tmp_path: Path) -> None:
    with tiered(tmp_path) as world:
        assert tier(world, "--upload-again", "AAAAAAAAAAAAAAAAAAAAAA") is ExitCode.USAGE
        assert "no complete segment with this id" in world.story()
