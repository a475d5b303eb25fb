"""An idle log whose segments are in remote storage alone: its producers are those of the snapshot it begins with.

A broker loads that file, be it right or wrong: it lies above the log start, and not above the log end
(ProducerStateManager.truncateAndReload). What producers would meet is said only if remote storage tells who is right.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.log_builder import TIMESTAMP, data_batch, marker, write_partition
from tests.reference.tiered import tier
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.producer_fold import from_entries
from tiersnap.snapshot.replay.partition_replay import Replay
from tiersnap.snapshot.replay.replay_start import StartState

pytestmark = pytest.mark.unit

NOW = ("--now", "2023-11-14T22:30:00Z")
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction since.
KNOWN = [(7, 0, 9, 99, 4, TIMESTAMP + 4, -1, -1), (5, 2, 4, 94, 4, TIMESTAMP + 4, 3, 90)]


def write_idle_log(log_dir: Path, *, log_start: int) -> Path:
    """One empty segment at 100, and the snapshot there."""
    data = snapshot_file.encode(np.array(KNOWN, ENTRY_DTYPE))
    return write_partition(
        log_dir,
        "orders",
        0,
        {100: []},
        snapshots={100: data},
        high_watermark=100,
        log_start_offset=log_start,
        leader_epochs=[(0, 0)],
        indexes=True,
    )


def test_its_producers_and_what_they_have_open_are_known(tmp_path: Path) -> None:
    write_idle_log(tmp_path, log_start=0)
    ran = tiersnap("producers", tmp_path, *NOW)
    assert_said(ran, 0)
    found = [(row["producer_id"], row["producer_epoch"], row["last_sequence"], row["last_offset"]) for row in ran.rows]
    assert found == [(5, 2, 4, 94), (7, 0, 9, 99)]
    assert [row["transaction_start_offset"] for row in ran.rows] == [90, None]
    hanging = tiersnap("transactions", "find-hanging", tmp_path, "--all", "--partition-count", "1", *NOW)
    assert [(row["producer_id"], row["transaction_start_offset"]) for row in hanging.rows] == [(5, 90)]


def test_entries_of_no_batches_are_those_of_the_snapshot_at_the_log_end_and_no_others(tmp_path: Path) -> None:
    write_idle_log(tmp_path, log_start=0)
    (partition,) = open_log_dir(str(tmp_path)).partitions()
    begun = StartState(100, from_entries(np.array(KNOWN, ENTRY_DTYPE)), 0, has_adopted=True)
    ends = [Replay(partition, log_end=end, closed_state=begun).entries_of_no_batches() for end in (100, 101)]
    assert [each["producer_id"].tolist() for each in ends] == [[5, 7], []]
    assert Replay(partition).entries_of_no_batches().size == 0


BEFORE = {
    0: [data_batch(0, 80), marker(80, 5, 2, 3, commit=True), data_batch(90, 5, 5, 2, 0, transactional=True)],
    95: [data_batch(95, 5, 7, 0, 5)],
    100: [],
}


@pytest.fixture(name="remote")
def fixture_remote(tmp_path: Path) -> tuple[str, ...]:
    """Words that name remote storage with the segments before 100, as brokers copied them."""
    whole = write_partition(tmp_path / "whole", "orders", 0, BEFORE, indexes=True)
    tier(whole, DirectoryStore(tmp_path / "remote"))
    return "--remote", str(tmp_path / "remote")


def test_simulate_says_nothing_of_it_without_remote_storage(tmp_path: Path) -> None:
    write_idle_log(tmp_path, log_start=0)
    ran = tiersnap("simulate", tmp_path, "--all", *NOW)
    assert_said(ran, 0, "not compared")
    assert ran.rows == []
    ran = tiersnap("simulate", "--risk", tmp_path, *NOW)
    assert_said(ran, 0, "not compared")
    assert ran.rows == []


@pytest.mark.parametrize(("begins_with", "is_known"), [("empty", False), ("ours", True)])
def test_a_replica_of_it_knows_them_if_it_begins_with_what_is_true(
    tmp_path: Path, remote: tuple[str, ...], begins_with: str, is_known: bool
) -> None:
    write_idle_log(tmp_path / "logs", log_start=0)
    ran = tiersnap("simulate", tmp_path / "logs", "--from", begins_with, "--all", *remote, *NOW)
    assert_said(ran, 0)
    assert {row["known"] for row in ran.rows} == {is_known}


@pytest.mark.parametrize("words", [(), ("--at", "100")], ids=["one segment", "its first file"])
def test_a_log_that_goes_on_has_its_producers_in_what_we_would_write(
    tmp_path: Path, remote: tuple[str, ...], words: tuple[str, ...]
) -> None:
    logs = tmp_path / "logs"
    write_idle_log(logs, log_start=0)
    later = {100: [data_batch(100, 10, 9, 0, 0)], 110: [data_batch(110, 10, 9, 0, 10)]}
    for base in (100, 110) if words else (100,):
        (logs / "orders-0" / f"{base:020d}.log").write_bytes(b"".join(later[base]))
    (logs / "replication-offset-checkpoint").write_text("0\n1\norders 0 120\n")
    found = {}
    for begins_with in ("ours", "broker", "empty"):
        ran = tiersnap("simulate", logs, "--from", begins_with, *words, "--producers", *remote, *NOW)
        assert_said(ran, 0)
        found[begins_with] = {row["producer_id"] for row in ran.rows if row["write"] == "RETRY_OF_LAST"}
    assert found == {"ours": set(), "broker": set(), "empty": {5, 7}}


def test_below_the_log_start_no_broker_loads_the_file(tmp_path: Path) -> None:
    write_idle_log(tmp_path, log_start=100)
    ran = tiersnap("producers", tmp_path, *NOW)
    assert_said(ran, 0)
    assert ran.rows == []
