"""`tier` uploads nothing to a location in which no segment is that brokers know, though it sees no broker's process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.protocol.commands import CLUSTER, REMOTE, now_of, type_command
from tests.protocol.installed import installed
from tests.protocol.logs import BASES, PARTITION, template
from tests.protocol.memory_store import MemoryStore
from tests.protocol.readable_world import ReadableWorld
from tests.reference.model_cluster import ENDLESS
from tests.reference.tiered import tier
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("is_right", "code"), [(False, ExitCode.GATE_REFUSED), (True, ExitCode.OK)], ids=["another", "that of the brokers"]
)
def test_tier_uploads_nothing_where_segments_of_brokers_are_missing(
    tmp_path: Path, is_right: bool, code: ExitCode
) -> None:
    world = ReadableWorld(Random("tier"), tmp_path, snapshots={*BASES})
    world.cluster.create(PARTITION, end=20, settings=ENDLESS)
    read_by_brokers = world.store if is_right else MemoryStore()
    with installed(world, 1), world.event():
        for each in tier(template(BASES) / "orders-0", read_by_brokers, bases={*BASES[:2]}):
            world.cluster.append(SegmentRecord(replace(each, broker_id=1, state=SegmentState.COPY_SEGMENT_STARTED)))
            world.cluster.append(SegmentUpdate(each.id, 1, 0, SegmentState.COPY_SEGMENT_FINISHED))
        before = set(world.store.objects)
    with installed(world, 1):
        world.advance(10_000)
        words = ("tier", world.disks["a"], *REMOTE, "--layout", "aiven", *CLUSTER, *now_of(world), "--apply")
        assert world.run({"tier": lambda _: type_command(*words)}) == {"tier": code}, world.story()
    assert (set(world.store.objects) > before) is is_right
