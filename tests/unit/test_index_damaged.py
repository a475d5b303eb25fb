"""INDEX_DAMAGED: found by size and order of the entries, and made right by the upload."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.broken_indexes import (
    BASES,
    LAST_TIME_ZERO,
    POSITION_BEHIND,
    SOUND,
    SOURCE,
    TOPIC,
    ZEROS_FOR_OFFSETS,
    ZEROS_FOR_TIMES,
    write_broken_indexes,
)
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.recovered import DATA, recovered
from tests.reference.small_log import file_of, write_small_log
from tests.unit.test_readiness_gate import DAY, NOW, PARTITION, SEGMENTS, changed
from tiersnap.snapshot.formats.index_order import SegmentExtent, fault_of_order
from tiersnap.snapshot.gate.copy_task import BrokerAtWork
from tiersnap.snapshot.gate.judge import judge
from tiersnap.snapshot.replay.expiry import BrokerExpiry

pytestmark = pytest.mark.unit

CLOCK = ("--now", "2026-11-21T13:00:00Z")
AT = 1_795_266_000_000
FAULTS = {
    ZEROS_FOR_TIMES: "time index: the index has 873813 entries, more than a log of",
    LAST_TIME_ZERO: "time index: at byte ",
    POSITION_BEHIND: "offset index: at byte ",
    ZEROS_FOR_OFFSETS: "offset index: the index has 1310720 entries, more than a log of",
}
INDEXES = (".index", ".timeindex", ".txnindex")


def scanned(log_dir: Path) -> Ran:
    return tiersnap("scan", log_dir, "--segments", *CLOCK)


def reasons(ran: Ran) -> dict[int, str]:
    return {row["base_offset"]: row["reason"] for row in ran.rows if row["verdict"] == "INDEX_DAMAGED"}


def test_scan_names_each_broken_index_and_what_mends_it(tmp_path: Path) -> None:
    write_broken_indexes(tmp_path)
    ran = scanned(tmp_path)
    mends = (
        f"or while the broker is stopped: tiersnap repair {tmp_path} --now 2026-11-21T13:00:00+00:00 --replace --apply"
    )
    assert_said(ran, 4, "next for INDEX_DAMAGED: tiersnap tier ", mends)
    found = reasons(ran)
    assert found.keys() == FAULTS.keys()
    for base, words in FAULTS.items():
        assert found[base].startswith(words)
    assert ran.row(base_offset=SOUND)["verdict"] == "READY"


@pytest.mark.parametrize("source", sorted(DATA.glob("*/logs")), ids=lambda path: path.parent.name)
def test_scan_finds_no_fault_in_indexes_of_real_brokers(source: Path) -> None:
    ran = scanned(source)
    assert not reasons(ran)
    assert "the upload rebuilds" not in ran.out


def test_doctor_names_the_indexes_whose_size_is_wrong(tmp_path: Path) -> None:
    write_broken_indexes(tmp_path)
    ran = tiersnap("doctor", tmp_path, *CLOCK, output="table")
    assert_said(ran, 4)
    assert "2 segments: INDEX_DAMAGED" in ran.out
    given = "--now 2026-11-21T13:00:00+00:00"
    assert f"tiersnap repair {tmp_path} {given} --replace --apply" in " ".join(ran.out.split())


def test_verify_finds_broken_indexes_beside_right_snapshots(tmp_path: Path) -> None:
    write_broken_indexes(tmp_path)
    ran = tiersnap("verify", tmp_path, *CLOCK)
    assert_said(ran, 4)
    assert {row["verdict"] for row in ran.rows} <= {"MATCHES", "EXTENDS"}
    assert ran.err.count("CORRUPT_INDEX: ") == len(FAULTS)
    for base, words in FAULTS.items():
        assert f"{base:020d}.log: {words}" in ran.err


def remote_indexes(remote: Path) -> dict[tuple[int, str], bytes]:
    """The index objects of LocalTieredStorage, by base offset and suffix."""
    files = (path for path in remote.rglob("*") if path.suffix in INDEXES)
    return {(int(path.name[:20]), path.suffix): path.read_bytes() for path in files}


def right_indexes() -> dict[tuple[int, str], bytes]:
    """The indexes of the broker, and for the broken ones what Kafka's own recovery makes."""
    folder = SOURCE / f"{TOPIC}-0"
    found = {(base, suffix): (folder / f"{base:020d}{suffix}").read_bytes() for base in BASES for suffix in INDEXES[:2]}
    kafka = {base: recovered()[f"kafka-3.9.1/logs/{TOPIC}-0/{base:020d}.log"] for base in BASES}
    found |= {(base, ".timeindex"): kafka[base].time_index for base in (ZEROS_FOR_TIMES, LAST_TIME_ZERO)}
    return found | {(base, ".index"): kafka[base].offset_index for base in (POSITION_BEHIND, ZEROS_FOR_OFFSETS)}


