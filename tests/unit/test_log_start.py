"""A log of which nothing here tells where it begins: nothing is computed, predicted or recommended from its first file.

The log is that of a stopped broker 3.7.0, tiered by LocalTieredStorage: it starts at 0 there, its files at 560, and no
checkpoint names it. The snapshots that the broker wrote are the right answer.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.model_cluster import ModelCluster
from tests.reference.recovered import DATA
from tests.reference.retention_meanwhile import delete_when_read
from tiersnap.jobs.pipeline.before_spark import discover, facts_from_cluster
from tiersnap.jobs.pipeline.listing import StatedFacts
from tiersnap.remote_storage.cluster.log_starts import located, moved_up
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.host.verify import Verification
from tiersnap.snapshot.log.log_dir import FileRef, Partition, Segment, open_log_dir
from tiersnap.snapshot.log.log_start import begins_below, log_start_of, unloaded_below, with_log_start, with_stated
from tiersnap.snapshot.log.selection import open_log_dirs
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.replay_start import Beginning, Beginnings

pytestmark = pytest.mark.unit

CASE = DATA.parent / "cases/tiered-3.7.0"
REMOTE = ("--remote", str(CASE / "remote"), "--layout", "local-tiered-storage")
NOW = ("--now", "2026-11-27T19:00:00Z")
EMPTY = bytes.fromhex("000148674bc700000000")
TELLS = (
    "log-start-offset-checkpoint does not name the partition, and leader-epoch-checkpoint begins at offset 0, below "
    "the first"
)


@pytest.fixture(name="disk")
def fixture_disk(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CASE / "disk", tmp_path / "disk"))


@pytest.fixture(name="bare")
def fixture_bare(disk: Path) -> Path:
    """The same without producer snapshots."""
    for path in disk.rglob("*.snapshot"):
        path.unlink()
    return disk


def at_560(disk: Path) -> Path:
    return disk / "led-0" / snapshot_file.file_name(560)


def entries(data: bytes) -> list[tuple[int, ...]]:
    return sorted(snapshot_file.decode(data).tolist())


# One place decides.


def partition(checkpoint: int | None = None, epochs: LeaderEpochs | None = ((0, 0),), **fields: object) -> Partition:
    """Files from 20 on."""
    log = FileRef("", 1, 1)
    segments = (Segment(20, 30, log), Segment(30, 40, log), Segment(40, None, log))
    found = Partition(
        "led-0",
        segments,
        {},
        topic="led",
        topic_id="id",
        partition=0,
        leader_epochs=epochs,
        log_start_offset=20,
        log_start_checkpoint=checkpoint,
    )
    return replace(found, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "covered", "start"),
    [
        (partition(checkpoint=0), [], 0),
        (partition(checkpoint=25), [], 25),
        (partition(checkpoint=0), [(10, 20)], 0),
        (partition(), [], None),
        (partition(), [(0, 20)], 0),
        (partition(), [(0, 25)], 0),
        (partition(), [(0, 15)], None),  # it does not reach the first file
        (partition(), [(10, 20)], None),  # nor down to the first leader epoch
        (partition(), [(0, 5), (10, 20)], None),
        (partition(), [(20, 40)], None),
        (partition(epochs=((3, 10),)), [(0, 20)], 10),  # a broker that moves the log start cuts the epochs
        (partition(epochs=((3, 20),)), [], 20),
        (partition(epochs=((3, 25),)), [], 20),
        (partition(epochs=((3, 20),)), [(10, 20)], 10),  # epochs that were made from the batches prove nothing
        (partition(epochs=()), [], None),
        (partition(epochs=None), [], None),
        (partition(epochs=((3, 20),), log_start_is_known=False), [], None),
        (partition(cleaner_offset=30), [], 20),  # compacted topics are never tiered
        (partition(topic="__remote_log_metadata"), [], 20),
        (replace(partition(), segments=()), [], 0),
    ],
)
def test_the_log_start_is_told_by_the_first_that_knows_it(
    found: Partition, covered: list[tuple[int, int]], start: int | None
) -> None:
    assert log_start_of(found, covered) == start
    assert begins_below(found, covered) is (None if start is None else start < found.first_base_offset)


def test_a_broker_deletes_no_snapshot_for_a_log_start_that_nothing_tells() -> None:
    assert [unloaded_below(each) for each in (partition(), partition(25), partition(epochs=((0, 20),)))] == [0, 25, 20]


def test_a_log_start_that_is_told_moves_segments_below_it_out_of_the_log() -> None:
    told = with_log_start(partition(), 35)
    assert [each.base_offset for each in told.segments] == [30, 40]
    assert [each.base_offset for each in told.deleted_segments] == [20]
    assert (told.log_start_offset, told.log_start_checkpoint) == (35, 35)
    assert with_log_start(partition(checkpoint=0), 35) == partition(checkpoint=0)
    assert with_log_start(partition(), None) == partition()


# Commands.


def test_repair_makes_nothing_when_the_log_start_is_unknown(bare: Path) -> None:
    ran = tiersnap("repair", bare, "--apply")
    assert_said(ran, 4, TELLS, "--log-start led-0=OFFSET", f"next: tiersnap repair {bare} --apply --remote s3://")
    assert [(row["offset"], row["action"], row["producers"]) for row in ran.rows] == [(660, "NO_START", None)]
    assert not list(bare.rglob("*.snapshot"))


def test_repair_makes_the_brokers_snapshot_when_remote_storage_tells_the_log_start(bare: Path) -> None:
    ran = tiersnap("repair", bare, *REMOTE, *NOW, "--apply")
    assert ran.exit_code == 0, ran.err
    (path,) = bare.rglob("*.snapshot")
    right = CASE / "disk/led-0" / path.name
    assert (path.name, entries(path.read_bytes())) == (snapshot_file.file_name(660), entries(right.read_bytes()))
    assert len(entries(right.read_bytes())) == 13


COMMANDS = {
    "scan": ["scan"],
    "segments": ["scan", "--segments"],
    "verify": ["verify"],
    "doctor": ["doctor"],
    "producers": ["producers"],
    "simulate": ["simulate"],
    "risk": ["simulate", "--risk"],
    "hanging": ["transactions", "find-hanging"],
    "repair": ["repair"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_command_names_the_unknown_log_start_and_the_option(
    disk: Path, words: list[str], *, has_snapshots: bool
) -> None:
    if not has_snapshots:
        for path in disk.rglob("*.snapshot"):
            path.unlink()
    ran = tiersnap(*words, disk, *NOW, output="table")
    assert ran.exit_code == 4
    said = ran.out + ran.err
    assert said.count("log start of led-0 unknown") == 1, said
    assert TELLS in said and "--log-start led-0=OFFSET" in said
    assert "no producer would be affected" not in said and "agree with the log" not in said


@pytest.mark.parametrize(
    "words", [["simulate"], ["simulate", "--risk"], ["producers"], ["transactions", "find-hanging"]]
)
def test_nothing_is_predicted_when_the_log_start_is_unknown(disk: Path, words: list[str]) -> None:
    assert tiersnap(*words, disk, *NOW).rows == []


@pytest.mark.parametrize("words", [["scan"], ["verify"], ["simulate"], ["tier"], ["doctor"], ["repair"]])
def test_commands_end_as_ever_when_remote_storage_tells_the_log_start(disk: Path, words: list[str]) -> None:
    ran = tiersnap(*words, disk, *REMOTE, *NOW)
    assert ran.exit_code == 0, ran.err + ran.out
    assert "log start" not in ran.err


def test_verify_of_a_wrong_file_where_the_files_begin_does_not_end_well(disk: Path) -> None:
    at_560(disk).write_bytes(EMPTY)
    ran = tiersnap("verify", disk, *REMOTE, *NOW)
    assert ran.row(offset=560)["verdict"] == "SUSPECT"
    assert ran.exit_code == 4, ran.err


@pytest.mark.parametrize("words", [["scan"], ["verify"], ["repair", "--apply"], ["simulate"]])
def test_records_beside_the_log_do_not_tell_where_it_begins(bare: Path, words: list[str]) -> None:
    shutil.copytree(CASE / "records", bare, dirs_exist_ok=True)
    name, *options = words
    ran = tiersnap(name, bare, *options, *NOW)
    assert_said(ran, 4, f"log start of led-0 unknown: {TELLS}")
    assert not list((bare / "led-0").glob("*.snapshot"))
    if name == "scan":
        assert ran.row(partition="led-0")["verdicts"] == {"TIERED": 1, "ACTIVE_SEGMENT": 1}


def test_scan_judges_nothing_when_the_log_start_is_unknown(disk: Path) -> None:
    ran = tiersnap("scan", disk)
    assert ran.rows[0]["verdicts"] == {"UNKNOWN_LOG_START": 1, "ACTIVE_SEGMENT": 1}
    assert ran.rows[0]["snapshots"] == {"NOT_COMPARED": 3}
    assert "tiersnap repair" not in ran.err and "tiersnap tier" not in ran.err, "nothing is recommended but to ask"


@pytest.mark.parametrize("apply", [[], ["--apply"]])
def test_tier_writes_nothing_when_remote_storage_does_not_tell_the_log_start(
    bare: Path, tmp_path: Path, apply: list[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    ran = tiersnap("tier", bare, "--remote", tmp_path / "elsewhere", *NOW, *apply)
    assert_said(ran, 4, "1 segment UNKNOWN_LOG_START", TELLS, "state the log start with --log-start led-0=OFFSET")
    assert not [path for path in (tmp_path / "elsewhere").rglob("*") if path.suffix in (".snapshot", ".log")]


@pytest.mark.parametrize("words", [["repair", "--apply"], ["verify"], ["simulate"]])
def test_commands_refuse_when_remote_storage_does_not_tell_the_log_start(
    disk: Path, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    ran = tiersnap(*words, disk, "--remote", tmp_path / "elsewhere", *NOW)
    assert_said(ran, 4, TELLS, "state the log start with --log-start led-0=OFFSET")
    assert "--remote may show it" not in ran.err, "it was asked"


def test_a_stated_log_start_counts_as_if_the_checkpoint_named_it(bare: Path) -> None:
    ran = tiersnap("repair", bare, "--log-start", "led-0=560")
    assert ran.exit_code == 0, ran.err
    assert ran.rows[0]["provenance"] == "COMPUTED_FROM_LOG_START"
    assert "--log-start led-0=560 --apply" in ran.err, "the printed command carries it"
    below = tiersnap("repair", bare, "--log-start", "led-0=0")
    assert_said(below, 4, "--log-start led-0=0 --remote s3://bucket/prefix")
    assert below.rows[0]["action"] == "NO_START"


@pytest.mark.parametrize("words", [["scan"], ["verify"], ["doctor"], ["simulate"], ["producers"]])
def test_commands_take_a_stated_log_start(disk: Path, words: list[str]) -> None:
    ran = tiersnap(*words, disk, "--log-start", "led-0=560", *NOW)
    assert ran.exit_code == 0, ran.err
    assert "log start" not in ran.err


def test_a_stated_log_start_that_contradicts_the_checkpoint_is_refused(disk: Path) -> None:
    (disk / "log-start-offset-checkpoint").write_text("0\n1\nled 0 0\n")
    ran = tiersnap("repair", disk, "--log-start", "led-0=560")
    assert_said(ran, 2, "--log-start led-0=560: contradicts log-start-offset-checkpoint, which has 0")
    assert tiersnap("verify", disk, "--log-start", "led-0=0").exit_code == 0


def test_log_start_above_the_first_segment_contradicts_the_checkpoint(tmp_path: Path) -> None:
    """Otherwise the written snapshot would lack producers of the segments below the stated offset."""
    segments = {0: [data_batch(0, 5, 7, 0, 0)], 5: [data_batch(5, 5, 8, 0, 0)], 10: []}
    write_partition(tmp_path, "led", 0, segments, high_watermark=10, indexes=True)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n0\n")
    ran = tiersnap("repair", tmp_path, "--log-start", "led-0=5", "--apply")
    assert_said(ran, 2, "--log-start led-0=5: the offset is above the log start 0")
    assert not list(tmp_path.rglob("*.snapshot"))
    (tmp_path / "log-start-offset-checkpoint").unlink()
    assert tiersnap("repair", tmp_path, "--log-start", "led-0=5").exit_code == 0, "a copy may lack the checkpoint"


@pytest.mark.parametrize("word", ["led-1=560", "led-0=", "led-0", "led=5", "led-0=-1", "led-0=x"])
def test_a_stated_log_start_of_no_partition_or_no_offset_is_refused(disk: Path, word: str) -> None:
    assert tiersnap("scan", disk, "--log-start", word).exit_code == 2


def test_the_cluster_tells_the_log_start_of_the_leader(disk: Path) -> None:
    log_dir = open_log_dir(str(disk))
    (found,) = log_dir.partitions()
    cluster = ModelCluster()
    assert [each for _, each in located(cluster, [("", found)])] == [found], "it has no such topic"
    cluster.create(TopicIdPartition("led", found.topic_id, 0), start=600, end=760)
    ((_, told),) = located(cluster, [("", found)])
    assert (log_start_of(told), told.log_start_offset) == (600, 600)
    other = replace(found, topic_id="AAAAAAAAAAAAAAAAAAAAAA")
    assert [each for _, each in located(cluster, [("", other)])] == [other], "another topic of that name"
    assert [each for _, each in located(None, [("", found)])] == [found]


@pytest.mark.parametrize(("named", "start"), [(0, 600), (600, 600), (610, 610)])
def test_the_log_start_of_the_leader_counts_if_it_is_above_the_checkpoint(disk: Path, named: int, start: int) -> None:
    """DeleteRecords moves it at once, and a broker checkpoints it up to a minute later."""
    (disk / "log-start-offset-checkpoint").write_text(f"0\n1\nled 0 {named}\n")
    (found,) = open_log_dir(str(disk)).partitions()
    cluster = ModelCluster()
    cluster.create(TopicIdPartition("led", found.topic_id, 0), start=600, end=760)
    ((_, told),) = located(cluster, [("", found)])
    assert (log_start_of(told), told.log_start_checkpoint) == (start, start)
    (of_run,) = facts_from_cluster(cluster, discover([str(disk)], None), {}, is_bounded=False).values()
    assert of_run.located(found) == told, "a run takes the same"


@pytest.mark.parametrize(("start", "unverified"), [(None, 3), (0, 3), (565, 0), (580, 0)])
def test_verify_takes_the_log_start_of_the_leader_when_the_segments_below_are_gone(
    disk: Path, start: int | None, unverified: int
) -> None:
    """Brokers delete remote segments up to a minute before they checkpoint the new log start."""
    log_dirs = with_stated(open_log_dirs([str(disk)]), {("led", 0): 0})
    (named,) = log_dirs
    (found,) = named.log_dir.partitions()
    cluster, gone = ModelCluster(), Beginnings(lambda _: Beginning(True, why="its segments are gone"))
    if start is not None:
        cluster.create(TopicIdPartition("led", found.topic_id, 0), start=start, end=760)
    job = Verification(log_dirs, None, BrokerExpiry(0, None), beginnings=gone, moved=partial(moved_up, cluster))
    assert len(list(job.snapshots([(named, found)]))) == 3
    assert job.counts[SnapshotVerdict.UNVERIFIED] == unverified
    assert (job.right, exit_code_of(job.problems())) == (job.compared - unverified, 4 if unverified else 0)


def test_verify_asks_the_cluster_again_when_retention_deletes_a_segment(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dirs, cluster = open_log_dirs([str(disk)]), ModelCluster()
    (named,) = log_dirs
    (found,) = named.log_dir.partitions()
    name = TopicIdPartition("led", found.topic_id, 0)
    cluster.create(name, start=560, end=760)
    partitions = list(located(cluster, [(named, found)]))
    delete_when_read(monkeypatch, 560, trims_epochs=False)
    cluster.create(name, start=660, end=760)
    job = Verification(log_dirs, None, BrokerExpiry(0, None), located=partial(located, cluster))
    judged = list(job.snapshots(partitions))
    assert [partition.first_base_offset for _, partition, _ in judged] == [660] * len(judged)
    assert (job.compared, job.right, exit_code_of(job.problems())) == (1, 1, 0)


def test_an_answer_about_one_replica_does_not_hide_the_failure_of_another() -> None:
    """Two log directories of one partition; remote storage tells nothing of what came before the files of the first."""
    first = partition(checkpoint=0)
    second = partition(checkpoint=0, segments=(Segment(0, 40, FileRef("", 1, 1)), *first.segments[-1:]))
    beginnings = Beginnings(lambda _: Beginning(True, why="its segments are gone"))
    assert beginnings.of(first).why and not beginnings.of(second).why
    assert len(list(beginnings.errors())) == 1
    assert not beginnings.again(second).why
    assert list(beginnings.errors()) == [], "the log start is known now"


# A fleet.


def fleet(tmp_path: Path, disk: Path, *, knows: bool) -> Runner:
    remote = str(shutil.copytree(CASE / "remote", tmp_path / "remote")) if knows else str(tmp_path / "elsewhere")
    return Runner(tmp_path, disk, remote=remote, layout=LocalTieredStorageLayout())


def test_a_run_tiers_and_writes_nothing_when_the_log_start_is_unknown(bare: Path, tmp_path: Path) -> None:
    runner = fleet(tmp_path, bare, knows=False)
    ran = runner()
    assert ran.verdicts == {"ACTIVE_SEGMENT": 1, "UNKNOWN_LOG_START": 1}
    assert TELLS in ran.readiness[0]["reason"]
    assert not [key for key in runner.objects() if key.endswith(".snapshot")]
    assert (ran.segments_uploaded, runner().did_nothing) == (0, True)


def test_a_run_replays_anew_once_remote_storage_tells_the_log_start(bare: Path, tmp_path: Path) -> None:
    runner = fleet(tmp_path, bare, knows=False)
    runner()
    runner.remote = str(shutil.copytree(CASE / "remote", tmp_path / "remote"))
    for path in Path(runner.remote).rglob("00000000000000000560-*"):
        path.unlink()
    ran = runner()
    assert (ran.verdicts, ran.segments_uploaded) == ({"ACTIVE_SEGMENT": 1, "UPLOADED": 1}, 1)
    (key,) = [key for key in runner.objects() if key.endswith(".snapshot") and key.startswith("snapshots/")]
    right = CASE / "disk/led-0" / snapshot_file.file_name(660)
    assert entries(runner.objects()[key]) == entries(right.read_bytes())
    assert runner().did_nothing


def test_a_run_judges_what_is_tiered_whether_or_not_the_log_start_is_known(disk: Path, tmp_path: Path) -> None:
    runner = fleet(tmp_path, disk, knows=True)
    assert runner().verdicts == {"ACTIVE_SEGMENT": 1, "IN_REMOTE": 1}
    assert runner().did_nothing


@pytest.mark.parametrize(
    "told",
    [
        StatedFacts(log_start=560),
        StatedFacts(topic_id="9o0dXofVQY6xcSvovNL5rg", leader_log_start=560),
        StatedFacts(560, "9o0dXofVQY6xcSvovNL5rg", 0),
    ],
    ids=["stated", "by the cluster", "stated, whatever the cluster says"],
)
def test_a_run_takes_a_log_start_that_is_told(bare: Path, tmp_path: Path, told: StatedFacts) -> None:
    runner = fleet(tmp_path, bare, knows=False)
    assert runner().segments_uploaded == 0
    ran = runner(told=told)
    assert (ran.segments_uploaded, ran.readiness[0]["snapshot_provenance"]) == (1, "COMPUTED_FROM_LOG_START")


def test_a_run_takes_no_log_start_of_another_topic(bare: Path, tmp_path: Path) -> None:
    told = StatedFacts(topic_id="AAAAAAAAAAAAAAAAAAAAAA", leader_log_start=560)
    assert "UNKNOWN_LOG_START" in fleet(tmp_path, bare, knows=False)(told=told).verdicts


def test_a_run_asks_the_cluster_for_the_log_starts_of_all_partitions(disk: Path) -> None:
    cluster = ModelCluster()
    cluster.create(TopicIdPartition("led", "9o0dXofVQY6xcSvovNL5rg", 0), start=600, end=760)
    found = discover([str(disk)], None)
    stated = {"led-0": StatedFacts(log_start=0)}
    asked = facts_from_cluster(cluster, found, stated, is_bounded=False)
    assert asked == {"led-0": StatedFacts(0, "9o0dXofVQY6xcSvovNL5rg", 600, None, 760)}
    bounded = facts_from_cluster(cluster, found, {}, is_bounded=True)
    assert bounded == {"led-0": StatedFacts(None, "9o0dXofVQY6xcSvovNL5rg", 600, 760, 760)}
    (disk / "log-start-offset-checkpoint").write_text("0\n1\nled 0 0\n")
    named = discover([str(disk)], None)
    assert facts_from_cluster(cluster, named, stated, is_bounded=False) == asked


@pytest.mark.parametrize(("stated", "says"), [({"led-0": 560}, "has 0"), ({"led-1": 0}, "no such partition")])
def test_a_run_refuses_a_log_start_that_cannot_be(disk: Path, stated: dict[str, int], says: str) -> None:
    (disk / "log-start-offset-checkpoint").write_text("0\n1\nled 0 0\n")
    with pytest.raises(UsageError, match=says):
        discover([str(disk)], None, log_starts=stated)
    assert discover([str(disk)], None, log_starts={"led-0": 0}).folders


def test_an_unreadable_checkpoint_is_none_for_a_fleet_either(tmp_path: Path) -> None:
    segments = {base: [data_batch(base, 10, 1, 0, base)] for base in (20, 30, 40)}
    write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=50, indexes=True)
    (tmp_path / "logs/log-start-offset-checkpoint").write_bytes(b"\x00\xff")
    ran = Runner(tmp_path, tmp_path / "logs")()
    assert ran.verdicts == {"ACTIVE_SEGMENT": 1, "UNKNOWN_LOG_START": 2}
    assert "log-start-offset-checkpoint cannot be read" in ran.readiness[0]["reason"]
    assert ran.segments_uploaded == 0


def test_a_plan_that_only_fails_recommends_no_apply(bare: Path, tmp_path: Path) -> None:
    """--apply would end with the same error, because the beginning of the log is nowhere."""
    (tmp_path / "remote").mkdir()
    ran = tiersnap("tier", bare, "--remote", tmp_path / "remote", *NOW, "--log-start", "led-0=0")
    assert_said(ran, 4, "the location has no complete remote segment of led-0", "before the failures are cured")
    assert "nothing was written to remote storage; next:" not in ran.err
