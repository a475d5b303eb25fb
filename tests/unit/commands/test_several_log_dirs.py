"""All disks of a broker in one call of scan, verify and repair: words, commas, globs, single partitions, progress."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import threading
from pathlib import Path

import click
import pytest

from tests.reference.broker_lock import broker
from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import file_of, tree, write_small_log
from tiersnap.jobs.cli.option_types import expand
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.commands.run import run_options
from tiersnap.jobs.pipeline.before_spark import discover
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.log.disk import on_disk, says_space
from tiersnap.snapshot.log.places import each_once
from tiersnap.snapshot.log.selection import Selection, findings_of, open_log_dirs, refuse_twice, selected_of

pytestmark = pytest.mark.unit


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two disks, each with a partition that lacks a snapshot."""
    found = []
    for number, topic in enumerate(("orders", "payments"), 1):
        disk = tmp_path / f"disk-{number}"
        disk.mkdir()
        (disk / "meta.properties").write_text("version=1\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nnode.id=1\n")
        file_of(write_small_log(disk, topic), 10, ".snapshot").unlink()
        found.append(disk)
    return found


def ways(disks: list[Path]) -> dict[str, list[str]]:
    first, second = map(str, disks)
    return {
        "words": [first, second],
        "commas": [f"{first},{second}"],
        "a glob": [str(disks[0].parent / "disk-*")],
        "commas and globs, one twice": [f"{disks[0].parent}/disk-[1],{second}", first],
    }


def spellings(disk: Path) -> list[str]:
    """One log directory, named in all ways that people name it."""
    far = f"{disk.parent}/./{disk.name}/../{disk.name}"
    uris = [disk.as_uri(), f"{disk.as_uri()}/", f"file:{disk}", f"file://{far}"]
    return [str(disk), f"{disk}/", f"/{disk}", far, *uris]


@pytest.mark.parametrize("command", ["scan", "repair", "producers"])
def test_a_directory_that_is_named_twice_is_looked_at_once(tmp_path: Path, command: str) -> None:
    disk = tmp_path / "a disk"
    disk.mkdir()
    file_of(write_small_log(disk, "orders"), 10, ".snapshot").unlink()
    once = tiersnap(command, disk)
    assert once.rows
    assert tiersnap(command, *spellings(disk)).rows == once.rows


def test_every_keeper_of_sources_knows_a_folder_by_one_name(tmp_path: Path) -> None:
    disk = tmp_path / "a disk"
    disk.mkdir()
    write_small_log(disk, "orders")
    for spelt in spellings(disk):
        assert {uri for uri, _ in discover([spelt], None).folders} == {str(disk)}
        assert RunSettings((spelt,), "/remote", "/tables", leaders=(disk.as_uri(),)).sources == (str(disk),)
        to = tmp_path / "to"
        assert tiersnap("collect", spelt, "--to", to, "--apply").exit_code == 0
        (shipped,) = to.rglob("collected.json")
        assert json.loads(shipped.read_text())["logDir"] == str(disk)


def test_a_run_takes_a_source_once_and_its_leader_however_it_is_spelt(tmp_path: Path) -> None:
    disk = tmp_path / "a disk"
    found: list[RunSettings] = []
    command = click.command()(run_options(lambda settings, **_: found.append(settings)))
    places = ("--remote", str(tmp_path / "remote"), "--warehouse", str(tmp_path / "tables"))
    for first in spellings(disk):
        named = [
            word for each in (first, *spellings(disk), "s3://b/logs", "s3://b/logs/") for word in ("--source", each)
        ]
        command([*named, *places, "--leader", disk.as_uri()], standalone_mode=False)
        (settings,) = (found.pop(),)
        assert settings.sources == (str(disk), "s3://b/logs"), "tables know a folder by one name, run after run"
        assert settings.leaders == settings.sources[:1]
    apart = (tmp_path / "a", tmp_path / "b", "file://host/a", "s3://b/a")
    assert each_once(map(str, apart)) == tuple(map(str, apart))