def test_tier_uploads_right_indexes_in_the_place_of_broken_ones(tmp_path: Path) -> None:
    write_broken_indexes(tmp_path / "logs")
    words = ("--remote", tmp_path / "remote", "--layout", "local-tiered-storage", *CLOCK)
    plan = tiersnap("tier", tmp_path / "logs", *words)
    assert_said(plan, 0, "next: tiersnap tier")
    assert plan.row()["verdicts"] == {"READY": 5, "ACTIVE_SEGMENT": 1}
    assert_said(tiersnap("tier", tmp_path / "logs", *words, "--apply"), 0)
    assert remote_indexes(tmp_path / "remote") == right_indexes()


def test_verify_finds_broken_indexes_in_remote_storage_at_the_default_depth(tmp_path: Path) -> None:
    write_broken_indexes(tmp_path / "logs")
    remote = ("--remote", tmp_path / "remote", "--layout", "local-tiered-storage", *CLOCK)
    assert_said(tiersnap("tier", tmp_path / "logs", *remote, "--apply"), 0)
    assert_said(tiersnap("verify", *remote), 0)
    for path in (tmp_path / "remote").rglob("*"):
        if path.suffix in INDEXES:  # as a broker copies them
            shutil.copyfile(file_of(tmp_path / "logs" / f"{TOPIC}-0", int(path.name[:20]), path.suffix), path)
    ran = tiersnap("verify", *remote)
    assert ran.exit_code == 5, ran.err
    found = {row["base_offset"]: row["reason"] for row in ran.rows if row["verdict"] == "CORRUPT"}
    assert found.keys() == FAULTS.keys()
    assert all(words in found[base] for base, words in FAULTS.items()), found


def test_run_names_broken_indexes_until_it_tiers_them(tmp_path: Path) -> None:
    write_broken_indexes(tmp_path / "logs")
    fleet = Runner(tmp_path, tmp_path / "logs")
    for _ in range(2):
        ran = fleet(apply=False, now=AT)
        assert {row["base_offset"] for row in ran.readiness if row["verdict"] == "INDEX_DAMAGED"} == FAULTS.keys()
    assert {row["base_offset"] for row in fleet(apply=True, now=AT).ready} == set(BASES)
    done = fleet(apply=True, now=AT)
    assert [row["verdict"] for row in done.readiness] == [*["UPLOADED"] * 5, "ACTIVE_SEGMENT"]


def test_run_calls_a_mended_index_right_although_nothing_else_changed(tmp_path: Path) -> None:
    folder = write_broken_indexes(tmp_path / "logs")
    fleet = Runner(tmp_path, tmp_path / "logs")
    assert len([row for row in fleet(apply=False, now=AT).readiness if row["verdict"] == "INDEX_DAMAGED"]) == 4
    for base in BASES:
        for suffix in INDEXES[:2]:
            shutil.copy(SOURCE / folder.name / f"{base:020d}{suffix}", folder)
    assert "INDEX_DAMAGED" not in {row["verdict"] for row in fleet(apply=False, now=AT).readiness}


FAULT = "offset index: at byte 0: position expected at most 99, found 100"


def verdicts(*segments: object, **more: object) -> str:
    found = judge(PARTITION, segments, expiry=BrokerExpiry(NOW, DAY), **more)  # type: ignore[arg-type]
    return " ".join(str(each.verdict) for each in found)


def test_judge_lets_later_segments_pass_a_damaged_index() -> None:
    damaged = changed(SEGMENTS[0], index_faults=(FAULT,))
    assert verdicts(damaged, SEGMENTS[1]) == "INDEX_DAMAGED READY"
    assert verdicts(damaged, SEGMENTS[1], mends_indexes=True) == "READY READY"


def test_damaged_index_beside_a_broker_is_named_and_blocks_what_follows() -> None:
    damaged = changed(SEGMENTS[0], index_faults=(FAULT,))
    more = {
        "broker": BrokerAtWork("the copy task of the partition's leader works"),
        "mends_indexes": True,
        "beyond_broker": {10},
    }
    assert verdicts(damaged, *SEGMENTS[1:3], **more) == "INDEX_DAMAGED LEFT_TO_BROKER LEFT_TO_BROKER"
    (found, *_) = judge(PARTITION, [damaged], expiry=BrokerExpiry(NOW, DAY), **more)  # type: ignore[arg-type]
    assert found.reason == f"{FAULT}; the copy task of the partition's leader works"


