"""`tiersnap audit` of a log that real producers wrote, and that was then doubled, torn and written by a zombie."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import offsets
from tests.broker.harness.log_batches import CONTROL, TRANSACTIONAL, Batch, batches, last_batches
from tests.broker.harness.raw_protocol import Connection, Resent, produce, resend
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.topics import wait_for_leader
from tests.broker.harness.writing import transaction_around
from tests.reference import log_builder as lb
from tests.reference.command import tiersnap

pytestmark = [
    pytest.mark.broker,
    pytest.mark.nightly,
    pytest.mark.kafka(CURRENT_VERSION),
    # PySpark leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def take_out(folder: Path, wanted: Batch) -> None:
    """Cut one batch out of its segment, as if it had never been written."""
    for path in folder.glob("*.log"):
        data = path.read_bytes()
        if wanted.data in data:
            path.write_bytes(data.replace(wanted.data, b""))
            return
    raise AssertionError("no segment has the batch")


def zombie_of(written: list[Batch]) -> bytes:
    """The next batch of the first epoch of the producer that was fenced."""
    epochs: dict[int, list[Batch]] = {}
    for each in written:
        if each.attributes & TRANSACTIONAL and not each.attributes & CONTROL:
            epochs.setdefault(each.producer_id, []).append(each)
    (mine,) = (each for each in epochs.values() if len({batch.producer_epoch for batch in each}) > 1)
    first = [each for each in mine if each.producer_epoch == mine[0].producer_epoch]
    count = sum(each.last_offset - each.base_offset + 1 for each in first)
    return lb.data_batch(0, 3, mine[0].producer_id, mine[0].producer_epoch, count, leader_epoch=-1)


def test_what_was_doubled_taken_out_and_written_by_a_zombie_is_found_and_nothing_else(current_disks, copy_of):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        for _ in range(2):  # the second fences the first
            with transaction_around(broker, TOPIC, name="fenced"):
                pass
    written = list(batches(folder))
    (doubled, *_) = last_batches(folder).values()
    damage.empty_snapshot(folder, offsets(folder, ".snapshot")[-1])
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        assert resend(broker, TOPIC, [doubled]) == Resent(appended=1)
        with Connection(broker) as connection:
            error, zombie_offset = produce(connection, TOPIC, 0, zombie_of(written))
        assert error == 0, "a broker that lost its state lets it in"
    mine = [each for each in written if each.idempotent_only and each.producer_id == doubled.producer_id]
    before, taken, after = mine[2:5]
    take_out(folder, taken)

    sources = [f"--source={each.partition(TOPIC).parent}" for each in (current_disks, disks)]
    ran = tiersnap("audit", *sources, "--topic", TOPIC, "--limit", "1000", "--master", "local[2]")

    assert ran.exit_code == 5, ran.err
    damaged = str(folder.parent)
    harmless = {"FENCED", "OPEN_TRANSACTION", "OUT_OF_ORDER_TIMESTAMPS"}
    found = [row for row in ran.rows if row["kind"] not in harmless]
    assert {row["log_dir"] for row in found} == {damaged}, "the log as its producers left it has no finding"
    assert {row["harm"] for row in ran.rows if row["kind"] in harmless} <= {"NONE"}
    assert Counter(row["kind"] for row in found) == {
        "DUPLICATE_EXACT": 1,
        "ZOMBIE_WRITE": 1,
        "GAP": 1,
        "OFFSET_GAP": 1,
    }, json.dumps(found, indent=1)
    rows = {row["kind"]: row for row in found}
    double = rows["DUPLICATE_EXACT"]
    assert (double["before_first_offset"], double["producer_id"]) == (doubled.base_offset, doubled.producer_id)
    assert (double["first_offset"], double["is_same"], double["harm"]) == (
        written[-1].last_offset + 1,
        True,
        "DUPLICATE",
    )
    assert (rows["ZOMBIE_WRITE"]["first_offset"], rows["ZOMBIE_WRITE"]["harm"]) == (zombie_offset, "FENCING")
    gap, hole = rows["GAP"], rows["OFFSET_GAP"]
    assert (gap["before_last_offset"], gap["first_offset"]) == (before.last_offset, after.base_offset)
    assert (gap["judgement"], gap["harm"]) == ("HOLE", "LOSS")
    assert (hole["before_last_offset"] + 1, hole["first_offset"] - 1) == (taken.base_offset, taken.last_offset)
    assert gap["distance"] == hole["distance"] == taken.last_offset - taken.base_offset + 1
