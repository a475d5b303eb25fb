"""`doctor` names what keeps the brokers of a cluster from copying, and ends with 4 then."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
from pathlib import Path

import pytest
from msgspec import structs

from tests.protocol.logs import BASES, PARTITION, template
from tests.protocol.memory_store import MemoryStore
from tests.protocol.situations import Place, found
from tests.reference import log_builder as lb
from tests.reference.model_cluster import CLUSTER_ID
from tests.reference.next_steps import commands_of
from tiersnap.jobs.main import run
from tiersnap.remote_storage.cluster.standing_offsets import STANDS_AFTER_MS
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.locks.process import Process
from tiersnap.remote_storage.locks.saved_configs import STALE_AFTER_MS, SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
from tiersnap.remote_storage.publish.pause_copying import own_values, settings_while_off
from tiersnap.remote_storage.stores.object_store import ReadObject
from tiersnap.snapshot.errors import ExitCode, RemoteStorageError, TiersnapError, TransientError
from tiersnap.snapshot.units import utc

pytestmark = pytest.mark.unit


def said(place: Place, *given: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command at a place."""
    out, err = io.StringIO(), io.StringIO()

    def command(_: object) -> ExitCode:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return ExitCode(run([*map(str, given), "--bootstrap-server", "model:9092"]))

    (code,) = place.world.run({"c": command}).values()
    assert code is not None
    return code, out.getvalue(), err.getvalue()


def doctor(place: Place, *words: str | Path, output: str = "json") -> tuple[int, str, str]:
    """What `doctor` says at a place now."""
    now = utc(place.world.store.time) or ""
    return said(place, "--output", output, "doctor", *words, "--now", now)


def test_doctor_names_a_copy_task_that_fails_and_what_frees_it(tmp_path: Path) -> None:
    with found("stuck", tmp_path) as place:
        code, out, err = doctor(place, place.disk, "--remote", place.remote)
        result = json.loads(out)["result"]
        assert code == 4
        (task,) = result["copying"]["failing"]
        assert (task["partition"], task["broker"], task["base_offset"]) == ("orders-0", 1, 5)
        assert task["attempts"] > 2 and task["waiting_bytes"] > 0
        assert "waiting up to 4 s, to see which copy tasks fail" in err
        (free,) = (each for each in commands_of(result["next"]) if "unblock" in each)
        given = r"--now \S+ --bootstrap-server model:9092 --remote s3://bucket --apply"
        assert re.fullmatch(f"tiersnap unblock {place.disk} {given}", free)
        assert place.run(*shlex.split(free)[1:]) == 0
        code, out, _ = doctor(place, place.disk, output="table")
        assert code == 4
        assert "blocked  orders-0: the copy task of broker 1 fails again and again" in out
        assert "nothing, judged by the names" not in out

        place.type(*shlex.split(free)[1:])
        code, out, err = doctor(place, place.disk, "--remote", place.remote)
        assert (code, json.loads(out)["result"]["copying"]["failing"]) == (0, []), out
        assert "waiting" not in err


def pause(place: Place) -> None:
    """As a run pauses a topic: what it had set is saved, then its configs are overridden."""
    cluster, topic_id = place.world.cluster, PARTITION.topic_id or ""
    settings = cluster.settings(PARTITION.topic)
    off = settings_while_off(settings)
    saved = SavedConfigs.of(CLUSTER_ID, PARTITION.topic, topic_id, (0,), own_values(settings, off))
    SavedConfigsStore(place.world.store, process=Process("elsewhere", 7, "boot/1/7")).put(saved)
    cluster.change_settings(PARTITION.topic, off)


def test_doctor_names_a_topic_that_a_killed_run_left_paused_and_what_restores_it(tmp_path: Path) -> None:
    with found("copying on", tmp_path) as place:
        before = place.world.cluster.settings(PARTITION.topic)
        pause(place)
        words = (place.disk, "--remote", place.remote)
        code, out, _ = doctor(place, *words)
        (topic,) = json.loads(out)["result"]["copying"]["paused"]
        assert (code, topic["topic"], topic["state"]) == (0, "orders", "AT_WORK"), "a run is at it"
        assert "on elsewhere (pid 7) is working on the topic orders" in topic["reason"]

        place.world.advance(STALE_AFTER_MS + 1)
        code, out, _ = doctor(place, *words)
        result = json.loads(out)["result"]
        assert (code, [each["state"] for each in result["copying"]["paused"]]) == (4, ["LEFT"])
        (restore,) = (each for each in commands_of(result["next"]) if each.startswith("tiersnap unblock "))
        code, out, _ = doctor(place, *words, output="table")
        assert code == 4 and "blocked  orders: an earlier run ended without resuming copying" in out
        assert place.type(*shlex.split(restore)[1:]) == 0
        assert place.world.cluster.settings(PARTITION.topic) == before
        assert doctor(place, *words)[0] == 0


