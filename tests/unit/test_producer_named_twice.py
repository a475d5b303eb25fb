"""A snapshot file that names one producer twice: the last entry counts, as in the map of a broker that loads it."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import pytest

from tests.reference import log_builder as lb
from tests.reference.command import assert_said, tiersnap
from tests.reference.crc32c import crc32c
from tests.reference.small_log import file_of
from tiersnap.jobs.main import run

pytestmark = pytest.mark.unit

NOW = time.time_ns() // 1_000_000
RIGHT = (7, 0, 4, 4, 4, NOW + 4, -1, -1)  # the records of a batch are a millisecond apart
WRONG = (7, 0, 9, 4, 4, NOW + 4, -1, 2)


def write_log(log_dir: Path, *entries: tuple[int, ...]) -> Path:
    """Segments at 0 and 5 by producer 7; the snapshot at 5 has `entries`, in that order."""
    body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    data = struct.pack(">hI", 1, crc32c(body)) + body
    segments = {base: [lb.data_batch(base, 5, 7, epoch=0, base_sequence=base, timestamp=NOW)] for base in (0, 5)}
    return lb.write_partition(log_dir, "orders", 0, segments, snapshots={5: data}, high_watermark=10, indexes=True)


@pytest.mark.parametrize(
    ("entries", "verdict"), [((RIGHT, RIGHT), "MATCHES"), ((WRONG, RIGHT), "MATCHES"), ((RIGHT, WRONG), "SUSPECT")]
)
def test_the_last_entry_is_compared_with_the_log(tmp_path: Path, entries, verdict: str) -> None:
    write_log(tmp_path, *entries)
    ran = tiersnap("verify", tmp_path)
    assert_said(ran, 0 if verdict == "MATCHES" else 4)
    assert [row["verdict"] for row in ran.rows if row["offset"] == 5] == [verdict]


@pytest.mark.parametrize(
    "words",
    [
        ("scan", "{}"),
        ("repair", "{}"),
        ("tier", "{}", "--remote", "{}-remote"),
        ("simulate", "--risk", "{}"),
        ("simulate", "{}"),
        ("producers", "{}"),
        ("transactions", "find-hanging", "{}"),
        ("dump", "{}/orders-0/00000000000000000005.snapshot"),
    ],
    ids=" ".join,
)
def test_every_command_reads_such_a_file(tmp_path: Path, words: tuple[str, ...]) -> None:
    log_dir = tmp_path / "log"
    write_log(log_dir, WRONG, RIGHT)
    assert_said(tiersnap(*(word.format(log_dir) for word in words)), 0)


def test_dump_shows_every_entry_in_the_order_of_the_file(tmp_path: Path, capfdbinary) -> None:
    folder = write_log(tmp_path, WRONG, RIGHT)
    path = file_of(folder, 5, ".snapshot")
    rows = map(json.loads, tiersnap("dump", path, output="jsonl").out.splitlines())
    assert [row["last_sequence"] for row in rows] == [9, 4]
    assert run(["dump", "--output", "kafka", str(path)]) == 0
    assert capfdbinary.readouterr().out.count(b"producerId: 7 ") == 2


def test_repair_leaves_a_file_whose_last_entries_are_right_and_replaces_another(tmp_path: Path) -> None:
    for entries, size in (((WRONG, RIGHT), 10 + 2 * 46), ((RIGHT, WRONG), 10 + 46)):
        folder = write_log(tmp_path, *entries)
        assert_said(tiersnap("repair", tmp_path, "--replace", "--apply"), 0)
        assert file_of(folder, 5, ".snapshot").stat().st_size == size
