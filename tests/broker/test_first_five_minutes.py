"""An SRE with a stuck partition and nothing but doctor's screen: from the stack trace to a tiered partition."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import drop_snapshot, segment_bases
from tests.broker.harness.releases import releases
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, NO_SNAPSHOT, TOPIC
from tests.broker.harness.unblocking import make_stick
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import write_segments
from tests.reference.command import tiersnap

pytestmark = [pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]


def first_command(screen: str) -> str:
    """What stands behind `next`, without a note what it takes: what the SRE copies."""
    (command,) = re.findall(r"^next +(tiersnap .*?)(?:   .*)?$", screen, re.MULTILINE)
    return command


@pytest.mark.parametrize("release", releases(CURRENT_VERSION))
def test_two_commands_lead_from_the_stack_trace_to_a_tiered_partition(release, disks_of, tmp_path: Path) -> None:
    disks = disks_of(release.version)
    bases = segment_bases(disks.partition(TOPIC))
    drop_snapshot(disks.partition(TOPIC), bases[5])
    tier = release.tier(tmp_path / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, release.version, tier=tier) as broker:
        make_stick(broker)
        began, typed = time.monotonic(), []
        assert tier.complete_bases(TOPIC) == tuple(bases[:4])

        def type_in(line: str) -> str:
            typed.append(line)
            ran = tiersnap(*shlex.split(line)[1:], output="table")
            assert ran.exit_code in (0, 4), ran.err
            return ran.out

        screen = type_in(f"tiersnap doctor {disks.log_dir}")
        assert "no stop" in screen and "MISSING_SNAPSHOT" in screen
        type_in(first_command(screen))
        assert tier.complete_bases(TOPIC) == tuple(bases[:10])
        print(f"{len(typed)} commands, {time.monotonic() - began:.1f} s:", *typed, sep="\n  ")

        (check,) = re.findall(r"^check +(tiersnap doctor .*?)   ", screen, re.MULTILINE)
        assert tiersnap(*shlex.split(check)[1:]).exit_code == 0
        failures = broker.log.count(NO_SNAPSHOT)
        write_segments(broker, TOPIC, 13, name="later-")
        wait_until(lambda: len(tier.complete_bases(TOPIC)) >= 12, "the broker goes on by itself", seconds=30)
        assert broker.log.count(NO_SNAPSHOT) == failures
        assert len(typed) == 2
