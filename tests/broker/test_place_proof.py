"""Where brokers read is proven before a record is published; and what was published elsewhere is brought back."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.meanwhile import after_the_first
from tests.broker.harness.places import (
    CLOSED,
    QUICK,
    Site,
    delete_local_files,
    files,
    hide_configuration,
    is_readable,
    place_of,
    publish_unproven,
    refused,
)
from tests.broker.harness.reading import read_all
from tests.broker.harness.releases import NIGHTLY, Release
from tests.broker.harness.remote_log_metadata import TOPIC as METADATA_TOPIC
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import create_topic
from tests.broker.harness.waiting import NotInTimeError, wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import assert_said, tiersnap
from tiersnap.remote_storage.locks.read_back_record import PROBE_TOPIC
from tiersnap.remote_storage.publish.read_back_topic import ReadBackTopic

pytestmark = pytest.mark.broker


@dataclass(frozen=True)
class Variant:
    """A release, and whether a record is read back from every wrong directory, and the broker restarted."""

    release: Release
    is_long: bool


def variants() -> Iterator[object]:
    """Yield the short form for a landing, and for each night the long form of every release."""
    yield pytest.param(Variant(Release(CURRENT_VERSION), False), id="short", marks=pytest.mark.kafka(CURRENT_VERSION))
    for each in NIGHTLY:
        marks = (pytest.mark.nightly, pytest.mark.kafka(each.version))
        yield pytest.param(Variant(each, True), id=f"{each.version}-{each.layout}", marks=marks)


@pytest.fixture(scope="module", params=list(variants()))
def variant(request: pytest.FixtureRequest) -> Variant:
    found: Variant = request.param
    return found


@pytest.fixture(scope="module")
def site(variant: Variant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A broker whose configuration the last test hides."""
    release, root = variant.release, tmp_path_factory.mktemp("place")
    disks, tier = kraft_disks(root / "disks", release.version), release.tier(root / "tiers")
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        yield Site(broker, root)


def interrupt() -> None:
    raise KeyboardInterrupt


def objects_of_read_backs(*places: Path) -> list[str]:
    """Their objects, but for what is kept of one."""
    return [name for place in places for name in files(place) if PROBE_TOPIC in name]


@pytest.mark.nightly
def test_what_was_published_at_a_wrong_place_is_named_and_comes_back(site):
    """One topic was tiered to another directory, and one in another layout; an early release published both."""
    elsewhere = site.root / "elsewhere"
    records = {topic: site.write(topic) for topic in ("payments", "refunds")}
    for topic, layout in (("payments", site.layout), ("refunds", site.other_layout)):
        site.tier(topic, elsewhere, layout)
        publish_unproven(site, elsewhere, topic, layout)
    delete_local_files(site, *records)
    assert [is_readable(site.broker, topic) for topic in records] == [False, False], "the defect"

    doctor = ("doctor", "--bootstrap-server", site.broker.bootstrap, "--remote")
    wrong = tiersnap(*doctor, elsewhere)
    assert wrong.exit_code == 5, "segments are missing there, too"
    said = json.loads(wrong.out)["result"]
    assert (said["location"]["state"], said["next"]) == ("CONTRADICTED", [])
    said = json.loads(tiersnap(*doctor, site.right).out)["result"]
    missing = [(row["topic"], row["is_ours"], len(row["lacking"])) for row in said["records"]["missing"]]
    objects = 3 if site.layout == "aiven" else 5
    assert missing == [("payments", True, objects)] * CLOSED + [("refunds", True, objects)] * CLOSED
    assert said["records"]["sentence"].startswith("6 of ")
    command = shlex.split(said["next"][0]["command"])
    assert command[:2] == ["tiersnap", "mend"]
    mend = [str(elsewhere) if word == "URI" else word for word in command[1:]]

    told = {topic: states(site.broker, topic) for topic in records}
    before = files(site.right)
    planned = tiersnap(*mend)
    assert (planned.exit_code, files(site.right)) == (5, before), planned.err
    assert {(row["topic"], row["action"], row["outcome"]) for row in planned.rows} == {
        ("payments", "COPY", "PLANNED"),
        ("refunds", "NONE", "FAILED"),
    }
    ran = [tiersnap(*mend, *words, "--apply") for words in ((), ("--from-layout", site.other_layout))]
    assert [each.exit_code for each in ran] == [5, 0], ran[-1].err

    assert {topic: read_all(site.broker, topic) for topic in records} == records, "all of it, at once"
    assert {topic: states(site.broker, topic) for topic in records} == told, "no record changed"
    assert files(site.right).items() >= before.items(), "nothing was overwritten"
    healthy = tiersnap(*doctor, site.right)
    assert (healthy.exit_code, json.loads(healthy.out)["result"]["records"]["missing"]) == (0, [])


