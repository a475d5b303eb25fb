"""An SRE with a stuck partition and nothing but the README or doctor's screen: from the stack trace to a free disk."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, segment_bases
from tests.broker.harness.places import QUICK
from tests.broker.harness.reading import read_all
from tests.broker.harness.releases import Release, releases
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, NO_SNAPSHOT, TOPIC
from tests.broker.harness.unblocking import make_stick, seen_alone
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

README = Path(__file__).parents[2] / "README.md"


def commands_of_readme(broker: Broker) -> list[str]:
    """Return the two commands for a broker's host, with the names of this broker in place of the capitals."""
    assert broker.tier is not None
    text = README.read_text(encoding="utf-8")
    (block,) = re.findall(r"^On a broker's host, two commands find.*?```text\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    names = {"LOGDIR": broker.disks.log_dir, "URI": broker.tier.directory, "HOST:PORT": broker.bootstrap}
    for placeholder, name in names.items():
        block = block.replace(placeholder, str(name))
    return [line.removeprefix("$ sudo ") for line in block.splitlines()]


def first_command(screen: str, heading: str) -> str:
    """Return the first command below a heading, which the SRE copies."""
    (command,) = re.findall(rf"^# {heading}:\n(?:# .*\n)*(tiersnap .*)$", screen, re.MULTILINE)
    return str(command)


@pytest.mark.parametrize("source", ["README", pytest.param("doctor", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("release", releases(CURRENT_VERSION))
def test_two_commands_lead_from_the_stack_trace_to_a_free_disk(
    release: Release, source: str, disks_of, tmp_path: Path, monkeypatch
) -> None:
    disks = disks_of(release.version)
    folder = disks.partition(TOPIC)
    bases = segment_bases(folder)
    drop_snapshot(folder, bases[5])
    tier = release.tier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, release.version, tier=tier, settings=QUICK) as broker:
        make_stick(broker, {"local.retention.bytes": "1"})
        wait_until(lambda: segment_bases(folder)[0] == bases[4], "only files of tiered segments are deleted")
        monkeypatch.setattr("tiersnap.jobs.cli.situation_options.PROC", seen_alone(broker, tmp_path / "proc"))
        records = read_all(broker, TOPIC)
        began, typed = time.monotonic(), []

        def type_in(line: str) -> str:
            typed.append(line)
            ran = tiersnap(*shlex.split(line)[1:], output="table")
            assert ran.exit_code == (4 if len(typed) == 1 else 0), ran.err
            return ran.out

        readme = commands_of_readme(broker)
        screen = type_in(readme[0])
        assert "MISSING_SNAPSHOT" in screen
        assert segment_bases(folder) == bases[4:], "nothing is deleted before the second command"
        type_in(readme[1] if source == "README" else first_command(screen, "Next"))
        wait_until(lambda: segment_bases(folder) == bases[-1:], "local retention deletes all closed segments")
        print(f"{len(typed)} commands, {time.monotonic() - began:.1f} s:", *typed, sep="\n  ")

        assert (len(typed), states(broker, TOPIC)["COPY_SEGMENT_FINISHED"]) == (2, 10)
        assert read_all(broker, TOPIC) == records
        check = first_command(screen, "To check the result, run")
        assert tiersnap(*shlex.split(check)[1:]).exit_code == 0
        failures = broker.log.count(NO_SNAPSHOT)
        write_segments(broker, TOPIC, 3, name="later-")
        wait_until(lambda: len(tier.complete_bases(TOPIC)) >= 12, "the broker goes on by itself")
        assert broker.log.count(NO_SNAPSHOT) == failures
