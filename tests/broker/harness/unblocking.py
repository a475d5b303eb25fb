"""`tiersnap unblock` at a broker: a copier that is made to stick, the command, and the topic's settings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from tests.broker.harness.broker import Broker
from tests.broker.harness.scenarios import NO_SNAPSHOT, TOPIC
from tests.broker.harness.tiering import TOPIC_SETTINGS
from tests.broker.harness.topics import admin_client, alter_topic, wait_for_leader
from tests.broker.harness.waiting import wait_until
from tiersnap.jobs.main import run as tiersnap
from tiersnap.snapshot.errors import ExitCode


def options(broker: Broker) -> list[str]:
    assert broker.tier is not None
    return [
        *("--bootstrap-server", broker.bootstrap, str(broker.disks.log_dir)),
        *("--remote", str(broker.tier.directory), "--layout", broker.tier.layout),
    ]


def make_stick(broker: Broker, settings: Mapping[str, str] | None = None) -> None:
    """Switch tiering on, with more `settings` of the topic, and wait until its copier has failed twice."""
    wait_for_leader(broker, TOPIC)
    alter_topic(broker, TOPIC, {**TOPIC_SETTINGS, **(settings or {})})
    wait_until(lambda: broker.log.count(NO_SNAPSHOT) >= 2, "the copier fails", seconds=30)


def unblock(broker: Broker, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[dict]]:
    """Exit code and rows."""
    code, result = said(capsys, "unblock", *options(broker), *more)
    return code, result["rows"]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
    """Exit code and result of a command."""
    capsys.readouterr()
    code = tiersnap(["--output", "json", *words])
    out = capsys.readouterr()
    result = json.loads(out.out)["result"]
    assert result is not None, out.err
    return code, result


def seen_alone(broker: Broker, folder: Path) -> Path:
    """A /proc that has the process of this broker alone: other tests start some, too."""
    folder.mkdir()
    for each in ("stat", str(broker.pid)):
        (folder / each).symlink_to(Path("/proc") / each)
    return folder


def doctor(broker: Broker, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict]:
    """Exit code and result of `doctor` on the broker's host."""
    assert broker.tier is not None
    capsys.readouterr()
    location = ("--remote", str(broker.tier.directory), "--layout", broker.tier.layout)
    words = ["doctor", str(broker.disks.log_dir), "--bootstrap-server", broker.bootstrap, *location, *more]
    code = tiersnap(["--output", "json", *words])
    said = capsys.readouterr()
    result: dict | None = json.loads(said.out)["result"]
    assert result is not None, said.err
    return code, result


def own_settings(broker: Broker, topic: str = TOPIC) -> dict[str, str]:
    """What the topic itself has set."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = admin_client(broker)
    entries = admin.describe_configs([resource])[resource].result(20)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in entries.items() if entry.source == own}


def killed_while_off(broker: Broker, number: signal.Signals, words: Sequence[str] = ()) -> None:
    """Run a command, `unblock` without `words`, in a process of its own and send it a signal while copying is off."""
    command = [sys.executable, "-m", "tests.reference.tiersnap", *(words or ("unblock", *options(broker))), "--apply"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            is_off = lambda: own_settings(broker).get("remote.log.copy.disable") == "true"  # noqa: E731
            wait_until(lambda: process.poll() is not None or is_off(), "copying is off", seconds=120, every=0.02)
            process.send_signal(number)
            process.wait(60)
        finally:
            process.kill()
    assert process.returncode == (ExitCode.TERMINATED if number is signal.SIGTERM else -number)
