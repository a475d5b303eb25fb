"""Segments told by the manifests in remote storage, settings to be switched off, and client properties."""

from __future__ import annotations

import json

import pytest

from tiersnap.jobs.options.cluster import read_properties
from tiersnap.remote_storage.cluster.client import Setting
from tiersnap.remote_storage.cluster.raw_connection import can_speak
from tiersnap.remote_storage.cluster.toggle import Begun, Records, own_values, settings_while_off
from tiersnap.remote_storage.layouts import rsm_manifest
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.manifest_segments import decode_metadata, segments_in_store
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import CorruptDataError, SourceNotFoundError, UsageError

pytestmark = pytest.mark.unit

METADATA = RemoteLogSegmentMetadata(
    id=RemoteLogSegmentId("orders", "lZ6vvmajTWKDBUTV6SQAtQ", 3, "adh9f8BMS4anaUnD8KWfWg"),
    start_offset=100,
    end_offset=199,
    broker_id=-1,
    max_timestamp=1700000000000,
    event_timestamp=1700000000500,
    segment_leader_epochs=((2, 100), (10, 150)),
    segment_size=4096,
    state=SegmentState.COPY_SEGMENT_FINISHED,
)
MANIFEST = rsm_manifest.encode(METADATA, dict.fromkeys(IndexType, 8), chunk_size=1024)


def test_a_manifest_tells_the_whole_segment():
    assert decode_metadata(MANIFEST, name="manifest") == METADATA


@pytest.mark.parametrize("field", ["startOffset", "segmentLeaderEpochs", "remoteLogSegmentId"])
def test_a_manifest_that_lacks_something_is_named(field):
    manifest = json.loads(MANIFEST)
    del manifest["remoteLogSegmentMetadata"][field]
    with pytest.raises(CorruptDataError, match="manifest-7: no segment metadata"):
        decode_metadata(json.dumps(manifest).encode(), name="manifest-7")


def test_segments_of_a_store_are_those_that_have_a_manifest(tmp_path):
    store, keys = DirectoryStore(tmp_path), ObjectKeys("tiers/")
    key = keys.segment(KeyKind.RSM_MANIFEST, METADATA)
    store.put_if_absent(key, MANIFEST)
    store.put_if_absent(keys.segment(KeyKind.LOG, METADATA).replace("Wg.", "WA."), b"half a copy")
    store.put_if_absent("tiers/readme.txt", b"somebody else's")
    assert list(segments_in_store(store, keys, lambda topic: topic == "orders")) == [METADATA]
    assert list(segments_in_store(store, keys, lambda topic: topic == "other")) == []

    store.put_if_absent(key.replace("/3/", "/4/"), MANIFEST)
    with pytest.raises(CorruptDataError, match="the manifest of orders-3"):
        list(segments_in_store(store, keys, lambda topic: True))


def setting(value: str | None, *, is_own: bool = True) -> Setting:
    return Setting(value, is_own)


def test_a_local_retention_of_its_own_is_put_aside_while_copying_is_off():
    settings = {
        "remote.log.copy.disable": setting("false", is_own=False),
        "retention.ms": setting("-1"),
        "retention.bytes": setting("1000"),
        "local.retention.ms": setting("-2", is_own=False),
        "local.retention.bytes": setting("1000"),
    }
    assert settings_while_off(settings) == {"remote.log.copy.disable": "true"}
    settings["local.retention.ms"] = setting("60000")
    off = settings_while_off(settings)
    assert off == {"remote.log.copy.disable": "true", "local.retention.ms": "-2"}
    assert own_values(settings, off) == {"remote.log.copy.disable": None, "local.retention.ms": "60000"}


def test_what_was_set_before_is_recorded_until_it_is_dropped(tmp_path):
    begun = Begun("a.b-c", "lZ6vvmajTWKDBUTV6SQAtQ", (0, 7), {"remote.log.copy.disable": None})
    records = Records(str(tmp_path / "warehouse"))
    assert records.all() == []
    records.put(begun)
    records.put(begun)
    assert Records((tmp_path / "warehouse").as_uri()).all() == [begun]
    records.drop(begun)
    assert records.all() == []

    (tmp_path / "warehouse/unblock/x.json").write_text("{}")
    with pytest.raises(CorruptDataError, match="not a record of tiersnap unblock"):
        records.all()


def test_client_properties_are_lines_of_librdkafkas_names(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("# to the cluster\n\nsecurity.protocol=SASL_SSL\n sasl.password = a=b \n")
    properties = read_properties(path)
    assert properties == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    assert not can_speak(properties)
    assert can_speak({}) and can_speak({"security.protocol": "SSL"})


@pytest.mark.parametrize(
    ("line", "said"), [("hunter2", "line 1 is not"), ("sasl.jaas.config=hunter2", "sasl.username and sasl.password")]
)
def test_other_lines_are_refused_and_not_repeated(line, said, tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(line)
    with pytest.raises(UsageError) as caught:
        read_properties(path)
    assert said in caught.value.message + caught.value.hint
    assert "hunter2" not in caught.value.message + caught.value.hint
    with pytest.raises(SourceNotFoundError):
        read_properties(tmp_path / "other")
