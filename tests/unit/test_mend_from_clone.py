"""`mend --from` a backup, beside a log on this host that rolled at other offsets, or that diverged."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.protocol import damages
from tests.protocol.commands import CLUSTER, REMOTE, now_of, type_command
from tests.protocol.installed import installed
from tests.protocol.logs import BASES, END, PARTITION, ROLLED_LATER, Clone, new_disk, template
from tests.protocol.world import World
from tests.reference.kept_proof import keep_proof
from tests.reference.model_cluster import ENDLESS, STORAGE_MANAGER
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

STARTED, FINISHED, *_ = SegmentState
CLONE = Clone(0, payload=b"w")


def lost_log(folder: Path, *, of_clone: bool) -> tuple[World, str]:
    """Brokers tiered all segments, one of them perhaps from a clone of the log; its log is in the backup alone."""
    world = World(Random("backup"), folder, {"a": BASES, "b": ROLLED_LATER}, is_damaged=True, is_lost=True)
    world.disks["clone"] = new_disk(folder / "clone", BASES, {*BASES}, CLONE)
    world.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    world.cluster.create(PARTITION, end=20, settings=ENDLESS)
    keep_proof(world.cluster, world.store)
    for base in BASES[:-1]:
        source = template(BASES, CLONE if of_clone and base == 5 else None) / "orders-0"
        (made,) = tier(source, world.store, layout=AivenLayout(), bases={base}, event_timestamp=world.store.time)
        world.cluster.append(SegmentRecord(made))
        world.cluster.append(SegmentUpdate(made.id, 1, world.store.time, FINISHED))
    for key, stored in world.store.objects.items():
        path = folder / "backup" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored.data)
    (lost,) = (key for key in world.store.objects if key.endswith(".log") and f"/{5:020d}-" in key)
    with world.event():
        damages.lose(world.store, lost)
    return world, lost


def mend(world: World, folder: Path, host: str) -> ExitCode | None:
    words = ("mend", *CLUSTER, *REMOTE, "--unproven", world.disks[host], "--from", folder / "backup")
    return world.run({"mend": lambda _: type_command(*words, *now_of(world), "--apply")})["mend"]


@pytest.mark.parametrize("host", ["b", "clone"])
def test_mend_puts_no_segment_of_another_log_back_from_a_backup(tmp_path: Path, host: str) -> None:
    world, lost = lost_log(tmp_path, of_clone=True)
    with installed(world, 1):
        assert mend(world, tmp_path, host) in (ExitCode.GATE_REFUSED, ExitCode.DATA_CORRUPT), world.story()
        assert lost not in world.store.objects


def test_mend_puts_a_right_segment_back_beside_a_log_that_rolled_elsewhere(tmp_path: Path) -> None:
    world, lost = lost_log(tmp_path, of_clone=False)
    with installed(world, 1):
        assert mend(world, tmp_path, "b") is ExitCode.OK, world.story()
        assert world.store.objects[lost].data == (tmp_path / "backup" / lost).read_bytes()
        assert world.readable(sound=True) == set(range(END))