@pytest.mark.parametrize("way", ["words", "commas", "a glob", "commas and globs, one twice"])
@pytest.mark.parametrize("command", ["scan", "repair"])
def test_disks_may_be_given_in_any_way(disks: list[Path], command: str, way: str) -> None:
    ran = tiersnap(command, *ways(disks)[way])
    assert_said(ran, 4 if command == "scan" else 0)
    assert [(row["log_dir"], row["partition"]) for row in ran.rows] == [
        (str(disks[0]), "orders-0"),
        (str(disks[1]), "payments-0"),
    ]


def test_the_environment_gives_them_as_log_dirs_does(disks: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSNAP_SOURCE", f"{disks[0]},{disks[1]}")
    assert len(tiersnap("scan").rows) == 2


def test_a_directory_with_a_comma_or_a_star_in_its_name_is_taken_as_it_is(tmp_path: Path) -> None:
    for name in ("a,b", "a*b"):
        (tmp_path / name).mkdir()
        assert expand([str(tmp_path / name)]) == (str(tmp_path / name),)
    assert expand(["s3://bucket/a,b*"]) == ("s3://bucket/a,b*",)


def test_a_glob_that_matches_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceNotFoundError, match="no directory matches"):
        expand([str(tmp_path / "f*")])


def test_one_partition_is_named_as_its_folder_and_a_name_that_is_not_there_is_said(disks: list[Path]) -> None:
    ran = tiersnap("scan", *disks, "--partition", "payments-0")
    assert [row["partition"] for row in ran.rows] == ["payments-0"]
    assert_said(ran, 4, f"tiersnap repair {disks[0]} {disks[1]} --partition payments-0")
    assert_said(tiersnap("scan", *disks, "--partition", "payments-1"), 2, "no partition payments-1")
    two = ("--partition", "orders-0", "--partition", "order-0")
    assert_said(tiersnap("scan", *disks, *two), 2, "no partition order-0")
    assert_said(tiersnap("scan", *disks, "--partition", "orders"), 2, "not <topic>-<partition>")
    assert [row["partition"] for row in tiersnap("verify", *disks, "--partition", "orders-0").rows] == ["orders-0"] * 2


def test_repair_writes_to_every_disk_and_says_what_each_needs(disks: list[Path]) -> None:
    planned = tiersnap("repair", *disks)
    for disk in disks:
        assert f"{disk}: the snapshots need 4.0 KiB" in planned.err
    assert f"tiersnap repair {disks[0]} {disks[1]} --apply" in planned.err
    assert_said(tiersnap("repair", *disks, "--apply"), 0, "2 snapshots are written")
    assert_said(tiersnap("scan", *disks), 0)
    assert {row["verdict"] for row in tiersnap("verify", *disks).rows} == {"MATCHES"}


def test_nothing_is_written_where_a_broker_holds_one_of_the_disks(disks: list[Path]) -> None:
    before = [tree(disk) for disk in disks]
    with broker(disks[1]):
        assert_said(tiersnap("repair", *disks, "--apply"), 2, f"{disks[1]}: a broker is running")
    assert [tree(disk) for disk in disks] == before


def test_two_copies_of_a_partition_have_no_place_in_one_out_directory(disks: list[Path], tmp_path: Path) -> None:
    shutil.copytree(disks[0], tmp_path / "copy")
    ran = tiersnap("repair", disks[0], tmp_path / "copy", "--out", tmp_path / "out")
    assert_said(ran, 2, "orders-0 exists in two of the log directories")
    assert not (tmp_path / "out").exists()


def test_the_space_of_files_is_in_whole_blocks_and_too_little_is_said(tmp_path: Path) -> None:
    assert [on_disk(size) for size in (0, 1, 4096, 4097)] == [0, 4096, 4096, 8192]
    assert says_space(4096, tmp_path).endswith("are free")
    assert "more; existing files stay intact" in says_space(1 << 60, tmp_path)


