"""An idle log whose segments are in remote storage alone: its producers are those of the snapshot it begins with.

A broker loads that file: it lies above the log start, and not above the log end
(ProducerStateManager.truncateAndReload).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.log_builder import TIMESTAMP, data_batch, write_partition
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE

pytestmark = pytest.mark.unit

NOW = ("--now", "2023-11-14T22:30:00Z")
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction since.
KNOWN = [(7, 0, 9, 99, 9, TIMESTAMP, -1, -1), (5, 2, 4, 94, 4, TIMESTAMP, 3, 90)]


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


@pytest.mark.parametrize(("begins_with", "is_known"), [("empty", False), ("ours", True)])
def test_a_replica_of_it_knows_them_if_it_begins_with_the_same_file(
    tmp_path: Path, begins_with: str, is_known: bool
) -> None:
    write_idle_log(tmp_path, log_start=0)
    ran = tiersnap("simulate", tmp_path, "--topic", "orders", "--from", begins_with, "--all", *NOW)
    assert_said(ran, 0)
    assert {row["known"] for row in ran.rows} == {is_known}
    assert tiersnap("risk", tmp_path, *NOW).rows[0]["alive"] == 2


@pytest.mark.parametrize("words", [(), ("--at", "100")], ids=["one segment", "its first file"])
def test_a_log_that_goes_on_from_such_a_file_has_its_producers_in_what_we_would_write(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    write_idle_log(tmp_path, log_start=0)
    later = {100: [data_batch(100, 10, 9, 0, 0)], 110: [data_batch(110, 10, 9, 0, 10)]}
    for base in (100, 110) if words else (100,):
        (tmp_path / "orders-0" / f"{base:020d}.log").write_bytes(b"".join(later[base]))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 120\n")
    found = {}
    for begins_with in ("ours", "broker", "empty"):
        ran = tiersnap("simulate", tmp_path, "--from", begins_with, *words, "--producers", *NOW)
        assert_said(ran, 0)
        found[begins_with] = {row["producer_id"] for row in ran.rows if row["write"] == "RETRY_OF_LAST"}
    assert found == {"ours": set(), "broker": set(), "empty": {5, 7}}


def test_below_the_log_start_no_broker_loads_the_file(tmp_path: Path) -> None:
    write_idle_log(tmp_path, log_start=100)
    ran = tiersnap("producers", tmp_path, *NOW)
    assert_said(ran, 0)
    assert ran.rows == []
