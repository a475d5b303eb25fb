"""Scenarios of exactly-once that concern risk, by number: what KIP-952's rejected alternatives would do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tests.reference.kip952_log import NOW, write_kip952_log
from tiersnap.snapshot.exactly_once.simulate.risk_log_dirs import log_start_goes_back
from tiersnap.snapshot.exactly_once.simulate.risk_rows import arithmetic
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE

pytestmark = pytest.mark.unit

Scenario = Callable[[Path], None]
SCENARIOS: dict[str, Scenario] = {}
HOUR = 3_600_000
DAY = 24 * HOUR
EMPTY = snapshot_file.encode(np.empty(0, ENTRY_DTYPE))
MB = 1_000_000


def scenario(number: str) -> Callable[[Scenario], Scenario]:
    def add(check: Scenario) -> Scenario:
        SCENARIOS[number] = check
        return check

    return add


def risk(log_dir: Path, *words: str, now: int = NOW) -> dict[str, Any]:
    (row,) = tiersnap("simulate", "--risk", log_dir, "--now", str(now), *words).rows
    return row


def at(log_dir: Path, offset: int, *words: str, now: int = NOW) -> dict[str, Any]:
    return tiersnap("simulate", "--risk", log_dir, "--boundaries", "--now", str(now), *words).row(offset=offset)


def write_example(log_dir: Path, **more: Any) -> Path:
    """KIP-952's own: the first two snapshots are empty, the others are true."""
    write_kip952_log(log_dir, **more)
    assert tiersnap("repair", log_dir, "--expiration", "none", "--apply").exit_code == 0
    for offset in (100, 200):
        (log_dir / "kip952-0" / snapshot_file.file_name(offset)).write_bytes(EMPTY)
    return log_dir


def write_log(log_dir: Path, segments: dict[int, list[bytes]], **more: Any) -> Path:
    lb.write_partition(log_dir, "risky", 0, segments, high_watermark=max(segments) + 1, indexes=True, **more)
    return log_dir


@scenario("T70")
def _(tmp_path: Path) -> None:
    write_example(tmp_path)
    worst = risk(tmp_path)
    assert (worst["at"], worst["lost"], worst["degraded"], worst["alive"]) == (200, 2, 0, 4)
    assert worst["causes"] == {"EMPTY_WRONG": 2}
    assert [at(tmp_path, offset)["lost"] for offset in (100, 200)] == [1, 2]


@scenario("T71")
def _(tmp_path: Path) -> None:
    write_example(tmp_path)
    for release in ("0.11", "2.3", "4.1"):
        found = risk(tmp_path, "--broker", release)
        assert (found["doubled"], found["doubled_records"]) == (2, 2)
    # Each batch is one record of 1 byte without a key.
    assert found["doubled_bytes"] == 2 * len(lb.data_batch(0, 1, 1, 0, 0))


@scenario("T72")
def _(tmp_path: Path) -> None:
    write_example(tmp_path, first_sequence=5)
    assert risk(tmp_path, "--broker", "2.3")["doubled"] == 1
    assert risk(tmp_path, "--broker", "3.9")["doubled"] == 2


@scenario("T73")
def _(tmp_path: Path) -> None:
    write_example(tmp_path)
    found = at(tmp_path, 200, now=lb.TIMESTAMP + 2 * DAY)
    assert (found["lost"], found["cause"], found["snapshot"]) == (0, "EMPTY_TRUE", "MATCHES")


@scenario("T74")
def _(_: Path) -> None:
    found = arithmetic(1024 * MB, 5 * MB, expiration_ms=DAY, delivery_timeout_ms=120_000)
    assert (found.segment_ms, found.segments_per_expiration) == (204_800, 421.9)
    assert found.automatic_retry_bytes_per_second / MB == pytest.approx(8.53, abs=0.01)


@scenario("T75")
def _(tmp_path: Path) -> None:
    write_example(tmp_path, again=250)
    found = at(tmp_path, 200)
    assert (found["lost"], found["degraded"]) == (1, 1)


def open_at_150(*behind: bytes) -> dict[int, list[bytes]]:
    """Producer 9 begins a transaction at 150; what it does behind the segment's end at 200 is given."""
    first = [lb.data_batch(0, 150), lb.data_batch(150, 3, 9, 0, 0, transactional=True), lb.data_batch(153, 47)]
    return {0: first, 200: [lb.data_batch(200, 10), *behind], 300: [lb.data_batch(300, 1)]}


