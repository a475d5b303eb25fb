"""What producers wrote stays in the segments: no table, report, log, finding or object beside them repeats it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.reference.collecting import collect
from tests.reference.command import Ran, tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import data_batch, marker, write_partition

pytestmark = pytest.mark.unit

CANARY = b"canary-4711-do-not-tell"
KEY = b"canary-key-4712-do-not-tell"
TOLD = ("canary-4711", "canary-key-4712", CANARY.hex(), KEY.hex())
TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A sound partition, and one that is damaged inside the words that nobody may repeat."""
    folder = tmp_path / "logs"
    batch = {"payload": CANARY, "key": KEY}
    segments = {
        0: [data_batch(0, 5, 7, 0, 0, transactional=True, **batch), marker(5, 7, 0, 0, commit=True)],
        6: [data_batch(6, 5, 8, 0, 0, **batch)],
        11: [data_batch(11, 5, 8, 0, 5, **batch)],
    }
    write_partition(folder, "orders", 0, segments, indexes=True, high_watermark=16, topic_id=TOPIC_ID)
    damaged = bytearray(data_batch(6, 5, 8, 0, 0, **batch))
    damaged[damaged.index(CANARY)] ^= 1
    half = data_batch(11, 5, 8, 0, 5, **batch)[:-20]
    compressed = data_batch(0, 5, 7, 0, 0, codec=4, **batch)
    wrong = {0: [compressed], 6: [bytes(damaged)], 11: [half]}
    write_partition(folder, "wrong", 0, wrong, indexes=True, high_watermark=16, topic_id=TOPIC_ID)
    (folder / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=EArE95XTQEqfBLWnpGnLIQ\n")
    return folder


def assert_silent(text: str, where: object) -> None:
    for word in TOLD:
        assert word not in text, where


def said(ran: Ran) -> str:
    return ran.out + ran.err


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file below a folder that is no segment, Parquet as its rows."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.suffix != ".log"):
        data = path.read_bytes()
        yield str(path), data.decode("latin-1")
        if path.suffix == ".parquet":
            yield f"rows of {path}", repr(pq.read_table(io.BytesIO(data)).to_pylist())


@pytest.mark.parametrize("output", ["json", "table"])
def test_no_command_of_a_host_repeats_what_producers_wrote(logs: Path, tmp_path: Path, output: str) -> None:
    remote, page = tmp_path / "remote", tmp_path / "page"
    segments = sorted(logs.rglob("*.log"))
    commands = [
        ("scan", logs, "--segments"),
        ("verify", logs),
        ("doctor", logs),
        ("dump", *segments),
        ("repair", logs),
        ("repair", logs, "--out", tmp_path / "out", "--all"),
        ("simulate", logs),
        ("producers", logs),
        ("transactions", "list", logs),
        ("tier", logs, "--remote", remote, "--report", page, "--apply"),
        ("collect", logs, "--to", tmp_path / "collected", "--apply"),
    ]
    heard = 0
    for words in commands:
        ran = tiersnap("--log-level", "debug", *words, output=output)
        heard += len(said(ran)) > 100
        assert "Traceback" not in ran.err, words
        assert_silent(said(ran), words)
    assert heard >= 8
    assert any(CANARY in path.read_bytes() for path in remote.rglob("*.log")), "segments go up as they are"
    for folder in (remote, page, tmp_path / "collected", tmp_path / "out"):
        found = list(files(folder))
        assert found
        for name, text in found:
            assert_silent(text, name)


def test_no_row_of_a_table_and_nothing_collected_repeats_it(logs: Path, tmp_path: Path) -> None:
    runner = Runner(tmp_path / "run", logs)
    ran = runner()
    assert ran.segments_uploaded > 0
    assert_silent(repr((runner.tables, ran)), "tables")
    for key, data in runner.objects().items():
        if not key.endswith(".log"):
            assert_silent(data.decode("latin-1"), key)
    collect(logs, tmp_path / "collected", with_batches=True)
    for name, text in files(tmp_path / "collected"):
        assert_silent(text, name)