def test_nothing_is_published_before_it_is_proven_that_brokers_read_there(site, variant, monkeypatch):
    wrong = site.root / "tires"  # one letter
    site.write("ledger")
    site.tier("ledger", site.right, site.layout)
    site.tier("ledger", wrong, site.layout)
    replica = site.replica()

    # The class of the storage manager says the layout.
    ran = site.publish("ledger", site.right, "--layout", site.other_layout, "--unproven", "--apply")
    assert refused(ran) == "WrongPlaceError"
    assert f"--layout {site.other_layout}: brokers read another layout" in ran.err

    # The settings of the running broker say the location, and no option overrides them.
    for place in (wrong, replica):
        ran = site.publish("ledger", place, "--prove", "--unproven", "--apply")
        assert refused(ran) == "WrongPlaceError"
        assert f"names {site.right}/ ({site.layout}), but this location is {place}/" in ran.err
    evidence, sentence = place_of(site.publish("ledger", site.right))
    assert evidence == "SERVER_PROPERTIES"
    assert f"names {site.right}/" in sentence

    # Nor does `tier` upload anything elsewhere beside the broker.
    log_dir, elsewhere = site.broker.disks.log_dir, site.root / "elsewhere"
    for place, layout in ((elsewhere, site.layout), (wrong, site.layout), (replica, site.layout)):
        words = ("--remote", place, "--layout", layout, "--topic", "ledger", "--apply")
        held = files(place)
        ran = tiersnap("tier", log_dir, *words)
        assert refused(ran) == "WrongPlaceError"
        assert f"names {site.right}/ ({site.layout}), but this location is {place}/" in ran.err
        assert files(place) == held
    words = ("--remote", site.right, "--layout", site.layout, "--topic", "ledger", "--no-publish", "--apply")
    ran = tiersnap("tier", log_dir, *words)
    assert ran.row(partition="ledger-0")["verdicts"]["UPLOADED"] == CLOSED

    # Without them nothing proves a location, whatever it holds.
    hide_configuration(site.broker)
    for place in (site.right, replica, wrong):
        ran = site.publish("ledger", place, "--apply")
        assert refused(ran) == "UnprovenPlaceError"
        assert "was changed after the broker started" in ran.err
        assert "--prove" in ran.err and "--unproven" not in ran.err
    ran = site.publish("ledger", site.right, "--unproven")
    assert_said(ran, 0, "nothing proves that brokers read", "consumers cannot read these offsets")
    assert place_of(ran)[0] == "UNPROVEN"

    # A read-back decides, and leaves nothing.
    before = {place: files(place) for place in (site.right, replica, wrong)}
    assert place_of(site.publish("ledger", site.right, "--prove"))[0] == "READ_BACK_PLANNED"
    assert site.read_backs() == set(), "a plan makes no topic"
    with monkeypatch.context() as patch:
        after_the_first(patch, ReadBackTopic, "enable_copying", interrupt)
        assert site.publish("ledger", site.right, "--prove", "--apply").exit_code == 130
    assert {place: files(place) for place in before} == before
    for place in (replica, wrong) if variant.is_long else (replica,):
        ran = site.publish("ledger", place, "--prove", "--unproven", "--apply")
        assert refused(ran) == "WrongPlaceError"
        assert "brokers read another location: brokers cannot read the record" in ran.err
    assert states(site.broker, "ledger") == {}, "so far nothing was published"
    assert {place: files(place) for place in before} == before
    kill_a_read_back(site)
    ran = site.publish("ledger", site.right, "--prove", "--apply")
    assert_said(ran, 0, "brokers read", "brokers read a record back from the location")
    assert place_of(ran)[0] == "READ_BACK"
    wait_until(lambda: site.read_backs() == set(), "no topic stays, also of a killed run")
    assert objects_of_read_backs(*before) == []
    assert states(site.broker, "ledger") == {"COPY_SEGMENT_STARTED": CLOSED, "COPY_SEGMENT_FINISHED": CLOSED}

    # It is kept in the location, where the other commands find it, and in no copy of it.
    site.write("orders")
    site.tier("orders", site.right, site.layout)
    site.tier("orders", wrong, site.layout)
    replica = site.replica()
    assert refused(site.publish("orders", replica, "--apply")) == "UnprovenPlaceError"
    evidence, sentence = place_of(site.publish("orders", site.right, "--apply"))
    assert evidence == "READ_BACK"
    assert "neither restarted nor changed their configuration" in sentence

    # What brokers upload is in a copy, too; that it is missing contradicts.
    create_topic(site.broker, "own", configs=TOPIC_SETTINGS)
    write_segments(site.broker, "own", 2, name="own-")
    wait_until(lambda: states(site.broker, "own")["COPY_SEGMENT_FINISHED"] == 1, "the broker tiers", seconds=20)
    site.write("payouts")
    site.tier("payouts", site.right, site.layout)
    site.tier("payouts", wrong, site.layout)
    replica = site.replica()
    ran = site.publish("payouts", replica, "--apply")
    assert refused(ran) == "UnprovenPlaceError"
    assert (
        f"brokers uploaded file://{replica}/" in ran.err
        and "a copy of the location would have this object too" in ran.err
    )
    ran = site.publish("payouts", wrong, "--unproven", "--apply")
    assert refused(ran) == "WrongPlaceError"
    assert f"does not have the newest segments that brokers uploaded: file://{wrong}/" in ran.err and "own-" in ran.err

    # Brokers ignore the record header that tells ours from theirs.
    marked = [
        (b"own" in (record.value or b""), record.headers)
        for partition in range(3)
        for record in read_all(site.broker, METADATA_TOPIC, partition=partition)
        if b"read-back" not in (record.value or b"")
    ]
    assert {headers for is_theirs, headers in marked if is_theirs} == {()}
    assert {headers for is_theirs, headers in marked if not is_theirs} == {(("tiersnap", b"1"),)}

    # Another configuration takes effect at a restart, so a restart ends what is kept.
    if variant.is_long:
        site.broker.stop()
        site.broker.start()
        hide_configuration(site.broker)
        ran = site.publish("payouts", site.right, "--apply")
        assert refused(ran) == "UnprovenPlaceError"
        assert "have since restarted or changed their configuration" in ran.err


def kill_a_read_back(site: Site) -> None:
    """Kill a run by SIGKILL once its topic is there."""
    words = ("--bootstrap-server", site.broker.bootstrap, "--remote", str(site.right), "--topic", "ledger")
    command = [sys.executable, "-m", "tests.reference.tiersnap", "publish", *words, "--prove", "--apply"]
    said = site.root / "killed.txt"
    with said.open("w") as err, subprocess.Popen(command, stderr=err) as process:
        try:
            wait_until(lambda: objects_of_read_backs(site.right), "the segment is uploaded", seconds=90)
        except NotInTimeError as error:
            raise AssertionError(said.read_text()) from error
        finally:
            process.kill()
    assert site.read_backs(), "the topic is there"
