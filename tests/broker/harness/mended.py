"""The end of every story here: a broker that knows all producers and tiers every closed segment, with right state."""

from __future__ import annotations

from pathlib import Path

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import snapshots
from tests.broker.harness.disks import Disks
from tests.broker.harness.log_batches import batches
from tests.broker.harness.raw_protocol import describe_producers
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC, TieringOutcome, outcome_of, wait_for_tiering
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import wait_for_leader
from tests.broker.oracle.judge import wrongly_tiered


def producers_in_log(folder: Path) -> set[int]:
    return {batch.producer_id for batch in batches(folder) if batch.producer_id >= 0}


def known_producers(broker: Broker, topic: str = TOPIC) -> set[int]:
    """Producer ids by DescribeProducers."""
    return {producer.producer_id for producer in describe_producers(broker, topic)}


def assert_tiers_all_right(
    disks: Disks, out: Path, *, version: str = CURRENT_VERSION, topic: str = TOPIC, tier: LocalTier | None = None
) -> TieringOutcome:
    """Start a broker on `disks`, tier `topic`, stop it.

    It must know every producer in the log, copy every closed segment once and never fail, and what went with each
    segment must be what Kafka's own classes fold. `out` is a folder to write in.
    """
    tier = tier or LocalTier(out / "mended-tier")
    folder = disks.partition(topic)
    with Broker(disks, version, tier=tier) as broker:
        found = snapshots(folder)
        wait_for_leader(broker, topic)
        assert known_producers(broker, topic) == producers_in_log(folder)
        wait_for_tiering(broker, tier, topic=topic)
        outcome = outcome_of(broker, tier, topic=topic, found=found)
    assert outcome.failures == 0
    assert outcome.tiered_bases == outcome.inactive
    assert wrongly_tiered(outcome, folder, out / "mended-oracle") == ()
    return outcome
