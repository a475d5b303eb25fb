"""`tiersnap verify` of files and remote segments while the broker runs: what is right is found right at any moment."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.places import QUICK
from tests.broker.harness.releases import Release, releases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import SEGMENT_BYTES, alter_topic, create_topic, delete_records, log_start
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

CLOSED = 7
LOCAL = 3  # closed segments that local retention keeps


def checkpointed_log_start(log_dir: Path) -> int | None:
    """Return the log start that the checkpoint names; None if it does not name the partition."""
    lines = (log_dir / "log-start-offset-checkpoint").read_text().splitlines()
    found = [int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} 0 ")]
    return found[0] if found else None


@pytest.mark.parametrize("release", releases(CURRENT_VERSION))
def test_verify_of_a_healthy_broker_ends_with_0_also_right_after_records_were_deleted(release: Release, tmp_path: Path):
    """Brokers checkpoint a new log start after a minute, and delete remote segments below it before that."""
    disks, tier = kraft_disks(tmp_path / "disks", release.version), release.tier(tmp_path / "tier")
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        create_topic(broker, TOPIC, configs=TOPIC_SETTINGS)
        write_segments(broker, TOPIC, CLOSED + 1)
        folder = disks.partition(TOPIC)
        bases = segment_bases(folder)
        wait_until(lambda: states(broker, TOPIC)["COPY_SEGMENT_FINISHED"] == CLOSED, "all are tiered")

        def verify(*words: str) -> dict[str, int]:
            """Verify both sides; return how many files and how many remote segments were compared."""
            place = ("--remote", tier.directory, "--layout", tier.layout)
            ran = tiersnap("verify", disks.log_dir, *place, "--topic", TOPIC, *words)
            assert ran.exit_code == 0, f"{ran.out}\n{ran.err}"
            remote = sum("segment_id" in row for row in ran.rows)
            return {"files": len(ran.rows) - remote, "remote": remote}

        assert verify() == {"files": CLOSED, "remote": CLOSED}
        assert verify("--depth", "full") == {"files": 0, "remote": CLOSED}
        alter_topic(broker, TOPIC, {"local.retention.bytes": str((LOCAL + 1) * SEGMENT_BYTES)})
        wait_until(lambda: segment_bases(folder)[0] > bases[2], "local retention deletes files")
        assert verify()["remote"] == CLOSED

        delete_records(broker, TOPIC, bases[2] + 5)
        began = time.monotonic()
        assert verify()["remote"] in range(CLOSED - 2, CLOSED + 1)
        wait_until(lambda: min(tier.complete_bases(TOPIC)) == bases[2], "remote segments below are deleted")
        assert verify()["remote"] == CLOSED - 2
        assert verify("--depth", "full")["remote"] == CLOSED - 2
        assert log_start(broker, TOPIC) == bases[2] + 5
        assert checkpointed_log_start(disks.log_dir) != bases[2] + 5, f"checkpointed within {time.monotonic() - began}"
