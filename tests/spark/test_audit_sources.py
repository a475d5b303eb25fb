"""`tiersnap decode` and `tiersnap audit` over logs that are damaged, cut back, merged or made anew."""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from pyspark.sql import SparkSession

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.log_builder import data_batch, legacy_entry, write_partition
from tests.reference.recovered import DATA
from tiersnap.snapshot.tables.spark_made_tables import AUDITS

pytestmark = pytest.mark.spark

_FIRST_ID, _SECOND_ID = "lZ6vvmajTWKDBUTV6SQAtQ", "AAAAAAAAQ3iBBBBBBBBBBA"


def entries(start: int, end: int, *, producer_id: int = 7, sequence: int | None = None) -> list[bytes]:
    """Batches of ten records of one producer; sequences go on from `sequence`, or are as the offsets."""
    first = start if sequence is None else sequence
    return [
        data_batch(offset, 10, producer_id, epoch=0, base_sequence=first + offset - start)
        for offset in range(start, end, 10)
    ]


def write(logs: Path, segments: dict[int, list[bytes]], *, topic: str = "orders", topic_id: str = _FIRST_ID) -> Path:
    """The partition anew, whatever was there."""
    shutil.rmtree(logs / f"{topic}-0", ignore_errors=True)
    marks = {"log_start_offset": min(segments), "high_watermark": max(segments)}
    return write_partition(logs, topic, 0, segments, topic_id=topic_id, **marks)


@dataclass(frozen=True)
class Changed:
    """A topic of one partition, decoded as it was `before` and again as it is `after`.

    Attributes:
        stale: segments whose rows the second decode deletes.
        found: what an audit of the warehouse finds then; that of the log finds it as well, but where `is_history`.
    """

    before: dict[int, list[bytes]]
    after: dict[int, list[bytes]]
    stale: int = 0
    found: dict[str, int] = field(default_factory=dict)
    is_history: bool = False
    after_id: str = _FIRST_ID


_THREE = {0: entries(0, 100), 100: entries(100, 200), 200: entries(200, 300)}
CHANGES = {
    # By a new leader, whose own batches follow in segments that begin elsewhere.
    "cut-back-and-written-on": Changed(
        {**_THREE, 300: entries(300, 400)},
        {0: entries(0, 100), 100: entries(100, 150), 150: entries(150, 250), 250: entries(250, 350)},
        stale=2,
    ),
    "cut-back-to-where-a-segment-began": Changed(_THREE, {0: entries(0, 100), 100: []}, stale=2),
    "cut-back-to-its-start": Changed(_THREE, {0: []}, stale=3),
    "merged-by-the-cleaner": Changed(_THREE, {0: entries(0, 200), 200: entries(200, 300)}, stale=1),
    "made-anew": Changed(
        {0: entries(0, 100), 100: entries(100, 200)},
        {0: entries(0, 50, producer_id=8), 50: entries(50, 60, producer_id=8)},
        stale=1,
        after_id=_SECOND_ID,
    ),
    # The table knows more than the log.
    "shortened-by-retention": Changed(
        {0: [*entries(0, 50), *entries(50, 60, sequence=0)], 60: entries(60, 100, sequence=50)},
        {60: entries(60, 100, sequence=50)},
        found={"DUPLICATE_EXACT": 1},
        is_history=True,
    ),
    # A tail that was being written, and entries of before magic 2.
    "torn": Changed(_THREE, {**_THREE, 300: [*entries(300, 350), data_batch(350, 10)[:70]]}),
    "old": Changed({}, {0: [legacy_entry(offset) for offset in range(10)], 10: entries(10, 20, sequence=0)}),
}


def decode(logs: Path, warehouse: Path) -> Ran:
    return tiersnap("decode", "--source", logs, "--warehouse", warehouse, "--apply")


def both_audits(logs: Path, warehouse: Path) -> tuple[Ran, Ran]:
    return tiersnap("audit", "--source", logs), tiersnap("audit", "--warehouse", warehouse)


