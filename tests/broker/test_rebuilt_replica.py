"""A replica that stock Kafka rebuilt from the tier: it knows nobody, leads, and poisons the tier; then it is cured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import Disks, kraft_disks
from tests.broker.harness.log_batches import Batch, last_batches
from tests.broker.harness.mended import known_producers
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks, create_led_by, elect, leader_and_isr
from tests.broker.harness.raw_protocol import Resent, resend
from tests.broker.harness.releases import Release, releases
from tests.broker.harness.scenarios import TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import SECONDS, SEGMENT_BYTES, alter_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, segment_count, write_segments
from tests.reference.command import assert_said, tiersnap
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.broker

FIRST, SECOND = 1, 2
EARLY = 60
SOON = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
KIP_1023 = pytest.param(
    Release("4.3.1"), marks=[pytest.mark.kafka("4.3.1"), pytest.mark.nightly], id="4.3.1-local-tiered-storage"
)
# Since 4.3 a follower can begin with the last tiered offset (KIP-1023).
FROM_THE_TIER = {"follower.fetch.last.tiered.offset.enable": "true"}


def only_active_left(disks: Disks) -> bool:
    return len(segment_bases(disks.partition(TOPIC))) == 1


def write_once(leader: Broker) -> dict[int, Batch]:
    """Closed segments, in the middle ones batches of EARLY producers that write nothing more; the last ones by id."""
    one, folder = Workload(idempotent=1, transactional=0, early=0), leader.disks.partition(TOPIC)
    write_segments(leader, TOPIC, 4, one, name="before-")
    before = last_batches(folder).keys()
    everybody = Workload(idempotent=EARLY, transactional=0, early=0, records=1)
    write_segments(leader, TOPIC, 6, everybody, name="early-")
    early = {name: batch for name, batch in last_batches(folder).items() if name not in before}
    write_segments(leader, TOPIC, 8, one, name="behind-")
    return early


def forgotten_in(disks: Disks, *remote: str | Path) -> list[dict]:
    """Replicas that `doctor` names."""
    found: list[dict] = json.loads(tiersnap("doctor", disks.log_dir, *remote).out)["result"]["lost_producers"]
    return found


def predicted(disks: Disks, version: str, *remote: str | Path) -> dict[int, str]:
    """What a leader from these files answers to last batches, by producer, if not what one that never stopped does."""
    broker = ".".join(version.split(".")[:2])
    ran = tiersnap("simulate", disks.log_dir, "--topic", TOPIC, "--producers", "--broker", broker, *remote)
    assert_said(ran, 0)
    return {row["producer_id"]: row["replica_answer"] for row in ran.rows if row["write"] == "RETRY_OF_LAST"}


def known_in_tier(tier: LocalTier) -> list[int]:
    """How many producers the snapshots of the remote segments know, in offset order."""
    return [len(snapshot_file.decode(each.snapshot)) for each in tier.segments(TOPIC) if each.complete]


@pytest.mark.parametrize("release", [*releases("4.1.1"), KIP_1023])
def test_a_replica_rebuilt_from_the_tier_is_named_before_it_leads_and_cured(release: Release, tmp_path: Path) -> None:
    version, tier = release.version, release.tier(tmp_path / "tier")
    begins_behind = version in ("4.3.1", "4.4.0")
    settings = FROM_THE_TIER if begins_behind else {}
    first_disks = kraft_disks(tmp_path / "first", version)
    disks = broker_disks(tmp_path / "second", version, SECOND)
    remote = ("--remote", tier.directory, "--layout", tier.layout)
    with Broker(first_disks, version, tier=tier, settings=SOON) as first:
        second = FurtherBroker(disks, version, SECOND, first, tier, settings={**SOON, **settings})
        with second:
            create_led_by(first, TOPIC, SECOND, TOPIC_SETTINGS)
        wait_until(lambda: leader_and_isr(first, TOPIC)[0] == FIRST, "the other leads", seconds=SECONDS)
        early = write_once(first)
        known = known_producers(first)
        assert len(early) == EARLY < len(known)
        # Brokers without KIP-1023 lose what is not local any more, those with it what is.
        alter_topic(first, TOPIC, {"local.retention.bytes": str(5 * SEGMENT_BYTES) if begins_behind else "1"})
        is_deleted = lambda: segment_bases(first_disks.partition(TOPIC))[0] > 0  # noqa: E731
        wait_until(
            lambda: is_deleted() if begins_behind else only_active_left(first_disks), "it is deleted", seconds=60
        )
        if begins_behind:
            assert min(batch.base_offset for batch in early.values()) >= segment_bases(first_disks.partition(TOPIC))[0]

        shutil.rmtree(disks.partition(TOPIC))
        second.start()
        with second:
            wait_until(lambda: leader_and_isr(first, TOPIC)[1] == [FIRST, SECOND], "it is in sync again", seconds=60)
            assert_said(tiersnap("doctor", disks.log_dir, *remote), 4)
            (named,) = forgotten_in(disks, *remote)
            (scanned,) = tiersnap("scan", disks.log_dir, "--topic", TOPIC, *remote).rows
            answers = predicted(disks, version, *remote)
            assert forgotten_in(first_disks, *remote) == [], "this replica is right"
            elect(first, TOPIC, SECOND)
            forgotten = known - known_producers(second)
            assert forgotten >= early.keys(), "stock Kafka has lost them"
            assert (named["known"], named["living"]) == (len(known - forgotten), len(known))
            assert {name: named[name] for name in ("known", "living")}.items() <= scanned.items()
            doubled = dict(list(early.items())[: EARLY // 2])
            assert {answers[name] for name in doubled} == {"ACCEPT"}
            assert resend(second, TOPIC, doubled.values()) == Resent(appended=EARLY // 2)
            late = Workload(idempotent=1, transactional=0, early=0)
            alter_topic(first, TOPIC, {"local.retention.bytes": "100000000"})
            tiered = len(known_in_tier(tier))
            write_segments(second, TOPIC, segment_count(disks.partition(TOPIC)) + 3, late, name="late-")
            wait_until(lambda: len(known_in_tier(tier)) >= tiered + 3, "it tiers what it knows", seconds=SECONDS)
        assert known_in_tier(tier)[-1] < len(known), "and has poisoned the tier"

        unasked = tiersnap("verify", disks.log_dir, "--topic", TOPIC)
        assert_said(unasked, 0, "not compared")
        assert {row["verdict"] for row in unasked.rows} == {"NOT_COMPARED"}
        assert tiersnap("verify", disks.log_dir, "--topic", TOPIC, *remote).exit_code == 4
        (named,) = forgotten_in(disks, *remote)
        assert named["living"] - named["known"] == len(forgotten - doubled.keys())
        cured = tiersnap("repair", disks.log_dir, "--topic", TOPIC, *remote, "--replace", "--apply")
        assert_said(cured, 0)
        verified = tiersnap("verify", disks.log_dir, "--topic", TOPIC, *remote, "--strict")
        assert_said(verified, 4, "SUSPECT")  # of remote segments: the files beside the log are right
        assert {row["verdict"] for row in verified.rows if "segment_id" not in row} <= {"MATCHES", "EXTENDS"}
        assert forgotten_in(disks, *remote) == []
        assert predicted(disks, version, *remote) == {}

        second.start()
        with second:
            elect(first, TOPIC, SECOND)
            assert known_producers(second) == known_producers(first) >= known
            again = {name: batch for name, batch in early.items() if name not in doubled}
            refused = resend(second, TOPIC, again.values())
            assert (len(again), refused.appended) == (EARLY // 2, 0)
            print(version, named["meets"], refused)
