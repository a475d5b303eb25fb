"""What `doctor` says of the disk if the cluster stops to answer while it reads the records."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.situations import Place, found
from tests.reference.broker_process import started_broker
from tests.reference.model_cluster import STORAGE_MANAGER
from tests.unit.test_plan_and_apply import type_words
from tiersnap.remote_storage.errors import BrokerUnavailableError
from tiersnap.snapshot.errors import ExitCode

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock"),
]

MANAGER = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
SETTINGS = f"""listeners=PLAINTEXT://model:9092
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name={MANAGER}
"""


def silence(place: Place, what: str) -> None:
    """Let requests of one kind get no answer."""
    place.world.cluster.of_brokers[STORAGE_MANAGER] = MANAGER
    ask = place.world._ask

    def asked(actor: Any, name: str, action: Callable[[], Any]) -> Any:
        if name == what:
            raise BrokerUnavailableError("model:9092: the topic __remote_log_metadata returned no record for 30 s")
        return ask(actor, name, action)

    place.world._ask = asked  # type: ignore[method-assign]


def doctor(place: Place, folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Run it beside the broker of a disk; return its exit code, its document and its messages."""
    properties = folder / "server.properties"
    remote = folder / "remote"
    remote.mkdir()
    properties.write_text(f"log.dirs={place.disk}\n{SETTINGS}rsm.config.dir={remote}\n")
    with started_broker(place.disk, properties):
        ran = type_words(place, "doctor", place.disk, *words)
    return ran.exit_code, json.loads(ran.out) if ran.out else {}, ran.err


def test_doctor_tells_of_the_disk_if_the_brokers_records_are_not_answered(tmp_path: Path) -> None:
    with found("stuck", tmp_path) as place:
        silence(place, "ends of a topic")
        code, answer, told = doctor(place, tmp_path)
    assert code == ExitCode.TRANSIENT, told
    (disk,) = answer["result"]["log_dirs"]
    assert disk["segments"], "the files were listed"
    assert ["returned no record for 30 s" in each["message"] for each in answer["errors"]] == [True]


def test_doctor_ends_with_the_error_of_a_silent_cluster_that_was_named(tmp_path: Path) -> None:
    with found("stuck", tmp_path) as place:
        silence(place, "ends of a topic")
        code, answer, told = doctor(place, tmp_path, "--bootstrap-server", "model:9092")
    assert (code, answer.get("result")) == (ExitCode.TRANSIENT, None)
    assert "returned no record for 30 s" in told + json.dumps(answer)
