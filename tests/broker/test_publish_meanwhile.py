"""Topics that change, or refuse, while others are published: asked of a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.broker.harness.broker import Broker
from tests.broker.harness.disks import kraft_disks
from tests.broker.harness.meanwhile import after_the_first
from tests.broker.harness.reading import read_all
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import admin_client, alter_topic, create_topic
from tests.broker.harness.unblocking import own_settings
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tiersnap.jobs.main import run as tiersnap
from tiersnap.remote_storage.publish import publish as publishing

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

COPYING_OFF = {**TOPIC_SETTINGS, "remote.log.copy.disable": "true"}
CLOSED = 3
QUICK = {"replica.high.watermark.checkpoint.interval.ms": "500"}
# Whoever no rule tells of may do everything.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
# A copier copies one segment, and waits a minute before the next.
SLOW = {"remote.log.manager.copy.max.bytes.per.second": "1", "remote.log.manager.copy.quota.window.num": "61"}
TOLD = {"COPY_SEGMENT_STARTED": CLOSED, "COPY_SEGMENT_FINISHED": CLOSED}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose topics some users may not describe."""
    root = tmp_path_factory.mktemp("meanwhile")
    disks = kraft_disks(root / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION, tier=LocalTier(root / "tier"), settings={**QUICK, **AUTHORIZER}) as broker:
        yield broker


def tiered_topics(broker: Broker, *topics: str) -> None:
    """Topics with closed segments, all of them in remote storage, and no broker told."""
    for topic in topics:
        create_topic(broker, topic, configs=COPYING_OFF)
        write_segments(broker, topic, CLOSED + 1, name=f"{topic}-")
    command = ["-q", "tier", str(broker.disks.log_dir), *remote_options(broker, *topics), "--no-publish", "--apply"]

    def tiered() -> bool:
        assert broker.tier is not None
        assert tiersnap(command) == 0
        return all(len(broker.tier.complete_bases(topic)) == CLOSED for topic in topics)

    wait_until(tiered, "the high watermark is checkpointed", seconds=30, every=1)


def remote_options(broker: Broker, *topics: str) -> list[str]:
    assert broker.tier is not None
    return ["--remote", str(broker.tier.directory), "--layout", "local-tiered-storage", "--topic", "|".join(topics)]


def publish(broker: Broker, capsys: pytest.CaptureFixture[str], *topics: str) -> tuple[int, dict[str, dict], str]:
    """`tiersnap publish --apply`: exit code, rows by topic, and what was said."""
    capsys.readouterr()
    command = ["publish", "--bootstrap-server", broker.bootstrap, *remote_options(broker, *topics), "--apply"]
    code = tiersnap(["--output", "json", *command])
    said = capsys.readouterr()
    return code, {row["topic"]: row for row in json.loads(said.out)["result"]["rows"]}, said.err


def deny(broker: Broker, topic: str, operation: AclOperation) -> None:
    """Nobody may do `operation` to `topic`, and everybody all else."""
    admin = admin_client(broker)
    rules = [
        AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", "*", what, allowed)
        for what, allowed in ((AclOperation.ALL, AclPermissionType.ALLOW), (operation, AclPermissionType.DENY))
    ]
    for created in admin.create_acls(rules).values():
        created.result(10)


def test_a_topic_whose_settings_may_not_be_read_is_refused_alone(broker, capsys):
    tiered_topics(broker, "denied", "orders")
    deny(broker, "denied", AclOperation.DESCRIBE_CONFIGS)

    code, rows, said = publish(broker, capsys, "denied", "orders")

    assert (code, rows["denied"]["refused"], rows["orders"]["refused"]) == (2, "ClusterRefusedError", "")
    assert "settings of denied: TOPIC_AUTHORIZATION_FAILED" in said
    assert (states(broker, "denied"), states(broker, "orders")) == ({}, TOLD)
    assert publish(broker, capsys, "denied")[0] == 2, "where it is all there is"


