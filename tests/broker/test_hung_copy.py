"""A copy whose storage manager does not return: `doctor` names it, and `unblock` frees it while the broker runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.flaky_tier import FlakyTier
from tests.broker.harness.more_brokers import FurtherBroker, broker_disks, create_led_by, leader_and_isr
from tests.broker.harness.scenarios import CURRENT_VERSION, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import create_topic
from tests.broker.harness.unblocking import unblock
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, write_segments
from tests.reference.command import tiersnap

pytestmark = pytest.mark.broker

ONE = Workload(idempotent=1, transactional=0, early=0)
FIRST, SECOND = 1, 2
RELEASES = [
    pytest.param(
        version,
        is_soft,
        marks=pytest.mark.kafka(version),
        id=f"{version}-{'soft' if is_soft else 'hard'}",
    )
    for version in ("3.9.1", "4.1.1", "4.4.0")
    for is_soft in (True, False)
]


def doctor(broker: Broker, *words: str) -> tuple[int, dict]:
    """Exit code and result."""
    ran = tiersnap("doctor", "--bootstrap-server", broker.bootstrap, *words)
    result: dict = json.loads(ran.out)["result"] or {}
    return ran.exit_code, result


def others(broker: Broker, known: str) -> list[str]:
    """Segment ids of copies that hang, but for one that is known."""
    _, result = doctor(broker, "--hung-after", "1s")
    return [each["segment_id"] for each in result.get("hung", ()) if each["segment_id"] != known]


def closed(broker: Broker) -> tuple[int, ...]:
    """Base offsets of the segments that are to be copied."""
    return tuple(segment_bases(broker.disks.partition(TOPIC))[:-1])


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "is_soft"), RELEASES)
def test_a_copy_that_hangs_is_named_by_one_doctor_and_freed(
    version: str, is_soft: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = FlakyTier(tmp_path / "tier", version=version)
    disks = kraft_disks(tmp_path / "disks", version)
    with Broker(disks, version, tier=tier) as broker:
        create_topic(broker, TOPIC, configs=TOPIC_SETTINGS)
        write_segments(broker, TOPIC, 4, ONE)
        wait_until(lambda: tier.complete_bases(TOPIC) == closed(broker), "all is tiered")
        code, found = doctor(broker, "--hung-after", "1ms")
        assert (code, found["hung"]) == (0, []), "no copy is under way"

        for flag in ("hang", *(["soft"] if is_soft else [])):
            (tier.flags / flag).touch()
        write_segments(broker, TOPIC, 6, ONE, name="behind-")
        at = closed(broker)[3]
        wait_until(lambda: doctor(broker, "--hung-after", "1s")[0] == 4, "a copy hangs", seconds=60)
        code, found = doctor(broker, "--hung-after", "1s")
        (hung,) = found["hung"]
        assert (code, hung["topic"], hung["broker"], hung["base_offset"]) == (4, TOPIC, 1, at)
        assert doctor(broker)[0] == 0, "by default it is slow for the first 30 minutes"

        # The broker dies and leads again: its old attempt stays in the records, and it begins another one.
        broker.kill()
        broker.start()
        again = wait_until(lambda: others(broker, hung["segment_id"]), "the copy of the new start hangs", seconds=60)

        (tier.flags / "hang").unlink()
        code, rows = unblock(broker, capsys, "--hung-after", "1s")
        assert (code, [row["outcome"] for row in rows]) == (0, ["PLANNED"])
        assert len(tier.complete_bases(TOPIC)) == 3, "a plan frees nothing"
        code, rows = unblock(broker, capsys, "--hung-after", "1s", "--apply")
        assert (code, [row["outcome"] for row in rows]) == (0, ["FREED"])
        wait_until(lambda: tier.complete_bases(TOPIC) == closed(broker), "the rest is tiered")
        assert doctor(broker, "--hung-after", "1ms")[1]["hung"] == []
        if not is_soft:
            (tier.flags / "answer").touch()
            twice = wait_until(lambda: doctor(broker)[1]["twice"], "the old copy answers", seconds=20)
            assert {name for each in twice for name in (each["segment_id"], each["read"])} > set(again)
            print(version, twice)


@pytest.mark.nightly
@pytest.mark.kafka(CURRENT_VERSION)
def test_a_leader_that_dies_while_it_copies_raises_no_alarm(tmp_path: Path) -> None:
    version = CURRENT_VERSION
    tier = FlakyTier(tmp_path / "tier", version=version)
    with Broker(kraft_disks(tmp_path / "first", version), version, tier=tier) as first:
        second = FurtherBroker(broker_disks(tmp_path / "second", version, SECOND), version, SECOND, first, tier)
        with second:
            create_led_by(first, TOPIC, SECOND, TOPIC_SETTINGS)
            write_segments(second, TOPIC, 4, ONE)
            wait_until(lambda: tier.complete_bases(TOPIC) == closed(second), "all is tiered")
            (tier.flags / "hang").touch()
            write_segments(second, TOPIC, 6, ONE, name="behind-")
            wait_until(lambda: doctor(first, "--hung-after", "5s")[0] == 4, "a copy hangs", seconds=60)
            second.kill()
            (tier.flags / "hang").unlink()
            wait_until(lambda: leader_and_isr(first, TOPIC)[0] == FIRST, "the other leads", seconds=60)

            def is_tiered() -> bool:
                assert doctor(first, "--hung-after", "5s")[1]["hung"] == [], "the attempt of the dead leader is old"
                return tier.complete_bases(TOPIC) == closed(first)

            assert doctor(first, "--hung-after", "5s")[1]["hung"] == []
            wait_until(is_tiered, "the next leader tiers all", seconds=60)
        assert doctor(first, "--hung-after", "1ms")[1]["hung"] == []
