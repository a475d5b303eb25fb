"""Settings to be switched off, what is recorded of them in remote storage, and client properties."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from tiersnap.jobs.cli.text_files import read_properties
from tiersnap.remote_storage.cluster.copy_tasks import copy_lag
from tiersnap.remote_storage.cluster.leader_epochs import can_speak
from tiersnap.remote_storage.cluster.topic_checks import (
    check_copier_rests,
    check_copying_was_not_switched_off,
    check_settings,
    is_copied,
)
from tiersnap.remote_storage.cluster.topics import TopicConfig
from tiersnap.remote_storage.errors import CopyingOffError, CopyingOnError, SettingsAsideError, UnblockHeldError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore, decode_saved_configs
from tiersnap.remote_storage.metadata.topic_configs import MARK
from tiersnap.remote_storage.publish.pause_copying import (
    as_options,
    aside_without_mark,
    check_mark,
    own_values,
    settings_while_off,
    still_aside,
    unchanged_by_others,
)
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import (
    CorruptDataError,
    ExitCode,
    NewerFormatError,
    RemoteStorageError,
    SourceNotFoundError,
    UsageError,
)
from tiersnap.snapshot.gate.copy_task import CopyLag

pytestmark = pytest.mark.unit


def setting(value: str | None, *, is_own: bool = True) -> TopicConfig:
    return TopicConfig(value, is_own)


COPYING = "remote.log.copy.disable"
OF_ITS_OWN = {
    COPYING: setting("false", is_own=False),
    "retention.ms": setting("604800000", is_own=False),
    "retention.bytes": setting("1000"),
    "local.retention.ms": setting("60000"),
    "local.retention.bytes": setting("-2", is_own=False),
}


BEFORE = {COPYING: None, "retention.ms": None, "retention.bytes": "1000", "local.retention.ms": "60000"}
ASIDE_NOW = OF_ITS_OWN | {
    COPYING: setting("true"),
    "retention.ms": setting(MARK),
    "retention.bytes": setting("-1"),
    "local.retention.ms": setting("-2"),
}


def test_while_copying_is_off_retention_is_as_good_as_endless_and_no_local_one_is_shorter():
    off = settings_while_off(OF_ITS_OWN)
    assert off == {COPYING: "true", "retention.ms": MARK, "retention.bytes": "-1", "local.retention.ms": "-2"}
    assert int(MARK) > 10**8 * 365 * 86_400_000, "longer than a hundred million years"
    assert own_values(OF_ITS_OWN, off) == BEFORE
    assert own_values({}, off) == dict.fromkeys(off), "Kafka before tiered storage"
    check_settings("orders", {"remote.storage.enable": setting("true"), **ASIDE_NOW})
    endless = {**OF_ITS_OWN, "retention.ms": setting("-1", is_own=False), "retention.bytes": setting("-1")}
    assert settings_while_off(endless) == {COPYING: "true", "retention.ms": MARK, "local.retention.ms": "-2"}
    assert settings_while_off({**endless, "local.retention.ms": setting("-1")}) == {
        COPYING: "true",
        "retention.ms": MARK,
    }


def test_what_is_put_back_is_what_still_has_the_value_that_it_was_put_aside_with():
    assert still_aside(ASIDE_NOW, BEFORE) == unchanged_by_others(ASIDE_NOW, BEFORE) == BEFORE

    by_hand = {**ASIDE_NOW, COPYING: setting("false"), "retention.bytes": setting("500")}
    rest = {"retention.ms": None, "local.retention.ms": "60000"}
    assert still_aside(by_hand, BEFORE) == unchanged_by_others(by_hand, BEFORE) == rest

    # Another broker does not show yet that they were put aside: nothing is seen, and all of it is sent.
    assert (still_aside(OF_ITS_OWN, BEFORE), unchanged_by_others(OF_ITS_OWN, BEFORE)) == ({}, BEFORE)
    # What was so before is not to be waited for.
    assert still_aside(ASIDE_NOW, {COPYING: "true", "retention.ms": "1"}) == {"retention.ms": "1"}
    assert unchanged_by_others({"retention.ms": setting("-1", is_own=False)}, {"retention.ms": "1"}) == {}


@pytest.mark.parametrize("by_default", [False, True])
def test_of_a_topic_that_does_not_say_that_its_settings_are_aside_nothing_is_put_back(by_default):
    """Whoever writes to the bucket may write the record, and the topic may have all of this by its owner's choice."""
    looks = {**ASIDE_NOW, "retention.ms": setting(MARK if by_default else "-1", is_own=not by_default)}
    before = {**BEFORE, "retention.ms": "1"}
    assert still_aside(looks, before) == {}
    doubtful = {name: value for name, value in before.items() if not by_default or name != "retention.ms"}
    assert aside_without_mark(looks, before) == doubtful
    with pytest.raises(SettingsAsideError, match="lacks the mark") as caught:
        check_mark(looks, structs.replace(BEGUN, before=before))
    assert caught.value.exit_code is ExitCode.GATE_REFUSED
    assert f"--alter --topic a.b-c{as_options(doubtful)}" in caught.value.hint
    assert f"claims/a.b-c-{TOPIC_ID}/unblock.json" in caught.value.hint
    with pytest.raises(CopyingOffError):
        check_copying_was_not_switched_off("a.b-c", looks, {})