def test_doctor_says_what_is_not_known_of_a_paused_topic(tmp_path: Path) -> None:
    with found("copying on", tmp_path) as place:
        pause(place)
        code, out, _ = doctor(place, place.disk)
        (topic,) = json.loads(out)["result"]["copying"]["paused"]
        assert (code, topic["state"]) == (4, "NOT_ASKED")
        assert "--remote" in topic["reason"]
        place.world.store.delete(place.keys(KeyKind.UNBLOCK))
        code, out, _ = doctor(place, place.disk, "--remote", place.remote)
        result = json.loads(out)["result"]
        (topic,) = result["copying"]["paused"]
        assert (code, topic["state"]) == (4, "NOTHING_SAVED")
        assert any(
            "kafka-configs --alter --topic orders --add-config remote.log.copy.disable=VALUE,retention.ms=VALUE,"
            in each["words"]
            for each in result["next"]
        )


SAVED = SavedConfigs.of(CLUSTER_ID, PARTITION.topic, PARTITION.topic_id or "", (0,), {COPY_DISABLE: None})


@pytest.mark.parametrize("is_paused", [False, True], ids=["not paused", "paused"])
@pytest.mark.parametrize(
    ("content", "state", "expected"),
    [
        (b"{", "DAMAGED", ExitCode.DATA_CORRUPT),
        (structs.replace(SAVED, cluster_id="another").encode(), "DAMAGED", ExitCode.DATA_CORRUPT),
        (b'{"version":2}', "NEWER_FORMAT", ExitCode.USAGE),
    ],
    ids=["damaged", "another cluster", "newer"],
)
def test_doctor_and_publish_refuse_bad_saved_configs_alike(
    content: bytes, state: str, expected: ExitCode, is_paused: bool, tmp_path: Path
) -> None:
    with found("copying on", tmp_path) as place:
        if is_paused:
            pause(place)
        place.world.store.replace(keys.unblock(PARTITION.topic, PARTITION.topic_id or ""), content)
        words = (place.disk, "--remote", place.remote)
        code, out, _ = doctor(place, *words)
        (topic,) = json.loads(out)["result"]["copying"]["paused"]
        assert (code, topic["topic"], topic["state"]) == (expected, "orders", state)
        assert topic["reason"].startswith("copying is paused: ") is is_paused
        published, _, err = said(place, "publish", *words)
        assert published == expected
        assert topic["reason"].removeprefix("copying is paused: ") in err
        assert topic["hint"] in [each["words"] for each in json.loads(out)["result"]["next"]]


