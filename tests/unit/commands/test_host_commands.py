"""The next step at one host is a command of that host, complete with the options that were given, and it works."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.command_lines import parse
from tests.reference.next_steps import lines_of
from tests.reference.small_log import file_of, write_small_log
from tiersnap.snapshot.gate.printed_steps import NEXT_STEP, Place
from tiersnap.snapshot.gate.step_template import Hole
from tiersnap.snapshot.gate.verdict import Verdict

pytestmark = pytest.mark.unit

TIER = "tiersnap tier /a /b --topic 'ord.*' --remote s3://b/t"
VALUES = {Hole.LOG_DIRS: ("/a", "/b"), Hole.REMOTE: ("s3://b/t",)}
PLACE = Place(
    shlex.split(TIER)[1:], VALUES, dict.fromkeys(("repair", "transactions find-hanging"), ("--topic", "ord.*"))
)


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two disks; a segment of each lacks its snapshot, one has none of its log."""
    found = [tmp_path / "disk 1", tmp_path / "disk 2"]
    for disk, topic in zip(found, ("orders", "payments"), strict=True):
        disk.mkdir()
        file_of(write_small_log(disk, topic), 10, ".snapshot").unlink()
    return found


def next_command(ran: Ran, name: str) -> list[str]:
    """The words of the one command of that name that stderr says to type, without `tiersnap`."""
    (line,) = re.findall(rf"next: (tiersnap {name} .*)$", ran.err, re.MULTILINE)
    return shlex.split(line)[1:]


@pytest.mark.parametrize("verdict", Verdict)
def test_host_commands_name_no_spark_command_and_no_placeholder_of_a_place(verdict: Verdict) -> None:
    step = PLACE.beside("/a/orders-0/0.log").clears(verdict)
    assert not re.search(r"tiersnap run|LOGDIR|REMOTE|dump FILE", step), step
    assert bool(step) == bool(NEXT_STEP[verdict])
    for command in re.findall(r"tiersnap [a-z].*?(?=,? or |, and | shows| names| says|$)", step):
        words = [word for word in shlex.split(command)[1:] if word != "FILE"]
        parse([*words, *(["ids.txt"] if words[-1] == "--topic-ids" else [])])


def test_host_commands_keep_options_and_give_no_flag_twice() -> None:
    assert PLACE.clears(Verdict.READY) == f"{TIER} --apply"
    replacing = Place(("tier", "/a", "--replace", "--remote", "/r"))
    assert "tiersnap tier /a --replace --remote /r --apply, or" in replacing.clears(Verdict.SUSPECT_SNAPSHOT)
    assert "tiersnap repair /a /b --topic 'ord.*' --apply" in PLACE.clears(Verdict.MISSING_SNAPSHOT)
    assert "tiersnap transactions find-hanging /a /b --topic 'ord.*' --all" in PLACE.clears(Verdict.ABOVE_LSO)


def test_tier_says_the_command_that_tiers_and_it_does(disks: list[Path], tmp_path: Path) -> None:
    words = ("--remote", tmp_path / "remote", "--topic", "orders|payments", "--expiration", "9d")
    planned = tiersnap("tier", *disks, *words)
    assert_said(planned, 0)
    assert "tiersnap run" not in planned.err
    typed = next_command(planned, "tier")
    assert typed[-1] == "--apply"
    assert parse(typed)["expiration"] == parse(["tier", "x", "--remote", "y", "--expiration", "9d"])["expiration"]
    assert_said(tiersnap(*typed), 0)
    assert len(list((tmp_path / "remote").rglob("*.rsm-manifest"))) == 6


def test_collect_says_the_command_that_ships_and_it_does(disks: list[Path], tmp_path: Path) -> None:
    typed = next_command(tiersnap("collect", *disks, "--to", tmp_path / "to", "--headers"), "collect")
    assert_said(tiersnap(*typed), 0)
    assert len(list((tmp_path / "to").rglob("*.batches.parquet"))) > 1


def test_tier_says_the_host_s_command_when_the_gate_refuses(disks: list[Path], tmp_path: Path) -> None:
    damaged = file_of(disks[1] / "payments-0", 10, ".snapshot")
    damaged.write_bytes(b"")
    (disks[0] / "orders-0" / "partition.metadata").unlink()
    ran = tiersnap("tier", *disks, "--remote", tmp_path / "remote", "--apply")
    assert_said(ran, 5, "1 segment CORRUPT_SNAPSHOT: tiersnap tier ", "--replace --apply", "--topic-ids FILE")
    assert "tiersnap run" not in ran.err
    assert f"tiersnap repair {shlex.join(map(str, disks))} --replace --apply" in ran.err


def test_scan_of_segments_says_the_host_s_commands(disks: list[Path]) -> None:
    ran = tiersnap("scan", *disks, "--segments", "--topic", "orders|payments", "--now", "2999-01-01T00:00:00Z")
    steps = {row["verdict"]: row["next_step"] for row in ran.rows}
    names, given = shlex.join(map(str, disks)), "--topic 'orders|payments' --now 2999-01-01T00:00:00+00:00"
    assert steps["READY"] == f"tiersnap tier {names} --remote s3://bucket/prefix {given} --apply"
    assert f"tiersnap repair {names} {given} --apply" in steps["MISSING_SNAPSHOT"]
    assert "tiersnap run" not in json.dumps(steps) + ran.err


def test_doctor_says_commands_for_all_disks(disks: list[Path]) -> None:
    for disk, topic in zip(disks, ("orders", "payments"), strict=True):
        (disk / f"{topic}-0" / "partition.metadata").unlink()
    steps = lines_of(json.loads(tiersnap("doctor", *disks).out)["result"]["next"])
    (number,) = [number for number, each in enumerate(steps) if each.startswith("TOPIC_ID_UNKNOWN")]
    assert (
        steps[number + 1] == f"tiersnap tier {shlex.join(map(str, disks))} --remote s3://bucket/prefix --topic-ids FILE"
    )
