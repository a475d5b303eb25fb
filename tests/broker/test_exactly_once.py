"""Exactly once on a restored partition: what every producer sent last is sent again, byte for byte."""

from __future__ import annotations

import shutil

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import CLEAN_SHUTDOWN, EMPTY_SNAPSHOT, file_at
from tests.broker.harness.log_batches import last_batches
from tests.broker.harness.raw_protocol import Resent, describe_producers, resend
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.topics import log_end, wait_for_leader
from tests.reference.command import tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]


@pytest.fixture(params=["clean start", "unclean start"])
def disks(request, lost, tmp_path):
    """Without the partition: its folder lost and the broker stopped cleanly, or the whole disk lost."""
    if request.param == "unclean start":
        return lost.lose_disk(tmp_path / "disks")
    copied = lost.disks.copy_to(tmp_path / "disks")
    shutil.rmtree(copied.partition(lost.topic))
    assert (copied.log_dirs[1] / CLEAN_SHUTDOWN).exists()
    return copied


def restore_and_resend(lost, disks, *words: str) -> tuple[int, int, Resent]:
    """Producers known to the broker, producers in the restored log that were idempotent only, and what became of it."""
    topic = lost.topic
    before = {name: (disks.log_dirs[1] / name).exists() for name in (CLEAN_SHUTDOWN,)}
    ran = tiersnap(
        *("restore", "--remote", *lost.remote, "--to", disks.log_dirs[1], "--topic", topic),
        *("--unpublished", "--apply", *words),
    )
    assert ran.exit_code == 0, ran.err
    assert {name: (disks.log_dirs[1] / name).exists() for name in before} == before, "the marker is the broker's"
    last = last_batches(disks.partition(topic))
    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, topic)
        known = len(describe_producers(broker, topic))
        end = log_end(broker, topic)
        assert end == lost.end(topic)
        resent = resend(broker, topic, last.values())
        grown = log_end(broker, topic) - end
    assert grown == (sum(each.last_offset - each.base_offset + 1 for each in last.values()) if resent.appended else 0)
    print(
        f"{len(last)} batches sent again: {resent.duplicates} duplicates, {resent.appended} appended, {grown} records"
    )
    return known, len(last), resent


@pytest.mark.nightly
def test_with_the_restored_snapshots_every_batch_sent_again_is_a_duplicate(lost, disks):
    known, producers, resent = restore_and_resend(lost, disks)
    assert known > producers >= 28, "20 of one batch, 4 and 4; and the transactional ones"
    assert resent == Resent(duplicates=producers)


@pytest.mark.nightly
def test_with_the_empty_snapshot_every_one_is_appended_a_second_time(lost, disks):
    known, producers, resent = restore_and_resend(lost, disks, "--producer-state", "empty")
    assert known == 0
    assert resent == Resent(appended=producers)
    assert file_at(disks.partition(lost.topic), lost.end(lost.topic), ".snapshot").read_bytes() == EMPTY_SNAPSHOT