def test_what_a_copier_copied_after_the_plan_is_not_published_beside_it(broker, capsys, monkeypatch):
    """Its objects came after remote storage was listed, so the listing alone would call them lost."""
    tiered_topics(broker, "copied", "payments")

    def on_and_off() -> None:
        alter_topic(broker, "copied", {"remote.log.copy.disable": "false"})
        wait_until(lambda: states(broker, "copied")["COPY_SEGMENT_FINISHED"] == CLOSED, "it copied", seconds=30)
        alter_topic(broker, "copied", {"remote.log.copy.disable": "true"})

    after_the_first(monkeypatch, publishing.Publish, "_plan", on_and_off)
    code, rows, _ = publish(broker, capsys, "copied", "payments")

    assert (states(broker, "copied"), states(broker, "payments")) == (TOLD, TOLD)
    assert (code, rows["copied"]["others"], rows["payments"]["publish"]) == (0, f"{CLOSED} COVERED", CLOSED)


def test_copying_that_is_switched_on_while_records_are_written_is_said(broker, capsys, monkeypatch):
    tiered_topics(broker, "ledger", "others")

    def switch_on() -> None:
        alter_topic(broker, "ledger", {"remote.log.copy.disable": "false"})

    after_the_first(monkeypatch, publishing, "publish_plans", switch_on)
    code, rows, said = publish(broker, capsys, "ledger", "others")

    assert (code, rows["ledger"]["refused"], rows["ledger"]["publish"]) == (6, "", CLOSED)
    assert "ledger: another user or program enabled copying during the publication" in said
    assert "others: another user or program enabled copying" not in said
    assert "remote.log.copy.disable=true" in said
    assert states(broker, "others") == TOLD


def test_publish_finds_the_layout_when_broker_settings_are_hidden(broker, capsys):
    """Of the storage manager's class nothing is told then, nor of the broker's log directories.

    What a copier copied tells the layout, and proves nothing of the location.
    """
    tiered_topics(broker, "hidden")
    what = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:*", "*")
    denied = (AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY)
    admin = admin_client(broker)
    rules = [
        AclBinding(*what, AclOperation.ALL, AclPermissionType.ALLOW),
        AclBinding(*what, *denied),
    ]
    for created in admin.create_acls(rules).values():
        created.result(10)
    try:
        remote = remote_options(broker, "hidden")
        del remote[remote.index("--layout") :][:2]
        command = ["--output", "json", "publish", "--bootstrap-server", broker.bootstrap, *remote]
        capsys.readouterr()
        assert tiersnap(command) == 4
        (error,) = json.loads(capsys.readouterr().out)["errors"]
        assert error["type"] == "UnprovenPlaceError"
        assert "(local-tiered-storage)" in error["message"] and "brokers uploaded file://" in error["message"]
        assert tiersnap([*command, str(broker.disks.log_dir)]) == 0, capsys.readouterr().err
        assert "of the running broker" in json.loads(capsys.readouterr().out)["result"]["place"]
    finally:
        for deleted in admin.delete_acls([AclBindingFilter(*what, *denied)]).values():
            deleted.result(10)


def test_a_copier_that_was_switched_on_after_the_plan_is_paused_and_nothing_is_read_twice(
    tmp_path, capsys, monkeypatch
):
    disks = kraft_disks(tmp_path / "disks", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION, tier=LocalTier(tmp_path / "tier"), settings={**QUICK, **SLOW}) as broker:
        tiered_topics(broker, "held", "orders")

        def switch_on() -> None:
            alter_topic(broker, "held", {"remote.log.copy.disable": "false"})
            wait_until(lambda: states(broker, "held")["COPY_SEGMENT_FINISHED"] == 1, "it copies", seconds=30)

        after_the_first(monkeypatch, publishing.Publish, "_plan", switch_on)
        records = read_all(broker, "held")
        code, rows, said = publish(broker, capsys, "held", "orders")

        assert (code, rows["held"]["refused"], rows["orders"]["refused"]) == (0, "", ""), said
        assert rows["held"]["publish"] == CLOSED - 1, "what the copier had finished is covered"
        assert states(broker, "orders") == TOLD
        assert own_settings(broker, "held")["remote.log.copy.disable"] == "false"
        assert read_all(broker, "held") == records
