"""`tiersnap scan` names every kind of damage, with the right exit code, and touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reference.command import assert_said, counted, tiersnap
from tests.reference.small_log import LOG_END, file_of, tree, write_small_log

pytestmark = pytest.mark.unit

WITHOUT_PRODUCERS = bytes.fromhex("000148674bc700000000")


def change(path: Path, position: int, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] = byte
    path.write_bytes(data)


def flip(path: Path, position: int) -> None:
    change(path, position, path.read_bytes()[position] ^ 1)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


# Harm to the folder; exit code; words on stderr; snapshots of the partition's row; its verdicts.
DAMAGE: dict[str, tuple[Callable[[Path], object], int, str, str, str]] = {
    "closed segment of 0 bytes": (
        lambda folder: put(file_of(folder, 5, ".log"), b""),
        5,
        "EMPTY_SEGMENT",
        "2 MATCHES, 1 EXTENDS",
        "1 READY, 1 CORRUPT_SEGMENT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "active segment of 0 bytes": (
        lambda folder: put(file_of(folder, 15, ".log"), b""),
        0,
        "3 READY",
        "3 MATCHES",
        "3 READY, 1 ACTIVE_SEGMENT",
    ),
    "closed segment cut": (
        lambda folder: cut(file_of(folder, 5, ".log"), 70),
        5,
        "TRUNCATED_SEGMENT",
        "2 UNVERIFIED, 1 MATCHES",
        "1 READY, 1 CORRUPT_SEGMENT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "active segment cut": (
        lambda folder: cut(file_of(folder, 15, ".log"), 70),
        0,
        "3 READY",
        "3 MATCHES",
        "3 READY, 1 ACTIVE_SEGMENT",
    ),
    "byte flipped in a header": (
        lambda folder: flip(file_of(folder, 5, ".log"), 50),
        5,
        "BAD_CRC",
        "2 UNVERIFIED, 1 MATCHES",
        "1 READY, 1 CORRUPT_SEGMENT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "byte flipped in a body": (
        lambda folder: flip(file_of(folder, 5, ".log"), 65),
        5,
        "BAD_CRC",
        "2 UNVERIFIED, 1 MATCHES",
        "1 READY, 1 CORRUPT_SEGMENT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "unknown magic": (
        lambda folder: change(file_of(folder, 5, ".log"), 16, 3),
        5,
        "BAD_MAGIC",
        "2 UNVERIFIED, 1 MATCHES",
        "1 READY, 1 CORRUPT_SEGMENT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "no log at all in its place": (
        lambda folder: file_of(folder, 5, ".log").unlink(),
        5,
        "NO_LOG_FILE",
        "2 MATCHES, 1 EXTENDS",
        "1 CORRUPT_SEGMENT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "folder in place of a segment": (
        lambda folder: make_folder(file_of(folder, 5, ".log")),
        5,
        "UNREADABLE_FILE",
        "2 UNVERIFIED, 1 MATCHES",
        "1 READY, 1 CORRUPT_SEGMENT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "folder in place of a snapshot": (
        lambda folder: make_folder(file_of(folder, 5, ".snapshot")),
        5,
        "not a regular file",
        "2 MATCHES, 1 MISSING",
        "2 GAP_BEFORE, 1 MISSING_SNAPSHOT, 1 ACTIVE_SEGMENT",
    ),
    "snapshot of 0 bytes": (
        lambda folder: put(file_of(folder, 10, ".snapshot"), b""),
        5,
        "1 CORRUPT",
        "2 MATCHES, 1 CORRUPT",
        "1 READY, 1 CORRUPT_SNAPSHOT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "snapshot cut": (
        lambda folder: cut(file_of(folder, 10, ".snapshot"), 30),
        5,
        "1 CORRUPT",
        "2 MATCHES, 1 CORRUPT",
        "1 READY, 1 CORRUPT_SNAPSHOT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "snapshot with a flipped byte": (
        lambda folder: flip(file_of(folder, 10, ".snapshot"), 30),
        5,
        "--replace",
        "2 MATCHES, 1 CORRUPT",
        "1 READY, 1 CORRUPT_SNAPSHOT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "snapshot of version 2": (
        lambda folder: change(file_of(folder, 10, ".snapshot"), 1, 2),
        5,
        "1 CORRUPT",
        "2 MATCHES, 1 CORRUPT",
        "1 READY, 1 CORRUPT_SNAPSHOT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "valid snapshot without producers": (
        lambda folder: put(file_of(folder, 10, ".snapshot"), WITHOUT_PRODUCERS),
        4,
        "--replace",
        "2 MATCHES, 1 SUSPECT",
        "1 READY, 1 SUSPECT_SNAPSHOT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "snapshot missing": (
        lambda folder: file_of(folder, 10, ".snapshot").unlink(),
        4,
        "next for missing snapshots: tiersnap repair",
        "2 MATCHES, 1 MISSING",
        "1 READY, 1 MISSING_SNAPSHOT, 1 GAP_BEFORE, 1 ACTIVE_SEGMENT",
    ),
    "snapshot whose name is no number": (
        lambda folder: put(folder / "tmp-1.snapshot", b""),
        5,
        "BAD_FILE_NAME",
        "3 MATCHES",
        "3 READY, 1 ACTIVE_SEGMENT",
    ),
    "wrong snapshot where no segment begins": (
        lambda folder: put(file_of(folder, 12, ".snapshot"), WITHOUT_PRODUCERS),
        0,
        "1 SUSPECT",
        "3 MATCHES, 1 SUSPECT",
        "3 READY, 1 ACTIVE_SEGMENT",
    ),
    "wrong snapshot at the log end": (
        lambda folder: put(file_of(folder, LOG_END, ".snapshot"), WITHOUT_PRODUCERS),
        4,
        "--replace",
        "3 MATCHES, 1 SUSPECT",
        "3 READY, 1 ACTIVE_SEGMENT",
    ),
    "snapshot above the log end": (
        lambda folder: put(file_of(folder, 99, ".snapshot"), WITHOUT_PRODUCERS),
        0,
        "1 UNVERIFIED",
        "3 MATCHES, 1 UNVERIFIED",
        "3 READY, 1 ACTIVE_SEGMENT",
    ),
    "no offset index": (
        lambda folder: file_of(folder, 5, ".index").unlink(),
        4,
        "has segments without an .index file: at its next start the broker rebuilds the index",
        "3 MATCHES",
        "3 READY, 1 ACTIVE_SEGMENT",
    ),
    "half-done compaction": (
        lambda folder: put(folder / f"{5:020d}.log.cleaned", b""),
        5,
        "UNFINISHED_SWAP",
        "3 MATCHES",
        "3 READY, 1 ACTIVE_SEGMENT",
    ),
    "log start behind the log end": (
        lambda folder: put(folder.parent / "log-start-offset-checkpoint", b"0\n1\norders 0 99\n"),
        5,
        "a broker deletes this log when it starts",
        "3 UNVERIFIED",
        "1 ACTIVE_SEGMENT",
    ),
    "leader epochs nobody can read": (
        lambda folder: put(folder / "leader-epoch-checkpoint", b"\xff\xfe"),
        5,
        "CORRUPT_CHECKPOINT",
        "3 MATCHES",
        "3 INDEX_DAMAGED, 1 ACTIVE_SEGMENT",
    ),
    "high watermarks nobody can read": (
        lambda folder: put(folder.parent / "replication-offset-checkpoint", b"0\n2\norders zero 1\n"),
        5,
        "CORRUPT_CHECKPOINT",
        "3 MATCHES",
        "2 GAP_BEFORE, 1 ABOVE_LSO, 1 ACTIVE_SEGMENT",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_and_nothing_touched(tmp_path, name):
    harm, exit_code, words, snapshots, verdicts = DAMAGE[name]
    folder = write_small_log(tmp_path)
    harm(folder)
    before = tree(tmp_path)

    ran = tiersnap("scan", tmp_path)

    assert_said(ran, exit_code, words)
    row = ran.row(partition="orders-0")
    assert (counted(row["snapshots"]), counted(row["verdicts"])) == (snapshots, verdicts)
    assert tree(tmp_path) == before
