"""What we write is reckoned at the boundary: one log gives one file, and what is written is right ever after."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reference.command import assert_said, tiersnap
from tests.reference.examples import examples
from tests.reference.fold import fold, live
from tests.reference.local_replay import local_replay
from tests.reference.log_builder import TIMESTAMP, data_batch, legacy_entry, marker, write_partition
from tests.reference.record_batch import read_segment
from tests.reference.small_log import tree
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.judge import judge
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.repair.files import in_place
from tiersnap.snapshot.repair.repair_plan import Planner, PlanOptions
from tiersnap.snapshot.replay.examine import examine
from tiersnap.snapshot.replay.expiry import BrokerExpiry, Expiry
from tiersnap.snapshot.replay.partition_replay import snapshot_reader

pytestmark = pytest.mark.unit

DAY = 86_400_000
WEEK, YEAR = 7 * DAY, 365 * DAY
FILES = LOCAL
in_folder = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Rolled:
    """A log by segments, each with the time of its largest timestamp as the test sees it."""

    segments: dict[int, list[bytes]]
    end: int

    def largest(self, base: int) -> int:
        entries = self.segments[base]
        times = [batch.max_timestamp for batch in read_segment(b"".join(entries), base - 1).batches]
        old = [int.from_bytes(each[18:26], "big", signed=True) for each in entries if each[16] == 1]
        return max([-1, *times, *old])

    def state(self, offset: int):
        entries = [each for base in sorted(self.segments) if base < offset for each in self.segments[base]]
        return fold(read_segment(b"".join(entries), -1).batches)


@st.composite
def rolled(draw: st.DrawFn) -> Rolled:
    """Producers of any record time: years old, without one, of today, in the future; some in open transactions."""
    times = st.sampled_from(
        [-1, 0, *(TIMESTAMP + days * DAY for days in (-900, -30, -8, -7, -6, -1, 0, 1, 40)), 2_000_000_000_000]
    )
    segments: dict[int, list[bytes]] = {}
    offset, opened = 0, set()
    for _ in range(draw(st.integers(2, 5))):
        base = offset
        segments[base] = []
        for _ in range(draw(st.integers(1, 4))):
            producer, time = draw(st.integers(0, 4)), draw(times)
            if producer == 0:
                segments[base].append(legacy_entry(offset, draw(st.sampled_from([0, 1])), timestamp=time))
            elif producer in opened and draw(st.booleans()):
                segments[base].append(marker(offset, producer, 0, 0, draw(st.booleans()), time))
                opened.discard(producer)
            else:
                segments[base].append(data_batch(offset, 1, producer, 0, offset, producer > 2, timestamp=time))
                opened |= {producer} if producer > 2 else set()
            offset += 1
    return Rolled(segments, offset)


def laid(folder: Path, log: Rolled) -> Partition:
    shutil.rmtree(folder / "logs", ignore_errors=True)
    write_partition(folder / "logs", "orders", 0, log.segments, high_watermark=log.end, indexes=True)
    return listed(folder)


def listed(folder: Path) -> Partition:
    (partition,) = open_log_dir(str(folder / "logs")).partitions()
    return partition


def repair(folder: Path, now: int) -> None:
    partition = listed(folder)
    options = PlanOptions(Expiry(WEEK, now), DAY)
    with in_place(partition) as write:
        examine(FILES, partition, on_boundary=Planner(partition, options, snapshot_reader(FILES, partition), write))


@in_folder
@given(rolled(), st.sampled_from([None, DAY, WEEK]), st.integers(-40, 400))
def test_an_entry_is_left_out_iff_it_is_idle_for_the_expiration_where_the_segment_ends(
    tmp_path: Path, log: Rolled, expiration: int | None, days: int
) -> None:
    now = TIMESTAMP + days * DAY
    partition = laid(tmp_path, log)
    bases = sorted(log.segments)
    last_base = dict(zip([*bases[1:], log.end], bases, strict=True))
    for boundary in local_replay(FILES, partition)[1]:
        written = Expiry(expiration, now).live(boundary.entries, boundary.max_timestamp)
        time = log.largest(last_base[boundary.offset])
        assert boundary.max_timestamp == time
        kept = state = log.state(boundary.offset)
        if expiration is not None and 0 <= time <= now:
            kept = live(state, as_of=time, expiration=expiration)
        assert written["producer_id"].tolist() == sorted(kept)


@in_folder
@given(rolled(), st.lists(st.integers(0, 400), min_size=2, max_size=4))
def test_repair_and_then_scan_agree_today_and_in_a_year(tmp_path: Path, log: Rolled, days: list[int]) -> None:
    laid(tmp_path, log)
    first, *later = (TIMESTAMP + day * DAY for day in sorted(days))
    repair(tmp_path, first)
    files = tree(tmp_path)
    for now in (first, *later):
        examination = examine(FILES, listed(tmp_path))
        for offset, found in examination.snapshots.items():
            assert found.verdict(BrokerExpiry(now, DAY)).is_trusted, (offset, found, now)
        repair(tmp_path, now)
        assert tree(tmp_path) == files
        opened = {Verdict.ABOVE_LSO, Verdict.GAP_BEFORE, Verdict.ACTIVE_SEGMENT, Verdict.READY}
        assert {
            each.verdict for each in judge(examination.facts, examination.examined, BrokerExpiry(now, DAY))
        } <= opened


@in_folder
@given(rolled(), st.integers(0, 400))
def test_one_log_gives_one_file_once_its_times_have_passed(tmp_path: Path, log: Rolled, days: int) -> None:
    partition = laid(tmp_path, log)
    for boundary in local_replay(FILES, partition)[1]:
        if boundary.max_timestamp <= TIMESTAMP:
            at_once, later = (
                Expiry(WEEK, now).live(boundary.entries, boundary.max_timestamp)
                for now in (TIMESTAMP, TIMESTAMP + days * DAY)
            )
            assert np.array_equal(at_once, later)


def test_inside_a_segment_the_part_below_counts(tmp_path: Path) -> None:
    """At an unaligned snapshot and at the log end."""
    entries = [data_batch(offset, 1, 7, 0, offset, timestamp=TIMESTAMP + offset) for offset in range(4)]
    empty = snapshot_file.encode(np.empty(0, snapshot_file.decode(bytes.fromhex("000148674bc700000000")).dtype))
    write_partition(tmp_path / "logs", "orders", 0, {0: entries}, snapshots={2: empty, 4: empty})
    found = {each.offset: each.max_timestamp for each in local_replay(FILES, listed(tmp_path))[1]}
    assert found == {2: TIMESTAMP + 1, 4: TIMESTAMP + 3}


def test_a_log_older_than_a_week_is_repaired_once_and_not_told_to_be_replaced(tmp_path: Path) -> None:
    """It once got empty snapshots, which scan then called SUSPECT with --replace as the cure, for ever."""
    old = 1_600_000_000_000
    segments = {base: [data_batch(base, 5, 7, 0, base, timestamp=old + base * DAY)] for base in (0, 5, 10)}
    write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=15, indexes=True)
    assert_said(tiersnap("repair", tmp_path / "logs", "--apply"), 0, "2 snapshots are written")
    for offset in (5, 10):
        written = snapshot_file.decode((tmp_path / f"logs/orders-0/{offset:020d}.snapshot").read_bytes())
        assert written["producer_id"].tolist() == [7]
    for now in ("2026-11-22", "2027-11-22"):
        scan = tiersnap("scan", tmp_path / "logs", "--now", now)
        assert_said(scan, 0)
        assert scan.rows[0]["snapshots"] == {"MATCHES": 2}
        assert_said(tiersnap("repair", tmp_path / "logs", "--apply", "--now", now), 0, "nothing to write")


def test_verify_counts_all_where_it_is_told_to(tmp_path: Path) -> None:
    segments = {base: [data_batch(base, 5, 7, 0, base)] for base in (0, 5)}
    empty = bytes.fromhex("000148674bc700000000")
    write_partition(tmp_path / "logs", "orders", 0, segments, snapshots={5: empty}, high_watermark=10, indexes=True)
    long_after = ("--now", "2026-11-22")
    assert_said(tiersnap("verify", tmp_path / "logs", *long_after), 0, "1 of 1 snapshot agrees")
    strict = tiersnap("verify", tmp_path / "logs", "--strict", *long_after)
    assert_said(strict, 4, "0 of 1 snapshot agrees")
    assert strict.rows[0]["verdict"] == "SUSPECT"
    assert_said(tiersnap("verify", tmp_path / "logs", "--now", "2023-11-15"), 4)
    assert_said(tiersnap("verify", tmp_path / "logs", "--producer-expiration", "none", *long_after), 4)