@scenario("T76")
def _(tmp_path: Path) -> None:
    write_log(tmp_path, open_at_150(lb.marker(210, 9, 0, 0, commit=False)))
    found = at(tmp_path, 200)
    assert (found["open_transactions"], found["aborted"], found["aborted_records"]) == (1, 1, 3)
    # Its batch is forgotten and its marker is not: the leader knows more.
    assert (found["lost"], found["degraded"], found["undecided"]) == (0, 1, 0)


@scenario("T77")
def _(tmp_path: Path) -> None:
    again = lb.data_batch(220, 1, 9, 0, 3, transactional=True)
    write_log(tmp_path, open_at_150(lb.data_batch(210, 10), again, lb.marker(230, 9, 0, 0, commit=False)))
    found = at(tmp_path, 200)
    assert (found["beginning_late"], found["aborted_records"]) == (1, 3)


@scenario("T78")
def _(tmp_path: Path) -> None:
    write_kip952_log(tmp_path)
    now = lb.TIMESTAMP + 5 * DAY
    # The newest record of the blocking segments is 98 ms younger than the first of its batch.
    assert risk(tmp_path, now=now)["wait_ms"] == 2 * DAY + 98
    assert risk(tmp_path, "--retention", "none", now=now)["wait"] == "FOR_EVER"
    assert risk(tmp_path, "--tiering-enabled", now=now)["wait"] == "STUCK_TIERING_ENABLED"


@scenario("T79")
def _(tmp_path: Path) -> None:
    write_kip952_log(tmp_path)
    assert at(tmp_path, 200, now=lb.TIMESTAMP + 20 * HOUR)["exposed_ms"] == 4 * HOUR


@scenario("T80")
def _(tmp_path: Path) -> None:
    old, today = lb.TIMESTAMP, lb.TIMESTAMP + 2 * DAY
    segments = {
        0: [lb.data_batch(0, 5, 9, 0, 0, transactional=True, timestamp=old), lb.data_batch(5, 5, timestamp=old)],
        10: [lb.data_batch(10, 5, 9, 0, 5, transactional=True, timestamp=today)],
        15: [lb.data_batch(15, 5, timestamp=today)],
    }
    write_log(tmp_path, segments)
    found = risk(tmp_path, now=today + HOUR)
    assert found["bounded_mismatches"] == {"OPEN_TXN_OLDER": 1}
    assert (found["window_offset"], found["bounded_bytes"]) == (0, found["full_bytes"])  # moved back to where it began


@scenario("T81")
def _(tmp_path: Path) -> None:
    old, today = lb.TIMESTAMP, lb.TIMESTAMP + 2 * DAY
    segments = {
        0: [
            lb.data_batch(0, 5, 9, 0, 0, transactional=True, timestamp=old),
            lb.marker(5, 9, 0, 3, commit=True, timestamp=old),
        ],
        6: [lb.data_batch(6, 4, 9, 0, 5, timestamp=today)],
        10: [lb.data_batch(10, 5, timestamp=today)],
    }
    write_log(tmp_path, segments)
    found = risk(tmp_path, now=today + HOUR)
    assert found["bounded_mismatches"] == {"COORD_EPOCH_MISSING": 1}
    assert (found["window_offset"], found["nearest_offset"]) == (6, 0)


@scenario("T82")
def _(tmp_path: Path) -> None:
    write_kip952_log(tmp_path)
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    for offset in (100, 200, 400):
        (tmp_path / "kip952-0" / snapshot_file.file_name(offset)).unlink()
    causes = {offset: at(tmp_path, offset)["cause"] for offset in (100, 200, 300, 400)}
    assert causes == {100: "PRE_2_8", 200: "PRE_2_8", 300: None, 400: "GAP_AFTER_ALIGNED"}


@scenario("T83")
def _(tmp_path: Path) -> None:
    write_kip952_log(tmp_path)
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    path = tmp_path / "kip952-0" / snapshot_file.file_name(400)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))
    found = at(tmp_path, 400)
    assert (found["cause"], found["nearest_offset"]) == ("CORRUPT", 300)


@scenario("T94")
def _(_: Path) -> None:
    assert log_start_goes_back(1500, 1400)
    assert not log_start_goes_back(1400, 1500)


@pytest.mark.parametrize("number", sorted(SCENARIOS))
def test_the_scenario_holds(number: str, tmp_path: Path) -> None:
    SCENARIOS[number](tmp_path)
