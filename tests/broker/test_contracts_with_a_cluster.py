"""What programs rely on, of the commands that ask a cluster: each in every form, of three topics of one broker.

`empty` has no record. `healthy` was tiered by its broker, and `healthy-ours` by us and is not published. `damaged` is
stuck before a damaged segment, and `damaged-ours` has a damaged copy and a damaged claim.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, file_at, segment_bases
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, NO_SNAPSHOT
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, create_topic, wait_for_leader
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import tiersnap
from tests.reference.contracts import (
    OUTPUTS,
    STATES,
    Calls,
    Place,
    assert_prints_what_its_schema_says,
    flip_a_byte,
)
from tests.reference.left_over import make_old
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

COPYING_OFF = {**TOPIC_SETTINGS, "remote.log.copy.disable": "true"}
LAYOUT = ("--layout", "local-tiered-storage")
SEGMENTS = 4
CALLS: Calls = {
    "publish": lambda at: [*LAYOUT, "--remote", at["remote"]],
    "unblock": lambda at: [*LAYOUT, "--remote", at["remote"], at["log"]],
    "mend": lambda at: ["--remote", at["remote"], "--from", at["remote"], "--from-layout", "aiven"],
    "maintain remove-orphans": lambda at: ["--remote", at["remote"]],
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Everything is dry here, so one serves all cells."""
    root = tmp_path_factory.mktemp("contracts")
    disks, tier = kraft_disks(root / "disks", CURRENT_VERSION), LocalTier(root / "tier", FAILING_INTERVAL_MS)
    topics = {"empty": 1, "healthy": SEGMENTS, "healthy-ours": SEGMENTS, "damaged": SEGMENTS, "damaged-ours": SEGMENTS}
    with Broker(disks, CURRENT_VERSION) as before:
        for topic, segments in topics.items():
            create_topic(before, topic)
            if segments > 1:
                write_segments(before, topic, segments)
    drop_snapshot(disks.partition("damaged"), segment_bases(disks.partition("damaged"))[2])
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        for topic in topics:
            wait_for_leader(broker, topic)
            alter_topic(broker, topic, COPYING_OFF if topic.endswith("ours") else TOPIC_SETTINGS)
        wait_until(lambda: broker.log.count(NO_SNAPSHOT) >= 2, "the copier of one fails", seconds=30)
        wait_until(lambda: len(tier.complete_bases("healthy")) == SEGMENTS - 1, "another is tiered", seconds=30)
        ours = ("--topic", ".*-ours")
        ran = tiersnap("tier", disks.log_dir, "--remote", tier.directory, *LAYOUT, *ours, "--apply")
        assert ran.exit_code == 0, ran.err
        # A segment that the stuck copier has not come to; of our copies one that is finished, and a claim.
        flip_a_byte(file_at(disks.partition("damaged"), segment_bases(disks.partition("damaged"))[2], ".log"))
        flip_a_byte(tier.segments("damaged-ours")[0].files[".leader_epoch_checkpoint"], at=0)
        flip_a_byte(min(tier.directory.glob("claims/damaged-ours-*/*/*.json")), at=0)
        make_old(DirectoryStore(tier.directory))
        yield broker


@pytest.fixture(scope="module")
def place(broker: Broker) -> Place:
    assert broker.tier is not None
    return {"remote": broker.tier.directory, "log": broker.disks.log_dir}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("state", STATES, scope="module")
def test_a_command_prints_what_its_schema_says(
    call: str, output: str, state: str, place: Place, broker: Broker
) -> None:
    words = [*CALLS[call](place), "--bootstrap-server", broker.bootstrap, "--topic", f"{state}.*"]
    assert_prints_what_its_schema_says(call, words, output, state)
