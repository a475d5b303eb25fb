"""Commands on the host of a running broker whose configuration names another remote location than --remote."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.broker_process import started_broker
from tests.reference.command import Ran, tiersnap
from tests.reference.next_steps import lines_of
from tests.reference.small_log import file_of, write_small_log

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock"),
]

CLASS = "remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
LAYOUT = ("--layout", "local-tiered-storage")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "meta.properties").write_text("version=1\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nnode.id=7\n")
    write_small_log(folder)
    return folder


@pytest.fixture
def right(tmp_path: Path, log_dir: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where the running broker reads; it has a listener that needs client properties, or that of the parameter."""
    listener = getattr(request, "param", "SSL://127.0.0.1:9")
    place, properties = tmp_path / "right", tmp_path / "server.properties"
    place.mkdir()
    properties.write_text(f"log.dirs={log_dir}\n{CLASS}\nrsm.config.dir={place}\nlisteners={listener}\n")
    with started_broker(log_dir, properties):
        yield place


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    place = tmp_path / "wrong"
    place.mkdir()
    return place


def refused(ran: Ran, right: Path) -> None:
    assert ran.exit_code == 4, ran.err
    (error,) = json.loads(ran.out)["errors"]
    assert error["type"] == "WrongPlaceError"
    assert f"names {right}/ (local-tiered-storage)" in error["message"]


@pytest.mark.parametrize("words", [(), ("--apply",)], ids=["plan", "apply"])
@pytest.mark.parametrize("command", ["tier", "run"])
def test_upload_to_another_location_is_refused_before_a_write(command, words, log_dir, right, wrong, tmp_path):
    sources = (log_dir,) if command == "tier" else ("--source", log_dir, "--warehouse", tmp_path / "tables")
    refused(tiersnap(command, *sources, "--remote", wrong, *LAYOUT, *words), right)
    refused(tiersnap(command, *sources, "--remote", right, "--layout", "aiven", *words), right)
    for place in (wrong, right, tmp_path / "tables"):
        assert not list(place.rglob("*")), place


def test_tier_uploads_where_the_running_broker_reads(log_dir, right):
    assert tiersnap("tier", log_dir, "--remote", right, *LAYOUT, "--apply").exit_code == 0
    assert list(right.rglob("*.log"))


def test_doctor_names_the_location_and_no_command_with_another(log_dir, right, wrong):
    file_of(log_dir / "orders-0", 10, ".snapshot").unlink()
    ran = tiersnap("doctor", log_dir, "--remote", wrong, *LAYOUT)
    assert ran.exit_code == 4, ran.err
    found = json.loads(ran.out)["result"]
    assert found["location"]["state"] == "CONTRADICTED"
    assert f"names {right}/" in found["location"]["sentence"]
    assert found["next"][0]["command"].startswith(f"tiersnap doctor {log_dir} --remote {right} ")
    commands = lines_of([*found["next"], *found["check"]])
    assert any(f"--remote {right}" in each for each in commands)
    assert not any(str(wrong) in each for each in commands)
    table = tiersnap("doctor", log_dir, "--remote", wrong, *LAYOUT, output="table")
    assert table.exit_code == 4
    named = [line for line in " ".join(table.out.split()).split("tiersnap ")[1:] if str(wrong) in line]
    assert not named
    assert not list(wrong.rglob("*")), "nothing is asked of a store that is not the brokers'"


@pytest.mark.parametrize("right", ["PLAINTEXT://127.0.0.1:9"], indirect=True)
def test_doctor_exits_with_4_for_another_location_of_a_healthy_host(log_dir, right, wrong):
    healthy = tiersnap("doctor", log_dir, "--remote", right, *LAYOUT)
    said = json.loads(healthy.out)
    assert said["result"]["location"]["state"] == "PROVEN"
    assert (healthy.exit_code, [each["type"] for each in said["errors"]]) == (3, ["BrokerUnavailableError"])
    assert tiersnap("doctor", log_dir, "--remote", wrong, *LAYOUT).exit_code == 4