def test_a_topic_that_says_it_or_has_everything_again_is_in_no_doubt():
    check_mark(ASIDE_NOW, structs.replace(BEGUN, before=BEFORE))
    check_mark(OF_ITS_OWN, structs.replace(BEGUN, before=BEFORE))
    check_copying_was_not_switched_off("a.b-c", ASIDE_NOW, still_aside(ASIDE_NOW, BEFORE))
    check_copying_was_not_switched_off("a.b-c", OF_ITS_OWN, {})


@pytest.mark.parametrize("copying", ["true", "false"])
def test_a_topic_that_says_it_while_no_record_is_there_is_refused(copying):
    """Its mark would be recorded as what it had, and put "back"."""
    with pytest.raises(SettingsAsideError, match="the saved configs in remote storage are missing") as caught:
        check_copying_was_not_switched_off("a.b-c", {**ASIDE_NOW, COPYING: setting(copying)}, {})
    assert "kafka-configs --alter --topic a.b-c" in caught.value.hint


def test_what_is_still_aside_is_said_as_one_types_it():
    assert as_options({"retention.bytes": "7", COPYING: None, "local.retention.ms": "8", "retention.ms": None}) == (
        f" --add-config retention.bytes=7,local.retention.ms=8 --delete-config {COPYING},retention.ms"
    )
    assert as_options({"retention.bytes": "7"}) == " --add-config retention.bytes=7"
    assert as_options({COPYING: None}) == f" --delete-config {COPYING}"


@pytest.mark.parametrize("settings", [{}, {"remote.log.copy.disable": setting("false")}], ids=str)
def test_nothing_is_published_beside_a_copier_that_is_on(settings):
    with pytest.raises(CopyingOnError, match="uploads them again") as caught:
        check_copier_rests("orders", settings)
    assert caught.value.exit_code is ExitCode.GATE_REFUSED
    assert "remote.log.copy.disable=true,retention.ms=-1,retention.bytes=-1" in caught.value.hint
    assert "tiersnap unblock" in caught.value.hint
    check_copier_rests("orders", {"remote.log.copy.disable": setting("true")})


TOPIC_ID, OTHER_ID = "lZ6vvmajTWKDBUTV6SQAtQ", "MWJ6FHTfRYy67jzwZdeqSQ"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
BEGUN = SavedConfigs.of(
    CLUSTER_ID,
    "a.b-c",
    TOPIC_ID,
    (0, 7),
    {"remote.log.copy.disable": None, "local.retention.ms": "60000"},
)


STORED = {
    "version": 1,
    "clusterId": CLUSTER_ID,
    "topic": "a.b-c",
    "topicId": TOPIC_ID,
    "partitions": [0],
    "before": {},
    "process": None,
}


def test_what_was_set_before_is_recorded_until_it_is_dropped(tmp_path):
    store = DirectoryStore(tmp_path)
    records = SavedConfigsStore(store)
    assert records.find({"a.b-c": TOPIC_ID}, CLUSTER_ID) == []
    records.put(BEGUN)
    records.put(BEGUN)
    assert (tmp_path / f"claims/a.b-c-{TOPIC_ID}/unblock.json").is_file()
    later = SavedConfigsStore(store)
    (found,) = later.find({"other": OTHER_ID, "a.b-c": TOPIC_ID}, CLUSTER_ID)
    assert (structs.replace(found, process=None), found.process) == (BEGUN, this_process())
    assert later.find({"a.b-c": OTHER_ID}, CLUSTER_ID) == [], "a topic that was made anew"
    fewer = structs.replace(BEGUN, partitions=(7,))
    later.put(fewer)
    assert [each.partitions for each in SavedConfigsStore(store).find({"a.b-c": TOPIC_ID}, CLUSTER_ID)] == [(7,)]
    later.drop(fewer)
    assert SavedConfigsStore(store).find({"a.b-c": TOPIC_ID}, CLUSTER_ID) == []


