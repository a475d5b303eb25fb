"""Offsets below the local log whose remote segments are lost: commands name them until the log start passes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.places import QUICK, Site, delete_local_files
from tests.broker.harness.reading import read_all
from tests.broker.harness.releases import releases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import create_topic, delete_records, log_start
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import tiersnap

pytestmark = pytest.mark.broker

CLOSED = 5
OF_TIERSNAP, OF_BROKER = "of-tiersnap", "of-broker"
TOPICS = (OF_TIERSNAP, OF_BROKER)


@pytest.fixture(params=releases(CURRENT_VERSION))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two topics without local files of closed segments: one of claims and records, one of the broker's records."""
    release, root = request.param, tmp_path_factory.mktemp("lost")
    disks, tier = kraft_disks(root / "disks", release.version), release.tier(root / "tier")
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        made = Site(broker, root)
        create_topic(broker, OF_TIERSNAP, configs={**TOPIC_SETTINGS, "remote.log.copy.disable": "true"})
        create_topic(broker, OF_BROKER, configs=TOPIC_SETTINGS)
        for topic in TOPICS:
            write_segments(broker, topic, CLOSED + 1, name=f"{topic}-")

        def is_tiered() -> bool:
            ran = tiersnap("tier", disks.log_dir, *remote(made), "--topic", OF_TIERSNAP, "--apply")
            assert ran.exit_code == 0, ran.err
            return ran.row(partition=f"{OF_TIERSNAP}-0")["verdicts"].get("TIERED", 0) == CLOSED

        wait_until(is_tiered, "tiersnap has tiered its topic", seconds=30, every=1)
        wait_until(lambda: states(broker, OF_BROKER)["COPY_SEGMENT_FINISHED"] == CLOSED, "the broker too", seconds=30)
        delete_local_files(made, *TOPICS)
        yield made


def test_each_command_names_lost_offsets_until_the_log_start_passes_them(site: Site) -> None:
    assert_finds(site, {})
    lost = {topic: lose(site, topic) for topic in TOPICS}
    assert_finds(site, lost)
    for topic in TOPICS:
        with pytest.raises(AssertionError):
            read_all(site.broker, topic)
    for passed in (1, 2):
        for topic, ranges in lost.items():
            _, end = ranges[passed - 1]
            delete_records(site.broker, topic, end)
            assert log_start(site.broker, topic) == end
        assert_finds(site, {topic: ranges[passed:] for topic, ranges in lost.items() if ranges[passed:]})


def lose(site: Site, topic: str) -> list[tuple[int, int]]:
    """Delete the objects of the first and the third segment; returns their offsets, the end exclusive."""
    assert site.broker.tier is not None
    segments = site.broker.tier.segments(topic)
    assert len(segments) == CLOSED
    for each in (segments[0], segments[2]):
        for path in each.files.values():
            path.unlink()
    return [(segments[at].base_offset, segments[at + 1].base_offset) for at in (0, 2)]


def assert_finds(site: Site, lost: Mapping[str, Sequence[tuple[int, int]]]) -> None:
    """Each command ends with 5 and names exactly these offsets by topic; without any it ends with 0."""
    wanted = {named(topic, ranges) for topic, ranges in lost.items()}
    code = 5 if lost else 0
    for command in (("tier",), ("tier", "--apply"), ("scan",), ("doctor",)):
        ran = tiersnap(command[0], site.broker.disks.log_dir, *remote(site), *command[1:])
        errors = {each["message"] for each in json.loads(ran.out)["errors"]}
        assert (errors, ran.exit_code) == (wanted, code), (command, ran.err)
    ran = tiersnap("verify", site.broker.disks.log_dir, *remote(site), "--depth", "metadata")
    rows = [row for row in ran.rows if row["verdict"] == "MISSING"]
    missing = {(row["topic"], row["base_offset"], row["next_base_offset"]) for row in rows}
    assert missing == {(topic, *each) for topic, ranges in lost.items() for each in ranges}
    assert ran.exit_code == code, ran.err


def named(topic: str, ranges: Sequence[tuple[int, int]]) -> str:
    offsets = ", ".join(f"{start} to {end - 1}" for start, end in ranges)
    return f"{topic}-0: no complete remote segment of this log has the offsets {offsets}"


def remote(site: Site) -> tuple[str, ...]:
    server = ("--bootstrap-server", site.broker.bootstrap)
    return "--remote", str(site.right), "--layout", site.layout, *server
