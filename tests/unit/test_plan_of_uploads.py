"""A plan of `tier` that uploads segments first asks of brokers what `--apply` asks of them after the upload."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.logs import BASES, PARTITION, Clone, template
from tests.protocol.situations import Place, found
from tests.reference.command import Ran
from tests.unit.test_exit_codes_remote import COMMANDS
from tests.unit.test_plan_and_apply import type_words
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC
from tiersnap.remote_storage.metadata.topic_configs import REMOTE_STORAGE
from tiersnap.snapshot.errors import ExitCode, TiersnapError

pytestmark = pytest.mark.unit


def roll(place: Place) -> None:
    """The broker began a new segment, so the last one of the log may be uploaded."""
    for suffix in ("log", "index", "timeindex"):
        (place.disk / "orders-0" / f"{20:020d}.{suffix}").touch()


def may_not_write(place: Place) -> None:
    place.world.cluster.read_only.add(METADATA_TOPIC)


def compacted(place: Place) -> None:
    place.world.cluster.of_records.own["cleanup.policy"] = "compact"


def refuses_pause(place: Place) -> None:
    """As in ZooKeeper mode, or without ALTER_CONFIGS."""
    ask = place.world._ask

    def refused(actor: Any, what: str, action: Callable[[], Any]) -> Any:
        if what == "change of settings":
            raise ClusterRefusedError("settings of orders: INVALID_CONFIG", code="INVALID_CONFIG")
        return ask(actor, what, action)

    place.world._ask = refused  # type: ignore[method-assign]


def tiering_off(place: Place) -> None:
    """Everything is published, one more segment may be uploaded, and brokers would not read it."""
    roll(place)
    place.world.cluster.there[PARTITION.topic].own[REMOTE_STORAGE] = "false"


def leaderless(place: Place) -> None:
    place.world.cluster.there[PARTITION.topic].leaders[0] = -1


def truncated(place: Place) -> None:
    """An unclean election truncated the log of the leader."""
    place.world.cluster.there[PARTITION.topic].offsets[0] = (0, 7)


def diverged(place: Place) -> None:
    """The leader's log has other records from offset 10."""
    place.world.cluster.leader_folder = template(BASES, Clone(10)) / "orders-0"


def recreated(place: Place) -> None:
    place.world.cluster.there[PARTITION.topic].topic_id = "AAAAAAAAAAAAAAAAAAAAAg"


def deleted(place: Place) -> None:
    del place.world.cluster.there[PARTITION.topic]


def told(ran: Ran) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(ran.out)
    return said


@pytest.mark.parametrize(
    ("name", "harm", "code"),
    [
        ("stuck", may_not_write, ExitCode.USAGE),
        ("stuck", compacted, ExitCode.GATE_REFUSED),
        ("stuck", refuses_pause, ExitCode.USAGE),
        ("published", tiering_off, ExitCode.GATE_REFUSED),
    ],
)
def test_tier_plans_no_record_that_brokers_would_not_take(
    name: str, harm: Callable[[Place], object], code: ExitCode, tmp_path: Path
) -> None:
    with found(name, tmp_path) as place:
        harm(place)
        plan = type_words(place, *COMMANDS["tier"](place))
        done = type_words(place, *COMMANDS["tier -a"](place))
        assert (plan.exit_code, done.exit_code) == (code, code), plan.err + done.err
        assert told(plan)["errors"] == told(done)["errors"]
        counts = told(plan)["result"], told(done)["result"]
        assert [counts[0]["plan"]["segments"], counts[1]["segments_uploaded"]] != [0, 0]
        assert (counts[0]["publish"], counts[1]["segments_published"]) == (0, 0)


@pytest.mark.parametrize(
    ("harm", "options", "code"),
    [
        (leaderless, (), ExitCode.TRANSIENT),
        (truncated, (), ExitCode.DATA_CORRUPT),
        (diverged, (), ExitCode.DATA_CORRUPT),
        (recreated, ("--no-publish",), ExitCode.GATE_REFUSED),
        (deleted, ("--no-publish",), ExitCode.GATE_REFUSED),
    ],
)
def test_tier_uploads_nothing_that_the_leader_would_refuse(
    harm: Callable[[Place], object], options: tuple[str, ...], code: ExitCode, tmp_path: Path
) -> None:
    with found("stuck", tmp_path) as place:
        harm(place)
        before = dict(place.world.store.objects)
        plan = type_words(place, *COMMANDS["tier"](place), *options)
        done = type_words(place, *COMMANDS["tier -a"](place), *options)
        assert (plan.exit_code, done.exit_code) == (code, code), plan.err + done.err
        assert told(plan)["errors"] == told(done)["errors"]
        assert len(told(plan)["errors"]) == 1
        assert told(plan)["result"]["plan"]["segments"] == told(done)["result"]["segments_uploaded"] == 0
        assert dict(place.world.store.objects) == before


def damaged(place: Place) -> None:
    """The segment to upload has a damaged snapshot. `tier` needs --replace."""
    roll(place)
    (place.disk / "orders-0" / f"{20:020d}.snapshot").write_bytes(b"damaged")


