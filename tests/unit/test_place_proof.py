"""Is a place where brokers read? What follows from each combination of evidence, and what each look makes of it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.reference.planned import PARTITION, write_log
from tests.reference.remote_segments import remote_segment
from tests.reference.tiered import aiven, tier
from tiersnap.remote_storage.errors import UnprovenPlaceError, WrongPlaceError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import claim, finish, reopen
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState, new_segment_id
from tiersnap.remote_storage.publish.broker_segments import MOST_TRIED, look_for, uploaded_by_brokers
from tiersnap.remote_storage.publish.location_proof import (
    Evidence,
    EvidenceKind,
    EvidenceOutcome,
    LocationState,
    LocationVerdict,
    decide,
)
from tiersnap.remote_storage.publish.storage_manager import (
    StoragePlace,
    endpoint_of,
    layout_of_classes,
    place_of_broker,
)
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import ExitCode, UsageError

pytestmark = pytest.mark.unit

PROVES, HINTS, SILENT, AGAINST = EvidenceOutcome
SETTINGS, READ_BACK = EvidenceKind.SERVER_PROPERTIES, EvidenceKind.READ_BACK
MARK, SEGMENT = EvidenceKind.REPLICA_MARK, EvidenceKind.BROKER_SEGMENT
COMBINATIONS = list(
    product((PROVES, SILENT, AGAINST), (PROVES, SILENT, AGAINST), (SILENT, AGAINST), (HINTS, SILENT, AGAINST))
)


def verdict_of(settings, read_back, mark, segment) -> LocationVerdict:
    """The verdict by evidence of each kind, in any order."""
    found = ((SEGMENT, segment, "a"), (MARK, mark, "b"), (READ_BACK, read_back, "c"), (SETTINGS, settings, "d"))
    return decide("s3://b/", [Evidence(*each) for each in found])


@pytest.mark.parametrize("found", COMBINATIONS, ids="-".join)
def test_decide_gives_the_state_of_the_strongest_evidence(found):
    settings, read_back, mark, segment = found
    is_wrong = AGAINST in (settings, read_back)
    if settings is SILENT:
        is_wrong |= mark is AGAINST or (read_back is SILENT and segment is AGAINST)
    expected = LocationState.UNPROVEN
    if is_wrong:
        expected = LocationState.CONTRADICTED
    elif PROVES in (settings, read_back):
        expected = LocationState.PROVEN
    assert verdict_of(*found).state is expected


@pytest.mark.parametrize("found", COMBINATIONS, ids="-".join)
@pytest.mark.parametrize("unproven", [False, True])
def test_require_lets_no_option_override_a_contradiction(found, unproven):
    verdict = verdict_of(*found)
    if verdict.state is LocationState.CONTRADICTED:
        with pytest.raises(WrongPlaceError, match="s3://b/: brokers read another location") as wrong:
            verdict.require(is_unproven_allowed=unproven)
        refusal = wrong.value
    elif verdict.state is LocationState.PROVEN:
        proof = verdict.require(is_unproven_allowed=unproven)
        assert proof.evidence in {SETTINGS, READ_BACK}
        return
    elif unproven:
        proof = verdict.require(is_unproven_allowed=True)
        assert proof.evidence is EvidenceKind.UNPROVEN
        assert "consumers cannot read these offsets" in proof.sentence
        return
    else:
        with pytest.raises(UnprovenPlaceError, match="nothing proves that brokers read s3://b/") as silent:
            verdict.require()
        refusal = silent.value
        assert "--prove" in refusal.hint and "configuration" in refusal.hint
    assert refusal.exit_code is ExitCode.GATE_REFUSED
    assert "unproven" not in refusal.hint + refusal.message


@pytest.mark.parametrize("found", COMBINATIONS, ids="-".join)
def test_require_waits_for_a_read_back_that_can_change_the_state(found):
    settings, read_back, mark, _ = found
    verdict = verdict_of(*found)
    if (settings, read_back, mark) == (SILENT, SILENT, SILENT):
        proof = verdict.require(is_read_back_planned=True)
        assert proof.evidence is EvidenceKind.READ_BACK_PLANNED
        assert "--apply lets brokers read" in proof.sentence
    elif verdict.state is LocationState.CONTRADICTED:
        with pytest.raises(WrongPlaceError):
            verdict.require(is_read_back_planned=True)
    else:
        assert verdict.require(is_read_back_planned=True).evidence in {SETTINGS, READ_BACK}


def test_verdict_names_what_decided_and_what_contradicts_it():
    wrong = verdict_of(AGAINST, SILENT, SILENT, HINTS)
    assert wrong.sentence == "s3://b/: brokers read another location: d"
    proven = verdict_of(PROVES, SILENT, AGAINST, AGAINST)
    assert proven.sentence == "brokers read s3://b/: d; however, a; however, b"
    assert verdict_of(SILENT, SILENT, SILENT, HINTS).sentence.endswith("read s3://b/: a; b; c; d")
    assert "there is no evidence" in decide("s3://b/", []).sentence


def test_uploaded_by_brokers_leaves_out_ours_and_gives_the_newest_first():
    cache = MetadataCache()
    old, ours, newest, begun, deleted, finished_by_us = (
        remote_segment(at * 10, at * 10 + 9, ((0, at * 10),), SegmentState.COPY_SEGMENT_STARTED) for at in range(6)
    )
    for number, segment in enumerate((newest, old, ours, begun, deleted, finished_by_us)):
        cache.apply(SegmentRecord(segment), is_ours=segment is ours)
        if segment is not begun:
            time = 1000 - number
            update = SegmentUpdate(segment.id, 1, time, SegmentState.COPY_SEGMENT_FINISHED)
            cache.apply(update, is_ours=segment in (ours, finished_by_us))
    cache.apply(SegmentUpdate(deleted.id, 1, 2000, SegmentState.DELETE_SEGMENT_STARTED))
    assert [each.id for each in uploaded_by_brokers(cache)] == [newest.id, old.id]


@pytest.fixture
def tiered(tmp_path, store):
    """Three segments of an Aiven tier, newest first."""
    return list(reversed(tier(write_log(tmp_path / "logs"), store)))


AIVEN, LOCAL = AivenLayout(), LocalTieredStorageLayout()


def delete(store: DirectoryStore, *segments, layout=AIVEN) -> None:
    store.delete([key for each in segments for key in layout.object_keys(each)])


def test_look_for_finds_the_newest_segment_and_its_layout(store, tiered):
    looked = look_for(tiered, [RemoteLocation(store, LOCAL), aiven(store)], lambda _: True)
    assert (looked.location.layout.name, looked.found, looked.missing) == ("aiven", tiered[0], [])
    evidence = looked.evidence
    assert evidence.outcome is HINTS, "a copy of the location would have this object too"
    assert AIVEN.log_key(tiered[0]) in evidence.sentence and "2023-11-14T22:13:20+00:00" in evidence.sentence


def test_look_for_finds_a_segment_that_lost_an_object(store, tiered):
    store.delete(AIVEN.object_keys(tiered[0])[:1])
    assert look_for(tiered, [aiven(store)], lambda _: True).found == tiered[0]


def test_look_for_is_silent_when_an_older_segment_alone_is_there(store, tiered):
    """Brokers may have had another place since; or the newest was lost."""
    delete(store, tiered[0])
    looked = look_for(tiered, [aiven(store)], lambda _: True)
    assert (looked.found, looked.missing) == (tiered[1], tiered[:1])
    assert looked.evidence.outcome is SILENT


def test_look_for_passes_by_what_brokers_delete_meanwhile(store, tiered):
    delete(store, tiered[0])
    looked = look_for(tiered, [aiven(store)], lambda each: each is not tiered[0])
    assert (looked.found, looked.missing) == (tiered[1], [])


def test_look_for_contradicts_when_several_are_missing(store, tiered):
    others = [remote_segment(at, at, ((0, at),)) for at in range(MOST_TRIED)]
    looked = look_for([*others, *tiered], [aiven(store)], lambda _: True)
    assert (looked.found, looked.missing) == (None, others)
    evidence = looked.evidence
    assert evidence.outcome is AGAINST
    assert all(store.uri + AIVEN.log_key(each) in evidence.sentence for each in others)
    assert look_for(tiered, [RemoteLocation(store, LOCAL)], lambda _: True).evidence.outcome is AGAINST


def test_look_for_is_silent_without_segments(store):
    assert look_for([], [aiven(store)], lambda _: True).evidence.outcome is SILENT


@pytest.mark.parametrize("state", ["claimed", "replaced", "damaged"])
def test_look_for_leaves_out_what_a_claim_names_or_may_name(store, tiered, state):
    newest = tiered[0]
    claimed = ClaimedSegment(PARTITION, newest.start_offset, 0)
    if state == "damaged":
        store.put_if_absent(keys.claim(PARTITION, newest.start_offset, 0), b"{")
    else:
        held = claim(store, claimed, Attempt.of(newest.id.segment_id, "run-1"))
        if state == "replaced":
            longer = Attempt.of(new_segment_id(), "run-2")
            reopen(store, finish(store, held), longer)
    assert look_for(tiered, [aiven(store)], lambda _: True).found == tiered[1]


LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
AIVEN_CLASS = "io.aiven.kafka.tieredstorage.RemoteStorageManager"


@pytest.mark.parametrize(
    ("classes", "given", "layout"),
    [
        ({LOCAL_CLASS}, None, "local-tiered-storage"),
        ({AIVEN_CLASS, ""}, None, "aiven"),
        ({AIVEN_CLASS}, "aiven", "aiven"),
        ({AIVEN_CLASS, "com.example.Wrapped"}, None, "aiven"),
        ({"com.example.Wrapped"}, "aiven", "aiven"),
        ({""}, None, None),
        (set(), "aiven", "aiven"),
        (set(), None, None),
    ],
)
def test_layout_of_classes_is_that_of_the_storage_manager(classes, given, layout):
    assert layout_of_classes(classes, given) == layout


@pytest.mark.parametrize(
    ("classes", "given", "error"),
    [
        ({LOCAL_CLASS}, "aiven", WrongPlaceError),
        ({AIVEN_CLASS}, "local-tiered-storage", WrongPlaceError),
        ({AIVEN_CLASS, LOCAL_CLASS}, None, WrongPlaceError),
        ({AIVEN_CLASS, LOCAL_CLASS}, "aiven", WrongPlaceError),
        ({"com.example.Wrapped"}, None, UsageError),
    ],
)
def test_layout_of_classes_refuses_what_brokers_do_not_read(classes, given, error):
    with pytest.raises(error, match=r"remote\.log\.storage\.manager\.class\.name") as caught:
        layout_of_classes(classes, given)
    assert all(name in caught.value.message for name in classes)


S3 = {
    "remote.log.storage.manager.class.name": AIVEN_CLASS,
    "rsm.config.storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage",
    "rsm.config.storage.s3.bucket.name": "tiers",
    "rsm.config.key.prefix": "prod/",
    "rsm.config.storage.aws.secret.access.key": "hush",
}
FILES = {
    "remote.log.storage.manager.class.name": AIVEN_CLASS,
    "rsm.config.storage.backend.class": "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage",
    "rsm.config.storage.root": "/mnt/tier",
}
DIRECTORY = {"remote.log.storage.manager.class.name": LOCAL_CLASS, "rsm.config.dir": "/tier"}


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (DIRECTORY, StoragePlace("local-tiered-storage", "", "/tier/")),
        (S3, StoragePlace("aiven", "tiers", "prod/", "AWS")),
        (
            {**S3, "rsm.config.storage.s3.endpoint.url": "http://Minio:9000", "rsm.config.key.prefix": ""},
            StoragePlace("aiven", "tiers", "", "minio:9000"),
        ),
        (FILES, StoragePlace("aiven", "", "/mnt/tier/")),
        ({**FILES, "rsm.config.key.prefix": "a/"}, StoragePlace("aiven", "", "/mnt/tier/a/")),
        (
            {**DIRECTORY, "remote.log.storage.manager.impl.prefix": "x.", "x.dir": "/other"},
            StoragePlace("local-tiered-storage", "", "/other/"),
        ),
    ],
)
def test_place_of_broker_is_where_its_storage_manager_writes(settings, place):
    assert place_of_broker(settings) == place
    assert "hush" not in str(place)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "no remote.log.storage.manager.class.name"),
        ({"remote.log.storage.manager.class.name": "com.example.Own"}, "com.example.Own: tiersnap does not know"),
        ({**DIRECTORY, "rsm.config.dir": ""}, "no dir"),
        (
            {**DIRECTORY, "rsm.config.dir": "${env:TIER}"},
            "tiersnap cannot read dir, because a config provider supplies its value",
        ),
        (
            {**S3, "rsm.config.key.prefix": "${file:/x:prefix}"},
            "tiersnap cannot read key.prefix, because a config provider supplies its value",
        ),
        ({**S3, "rsm.config.storage.backend.class": "io.aiven.GcsStorage"}, "io.aiven.GcsStorage: tiersnap does not"),
    ],
)
def test_place_of_broker_says_why_it_is_not_told(settings, why):
    with pytest.raises(ValueError, match=re.escape(why)) as caught:
        place_of_broker(settings)
    assert "hush" not in str(caught.value)


def test_endpoint_of_gives_one_server_one_name():
    aws = (
        None,
        "",
        "https://s3.amazonaws.com",
        "https://s3.eu-central-1.amazonaws.com",
        "https://s3.cn-north-1.amazonaws.com.cn",
    )
    assert {endpoint_of(url) for url in aws} == {"AWS"}
    assert {endpoint_of(url) for url in ("http://h", "http://H:80/", "HTTP://h:80/x")} == {"h:80"}
    assert endpoint_of("https://h") == "h:443"
    assert endpoint_of("https://amazonaws.com.example.org") == "amazonaws.com.example.org:443"


def test_a_prefix_without_a_slash_is_another_place():
    """The plugin's `tiers` gives keys `tiersorders-…`, and `s3://bucket/tiers` is a folder."""
    ours = StoragePlace("aiven", "tiers", "prod/", "AWS")
    assert place_of_broker({**S3, "rsm.config.key.prefix": "prod"}) != ours
    assert place_of_broker(S3) == ours
    assert replace(ours, prefix="prod") == place_of_broker({**S3, "rsm.config.key.prefix": "prod"})


def test_a_directory_is_asked_for_by_its_path(tmp_path: Path):
    assert str(StoragePlace("aiven", "", f"{tmp_path}/")) == f"{tmp_path}/ (aiven)"
    assert str(StoragePlace("aiven", "b", "p/", "h:80")) == "s3://b/p/ at h:80 (aiven)"
