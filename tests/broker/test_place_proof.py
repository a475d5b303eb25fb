"""Where brokers read is proven before a record is published; and what was published elsewhere is brought back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
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
    is_readable,
    place_of,
    refused,
)
from tests.broker.harness.reading import read_all
from tests.broker.harness.releases import releases
from tests.broker.harness.remote_log_metadata import TOPIC as METADATA_TOPIC
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import create_topic
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import assert_said, tiersnap
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.inventory.finished import finished_segments
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.publish.probe_topic import PROBE_RETENTION, ProbeTopic
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module", params=releases(CURRENT_VERSION))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    release, root = request.param, tmp_path_factory.mktemp("place")
    disks, tier = kraft_disks(root / "disks", release.version), release.tier(root / "tiers")
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        yield Site(broker, root)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_nothing_is_published_before_it_is_proven_that_brokers_read_there(site, monkeypatch):
    wrong = site.root / "tires"  # one letter
    site.write("ledger")
    site.tier("ledger", site.right, site.layout)
    site.tier("ledger", wrong, site.layout)

    # The class of the storage manager says the layout.
    ran = site.publish("ledger", site.right, "--layout", site.other_layout, "--unproven", "--apply")
    assert refused(ran) == "WrongPlaceError"
    assert f"--layout {site.other_layout}: not what brokers read" in ran.err

    # The settings of the running broker say the place.
    ran = site.publish("ledger", wrong, "--probe-topic", "--apply")
    assert refused(ran) == "WrongPlaceError"
    assert f"names {site.right}/ ({site.layout}), and this is {wrong}/" in ran.err
    evidence, sentence = place_of(site.publish("ledger", site.right))
    assert evidence == "SERVER_PROPERTIES"
    assert f"names {site.right}/" in sentence

    # Settings that were changed since the start are those of no running broker.
    (properties,) = site.broker.disks.output_dir.glob(f"{site.broker.version}-*.properties")
    properties.write_text(properties.read_text())
    ran = site.publish("ledger", site.right, "--apply")
    assert refused(ran) == "UnprovenPlaceError"
    assert "was changed after the broker had started" in ran.err
    assert "no segment is left that brokers uploaded themselves" in ran.err
    ran = site.publish("ledger", site.right, "--unproven")
    assert_said(ran, 0, "nothing proves that brokers read", "consumers read nothing")
    assert place_of(ran)[0] == "UNPROVEN"

    # A probe topic decides, and is gone afterwards.
    assert place_of(site.publish("ledger", site.right, "--probe-topic"))[0] == "PROBE_PLANNED"
    assert site.topics() == set(), "a plan makes no topic"
    with monkeypatch.context() as patch:
        after_the_first(patch, ProbeTopic, "_write", interrupt)
        assert site.publish("ledger", site.right, "--probe-topic", "--apply").exit_code == 130
    wait_until(lambda: site.topics() == set(), "the topic of an interrupted run is deleted")
    left, others = (f"ops.probe-{at}-0123abcd" for at in (1_700_000_000, 1_700_000_001))
    create_topic(site.broker, left, configs={**TOPIC_SETTINGS, "retention.ms": PROBE_RETENTION})
    create_topic(site.broker, others, configs=TOPIC_SETTINGS)
    ran = site.publish("ledger", wrong, "--probe-topic", "ops.probe", "--apply")
    assert refused(ran) == "WrongPlaceError"
    assert "the leader of the probe topic ops.probe-" in ran.err and f"is not there: file://{wrong}/" in ran.err
    assert states(site.broker, "ledger") == {}, "so far nothing was published"
    ran = site.publish("ledger", site.right, "--probe-topic", "ops.probe", "--apply")
    assert_said(ran, 0, "brokers read", "tiered it there")
    assert place_of(ran)[0] == "PROBE_TOPIC"
    wait_until(lambda: site.topics() == {others}, "of all probes, one left by an earlier run, nothing stays")
    assert states(site.broker, "ledger") == {"COPY_SEGMENT_STARTED": CLOSED, "COPY_SEGMENT_FINISHED": CLOSED}

    # What tiersnap published says nothing of the place; what brokers upload themselves does.
    site.write("orders")
    site.tier("orders", site.right, site.layout)
    site.tier("orders", wrong, site.layout)
    assert refused(site.publish("orders", site.right, "--apply")) == "UnprovenPlaceError"
    create_topic(site.broker, "own", configs=TOPIC_SETTINGS)
    write_segments(site.broker, "own", 2, name="own-")
    wait_until(lambda: states(site.broker, "own")["COPY_SEGMENT_FINISHED"] == 1, "the broker tiers", seconds=20)
    ran = site.publish("orders", wrong, "--apply")
    assert refused(ran) == "WrongPlaceError"
    assert f"not there: file://{wrong}/" in ran.err and "own-" in ran.err
    evidence, sentence = place_of(site.publish("orders", site.right, "--apply"))
    assert evidence == "BROKER_SEGMENT"
    assert f"they uploaded file://{site.right}/" in sentence and "own-" in sentence

    # Brokers ignore the record header that tells ours from theirs.
    marked = [
        (b"own" in (record.value or b""), record.headers)
        for partition in range(3)
        for record in read_all(site.broker, METADATA_TOPIC, partition=partition)
        if not any(name in (record.value or b"") for name in (b"probe",))
    ]
    assert {headers for is_theirs, headers in marked if is_theirs} == {()}
    assert {headers for is_theirs, headers in marked if not is_theirs} == {(("tiersnap", b"1"),)}


def test_what_was_published_at_a_wrong_place_is_named_and_comes_back(site):
    """One topic was tiered to another directory, and one in another layout; both were published all the same."""
    elsewhere = site.root / "elsewhere"
    records = {topic: site.write(topic) for topic in ("payments", "refunds")}
    for topic, layout in (("payments", site.layout), ("refunds", site.other_layout)):
        site.tier(topic, elsewhere, layout)
    ran = site.publish("payments", elsewhere, "--unproven", "--apply")
    assert ran.exit_code == 0, ran.err
    publish_in_a_wrong_layout(site, elsewhere, "refunds")
    delete_local_files(site, *records)
    assert [is_readable(site.broker, topic) for topic in records] == [False, False], "the defect"

    doctor = ("doctor", "--bootstrap-server", site.broker.bootstrap, "--remote", site.right)
    said = json.loads(tiersnap(*doctor).out)["result"]
    missing = [(row["topic"], row["is_ours"], len(row["lacking"])) for row in said["records"]["missing"]]
    objects = 3 if site.layout == "aiven" else 5
    assert missing == [("payments", True, objects)] * CLOSED + [("refunds", True, objects)] * CLOSED
    assert said["records"]["sentence"].startswith("6 of ")
    (line,) = said["next"]
    command = shlex.split(line.split("   ")[0])
    assert command[:2] == ["tiersnap", "mend"]
    mend = [str(elsewhere) if word == "URI" else word for word in command[1:]]

    told = {topic: states(site.broker, topic) for topic in records}
    before = files(site.right)
    planned = tiersnap(*mend)
    assert (planned.exit_code, files(site.right)) == (6, before), planned.err
    assert {(row["topic"], row["action"], row["outcome"]) for row in planned.rows} == {
        ("payments", "COPY", "PLANNED"),
        ("refunds", "NONE", "FAILED"),
    }
    ran = [tiersnap(*mend, *words, "--apply") for words in ((), ("--from-layout", site.other_layout))]
    assert [each.exit_code for each in ran] == [6, 0], ran[-1].err

    assert {topic: read_all(site.broker, topic) for topic in records} == records, "all of it, at once"
    assert {topic: states(site.broker, topic) for topic in records} == told, "no record changed"
    assert files(site.right).items() >= before.items(), "nothing was overwritten"
    healthy = tiersnap(*doctor)
    assert (healthy.exit_code, json.loads(healthy.out)["result"]["records"]["missing"]) == (0, [])


def publish_in_a_wrong_layout(site: Site, place: Path, topic: str) -> None:
    """Write the records as an earlier release did, which asked nobody for the layout."""
    cluster = Cluster(site.broker.bootstrap)
    found = finished_segments(
        RemoteLocation(DirectoryStore(place), open_layout(site.other_layout)), lambda name: name == topic
    )
    assert len(found) == CLOSED
    MetadataTopic.of(cluster).publish(
        (each.id.topic_id_partition, record)
        for each in found
        for record in (
            SegmentRecord(replace(each, broker_id=1, state=SegmentState.COPY_SEGMENT_STARTED)),
            SegmentUpdate(each.id, 1, each.event_timestamp, SegmentState.COPY_SEGMENT_FINISHED),
        )
    )
