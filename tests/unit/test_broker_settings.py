"""The settings of a broker that runs on this host: by its command line, and beside the place that is named."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.broker_process import started_broker
from tests.reference.command_lines import parse as parse_words
from tests.reference.tiered import aiven
from tiersnap.remote_storage.errors import WrongPlaceError
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.publish.broker_evidence import (
    beside_brokers,
    place_of_location,
    settings_evidence,
)
from tiersnap.remote_storage.publish.location_proof import Evidence, EvidenceOutcome, LocationState
from tiersnap.remote_storage.publish.storage_manager import BrokerAnswer, StoragePlace
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.paced_store import paced
from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.snapshot.formats.java_properties import parse
from tiersnap.snapshot.host.brokers import brokers_here, of_cluster
from tiersnap.snapshot.host.running_broker import arguments, broker_settings, settings_of_file

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock"),
]

CLUSTER = "8ocGbyB_RSCBc6V9xA_tOw"
CLASS = "remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
LAYOUT = "local-tiered-storage"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=7\n")
    return folder


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    (tmp_path / "tier").mkdir()
    return tmp_path / "tier"


@pytest.fixture
def properties(tmp_path: Path, tier: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"log.dirs={tmp_path}/data\n{CLASS}\nrsm.config.dir={tier}\n")
    return path


def evidence(log_dir: Path, place: Path, layout: str = LAYOUT) -> tuple[EvidenceOutcome, str]:
    found = settings_evidence(list(brokers_here(CLUSTER, [str(log_dir)])), open_location(DirectoryStore(place), layout))
    return found.outcome, found.sentence


def of_file(properties: Path, place: Path, *answers: BrokerAnswer) -> Evidence:
    return settings_evidence([settings_of_file(properties)], open_location(DirectoryStore(place), LAYOUT), answers)


def test_file_proves_a_location_if_the_cluster_has_a_broker_with_its_settings(tier, properties, tmp_path):
    properties.write_text(f"node.id=7\n{properties.read_text()}")
    _, _, name = CLASS.partition("=")
    own = BrokerAnswer(7, name, (f"{tmp_path}/data",))
    assert of_file(properties, tier, BrokerAnswer(8, name, own.log_dirs), own).is_proof
    others = (replace(own, broker=8), replace(own, log_dirs=("/other",)), replace(own, class_name="com.example.Other"))
    for answers in ((), *((each,) for each in others)):
        found = of_file(properties, tier, *answers)
        assert (found.outcome, found.sentence.endswith("no broker of the cluster reported the same settings")) == (
            EvidenceOutcome.SILENT,
            True,
        )
    assert of_file(properties, tmp_path / "wrong", own).outcome is EvidenceOutcome.CONTRADICTS
    assert of_file(properties, tmp_path / "wrong").outcome is EvidenceOutcome.CONTRADICTS


def test_of_cluster_keeps_brokers_whose_log_directories_name_the_cluster(log_dir, properties, tmp_path):
    with started_broker(log_dir, properties) as pid:
        running = broker_settings(pid)
        assert list(of_cluster(CLUSTER, [running, "why"])) == [running, "why"]
        assert list(of_cluster("another-cluster-AAAAAA", [running])) == []
        file = settings_of_file(properties)
        assert list(of_cluster("another-cluster-AAAAAA", [file])) == []
        (log_dir / "meta.properties").unlink()
        assert list(of_cluster(CLUSTER, [running])) == [], "nothing tells its cluster"
        assert list(of_cluster(CLUSTER, [file])) == [file], "its log directories may be in a container"


def test_settings_evidence_holds_for_the_place_of_the_running_broker(log_dir, tier, properties):
    with started_broker(log_dir, properties) as pid:
        outcome, says = evidence(log_dir, tier)
    assert outcome is EvidenceOutcome.PROVES
    assert str(properties) in says and f"(process {pid})" in says and f"{tier}/ ({LAYOUT})" in says


@pytest.mark.parametrize("layout", [LAYOUT, "aiven"])
def test_settings_evidence_names_both_places_when_they_differ(layout, log_dir, tier, properties, tmp_path):
    place = tier if layout == "aiven" else tmp_path
    with started_broker(log_dir, properties):
        outcome, says = evidence(log_dir, place, layout)
    assert outcome is EvidenceOutcome.CONTRADICTS
    assert f"names {tier}/ ({LAYOUT}), but this location is {place}/ ({layout})" in says


AIVEN = (
    "remote.log.storage.manager.class.name=io.aiven.kafka.tieredstorage.RemoteStorageManager\n"
    "rsm.config.storage.backend.class=io.aiven.kafka.tieredstorage.storage."
)
ON_S3 = (
    f"{AIVEN}s3.S3Storage\nrsm.config.storage.s3.bucket.name=tiers\nrsm.config.key.prefix=prod/\n"
    "rsm.config.storage.s3.endpoint.url=http://minio.inside:9000\n"
)


@pytest.mark.parametrize(
    ("bucket", "prefix", "endpoint", "layout", "outcome"),
    [
        ("tiers", "prod/", "http://minio.inside:9000", "aiven", EvidenceOutcome.PROVES),
        ("tiers", "prod/", "http://localhost:19000", "aiven", EvidenceOutcome.SILENT),
        ("tiers", "prod/", None, "aiven", EvidenceOutcome.SILENT),
        ("tires", "prod/", "http://minio.inside:9000", "aiven", EvidenceOutcome.CONTRADICTS),
        ("tiers", "", "http://minio.inside:9000", "aiven", EvidenceOutcome.CONTRADICTS),
        ("tiers", "prod/", "http://minio.inside:9000", LAYOUT, EvidenceOutcome.CONTRADICTS),
    ],
)
def test_settings_evidence_is_silent_about_another_endpoint_alone(
    bucket, prefix, endpoint, layout, outcome, log_dir, properties
):
    """Port forwards and VPC endpoints give one server several addresses."""
    properties.write_text(ON_S3)
    store = S3Store(bucket, prefix, S3Settings(endpoint_url=endpoint, region="x"))
    with started_broker(log_dir, properties):
        found = settings_evidence(list(brokers_here(CLUSTER, [str(log_dir)])), open_location(store, layout))
    assert found.outcome is outcome
    assert "names s3://tiers/prod/ at minio.inside:9000 (aiven)" in found.sentence


def test_settings_evidence_proves_a_folder_that_neither_side_has_made(log_dir, tmp_path, properties):
    """The plugin makes the folder of its prefix with the first object."""
    properties.write_text(f"{AIVEN}filesystem.FileSystemStorage\nrsm.config.storage.root={tmp_path}\n")
    with started_broker(log_dir, properties, "--override", "rsm.config.key.prefix=new/inner/"):
        assert evidence(log_dir, tmp_path / "new" / "inner", "aiven")[0] is EvidenceOutcome.PROVES
        assert evidence(log_dir, tmp_path / "new", "aiven")[0] is EvidenceOutcome.CONTRADICTS
        assert evidence(log_dir, tmp_path / "old" / "inner", "aiven")[0] is EvidenceOutcome.CONTRADICTS
        (tmp_path / "new" / "inner").mkdir(parents=True)
        assert evidence(log_dir, tmp_path / "new" / "inner", "aiven")[0] is EvidenceOutcome.PROVES
    with started_broker(log_dir, properties, "--override", "rsm.config.key.prefix=new"):
        assert evidence(log_dir, tmp_path / "new", "aiven")[0] is EvidenceOutcome.CONTRADICTS


def test_beside_brokers_refuses_another_location_of_any_cluster(log_dir, tier, properties, tmp_path):
    right, wrong = (open_location(DirectoryStore(place), LAYOUT) for place in (tier, tmp_path / "wrong"))
    assert beside_brokers([str(log_dir)], wrong).state is LocationState.UNPROVEN, "no broker runs there"
    with started_broker(log_dir, properties):
        assert beside_brokers([log_dir.as_uri()], right).state is LocationState.PROVEN
        with pytest.raises(WrongPlaceError, match="brokers read another location"):
            beside_brokers([str(log_dir)], wrong).refuse_contradiction()


def test_settings_evidence_takes_overrides_links_and_relative_paths(log_dir, tier, properties, tmp_path):
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "server.properties").symlink_to("../server.properties")
    (tmp_path / "absolute").symlink_to(folder)
    (tmp_path / "mounted").symlink_to(tier)
    properties.write_text(f"{CLASS}\nrsm.config.dir=/nowhere\n")
    for name, override in (
        ("conf/server.properties", f"rsm.config.dir={tier}"),
        ("absolute/server.properties", "rsm.config.dir=tier"),
        (f"{tmp_path}/absolute/server.properties", "rsm.config.dir=conf/../mounted"),
    ):
        with started_broker(log_dir, name, "--override", override, directory=tmp_path):
            assert evidence(log_dir, tier)[0] is EvidenceOutcome.PROVES, name
        with started_broker(log_dir, name, f"--override={override}", directory=tmp_path):
            assert evidence(log_dir, tier)[0] is EvidenceOutcome.PROVES, name


def test_settings_evidence_is_silent_when_the_file_was_changed_since(log_dir, tier, properties):
    with started_broker(log_dir, properties) as pid:
        later = broker_settings(pid).values
        assert later["rsm.config.dir"] == str(tier)
        # A file is made now; what is compared is the time of its last change, which nobody can set.
        while evidence(log_dir, tier)[0] is EvidenceOutcome.PROVES:
            properties.write_text(properties.read_text())
        outcome, says = evidence(log_dir, tier)
    why = f"{properties} was changed after the broker started, so the broker may use other settings"
    assert (outcome, says) == (EvidenceOutcome.SILENT, f"the settings of the broker at {log_dir} cannot be read: {why}")


def test_settings_evidence_is_silent_without_a_broker_of_the_cluster(log_dir, tier, properties):
    nobody = (EvidenceOutcome.SILENT, "no broker of the cluster runs on this host")
    assert evidence(log_dir, tier) == nobody
    with started_broker(log_dir, properties):
        (log_dir / "meta.properties").write_text("cluster.id=another-cluster-AAAAAA\n")
        assert evidence(log_dir, tier) == nobody
    assert evidence(log_dir / "absent", tier) == nobody


def test_settings_evidence_says_why_the_settings_do_not_tell(log_dir, tier, tmp_path):
    path = tmp_path / "server.properties"
    for text, why in (
        ("", "no remote.log.storage.manager.class.name"),
        (
            f"{CLASS}\nrsm.config.dir=${{env:TIER}}\n",
            "tiersnap cannot read dir, because a config provider supplies its value",
        ),
    ):
        path.write_text(text)
        with started_broker(log_dir, path):
            outcome, says = evidence(log_dir, tier)
        assert outcome is EvidenceOutcome.SILENT
        assert why in says
    with started_broker(log_dir):
        assert "names no server.properties" in evidence(log_dir, tier)[1]
    with started_broker(log_dir, "/nowhere/server.properties"):
        assert "No such file or directory" in evidence(log_dir, tier)[1]


def test_a_circle_of_links_is_no_settings_file(log_dir, tier, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with started_broker(log_dir, tmp_path / "a" / "server.properties"):
        assert os.strerror(40) in evidence(log_dir, tier)[1]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["java", "-Xmx1g", "-cp", "/a:/b", "kafka.Kafka", "s.properties"], ("s.properties", {})),
        (
            ["java", "@args", "-classpath", "x", "-Da=b", "io.Main", "/etc/s", "--override", "a=b=c"],
            ("/etc/s", {"a": "b=c"}),
        ),
        (["java", "--module-path", "m", "kafka.Kafka", "--override=a= b", "s"], ("s", {"a": "b"})),
    ],
)
def test_arguments_are_those_of_kafka(words, found):
    assert arguments([*words, ""]) == found


@pytest.mark.parametrize(
    "words", [[], ["java"], ["java", "-jar"], ["java", "-cp", "x", "kafka.Kafka"], ["python", "x", ""]]
)
def test_arguments_refuses_what_names_no_file(words):
    with pytest.raises(OSError, match=r"names no server\.properties"):
        arguments(words)


def test_place_of_location_is_that_which_brokers_would_name(tmp_path):
    assert place_of_location(aiven(DirectoryStore(tmp_path))) == StoragePlace("aiven", "", f"{tmp_path}/")
    minio = S3Store("tiers", "prod/", S3Settings(endpoint_url="http://minio:9000", region="x"))
    assert place_of_location(aiven(paced(minio, 8 << 20))) == StoragePlace("aiven", "tiers", "prod/", "minio:9000")
    aws = S3Store("tiers", "", S3Settings(region="eu-central-1"))
    assert place_of_location(aiven(aws)) == StoragePlace("aiven", "tiers", "", "AWS")


def test_parse_reads_properties_as_java_does():
    text = (
        "a=b\r\n#c=d\n  ! e=f\n\nk : v \nx\\=y=z\nlong=a,\\\n   b,\\\n\t c\nempty\nsp  ace\nu=\\u00e4\\t!\n"
        "w=C\\:\\\\x\na=2\neven=x\\\\\nafter=y\nlast=q\\"
    )
    assert parse(text) == {
        "a": "2",
        "k": "v ",
        "x=y": "z",
        "long": "a,b,c",
        "empty": "",
        "sp": "ace",
        "u": "ä\t!",
        "w": "C:\\x",
        "even": "x\\",
        "after": "y",
        "last": "q",
    }


def test_words_of_a_location_are_those_of_the_command_that_opened_it(tmp_path: Path) -> None:
    s3 = S3Settings(endpoint_url="http://minio:9000", region="eu-1", path_style=True, checksums=Checksums.COMPAT)
    store = S3Store("tiers", "prod/", s3)
    reached = ["--endpoint-url", "http://minio:9000", "--region", "eu-1", "--path-style", "--checksums", "compat"]
    local = open_location(paced(store, 8 << 20), "local-tiered-storage")
    assert local.words == ["s3://tiers/prod/", "--layout", "local-tiered-storage", *reached]
    assert open_location(DirectoryStore(tmp_path), "aiven").words == [f"{tmp_path.as_uri()}/"]
    given = parse_words(["verify", "--remote", *local.words])
    assert (given["layout"], given["region"], given["path_style"]) == ("local-tiered-storage", "eu-1", True)