def test_release_ends_no_run_that_the_store_refuses_at_its_end(tmp_path):
    class Refusing(DirectoryStore):
        def replace_if(self, *_):
            raise RemoteStorageError("credentials refused: ExpiredToken")

    records = SavedConfigsStore(Refusing(tmp_path))
    records.put(BEGUN)
    records.release()
    assert DirectoryStore(tmp_path).head(keys.unblock("a.b-c", TOPIC_ID)) is not None


HERE = this_process()
ELSEWHERE = Process("another-host", 7, "")
GONE = structs.replace(HERE, pid=2**22 + 1)  # above the largest pid of Linux


def test_while_another_run_is_at_a_topic_nobody_else_is(tmp_path):
    first, second = (
        SavedConfigsStore(DirectoryStore(tmp_path), process=ELSEWHERE),
        SavedConfigsStore(DirectoryStore(tmp_path)),
    )
    first.put(BEGUN)
    with pytest.raises(UnblockHeldError, match=r"another run of tiersnap is working on the topic a\.b-c"):
        second.put(structs.replace(BEGUN, partitions=(1,)))
    with pytest.raises(UnblockHeldError, match=r"on another-host \(pid 7\) is working on the topic a\.b-c") as caught:
        second.find({"a.b-c": TOPIC_ID}, CLUSTER_ID)
    assert caught.value.exit_code is ExitCode.TRANSIENT
    first.put(structs.replace(BEGUN, partitions=(2,)))
    first.drop(BEGUN)
    second.put(structs.replace(BEGUN, partitions=(1,)))
    first.drop(BEGUN)
    assert [each.partitions for each in second.find({"a.b-c": TOPIC_ID}, CLUSTER_ID)] == [(1,)], (
        "what is another's is not dropped"
    )


def test_what_a_run_left_is_taken_over_once_it_said_so_or_is_gone_or_was_not_heard_of_for_long(tmp_path, monkeypatch):
    for name, process in (("said so", ELSEWHERE), ("gone", GONE), ("old", ELSEWHERE)):
        store = DirectoryStore(tmp_path / name)
        left, later = SavedConfigsStore(store, process=process), SavedConfigsStore(store)
        left.put(BEGUN)
        if name == "said so":
            left.release()
        if name == "old":
            monkeypatch.setattr("tiersnap.remote_storage.locks.saved_configs.STALE_AFTER_MS", -1)
        found = later.find({"a.b-c": TOPIC_ID}, CLUSTER_ID)
        assert [structs.replace(each, process=None) for each in found] == [BEGUN], name
        later.put(structs.replace(BEGUN, partitions=(1,)))
        left.release()
        with pytest.raises(UnblockHeldError):
            left.put(BEGUN)
        assert [each.partitions for each in later.find({"a.b-c": TOPIC_ID}, CLUSTER_ID)] == [(1,)], name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"[" * 100_000,
        json.dumps(STORED | {"topic": "x", "topicId": "y"}).encode(),
        json.dumps(STORED | {"partitions": [-1]}).encode(),
        json.dumps({name: value for name, value in STORED.items() if name != "version"}).encode(),
        json.dumps(STORED | {"since": 1}).encode(),
        *(
            json.dumps(STORED | {"before": before}).encode()
            for before in (
                {"retention.ms": 1},
                {"cleanup.policy": "compact"},
                {"remote.storage.enable": "false"},
                {"retention.ms": "1,segment.ms=1"},
                {"retention.ms": ""},
            )
        ),
    ],
    ids=[
        *("empty", "no fields", "a list", "deep", "another topic", "no partition", "no version", "more", "no text"),
        *("never put aside", "does not have this", "two values", "no value"),
    ],
)
def test_what_is_no_such_record_is_named(content, tmp_path):
    store = DirectoryStore(tmp_path)
    store.put_if_absent(keys.unblock("a.b-c", TOPIC_ID), content)
    with pytest.raises(CorruptDataError, match=r"unblock\.json: not saved configs of a topic") as caught:
        SavedConfigsStore(store).find({"a.b-c": TOPIC_ID}, CLUSTER_ID)
    assert "kafka-configs --describe" in caught.value.hint


