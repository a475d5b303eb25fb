"""What producer state is for: a batch sent again is a duplicate only to a broker that remembers its producer."""

from __future__ import annotations

import pytest

from tests.broker.harness import damage
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import offsets
from tests.broker.harness.log_batches import batches, last_batches
from tests.broker.harness.raw_protocol import Resent, describe_producers, resend
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.topics import log_end, wait_for_leader

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]


def test_the_last_batch_of_every_producer_is_a_duplicate_after_a_clean_restart(current_disks, copy_of):
    disks = copy_of(current_disks)
    last = last_batches(disks.partition(TOPIC))
    everybody = {batch.producer_id for batch in batches(disks.partition(TOPIC)) if batch.producer_id >= 0}
    assert len(last) == 4

    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        known = describe_producers(broker, TOPIC)
        end = log_end(broker, TOPIC)
        resent = resend(broker, TOPIC, last.values())

        assert {producer.producer_id for producer in known} == everybody
        assert resent == Resent(duplicates=4)
        assert log_end(broker, TOPIC) == end


def test_with_an_empty_newest_snapshot_every_one_is_appended_a_second_time(current_disks, copy_of):
    disks = copy_of(current_disks)
    folder = disks.partition(TOPIC)
    last = last_batches(folder)
    damage.empty_snapshot(folder, offsets(folder, ".snapshot")[-1])

    with Broker(disks, CURRENT_VERSION) as broker:
        wait_for_leader(broker, TOPIC)
        known = describe_producers(broker, TOPIC)
        end = log_end(broker, TOPIC)
        resent = resend(broker, TOPIC, last.values())

        assert known == []
        assert resent == Resent(appended=4)
        assert log_end(broker, TOPIC) == end + sum(each.last_offset - each.base_offset + 1 for each in last.values())
