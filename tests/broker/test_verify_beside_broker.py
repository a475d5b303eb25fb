"""`tiersnap verify` of files and remote segments while the broker runs: what is right is found right at any moment."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.places import COPYING_OFF, QUICK
from tests.broker.harness.releases import Release, releases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import SEGMENT_BYTES, alter_topic, create_topic, delete_records, log_start
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

THEIRS, OURS = "theirs", "ours"  # topics by who uploads their segments
CLOSED = 7
LOCAL_BYTES = str(4 * SEGMENT_BYTES)
CHECKPOINT = "log-start-offset-checkpoint"


def checkpointed(log_dir: Path) -> dict[str, int]:
    """Return the log starts that the checkpoint names, by topic."""
    lines = (line.split() for line in (log_dir / CHECKPOINT).read_text().splitlines())
    return {words[0]: int(words[2]) for words in lines if words[0] in (THEIRS, OURS)}


def tier_and_delete_files(broker: Broker) -> None:
    """Fill both topics, have them tiered, and leave local retention a few files of each."""
    assert broker.tier is not None
    place = ("--remote", broker.tier.directory, "--topic", OURS)
    for topic, configs in {THEIRS: TOPIC_SETTINGS, OURS: COPYING_OFF}.items():
        create_topic(broker, topic, configs=configs)
        write_segments(broker, topic, CLOSED + 1, name=f"{topic}-")

    def are_tiered() -> bool:
        assert tiersnap("tier", broker.disks.log_dir, *place, "--apply").exit_code == 0
        return all(states(broker, topic)["COPY_SEGMENT_FINISHED"] == CLOSED for topic in (THEIRS, OURS))

    wait_until(are_tiered, "all closed segments are tiered", every=1)
    for topic in (THEIRS, OURS):
        alter_topic(broker, topic, {"remote.log.copy.disable": "false", "local.retention.bytes": LOCAL_BYTES})
        folder = broker.disks.partition(topic)
        wait_until(lambda at=folder: segment_bases(at)[0] > 0, f"local retention deletes files of {topic}")


@pytest.mark.nightly
@pytest.mark.parametrize("release", releases(CURRENT_VERSION))
def test_verify_of_a_healthy_broker_ends_with_0_also_right_after_records_were_deleted(release: Release, tmp_path: Path):
    """Brokers checkpoint a new log start once a minute, and delete remote segments below it before that."""
    disks, tier = kraft_disks(tmp_path / "disks", release.version), release.tier(tmp_path / "tier")
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        tier_and_delete_files(broker)
        bases = {topic: tier.complete_bases(topic) for topic in (THEIRS, OURS)}
        # The start writes the checkpoint once more, and then a minute passes.
        broker.stop()
        began = time.time_ns()
        broker.start()
        wait_until(lambda: (disks.log_dir / CHECKPOINT).stat().st_mtime_ns > began, "log starts are checkpointed")
        assert checkpointed(disks.log_dir) == {THEIRS: 0, OURS: 0}

        def verified(*words: str) -> list[int]:
            """Verify both sides; return the base offsets of the remote segments."""
            place = ("--remote", tier.directory, "--topic", f"{THEIRS}|{OURS}")
            ran = tiersnap("verify", disks.log_dir, *place, *words)
            assert ran.exit_code == 0, f"{ran.out}\n{ran.err}"
            return sorted(row["base_offset"] for row in ran.rows if "segment_id" in row)

        everything = sorted(base for each in bases.values() for base in each)
        assert verified() == verified("--depth", "full") == everything

        starts = {topic: each[2] + 5 for topic, each in bases.items()}
        for topic, start in starts.items():
            delete_records(broker, topic, start)
        assert set(verified()) <= set(everything), "while segments are deleted"
        left = sorted(base for each in bases.values() for base in each[2:])
        for topic, each in bases.items():
            wait_until(lambda at=topic, end=each[2:]: tier.complete_bases(at) == end, f"{topic}: segments are deleted")
        assert verified() == verified("--depth", "full") == left
        assert {topic: log_start(broker, topic) for topic in starts} == starts
        assert checkpointed(disks.log_dir) == {THEIRS: 0, OURS: 0}, "all of that within the minute"