@pytest.mark.parametrize("is_paused", [False, True], ids=["not paused", "paused"])
@pytest.mark.parametrize(
    "error", [RemoteStorageError("access denied"), TransientError("no answer within 30 s")], ids=["denied", "silent"]
)
def test_doctor_prints_the_host_although_saved_configs_cannot_be_read(
    error: TiersnapError, is_paused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with found("copying on", tmp_path) as place:
        if is_paused:
            pause(place)
        real = MemoryStore.read

        def read(store: MemoryStore, key: str, *, limit: int | None = None) -> ReadObject:
            if key == keys.unblock(PARTITION.topic, PARTITION.topic_id or ""):
                raise error
            return real(store, key, limit=limit)

        monkeypatch.setattr(MemoryStore, "read", read)
        code, out, _ = doctor(place, place.disk, "--remote", place.remote)
        document = json.loads(out)
        assert code == error.exit_code
        assert [each["message"] for each in document["errors"]] == [error.message]
        assert [each["log_dir"] for each in document["result"]["log_dirs"]] == [str(place.disk)]
        assert len(document["result"]["copying"]["paused"]) == is_paused


def test_doctor_reports_a_topic_that_looks_paused_without_the_mark(tmp_path: Path) -> None:
    with found("copying on", tmp_path) as place:
        SavedConfigsStore(place.world.store, process=Process("elsewhere", 7, "boot/1/7")).put(SAVED)
        place.world.advance(STALE_AFTER_MS + 1)
        place.world.cluster.change_settings(PARTITION.topic, {COPY_DISABLE: "true"})
        words = (place.disk, "--remote", place.remote)
        code, out, _ = doctor(place, *words)
        (topic,) = json.loads(out)["result"]["copying"]["paused"]
        assert (code, topic["state"]) == (4, "UNMARKED")
        refused, _, err = unblock(place)
        assert (refused, topic["reason"] in err) == (4, True), err
        refused, _, err = said(place, "publish", *words)
        assert (refused, err.count(topic["reason"])) == (4, 1), err
        assert "nothing else is left to publish" in err


def test_publish_and_unblock_refuse_a_held_topic_without_segments_to_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiersnap.remote_storage.locks.saved_configs._OTHERS_SECONDS", 0)
    with found("copying on", tmp_path) as place:
        SavedConfigsStore(place.world.store, process=Process("elsewhere", 7, "boot/1/7")).put(SAVED)
        for command in ("publish", "unblock"):
            refused, _, err = said(place, command, place.disk, "--remote", place.remote)
            assert (refused, err.count("is working on the topic orders")) == (3, 1), err


def test_doctor_reports_no_saved_configs_that_a_topic_has_already(tmp_path: Path) -> None:
    with found("copying on", tmp_path) as place:
        SavedConfigsStore(place.world.store, process=Process("elsewhere", 7, "boot/1/7")).put(SAVED)
        place.world.advance(STALE_AFTER_MS + 1)
        code, out, _ = doctor(place, place.disk, "--remote", place.remote)
        assert (code, json.loads(out)["result"]["copying"]["paused"]) == (0, [])


def with_snapshots(place: Place) -> None:
    """Nothing is missing on the disk, and nothing is tiered."""
    place.world.brokers.mend(template(BASES) / "orders-0")
    place.world.store.objects.clear()
    place.world.cluster.log.clear()
    assert doctor(place, place.disk)[0] == 0


def test_doctor_names_lost_leader_epochs_and_what_brings_them_back(tmp_path: Path) -> None:
    """The copy task fails before it writes a record, so only the log directory shows it."""
    with found("copying on", tmp_path) as place:
        with_snapshots(place)
        checkpoint = place.disk / "orders-0" / "leader-epoch-checkpoint"
        checkpoint.write_text("0\n0\n")
        code, out, _ = doctor(place, place.disk)
        result = json.loads(out)["result"]
        (lost,) = result["copying"]["lost_epochs"]
        assert (code, lost["partition"], lost["leader"], lost["base_offset"], lost["segments"]) == (
            4,
            "orders-0",
            1,
            0,
            3,
        )
        assert lost["waiting_bytes"] == sum(
            (place.disk / "orders-0" / f"{base:020d}.log").stat().st_size for base in BASES[:3]
        )
        (mend,) = (
            each for each in commands_of(result["next"]) if each.startswith("tiersnap repair ") and "--replace" in each
        )
        code, out, err = unblock(place)
        assert (code, "is stuck" in err) == (4, False), err
        assert "orders-0: the copy task of broker 1 fails at offset 0" in err
        assert re.sub(r" --now \S+", "", mend) in err.splitlines()
        assert place.type(*shlex.split(mend)[1:]) in (0, 4)
        assert checkpoint.read_text().split() == ["0", "2", "0", "0", "3", "10"]
        assert doctor(place, place.disk)[0] == 0


def test_lost_leader_epochs_of_segments_that_are_remote_block_nothing(tmp_path: Path) -> None:
    with found("copying on", tmp_path) as place:
        (place.disk / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n3 10\n")
        _, out, _ = doctor(place, place.disk)
        assert json.loads(out)["result"]["copying"]["lost_epochs"] == []


def unblock(place: Place) -> tuple[int, str, str]:
    """What the plan of `unblock` says at a place."""
    return said(place, "unblock", place.disk, "--remote", place.remote)


def stand_at(place: Place, offset: int) -> None:
    """The leader's last stable offset stands there."""
    cluster = place.world.cluster
    cluster.stable = {("orders", 0): offset}


def test_doctor_names_a_last_stable_offset_that_stands_while_segments_wait(tmp_path: Path) -> None:
    with found("copying on", tmp_path) as place:
        with_snapshots(place)
        for path in (place.disk / "orders-0").glob("*.log"):
            os.utime(path, (lb.TIMESTAMP / 1000, lb.TIMESTAMP / 1000))
        stand_at(place, 4)
        code, out, _ = doctor(place, place.disk)
        result = json.loads(out)["result"]
        (standing,) = result["copying"]["standing"]
        assert (code, standing["partition"], standing["last_stable_offset"]) == (4, "orders-0", 4)
        assert (standing["since"], standing["segments"]) == (lb.TIMESTAMP, 3)
        assert f"tiersnap transactions find-hanging {place.disk} --all" in commands_of(result["next"])
        _, out, _ = doctor(place, place.disk, output="table")
        assert "has not moved from 4 for" in " ".join(out.split())

        stand_at(place, 15)
        assert doctor(place, place.disk)[0] == 0, "no closed segment waits above it"


def test_a_last_stable_offset_in_a_segment_that_was_begun_lately_does_not_stand(tmp_path: Path) -> None:
    """Records with old timestamps are written now: the segment before ended a moment ago."""
    with found("copying on", tmp_path) as place:
        with_snapshots(place)
        now = place.world.store.time / 1000
        for path in (place.disk / "orders-0").glob("*.log"):
            os.utime(path, (now, now))
        stand_at(place, 8)
        place.world.advance(STANDS_AFTER_MS - 60_000)
        assert doctor(place, place.disk)[0] == 0
        place.world.advance(120_000)
        assert doctor(place, place.disk)[0] == 4