EXTENT = SegmentExtent(100, 119, 9000, 50)
OFFSETS = [(5, 4200), (11, 8400)]
TIMES = [(40, 5), (50, 11)]


def packed(layout: str, *rows: tuple[int, ...]) -> bytes:
    return b"".join(struct.pack(layout, *row) for row in rows)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (OFFSETS, ""),
        ([], ""),
        ([(5, 8999)], ""),
        ([(19, 4200)], ""),
        ([(5, 9000)], "at byte 0: position expected at most 8999, found 9000"),
        ([(20, 4200)], "at byte 0: relative offset expected at most 19, found 20"),
        ([*OFFSETS, (0, 0)], "at byte 16: position expected at least 8401, found 0"),
        ([(0, 0)], "at byte 0: position expected at least 1, found 0"),
        ([(5, 4200), (5, 8400)], "at byte 8: relative offset expected at least 6, found 5"),
        ([(5, 4200), (11, 4200)], "at byte 8: position expected at least 4201, found 4200"),
        ([(-1, 4200)], "at byte 0: relative offset expected at least 0, found -1"),
    ],
)
def test_offset_index_is_wrong_by_its_order(rows: list[tuple[int, int]], fault: str) -> None:
    assert fault_of_order("offset index", packed(">ii", *rows), EXTENT) == fault


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (TIMES, ""),
        ([(50, 5), (50, 11)], ""),
        ([(40, 5)], "the index ends with timestamp 40, but the largest timestamp of the segment is 50"),
        ([], "the index ends with timestamp -1, but the largest timestamp of the segment is 50"),
        ([(60, 5)], "the index ends with timestamp 60, but the largest timestamp of the segment is 50"),
        ([*TIMES, (0, 0)], "at byte 24: timestamp expected at least 50, found 0"),
        ([(50, 11), (50, 5)], "at byte 12: relative offset expected at least 11, found 5"),
        ([(50, 20)], "at byte 0: relative offset expected at most 19, found 20"),
        ([(-1, 5), (50, 11)], "at byte 0: timestamp expected at least 0, found -1"),
    ],
)
def test_time_index_is_wrong_by_its_order(rows: list[tuple[int, int]], fault: str) -> None:
    assert fault_of_order("time index", packed(">qi", *rows), EXTENT) == fault


@pytest.mark.parametrize(
    ("largest", "rows", "is_right"),
    [(-1, [], True), (-1, [(0, 0)], False), (0, [(0, 0)], True), (None, [(0, 0)], False), (None, TIMES, True)],
)
def test_time_index_of_zeros_is_right_if_the_largest_timestamp_is_0(
    largest: int | None, rows: list[tuple[int, int]], is_right: bool
) -> None:
    found = fault_of_order("time index", packed(">qi", *rows), replace(EXTENT, largest_timestamp=largest))
    assert (found == "") == is_right


ABORTED = (0, 0, 7, 101, 110, 111)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([ABORTED], ""),
        ([], ""),
        ([(0, 0, 7, 4, 110, 111)], ""),  # it began in an earlier segment
        ([(1, 0, 7, 101, 110, 111)], "at byte 0: version expected 0, found 1"),
        ([ABORTED, ABORTED], "at byte 34: last offset expected at least 111, found 110"),
        ([(0, 0, 7, 4, 99, 111)], "at byte 0: last offset expected at least 100, found 99"),
        (
            [(0, 0, 7, 101, 120, 121)],
            "at byte 0: the transaction from offset 101 to 120 is not within the segment, whose last offset is 119",
        ),
        (
            [(0, 0, 7, 112, 110, 111)],
            "at byte 0: the transaction from offset 112 to 110 is not within the segment, whose last offset is 119",
        ),
    ],
)
def test_transaction_index_is_wrong_by_its_order(rows: list[tuple[int, ...]], fault: str) -> None:
    assert fault_of_order("transaction index", packed(">bBqqqq", *rows), EXTENT) == fault


def unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b""), unreadable, lambda path: path.unlink()])
def test_active_segment_and_unreadable_indexes_have_no_faults(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    folder = write_small_log(tmp_path)
    spoil(file_of(folder, 15, ".timeindex"))
    assert not reasons(tiersnap("scan", tmp_path, "--segments"))


def test_compacted_topic_has_no_index_verdict_and_verify_says_nothing_of_it(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    file_of(folder, 0, ".timeindex").write_bytes(bytes(120))
    assert not reasons(tiersnap("scan", tmp_path, "--segments"))
    assert_said(tiersnap("verify", tmp_path), 0)