def test_a_snapshot_gets_owner_mode_and_security_context_of_the_log_beside_it(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    folder = write_small_log(tmp_path)
    log, snapshot = file_of(folder, 0, ".log"), file_of(folder, 10, ".snapshot")
    snapshot.unlink()
    os.chown(log, 1234, 4321)
    log.chmod(0o640)
    context = b"system_u:object_r:kafka_data_t:s0\0"
    try:
        os.setxattr(log, "security.selinux", context)
    except OSError:
        context = b""  # this file system or this kernel keeps none
    assert_said(tiersnap("repair", tmp_path, "--apply"), 0)
    found = snapshot.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 4321, 0o640)
    if context:
        assert os.getxattr(snapshot, "security.selinux") == context


ALL_DISKS = {"tier": ("--remote",), "collect": ("--to",), "simulate": (), "producers": ()}


@pytest.mark.parametrize("way", ["words", "commas", "a glob"])
@pytest.mark.parametrize("command", ["tier", "collect"])
def test_command_takes_all_disks_of_a_broker(disks: list[Path], tmp_path: Path, command: str, way: str) -> None:
    ran = tiersnap(command, *ways(disks)[way], *ALL_DISKS[command], tmp_path / "to")
    assert [(row["log_dir"], row["partition"]) for row in ran.rows] == [
        (str(disks[0]), "orders-0"),
        (str(disks[1]), "payments-0"),
    ]


def test_simulate_takes_all_disks_of_a_broker(disks: list[Path]) -> None:
    rows = tiersnap("simulate", *disks, "--all").rows
    assert {(row["log_dir"], row["partition"]) for row in rows} == {
        (str(disks[0]), "orders-0"),
        (str(disks[1]), "payments-0"),
    }


