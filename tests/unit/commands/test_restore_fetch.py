"""`tiersnap restore fetch`: what comes out was verified, and went nowhere unasked."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.kill_steps import every_kill, killed_at
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.restore import remote_file
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
TV2 = ROOT / "tests/data/kafka-4.1.1/logs/tv2-0"
SUFFIX = {"offset": "index", "timestamp": "timeindex", "transaction": "txnindex"}
LAYOUTS = {"aiven": AivenLayout(), "local-tiered-storage": LocalTieredStorageLayout()}


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    store = DirectoryStore(tmp_path / "remote")
    tier(TV2, store)
    return store


FETCH = ("restore", "fetch")


def fetch(store: DirectoryStore, offset: int, *words: str | Path, topic: str = "tv2"):
    return tiersnap(
        "restore",
        "fetch",
        "--remote",
        store.root,
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        str(offset),
        *words,
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_segment_and_each_index_come_out_as_they_went_in(tmp_path, layout):
    store = DirectoryStore(tmp_path / "remote")
    tier(TV2, store, layout=LAYOUTS[layout])
    out = tmp_path / "out"
    planned = fetch(store, 700, "--out", out)
    assert (planned.exit_code, out.exists()) == (0, False)
    done = fetch(store, 700, "--out", out, "--apply")
    assert done.exit_code == 0, done.err
    assert done.rows[0]["base_offset"] == 695
    assert out.read_bytes() == (TV2 / f"{695:020d}.log").read_bytes()
    for index, suffix in SUFFIX.items():
        assert fetch(store, 1378, "--index", index, "--out", tmp_path / index, "--apply").exit_code == 0
        assert (tmp_path / index).read_bytes() == (TV2 / f"{695:020d}.{suffix}").read_bytes()
    fetch(store, 0, "--index", "leader-epoch", "--out", tmp_path / "epochs", "--apply")
    assert (tmp_path / "epochs").read_bytes() == (TV2 / "leader-epoch-checkpoint").read_bytes()
    fetch(store, 0, "--index", "producer-snapshot", "--out", tmp_path / "state", "--apply")
    expected = TV2.parents[1] / "expected/tv2-0" / f"{695:020d}.snapshot"
    assert len((tmp_path / "state").read_bytes()) == expected.stat().st_size


SAID = {
    (): "verified: the CRC-32C of every batch",
    ("--index", "leader-epoch"): "verified: the leader epochs that the segment's metadata tells",
    ("--index", "producer-snapshot"): "well-formed; not compared with the log",
    ("--index", "offset"): "well-formed; not compared with the segment",
}


@pytest.mark.parametrize(("words", "said"), SAID.items())
def test_fetch_says_verified_only_of_what_it_compared(store, tmp_path, words, said):
    for start in ("", "the same content was there already; "):
        ran = fetch(store, 3, *words, "--out", tmp_path / "out", "--apply")
        assert_said(ran, 0, start + said)
        assert ("verified" in ran.err) is said.startswith("verified")


def test_stdout_has_the_bytes_and_nothing_else(store):
    words = (
        "restore",
        "fetch",
        "--remote",
        store.root,
        "--topic",
        "tv2",
        "--partition",
        "0",
        "--offset",
        "3",
        "--out",
        "-",
    )
    ran = subprocess.run([sys.executable, "-m", "tests.reference.tiersnap", *words], cwd=ROOT, capture_output=True)
    assert (ran.returncode, ran.stdout) == (0, (TV2 / f"{0:020d}.log").read_bytes())
    ran = subprocess.run(
        [sys.executable, "-m", "tests.reference.tiersnap", *words, "--index", "offset"], cwd=ROOT, capture_output=True
    )
    assert ran.stdout == (TV2 / f"{0:020d}.index").read_bytes()


def test_a_full_disk_behind_stdout_and_a_pipe_in_place_of_a_file_are_said(store, tmp_path):
    words = (
        "restore",
        "fetch",
        "--remote",
        store.root,
        "--topic",
        "tv2",
        "--partition",
        "0",
        "--offset",
        "3",
        "--out",
        "-",
    )
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.reference.tiersnap", *words], cwd=ROOT, stdout=full, stderr=subprocess.PIPE
        )
    assert ran.returncode == 3
    assert b"cannot write stdout: No space left on device" in ran.stderr
    assert b"Traceback" not in ran.stderr
    os.mkfifo(tmp_path / "pipe")
    assert_said(fetch(store, 3, "--out", tmp_path / "pipe", "--apply"), 2, "no regular file")


def test_a_full_disk_of_temporary_files_is_said_and_puts_nothing_on_stdout(store, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(remote_file, "fetch_log", full)
    words = (*FETCH, "--remote", store.root, "--topic", "tv2", "--partition", "0", "--offset", "3", "--out", "-")
    ran = tiersnap(*words, output="table")
    assert_said(ran, 3, f"cannot write {tempfile.gettempdir()}/tiersnap-", "No space left on device")
    assert ran.out == ""
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert_said(tiersnap(*words, output="table"), 3, "cannot write temporary files: No space left on device")


def test_a_file_that_is_there_is_kept_unless_told(store, tmp_path):
    for words in ((), ("--index", "offset")):
        out = tmp_path / "out"
        out.write_bytes(b"mine")
        refused = fetch(store, 3, "--out", out, "--apply", *words)
        assert (refused.exit_code, out.read_bytes()) == (4, b"mine")
        assert fetch(store, 3, "--out", out, "--apply", "--replace", *words).exit_code == 0
        again = fetch(store, 3, "--out", out, "--apply", *words)
        assert again.exit_code == 0
        assert "already" in again.err
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out"]


def test_a_fetch_killed_anywhere_leaves_no_more_than_one_part_and_the_next_one_removes_it(store, tmp_path):
    place = tmp_path / "place"
    words = (*FETCH, "--remote", store.root, "--topic", "tv2", "--partition", "0", "--offset", "3")

    def new_place() -> tuple[str | Path, ...]:
        if place.exists():
            (place / "out").unlink(missing_ok=True)
        place.mkdir(exist_ok=True)
        (place / ".another.part").write_bytes(b"mine")
        return *words, "--out", place / "out", "--apply"

    parts = 0
    for _ in every_kill(new_place):
        left = {path.name for path in place.iterdir()} - {"out", ".another.part"}
        assert len(left) <= 1, "what the kills before left is gone"
        parts += len(left)
    assert parts > 0
    assert sorted(path.name for path in place.iterdir()) == [".another.part", "out"]


def test_of_two_targets_in_one_directory_each_keeps_its_own_part(store, tmp_path):
    (tmp_path / "one").touch()
    killed = (
        "restore",
        "fetch",
        "--remote",
        store.root,
        "--topic",
        "tv2",
        "--partition",
        "0",
        "--offset",
        "3",
        "--apply",
    )
    assert killed_at(1, *killed, "--out", tmp_path / "other")
    (part,) = tmp_path.glob(".*.part")
    assert fetch(store, 3, "--out", tmp_path / "one", "--replace", "--apply").exit_code == 0
    assert part.exists()
    assert fetch(store, 3, "--out", tmp_path / "other", "--apply").exit_code == 0
    assert not part.exists()


@pytest.mark.parametrize("index", [(), ("--index", "offset")], ids=["log", "index"])
def test_a_name_as_long_as_names_may_be_is_written_and_a_longer_one_is_said(store, tmp_path, index):
    longest = tmp_path / ("a" * 250)
    done = fetch(store, 3, "--out", longest, "--apply", *index)
    assert done.exit_code == 0, done.err
    assert longest.stat().st_size > 0
    too_long = fetch(store, 3, "--out", tmp_path / ("a" * 300), "--apply", *index)
    assert_said(too_long, 2, "cannot write", "File name too long")
    assert sorted(path.name for path in tmp_path.iterdir()) == [longest.name, "remote"]


def test_damage_is_found_before_anything_comes_out(store, tmp_path):
    (log,) = store.root.rglob(f"{695:020d}-*.log")
    log.write_bytes(log.read_bytes()[:-1] + b"\x77")
    failed = fetch(store, 700, "--out", tmp_path / "out", "--apply")
    assert failed.exit_code == 5
    assert "BAD_CRC" in failed.err
    (indexes,) = store.root.rglob(f"{695:020d}-*.indexes")
    data = bytearray(indexes.read_bytes())
    data[4] ^= 0x80  # the position of the first entry of the offset index
    data[-1] ^= 1
    indexes.write_bytes(data)
    assert fetch(store, 700, "--index", "offset", "--out", tmp_path / "out", "--apply").exit_code == 5
    indexes.write_bytes(bytes(len(data)))
    for index in ("producer-snapshot", "leader-epoch", "transaction"):
        assert fetch(store, 700, "--index", index, "--out", tmp_path / "out", "--apply").exit_code == 5, index
    assert [path.name for path in tmp_path.iterdir()] == ["remote"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fetch_ends_with_5_when_the_segment_lost_an_object(tmp_path, layout):
    store = DirectoryStore(tmp_path / "remote")
    tier(TV2, store, layout=LAYOUTS[layout])
    assert fetch(store, 1379).exit_code == 2
    (log,) = store.root.rglob(f"{695:020d}-*.log")
    log.unlink()
    assert_said(fetch(store, 700), 5, "holds offset 700", "no .log")
    assert_said(fetch(store, 700, "--segment-id", "A" * 22), 2, "holds offset 700")
    assert_said(fetch(store, 3), 0)


def test_fetch_ends_with_5_when_the_manifest_is_damaged(store):
    (manifest,) = store.root.rglob(f"{695:020d}-*.rsm-manifest")
    manifest.write_text("{")
    assert_said(fetch(store, 700), 5, "holds offset 700", manifest.name)
    assert_said(fetch(store, 1379), 5, "holds offset 1379")


def test_of_several_copies_the_latest_is_taken_or_the_one_that_is_named(store, tmp_path):
    (later,) = tier(TV2, store, bases={695}, event_timestamp=1_800_000_000_000)
    planned = fetch(store, 700)
    assert {row["segment_id"]: row["taken"] for row in planned.rows}[later.id.segment_id] == "yes"
    (other,) = (row["segment_id"] for row in planned.rows if not row["taken"])
    done = fetch(store, 700, "--segment-id", other, "--out", tmp_path / "out", "--apply")
    assert done.rows[0]["segment_id"] == other


def test_what_is_not_there_is_said(store, tmp_path):
    assert fetch(store, 1379).exit_code == 2
    assert fetch(store, 3, topic="tv3").exit_code == 2
    assert fetch(store, 3, "--out", tmp_path / "no/such/folder", "--apply").exit_code == 2
    plain = DirectoryStore(tmp_path / "plain")
    tier(TV2.parent / "churn-0", plain)
    lacks = fetch(plain, 0, "--index", "transaction", "--out", tmp_path / "out", "--apply", topic="churn")
    assert lacks.exit_code == 2
    assert "no transaction was aborted" in lacks.err
    (manifest,) = store.root.rglob(f"{695:020d}-*.rsm-manifest")
    manifest.unlink()
    unfinished = fetch(store, 700)
    assert unfinished.exit_code == 2
    assert "no .rsm-manifest" in unfinished.err
