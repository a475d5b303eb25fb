"""Remote storage whose first segments are gone: the log start tells what is lost from what retention deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.protocol import commands
from tests.protocol.logs import BASES, PARTITION
from tests.protocol.published import published_world
from tests.protocol.world import World
from tests.reference import log_builder as lb
from tests.reference.broker_lock import broker
from tests.reference.command import Ran, assert_said, tiersnap
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.claim_protocol import claimed_segments, read_claim_and_age
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """All closed segments are tiered and published."""
    with published_world("lost head", tmp_path) as made:
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
    assert verify(world, asks=True) is ExitCode.DATA_CORRUPT, "the snapshot is below the log start offset 0"
    world.cluster.there[PARTITION.topic].offsets[0] = BASES[len(lost)], 20
    assert verify(world, asks=True) is ExitCode.OK, "retention deleted them"
    assert verify(world, asks=False) is ExitCode.PARTIAL


def test_verify_does_not_know_the_log_start_of_a_topic_that_the_cluster_made_anew(world: World) -> None:
    lose(world, 0)
    world.cluster.there[PARTITION.topic].topic_id = "BBBBBBBBBBBBBBBBBBBBBQ"
    assert verify(world, asks=True) is ExitCode.PARTIAL


# A partition of which only claims are left.


def result_of(world: World, *words: object, command: str = "verify") -> Ran:
    seen: list[Ran] = []

    def run(_: object) -> ExitCode:
        seen.append(tiersnap(command, *commands.REMOTE, *words, *commands.now_of(world)))
        return ExitCode(seen[0].exit_code)

    world.run({command: run})
    return seen[0]


def lost_rows(ran: Ran) -> list[tuple[int, int | None, str]]:
    remote = [row for row in ran.rows if row.get("segment_id") == ""]
    return [(row["base_offset"], row["next_base_offset"], row["verdict"]) for row in remote]


def test_verify_lists_a_partition_that_lost_all_its_segments(world: World) -> None:
    lose(world, *BASES)
    unknown, asked = result_of(world), result_of(world, *commands.CLUSTER)
    assert (unknown.exit_code, lost_rows(unknown)) == (6, [(0, None, "UNVERIFIED")])
    assert (asked.exit_code, lost_rows(asked)) == (5, [(0, None, "MISSING")])
    by_log = result_of(world, world.disks["a"], "--depth", "metadata")
    assert (by_log.exit_code, lost_rows(by_log)) == (5, [(0, None, "MISSING")])


@pytest.mark.parametrize("asks", [True, False])
def test_verify_names_a_lost_middle_that_no_file_holds(world: World, *, asks: bool) -> None:
    lose(world, BASES[1])
    ran = result_of(world, *(commands.CLUSTER if asks else ()))
    assert ran.exit_code == 5
    assert (BASES[1], "MISSING") in [(row["base_offset"], row["verdict"]) for row in ran.rows]


def test_verify_says_nothing_of_a_partition_whose_segments_retention_deleted(world: World) -> None:
    lose(world, *BASES)
    world.cluster.there[PARTITION.topic].offsets[0] = 20, 20
    ran = result_of(world, *commands.CLUSTER)
    assert (ran.exit_code, ran.rows) == (0, [])


def test_verify_says_nothing_of_a_topic_that_its_cluster_has_deleted(world: World) -> None:
    lose(world, *BASES)
    del world.cluster.there[PARTITION.topic]
    ran = result_of(world, *commands.CLUSTER)
    assert (ran.exit_code, ran.rows) == (0, [])


def test_verify_does_not_take_a_topic_that_it_may_not_describe_for_a_deleted_one(world: World) -> None:
    lose(world, *BASES)
    world.cluster.unseen.add(PARTITION.topic)
    ran = result_of(world, *commands.CLUSTER)
    assert (ran.exit_code, lost_rows(ran)) == (6, [(0, None, "UNVERIFIED")])


def test_verify_says_nothing_of_a_claim_that_nobody_finished(world: World) -> None:
    lose(world, *BASES)
    with world.event("the claims are those of attempts that failed"):
        for segment in claimed_segments(world.store, PARTITION):
            found = read_claim_and_age(world.store, segment)
            assert found is not None
            held, _ = found
            key = keys.claim(PARTITION, segment.base_offset, segment.leader_epoch)
            failed = replace(held.claim, finished=None, snapshot=None)
            world.store.replace_if(key, failed.encode(), held.etag)
    ran = result_of(world)
    assert (ran.exit_code, ran.rows) == (0, [])


def test_verify_refuses_a_location_whose_segments_have_the_keys_of_the_other_layout(world: World) -> None:
    ran = result_of(world, "--layout", "local-tiered-storage")
    assert_said(ran, 4, "orders-0: remote segments exist in this location in the layout aiven", "--layout aiven")


@pytest.mark.parametrize("lost", [BASES[:1], BASES[:2]])
def test_verify_names_a_lost_head_that_local_files_still_hold(world: World, lost: tuple[int, ...]) -> None:
    lose(world, *lost)
    ran = result_of(world, world.disks["a"], "--depth", "metadata")
    assert (ran.exit_code, lost_rows(ran)) == (5, [(0, BASES[len(lost)], "MISSING")])


# DeleteRecords: the checkpoint of the broker is a minute behind.


@pytest.fixture
def disk(world: World) -> Path:
    """The leader's disk after local retention and DeleteRecords up to offset 5; no checkpoint names its log start."""
    lose(world, 0)
    found = Path(world.disks["a"])
    for path in (found / "orders-0").glob("0*.*"):
        if int(path.stem) < 10:
            path.unlink()
    (found / "log-start-offset-checkpoint").unlink(missing_ok=True)
    world.cluster.there[PARTITION.topic].offsets[0] = 5, 20
    return found


def named_at(disk: Path, offset: int) -> None:
    (disk / "log-start-offset-checkpoint").write_text(lb.offsets_text({("orders", 0): offset}))


@pytest.mark.parametrize("words", [(), ("--depth", "snapshots")])
@pytest.mark.parametrize("named", [None, 0])
def test_verify_asks_the_cluster_for_a_log_start_that_no_checkpoint_names_yet(
    world: World, disk: Path, named: int | None, words: tuple[str, ...]
) -> None:
    if named is not None:
        named_at(disk, named)
    ran = result_of(world, disk, *commands.CLUSTER, *words)
    assert (ran.exit_code, lost_rows(ran)) == (0, [])


@pytest.mark.parametrize("command", ["scan", "tier", "verify", "doctor"])
def test_commands_take_the_log_start_of_the_leader_for_that_of_an_older_checkpoint(
    world: World, disk: Path, command: str
) -> None:
    """They asked the segments below it for the state that the log begins with, and those are deleted."""
    ends = []
    for named in (5, 0):
        named_at(disk, named)
        ran = result_of(world, disk, *commands.CLUSTER, command=command)
        ends.append((ran.exit_code, json.loads(ran.out)["errors"]))
    assert ends[0] == ends[1]


def test_verify_does_not_take_the_checkpoint_of_a_running_broker_for_the_log_start_of_now(
    world: World, disk: Path
) -> None:
    named_at(disk, 0)
    (disk / ".lock").touch()
    with broker(disk):
        running = result_of(world, disk, "--depth", "metadata")
    assert (running.exit_code, lost_rows(running)) == (6, [(0, 5, "UNVERIFIED")])
    assert "may be out of date: give --bootstrap-server" in running.out
    stopped = result_of(world, disk, "--depth", "metadata")
    assert (stopped.exit_code, lost_rows(stopped)) == (5, [(0, 5, "MISSING")])
