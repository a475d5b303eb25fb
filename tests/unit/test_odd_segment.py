"""What is no regular file where a segment's log should be: it keeps its place, and nothing is made or tiered over it.

A broker follows a link there, tiersnap does not: it cannot tell whose file it would read. The answer is always the one
of the whole log, folded before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.fleet_run import Ran, Runner
from tests.reference.log_builder import data_batch, write_partition
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.unit

SEGMENTS = {
    0: [data_batch(0, 10, 1, 0, 0)],
    10: [data_batch(10, 10, 2, 0, 0)],
    20: [data_batch(20, 5, 2, 0, 10), data_batch(25, 5, 3, 0, 0)],
    30: [data_batch(30, 10, 1, 0, 10)],
    40: [data_batch(40, 5, 1, 0, 20)],
}
BASES = tuple(SEGMENTS)
NOW = ("--now", "2023-11-15T00:00:00Z")
Odd = Callable[[Path], object]
Put = Callable[..., Path]


def link_to_the_file(path: Path) -> None:
    elsewhere = path.parent.parent.parent / f"another disk {path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_to_a_folder(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent)


ODD = (link_to_the_file, link_to_nowhere, fifo, folder, link_to_a_folder)


def write(logs: Path, snapshots: dict[int, bytes]) -> Path:
    write_partition(logs, "orders", 0, SEGMENTS, snapshots=snapshots, high_watermark=45, indexes=True)
    return logs


def log_of(logs: Path, base: int) -> Path:
    return logs / "orders-0" / f"{base:020d}.log"


def snapshots_in(place: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in place.rglob("*.snapshot")}


def tiered_in(remote: Path) -> dict[int, int]:
    """Last offset of each segment that was tiered, by base offset."""
    found = (json.loads(path.read_bytes()) for path in remote.rglob("*.rsm-manifest"))
    told = (each["remoteLogSegmentMetadata"] for each in found)
    return {each["startOffset"]: each["endOffset"] for each in told}


@pytest.fixture(name="whole")
def fixture_whole(tmp_path: Path) -> dict[int, bytes]:
    """The snapshots of the log, by offset."""
    ran = tiersnap("repair", write(tmp_path / "whole" / "logs", {}), "--all", "--out", tmp_path / "whole" / "out")
    assert ran.exit_code == 0, ran.err
    found = snapshots_in(tmp_path / "whole" / "out")
    assert snapshot_file.decode(found[30])["last_offset"].tolist() == [9, 24, 29]
    return found


@pytest.fixture(name="put")
def fixture_put(tmp_path: Path) -> Put:
    """The log with something odd in place of the segment at `base`, and with these snapshots."""

    def put(odd: Odd, base: int, snapshots: dict[int, bytes] | None = None) -> Path:
        logs = write(tmp_path / "here" / "logs", snapshots or {})
        odd(log_of(logs, base))
        return logs

    return put


def expected_verdicts(odd: int, ready: str) -> dict[int, str]:
    verdicts = {base: ready if base < odd else "GAP_BEFORE" for base in BASES[:-1]}
    return {**verdicts, odd: "CORRUPT_SEGMENT", BASES[-1]: "ACTIVE_SEGMENT"}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("base", BASES)
def test_what_is_in_front_of_it_is_right_and_what_is_behind_waits(
    put: Put, whole: dict[int, bytes], base: int, odd: Odd
) -> None:
    logs = put(odd, base, {offset: whole[offset] for offset in BASES[1:]})
    ran = tiersnap("scan", logs, "--segments", *NOW)
    assert_said(ran, 5, f"UNREADABLE_FILE: {log_of(logs, base)}: not a regular file")
    assert sum(line.startswith("UNREADABLE_FILE: ") for line in ran.err.splitlines()) == 1
    assert {row["base_offset"]: row["verdict"] for row in ran.rows} == expected_verdicts(base, "READY")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("base", BASES)
def test_repair_makes_what_lies_in_front_of_it_and_nothing_behind(
    put: Put, whole: dict[int, bytes], base: int, odd: Odd
) -> None:
    logs = put(odd, base)
    ran = tiersnap("repair", logs, "--above-newest", "--replace", "--apply", *NOW)
    assert_said(ran, 5, "UNREADABLE_FILE")
    assert snapshots_in(logs) == {offset: whole[offset] for offset in BASES[1:] if offset <= base}


@pytest.mark.parametrize("odd", ODD)
def test_right_files_behind_it_are_kept(put: Put, whole: dict[int, bytes], odd: Odd) -> None:
    behind = {offset: whole[offset] for offset in (30, 40)}
    logs = put(odd, 20, behind)
    assert_said(tiersnap("repair", logs, "--replace", "--apply", *NOW), 5)
    assert snapshots_in(logs) == {**behind, 10: whole[10], 20: whole[20]}
    ran = tiersnap("verify", logs, *NOW)
    assert {row["offset"]: row["verdict"] for row in ran.rows} == {
        10: "MATCHES",
        20: "MATCHES",
        30: "UNVERIFIED",
        40: "UNVERIFIED",
    }


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("base", BASES)
def test_no_hole_is_tiered(put: Put, tmp_path: Path, base: int, odd: Odd) -> None:
    ran = tiersnap("tier", put(odd, base), "--remote", tmp_path / "remote", "--apply", *NOW)
    assert_said(ran, 5, "UNREADABLE_FILE")
    assert tiered_in(tmp_path / "remote") == {each: each + 9 for each in BASES if each < base}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("base", BASES)
def test_the_main_job_waits_for_the_file_and_goes_on_once_it_is_there(
    put: Put, whole: dict[int, bytes], tmp_path: Path, base: int, odd: Odd
) -> None:
    logs = put(odd, base)
    runner = Runner(tmp_path, logs)

    def verdicts(ran: Ran) -> dict[int, str]:
        return {row["base_offset"]: row["verdict"] for row in ran.readiness}

    first, second = runner(as_of=None), runner(as_of=None)
    for ran in (first, second):
        assert ran.errors == []
        assert verdicts(ran) == expected_verdicts(base, "UPLOADED")
    assert second.did_nothing
    assert tiered_in(tmp_path / "remote") == {each: each + 9 for each in BASES if each < base}

    there = log_of(logs, base)
    there.rmdir() if odd is folder else there.unlink()
    there.write_bytes(b"".join(SEGMENTS[base]))
    third = runner(as_of=None)
    assert verdicts(third) == dict.fromkeys(BASES[:-1], "UPLOADED") | {40: "ACTIVE_SEGMENT"}
    assert tiered_in(tmp_path / "remote") == {each: each + 9 for each in BASES[:-1]}
    stored = [data for key, data in runner.objects().items() if key.endswith(".snapshot")]
    assert set(stored) == {whole[offset] for offset in BASES[1:]}


@pytest.mark.parametrize("odd", ODD)
def test_a_segment_that_became_odd_since_the_last_run_is_seen(put: Put, tmp_path: Path, odd: Odd) -> None:
    logs = write(tmp_path / "here" / "logs", {})
    runner = Runner(tmp_path, logs)
    runner(as_of=None, apply=False)
    odd(log_of(logs, 20))
    ran = runner(as_of=None)
    assert {row["base_offset"]: row["verdict"] for row in ran.readiness} == expected_verdicts(20, "UPLOADED")
    assert ran.errors == []


@pytest.mark.parametrize("odd", ODD)
def test_collect_ships_no_log_with_a_hole(put: Put, tmp_path: Path, odd: Odd) -> None:
    logs = put(odd, 20)
    write_partition(logs, "payments", 0, SEGMENTS, high_watermark=45, indexes=True)
    ran = tiersnap("collect", logs, "--to", tmp_path / "shared", "--apply")
    assert_said(ran, 5)
    (error,) = json.loads(ran.out)["errors"]
    assert error["message"].startswith(f"{log_of(logs, 20)}: not a regular file")
    assert [path.parent.name for path in (tmp_path / "shared").rglob("listing.parquet")] == ["payments-0"]


def test_collect_is_not_stopped_by_what_is_odd_below_the_log_start(put: Put, tmp_path: Path) -> None:
    logs = put(fifo, 0)
    (logs / "log-start-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    assert_said(tiersnap("collect", logs, "--to", tmp_path / "shared", "--apply"), 5, "UNREADABLE_FILE")
    assert [path.parent.name for path in (tmp_path / "shared").rglob("listing.parquet")] == ["orders-0"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("command", ["doctor", "simulate", "producers", "install", "transactions"])
def test_no_other_command_dies_of_it(
    put: Put, whole: dict[int, bytes], tmp_path: Path, command: str, base: int, odd: Odd
) -> None:
    logs = put(odd, base, {40: whole[40]})
    (tmp_path / "remote").mkdir()
    words: dict[str, tuple[str | Path, ...]] = {
        "install": ("install", logs, "--remote", tmp_path / "remote"),
        "transactions": ("transactions", "list", logs),
    }
    ran = tiersnap(*words.get(command, (command, logs)))
    assert_said(ran, ran.exit_code)
    assert ran.exit_code != 1


def test_a_log_that_is_a_link_to_itself_keeps_its_place_without_any_index(tmp_path: Path) -> None:
    segments = {base: [data_batch(base, 10, base, 0, 0)] for base in (0, 10, 20)}
    folder = write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=30)
    path = folder / f"{10:020d}.log"
    path.unlink()
    path.symlink_to(path.name)
    ran = tiersnap("scan", tmp_path / "logs", "--segments")
    assert_said(ran, 5, "UNREADABLE_FILE")
    assert [row["base_offset"] for row in ran.rows] == [0, 10, 20]


def test_an_active_segment_that_is_a_link_to_itself_shows_in_the_exit_code_of_tier(tmp_path: Path) -> None:
    segments = {base: [data_batch(base, 10, base, 0, 0)] for base in (0, 10)}
    path = write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=20, indexes=True) / f"{10:020d}.log"
    path.unlink()
    path.symlink_to(path.name)
    for words in ((), ("--apply",)):
        assert_said(tiersnap("tier", tmp_path / "logs", "--remote", tmp_path / "remote", *words), 5, "UNREADABLE_FILE")
    assert tiered_in(tmp_path / "remote") == {0: 9}
