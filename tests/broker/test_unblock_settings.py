"""What `unblock` sets at a topic, whatever happens in between: afterwards the topic has what it had."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, segment_bases
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, create_topic
from tests.broker.harness.unblocking import killed_while_off, make_stick, options, own_settings, unblock
from tiersnap.jobs.main import run as tiersnap
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.locks.process import Process
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.metadata.topic_configs import MARK
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.unblock.unblock import Unblock

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

TEN_YEARS_MS = str(3650 * 86_400_000)
FINITE = {"retention.ms": TEN_YEARS_MS, "retention.bytes": "2000000000", "local.retention.bytes": "1000000000"}


@pytest.fixture
def tier(tmp_path):
    return LocalTier(tmp_path / "tier", FAILING_INTERVAL_MS)


@pytest.fixture
def disks(current_disks, copy_of):
    """A topic that lacks the second snapshot."""
    disks = copy_of(current_disks)
    drop_snapshot(disks.partition(TOPIC), segment_bases(disks.partition(TOPIC))[1])
    return disks


def records_left(tier: LocalTier) -> int:
    return len(list(tier.directory.glob("claims/*/unblock.json")))


@pytest.mark.nightly
@pytest.mark.parametrize("whose", ["the topic's", "the broker's"])
def test_a_topic_of_finite_retention_is_freed_and_has_the_settings_that_it_had(whose, disks, tier, capsys):
    bases = segment_bases(disks.partition(TOPIC))
    with Broker(disks, CURRENT_VERSION, tier=tier, settings={"log.retention.ms": TEN_YEARS_MS}) as broker:
        make_stick(broker, FINITE)
        if whose == "the broker's":
            Cluster(broker.bootstrap).change_settings(TOPIC, {"retention.ms": None})
        before = own_settings(broker)
        assert ("retention.ms" in before) == (whose == "the topic's")

        code, rows = unblock(broker, capsys)
        assert (code, [row["outcome"] for row in rows]) == (0, ["PLANNED"]), rows
        code, rows = unblock(broker, capsys, "--apply")

        assert (code, [row["outcome"] for row in rows]) == (0, ["FREED"]), rows
        assert own_settings(broker) == before
        assert tier.complete_bases(TOPIC) == tuple(bases[:10])
        assert segment_bases(disks.partition(TOPIC)) == bases, "nothing was deleted in between"
        assert records_left(tier) == 0


@pytest.mark.nightly
def test_after_a_kill_whoever_switched_copying_on_by_hand_gets_the_rest_back_first(disks, tier, capsys, monkeypatch):
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker, {**FINITE, "local.retention.ms": "7200000"})
        before = own_settings(broker)
        killed_while_off(broker, signal.SIGKILL)
        assert own_settings(broker)["local.retention.ms"] == "-2"
        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "false"})
        seen, tier_it = [], Unblock._tier

        def and_look(run, host):
            seen.append(own_settings(broker))
            return tier_it(run, host)

        monkeypatch.setattr(Unblock, "_tier", and_look)
        code, rows = unblock(broker, capsys, "--apply")

        assert code == 0, rows
        assert seen == [{**before, "remote.log.copy.disable": "false"}], "before hours of tiering"
        assert own_settings(broker) == {**before, "remote.log.copy.disable": "false"}
        assert records_left(tier) == 0


@pytest.mark.nightly
def test_where_a_setting_cannot_be_put_back_copying_is_switched_on_and_the_rest_is_named(disks, tier, capsys):
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker, {"local.retention.bytes": "1000000000"})
        killed_while_off(broker, signal.SIGKILL)
        alter_topic(broker, TOPIC, {"retention.bytes": "500000000"})  # the disk is filling

        for _ in range(2):
            capsys.readouterr()
            code = tiersnap(["unblock", *options(broker), "--apply"])
            said = " ".join(capsys.readouterr().err.split())
            assert code == 4, said
            assert "configs not restored: retention.ms, local.retention.bytes" in said, "by name"
            command = f"--alter --topic {TOPIC} --add-config retention.ms=-1,local.retention.bytes=1000000000"
            assert command in said, "and by command"
            now = own_settings(broker)
            assert "remote.log.copy.disable" not in now, "copying is on"
            assert (now["local.retention.bytes"], now["retention.bytes"]) == ("-2", "500000000")
            assert records_left(tier) == 1

        alter_topic(broker, TOPIC, {"local.retention.bytes": "400000000"})
        code, rows = unblock(broker, capsys, "--apply")
        assert code == 0, rows
        now = own_settings(broker)
        assert (now["local.retention.bytes"], now["retention.ms"]) == ("400000000", "-1")


@pytest.mark.nightly
def test_copying_that_somebody_else_switched_off_stays_off_and_nothing_is_recorded(disks, tier, capsys, monkeypatch):
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker)
        tier_it = Unblock._tier

        def and_somebody_switches_it_off(run, host):
            done = tier_it(run, host)
            alter_topic(broker, TOPIC, {"remote.log.copy.disable": "true"})
            return done

        with monkeypatch.context() as patch:
            patch.setattr(Unblock, "_tier", and_somebody_switches_it_off)
            code, rows = unblock(broker, capsys, "--apply")
        assert (code, [row["outcome"] for row in rows]) == (4, ["REFUSED"]), rows
        assert "remote.log.copy.disable" in rows[0]["reason"]
        assert own_settings(broker)["remote.log.copy.disable"] == "true"
        assert records_left(tier) == 0

        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "false"})
        code, rows = unblock(broker, capsys, "--apply")
        assert (code, [row["outcome"] for row in rows]) == (0, ["FREED"]), rows


@pytest.mark.nightly
def test_copying_that_another_run_has_switched_off_is_waited_for(disks, tier, capsys, monkeypatch):
    """The other run is in the middle of it when this one has tiered and asks for the settings."""
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker, FINITE)
        before, cluster = own_settings(broker), Cluster(broker.bootstrap)
        topic_id = cluster.topics([TOPIC])[TOPIC].topic_id
        off = {"remote.log.copy.disable": "true", "retention.ms": MARK, "retention.bytes": "-1"}
        off |= {"local.retention.bytes": "-2"}
        theirs = SavedConfigs.of(cluster.cluster_id(), TOPIC, topic_id, (0,), {name: before.get(name) for name in off})
        others = SavedConfigsStore(DirectoryStore(tier.directory), process=Process("another-host", 7, ""))

        def end_of_the_other_run():
            cluster.change_settings(TOPIC, theirs.before)
            others.drop(theirs)

        timer, tier_it = threading.Timer(6, end_of_the_other_run), Unblock._tier

        def and_another_run_is_at_it(run, host):
            done = tier_it(run, host)
            others.put(theirs)
            cluster.change_settings(TOPIC, off)
            timer.start()
            return done

        monkeypatch.setattr(Unblock, "_tier", and_another_run_is_at_it)
        code, rows = unblock(broker, capsys, "--apply")
        timer.join()
        assert (code, [row["outcome"] for row in rows]) == (0, ["FREED"]), rows
        assert own_settings(broker) == before
        assert records_left(tier) == 0


def plant(broker, tier, topic, before) -> None:
    """A record as a run that was killed leaves it."""
    cluster = Cluster(broker.bootstrap)
    topic_id = cluster.topics([topic])[topic].topic_id
    records = SavedConfigsStore(DirectoryStore(tier.directory))
    records.put(SavedConfigs.of(cluster.cluster_id(), topic, topic_id, (0,), before))
    records.release()


@pytest.mark.nightly
def test_a_record_that_somebody_put_into_the_bucket_sets_nothing_that_unblock_did_not_put_aside(disks, tier, capsys):
    """Nor does one of an earlier run, of a topic whose copying somebody has switched off since, and on purpose."""
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker)
        assert own_settings(broker)["retention.ms"] == "-1", "by its owner's choice"
        plant(broker, tier, TOPIC, {"remote.log.copy.disable": None, "retention.ms": "1", "local.retention.ms": "1"})
        alter_topic(broker, TOPIC, {"remote.log.copy.disable": "true", "local.retention.ms": "-2"})
        set_by_hand = own_settings(broker)

        for more in ((), ("--apply",)):
            code = tiersnap(["unblock", *options(broker), *more])
            said = " ".join(capsys.readouterr().err.split())
            assert code == 4, said
            assert "the topic lacks the mark" in said
            assert own_settings(broker) == set_by_hand
            assert records_left(tier) == 1


@pytest.mark.nightly
def test_a_topic_in_doubt_keeps_no_other_from_being_freed(disks, tier, capsys):
    with Broker(disks, CURRENT_VERSION, tier=tier) as broker:
        make_stick(broker)
        create_topic(broker, "other", configs=TOPIC_SETTINGS)
        plant(broker, tier, "other", {"retention.ms": "1"})

        code, rows = unblock(broker, capsys, "--apply")

        assert (code, [(row["topic"], row["outcome"]) for row in rows]) == (4, [(TOPIC, "FREED")]), rows