def result(ran: Ran) -> dict[str, Any]:
    return json.loads(ran.out)["result"]


@pytest.mark.nightly
def test_what_lies_behind_damage_is_not_called_clean(spark: SparkSession, tmp_path: Path) -> None:
    logs, warehouse = tmp_path / "logs", tmp_path / "warehouse"
    good = entries(0, 100)
    flipped = bytearray(good[4])
    flipped[-1] ^= 1
    folder = write(logs, {0: [*good[:4], bytes(flipped), *good[5:]], 100: entries(100, 200)})
    position = sum(map(len, good[:4]))
    path = str(folder / f"{0:020d}.log")
    for ran in (decode(logs, warehouse), decode(logs, warehouse), *both_audits(logs, warehouse)[:1]):
        assert ran.exit_code == 5, ran.err
        (finding,) = result(ran)["findings"]
        assert (finding["finding_kind"], finding["path"], finding["position"]) == ("BAD_CRC", path, position)
        assert "to see the next step: tiersnap scan LOGDIR" in ran.err
    of_table = both_audits(logs, warehouse)[1]
    assert of_table.exit_code == 5
    assert "1 segment was decoded and audited only in part" in of_table.err


@pytest.mark.nightly
def test_only_batches_that_are_in_the_log_and_what_retention_took_are_audited(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs, warehouse = tmp_path / "logs", tmp_path / "ware`house {0}"
    for topic, change in CHANGES.items():
        if change.before:
            write(logs, change.before, topic=topic)
    assert decode(logs, warehouse).exit_code == 0
    for topic, change in CHANGES.items():
        write(logs, change.after, topic=topic, topic_id=change.after_id)
    stale = sum(change.stale for change in CHANGES.values())
    planned = tiersnap("decode", "--source", logs, "--warehouse", warehouse)
    done, again = decode(logs, warehouse), decode(logs, warehouse)
    assert [ran.rows[0]["stale_segments"] for ran in (planned, done, again)] == [stale, stale, 0]
    of_log, of_table = both_audits(logs, warehouse)
    for ran in (planned, done, again, of_log, of_table):
        assert result(ran)["findings"] == [], "neither a torn tail nor old entries are damage"
    for ran in (done, again, of_log):
        assert ran.exit_code == 0, ran.err
        assert "1 segment ends with entries of magic 0 or 1" in ran.err
    found = {topic: dict(Counter(row["kind"] for row in of_table.rows if row["topic"] == topic)) for topic in CHANGES}
    assert found == {topic: change.found for topic, change in CHANGES.items()}
    assert of_log.rows == [row for row in of_table.rows if not CHANGES[row["topic"]].is_history]
    assert of_table.exit_code == 5
    kept = spark.read.format("delta").load(str(warehouse / "record_batches")).where("topic = 'merged-by-the-cleaner'")
    assert kept.select("segment_base_offset", "base_offset").distinct().count() == 30


@pytest.mark.nightly
def test_an_audit_says_which_partitions_it_looked_at_also_where_it_found_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs, warehouse = tmp_path / "logs", tmp_path / "warehouse"
    write(logs, {0: entries(0, 50), 50: [*entries(50, 90), *entries(90, 100, sequence=50)]})
    write(logs, {5: []}, topic="empty")
    for _ in range(2):
        assert tiersnap("audit", "--source", logs, "--to", warehouse).exit_code == 5
    write(logs, {0: entries(0, 50), 50: entries(50, 100)})
    assert tiersnap("audit", "--source", logs, "--to", warehouse).exit_code == 0
    rows = spark.read.format("delta").load(str(warehouse / "audits"))
    assert rows.columns == AUDITS.names
    found = {(row.run, row.topic, row.batches, row.first_offset, row.last_offset) for row in rows.collect()}
    assert found == {(run, *each) for run in (1, 2, 3) for each in (("orders", 10, 0, 99), ("empty", 0, None, None))}
    harmful = spark.read.format("delta").load(str(warehouse / "audit_findings"))
    assert {row.run for row in harmful.collect()} == {1, 2}


@pytest.mark.nightly
def test_an_audit_counts_the_damage_behind_which_it_did_not_look(spark: SparkSession, tmp_path: Path) -> None:
    logs, warehouse = tmp_path / "logs", tmp_path / "warehouse"
    again = [*entries(50, 90), *entries(90, 100, sequence=50)]
    write(logs, {0: entries(0, 50), 50: again, 100: entries(100, 150)})
    write(logs, {0: entries(0, 50)}, topic="sound")
    assert tiersnap("audit", "--source", logs, "--to", warehouse).exit_code == 5
    flipped = bytearray(again[1])
    flipped[-1] ^= 1
    write(logs, {0: entries(0, 50), 50: [again[0], bytes(flipped), *again[2:]], 100: entries(100, 150)})
    assert decode(logs, warehouse).exit_code == 5
    assert tiersnap("audit", "--source", logs, "--to", warehouse).exit_code == 5
    assert tiersnap("audit", "--warehouse", warehouse, "--to", warehouse).exit_code == 5
    rows = spark.read.format("delta").load(str(warehouse / "audits")).collect()
    counts = {(row.run, row.topic, row.damage_count) for row in rows}
    damaged = {(1, "orders", 0), (2, "orders", 1), (3, "orders", 1)}
    assert counts == damaged | {(1, "sound", 0), (2, "sound", 0), (3, "sound", 0)}
    places = ("--remote", tmp_path / "remote", "--warehouse", warehouse)
    assert_said(tiersnap("run", "--source", logs, *places, "--apply"), 5)
    assert_said(tiersnap("report", "--warehouse", warehouse, "--to", tmp_path / "page"), 5)
    assert "DUPLICATE_EXACT" in (tmp_path / "page" / "lost.html").read_text()


def resent(batch: bytes, offset: int, producer_id: int, epoch: int, sequence: int) -> bytes:
    """The batch as a client sends it again under other numbers, appended at `offset`."""
    again = bytearray(batch)
    struct.pack_into(">q", again, 0, offset)
    struct.pack_into(">qhi", again, 43, producer_id, epoch, sequence)
    struct.pack_into(">I", again, 17, google_crc32c.value(bytes(again[21:])))
    return bytes(again)


def test_batch_of_a_real_log_that_was_sent_again_is_found_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    logs = shutil.copytree(DATA / "kafka-4.1.1" / "logs", tmp_path / "logs")
    first, last = (sorted((logs / "orders-0").glob("*.log"))[index] for index in (0, -1))
    batch = first.read_bytes()[: 12 + struct.unpack_from(">i", first.read_bytes(), 8)[0]]
    count = struct.unpack_from(">i", batch, 57)[0]
    end = json.loads(tiersnap("dump", last).out)["result"][0]["entries"][-1]["last_offset"] + 1
    size = last.stat().st_size
    # 8 is the producer id of pay-0, which __transaction_state of the same log says.
    again = [resent(batch, end, 8, 0, 0), resent(batch, end + count, 0, 1, 0)]
    with last.open("ab") as file:
        file.write(b"".join(again))
    ran = tiersnap("audit", "--source", logs, "--topic", "orders")
    assert ran.exit_code == 5, ran.err
    found = [row for row in ran.rows if row["kind"] == "DUPLICATE_RENUMBERED"]
    assert [
        (row["first_offset"], row["producer_id"], row["producer_epoch"], row["transactional_id"]) for row in found
    ] == [
        (end, 8, 0, "pay-0"),
        (end + count, 0, 1, None),
    ]
    about = {(row["before_first_offset"], row["before_producer_id"], row["harm"], row["confidence"]) for row in found}
    assert about == {(0, 0, "DUPLICATE", "MEDIUM")}
    places = [(row["segment_base_offset"], row["position"]) for row in found]
    assert places == [(int(last.stem), size), (int(last.stem), size + len(batch))]
    (stamp,) = {row["timestamp"] for row in found}
    assert stamp == struct.unpack_from(">q", batch, 35)[0]