def test_saved_configs_are_the_json_that_the_documents_show():
    assert json.loads(structs.replace(BEGUN, process=ELSEWHERE).encode()) == STORED | {
        "partitions": [0, 7],
        "before": {"remote.log.copy.disable": None, "local.retention.ms": "60000"},
        "process": {"host": "another-host", "pid": 7, "processStart": ""},
    }


def test_saved_configs_of_a_newer_version_are_refused_by_name(tmp_path):
    store = DirectoryStore(tmp_path)
    store.put_if_absent(keys.unblock("a.b-c", TOPIC_ID), b'{"version":2,"all":"else"}')
    with pytest.raises(NewerFormatError, match=r"unblock\.json: .* format version 2"):
        SavedConfigsStore(store).find({"a.b-c": TOPIC_ID}, CLUSTER_ID)


def test_saved_configs_of_another_cluster_are_refused(tmp_path):
    records = SavedConfigsStore(DirectoryStore(tmp_path))
    records.put(BEGUN)
    said = f"configs belong to cluster {CLUSTER_ID}, but tiersnap is connected to cluster another"
    with pytest.raises(CorruptDataError, match=said):
        records.find({"a.b-c": TOPIC_ID}, "another")


def test_what_was_noted_is_known_until_it_is_dropped_or_another_run_has_taken_it(tmp_path):
    here = SavedConfigsStore(DirectoryStore(tmp_path))
    assert here.noted("a.b-c", TOPIC_ID) is None
    here.put(BEGUN)
    assert here.noted("a.b-c", TOPIC_ID) == BEGUN
    later = SavedConfigsStore(DirectoryStore(tmp_path))
    assert later.noted("a.b-c", TOPIC_ID) is None
    later.find({"a.b-c": TOPIC_ID}, CLUSTER_ID)
    assert structs.replace(later.noted("a.b-c", TOPIC_ID), process=None) == BEGUN
    later.put(structs.replace(BEGUN, partitions=(1,)))
    with pytest.raises(UnblockHeldError):
        here.put(BEGUN)
    assert here.noted("a.b-c", TOPIC_ID) is None
    later.drop(BEGUN)
    assert later.noted("a.b-c", TOPIC_ID) is None


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


def test_a_record_of_another_topic_is_refused_in_few_words(tmp_path):
    other = SavedConfigs.of("cluster", "o" * 100_000, TOPIC_ID, (0,), {})
    with pytest.raises(CorruptDataError, match="the configs belong to the topic oo") as caught:
        decode_saved_configs(other.encode(), "orders", TOPIC_ID, name="unblock.json")
    assert len(str(caught.value)) < 500


TIERED = {"remote.storage.enable": setting("true")}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        (TIERED, True),
        ({**TIERED, COPYING: setting("true")}, False),
        ({**TIERED, "cleanup.policy": setting("compact,delete")}, False),
        ({"remote.storage.enable": setting("false")}, False),
    ],
)
def test_is_copied_where_brokers_copy_by_themselves(settings: dict[str, TopicConfig], expected: bool) -> None:
    assert is_copied(settings) is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, CopyLag()),  # before 4.4
        ({"remote.copy.lag.ms": "0", "remote.copy.lag.bytes": "-1", "retention.bytes": "-1"}, CopyLag()),
        ({"remote.copy.lag.ms": "60000", "remote.copy.lag.bytes": "500"}, CopyLag(60_000, 500)),
        (
            {
                "remote.copy.lag.ms": "-1",
                "local.retention.ms": "7000",
                "remote.copy.lag.bytes": "-1",
                "local.retention.bytes": "900",
            },
            CopyLag(7_000, 900),
        ),
        (
            {
                "remote.copy.lag.ms": "-1",
                "local.retention.ms": "-2",
                "retention.ms": "8000",
                "remote.copy.lag.bytes": "-1",
                "local.retention.bytes": "-2",
                "retention.bytes": "1000",
            },
            CopyLag(8_000, 1_000),
        ),
        ({"remote.copy.lag.ms": "-1", "local.retention.ms": "-2", "retention.ms": "-1"}, CopyLag(None, None)),
    ],
)
def test_copy_lag_is_what_log_config_resolves(values: dict[str, str], expected: CopyLag) -> None:
    """Follows LogConfig.remoteCopyLagMs and remoteCopyLagBytes of 4.4.0."""
    assert copy_lag({name: setting(value) for name, value in values.items()}) == expected