@pytest.mark.parametrize("harm", [truncated, diverged, recreated, deleted])
@pytest.mark.parametrize(
    ("name", "lack"), [("stuck", lambda _: None), ("published", damaged)], ids=["missing", "damaged"]
)
def test_tier_advises_no_upload_that_the_cluster_refuses(
    name: str, lack: Callable[[Place], object], harm: Callable[[Place], object], tmp_path: Path
) -> None:
    with found(name, tmp_path) as place:
        lack(place)
        advised = type_words(place, *COMMANDS["tier"](place))
        assert re.search("_SNAPSHOT: tiersnap tier .* --apply", advised.err), advised.err
        harm(place)
        for command in ("tier", "tier -a"):
            ran = type_words(place, *COMMANDS[command](place))
            assert len(told(ran)["errors"]) == 1, ran.err
            assert "--apply" not in ran.err, ran.err


@pytest.mark.parametrize("harm", [leaderless, truncated, diverged, recreated])
def test_tier_names_once_why_it_neither_uploads_nor_publishes(harm: Callable[[Place], object], tmp_path: Path) -> None:
    """Two segments are UPLOADED, and one is READY."""
    with found("not published", tmp_path) as place:
        roll(place)
        harm(place)
        before = list(place.world.cluster.records(PARTITION))
        for command in ("tier", "tier -a"):
            (error,) = told(type_words(place, *COMMANDS[command](place)))["errors"]
            assert PARTITION.topic in error["message"]
        assert list(place.world.cluster.records(PARTITION)) == before


@pytest.mark.parametrize("log_end", [0, 7, 14])
def test_publish_refuses_segments_above_the_end_of_the_leaders_log(log_end: int, tmp_path: Path) -> None:
    with found("not published", tmp_path) as place:
        cluster = place.world.cluster
        cluster.there[PARTITION.topic].offsets[0] = (0, log_end)
        before = list(cluster.records(PARTITION))
        for command in ("publish", "publish -a"):
            ran = type_words(place, *COMMANDS[command](place))
            assert ran.exit_code == ExitCode.DATA_CORRUPT, ran.err
            assert f"end at offset 15, above the end of the leader's log at {log_end}" in ran.err
        assert list(cluster.records(PARTITION)) == before


def test_publish_writes_records_up_to_the_end_of_the_leaders_log(tmp_path: Path) -> None:
    with found("not published", tmp_path) as place:
        cluster = place.world.cluster
        cluster.there[PARTITION.topic].offsets[0] = (0, 15)
        before = len(list(cluster.records(PARTITION)))
        ran = type_words(place, *COMMANDS["publish -a"](place))
        assert ran.exit_code == ExitCode.OK, ran.err
        assert len(list(cluster.records(PARTITION))) == before + 4  # two records for each of two segments


@pytest.mark.parametrize("topic", [PARTITION.topic, METADATA_TOPIC])
@pytest.mark.parametrize("command", ["tier", "tier -a", "publish"])
def test_topic_that_may_not_be_described_is_no_topic_of_another_cluster(
    topic: str, command: str, tmp_path: Path
) -> None:
    with found("stuck", tmp_path) as place:
        before = dict(place.world.store.objects)
        place.world.cluster.unseen.add(topic)
        ran = type_words(place, *COMMANDS[command](place))
        assert (ran.exit_code, "another cluster" in ran.err) == (ExitCode.USAGE, False), ran.err
        assert f"give DESCRIBE of {topic}" in ran.err
        assert dict(place.world.store.objects) == before


@pytest.mark.parametrize(
    ("what", "failure", "code", "outcome"),
    [
        ("ends of a topic", BrokerUnavailableError("model:9092: no answer"), ExitCode.TRANSIENT, "REFUSED"),
        (
            "change of settings",
            ClusterRefusedError("settings of orders: INVALID_CONFIG"),
            ExitCode.GATE_REFUSED,
            "UNWATCHED",
        ),
    ],
)
def test_unblock_keeps_its_rows_and_counts_if_a_request_fails_after_the_first_record(
    what: str, failure: TiersnapError, code: ExitCode, outcome: str, tmp_path: Path
) -> None:
    with found("stuck", tmp_path) as place:
        world, ask = place.world, place.world._ask

        def failing(actor: Any, name: str, action: Callable[[], Any]) -> Any:
            ours = [headers for records in world.cluster.log.values() for _, headers in records if headers]
            if name == what and len(ours) >= 4:  # two records each of the segments at 5 and 10
                raise failure
            return ask(actor, name, action)

        world._ask = failing  # type: ignore[method-assign]
        ran = type_words(place, *COMMANDS["unblock -a"](place))
        assert ran.exit_code == code, ran.err
        ((row,), uploaded) = told(ran)["result"]["rows"], told(ran)["result"]["segments_uploaded"]
        assert (uploaded, row["tier"], row["publish"], row["outcome"]) == (2, 2, 2, outcome)
        assert len(told(ran)["errors"]) == 1