def test_tier_writes_the_segments_of_all_disks(disks: list[Path], tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    assert_said(tiersnap("tier", *disks, "--remote", remote, "--report", tmp_path / "page", "--apply"), 0)
    assert {path.parts[-3].partition("-")[0] for path in remote.rglob("*.rsm-manifest")} == {"orders", "payments"}
    page = (tmp_path / "page" / "index.html").read_text()
    assert all(str(disk) in page for disk in disks)


def test_a_partition_on_two_disks_is_refused_before_anything_is_written(disks: list[Path], tmp_path: Path) -> None:
    copy = shutil.copytree(disks[0], tmp_path / "copy")
    for command in ("tier", "collect"):
        ran = tiersnap(command, disks[0], copy, *ALL_DISKS[command], tmp_path / "to", "--apply")
        assert_said(ran, 5, "orders-0 exists in two of the log directories", "no broker starts with both folders")
    assert not (tmp_path / "to").exists()


def test_a_partition_that_its_broker_moves_to_another_disk_is_not_there_twice(disks: list[Path]) -> None:
    """It is renamed on the other disk first, and then here to one that is to be deleted."""
    shutil.copytree(disks[0] / "orders-0", disks[1] / "orders-0")
    opened = open_log_dirs(list(map(str, disks)))
    assert [finding.path for finding in findings_of(opened)][-1:] == [str(disks[1] / "orders-0")]
    (disks[0] / "orders-0").rename(disks[0] / f"orders-0.{'0' * 32}-delete")
    assert not any("is a folder of the same partition" in str(finding) for finding in findings_of(opened))
    refuse_twice(opened)


def test_a_partition_on_disks_of_two_brokers_is_no_damage(disks: list[Path], tmp_path: Path) -> None:
    copy = shutil.copytree(disks[0], tmp_path / "copy")
    for number, disk in enumerate((disks[0], copy)):
        (disk / "meta.properties").write_text(f"version=1\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nnode.id={number}\n")
    assert_said(tiersnap("verify", disks[0], copy), 0)
    refused = tiersnap("tier", disks[0], copy, "--remote", tmp_path / "to", "--apply")
    assert_said(refused, 2, "these belong to two brokers")


def test_collect_gives_each_disk_a_folder_that_run_takes(disks: list[Path], tmp_path: Path) -> None:
    to = tmp_path / "to"
    ran = tiersnap("collect", *disks, "--to", to, "--apply")
    folders = sorted(path.parent for path in to.rglob("collected.json"))
    assert [path.parent for path in folders] == [to, to]
    for folder in folders:
        assert f"--source {folder}" in ran.err
    assert {folder for each in folders for _, folder in discover([str(each)], None).folders} == {
        "orders-0",
        "payments-0",
    }


def test_collect_of_two_disks_to_one_folder_is_refused_before_any(disks: list[Path], tmp_path: Path) -> None:
    same = [tmp_path / "data-1", tmp_path / "data" / "1"]
    same[1].parent.mkdir()
    for disk, name in zip(disks, same, strict=True):
        disk.rename(name)
    for words in ((), ("--apply",)):
        ran = tiersnap("collect", *same, "--to", str(tmp_path / "to"), *words)
        assert_said(ran, 2, f"{same[0]} and {same[1]} would both be collected into the folder")
    assert not (tmp_path / "to").exists()


def test_collect_of_several_disks_is_refused_when_the_folder_is_one_disk_s(disks: list[Path], tmp_path: Path) -> None:
    to = tmp_path / "to"
    assert_said(tiersnap("collect", disks[0], "--to", to, "--apply"), 0)
    assert_said(tiersnap("collect", *disks, "--to", to, "--apply"), 2, "already has the collected files of", "--to")


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_progress_names_what_is_done_and_leaves_nothing_on_a_terminal(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch, stream: io.StringIO
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    opened = open_log_dirs([str(disk) for disk in disks])
    progress = Progress(Output(), "scanning", 2, first_after=0.0, line_every=0.01)
    seen = []
    for _, partition in progress.watch(selected_of(opened, Selection())):
        seen.append(partition.name)
        while f"now {partition.name}" not in stream.getvalue():
            threading.Event().wait(0.01)
    said = stream.getvalue()
    assert seen == ["orders-0", "payments-0"]
    assert "scanning: 1 of 2 partitions" in said
    assert said.endswith("\r\x1b[K") == stream.isatty()
    assert ("\x1b" in said) == stream.isatty()


WATCHED = {
    "scan": "scanning",
    "verify": "verifying",
    "repair": "planning",
    "simulate": "simulating",
    "tier": "tiering",
    "collect": "collecting",
}


@pytest.mark.parametrize("command", WATCHED)
def test_what_takes_long_says_how_far_it_is(
    disks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(Progress.__init__.__kwdefaults__, "line_every", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())  # no terminal
    place = {"tier": ["--remote", str(tmp_path / "remote")], "collect": ["--to", str(tmp_path / "to")]}
    ran = tiersnap(command, disks[0], *place.get(command, []))
    assert re.search(rf"^{WATCHED[command]}: [01] of 1 partition", ran.err, re.MULTILINE)


def test_commands_that_ask_a_whole_place_say_how_far_they_are(
    disks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Progress.__init__.__kwdefaults__, "line_every", 0.0)
    remote = tmp_path / "remote"
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", io.StringIO())
        assert tiersnap("tier", disks[0], "--remote", remote, "--apply").exit_code == 0
    for words, said in (
        (("transactions", "list", disks[0]), "reading: "),
        (("transactions", "find-hanging", disks[0]), "reading: "),
        (("producers", disks[0]), "replaying: "),
        (("install", "--remote", remote, "--to", disks[0]), "planning: 0 of 1 partition in "),
    ):
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        ran = tiersnap(*words)
        assert re.search(f"^{said}", ran.err, re.MULTILINE), words


def test_what_is_said_meanwhile_takes_the_line_that_renews_itself_off(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    output = Output()
    with Progress(output, "unblocking", first_after=0.0):
        while "unblocking" not in stream.getvalue():
            threading.Event().wait(0.01)
        output.talk("copying is off")
    output.talk("done")
    assert "\r\x1b[Kcopying is off\n" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[Kdone\n")


@pytest.mark.parametrize("output", [Output(quiet=True), Output(format=Format.JSONL)])
def test_nothing_is_said_when_quiet_or_of_what_is_done_at_once(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch, output: Output
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    opened = open_log_dirs([str(disk) for disk in disks])
    first_after = 0.0 if output.quiet else 60.0
    for _ in Progress(output, "scanning", 2, first_after=first_after).watch(selected_of(opened, Selection())):
        threading.Event().wait(0.05)
    assert stream.getvalue() == ""
