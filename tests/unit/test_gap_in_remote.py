"""A published segment that lost bytes or an object: all commands report it, and print the command that rebuilds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.protocol.published import published_world
from tiersnap.jobs.main import run
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

TO_REMOTE = ("--remote", "s3://bucket", "--bootstrap-server", "model:9092")


@pytest.mark.parametrize("command", ["scan", "tier"])
def test_the_next_step_of_a_lost_published_segment_is_mend(tmp_path: Path, command: str) -> None:
    with published_world(command, tmp_path) as world:
        disk = str(world.disks["a"])
        del world.store.objects[min(key for key in world.store.objects if key.endswith(".log"))]
        world.is_lost = True
        world.readable_before = world.readable()
        before = len(world.events)
        codes = world.run({command: lambda _: ExitCode(run([command, disk, *TO_REMOTE]))})
        said = " ".join(world.events[before:])
    assert codes == {command: ExitCode.GATE_REFUSED}
    assert f"and rebuild published segments: tiersnap mend {disk} " in said


def test_doctor_reports_a_published_segment_with_an_empty_log(tmp_path: Path) -> None:
    """All objects exist, so only their sizes show the loss; local retention would delete the only log."""
    with published_world("doctor", tmp_path) as world:
        disk = str(world.disks["a"])
        key = min(key for key in world.store.objects if key.endswith(".log"))
        world.store.delete([key])
        world.store.put_if_absent(key, b"")
        world.is_lost = True
        world.readable_before = world.readable()
        codes = world.run({"doctor": lambda _: ExitCode(run(["doctor", disk, *TO_REMOTE]))})
    assert codes == {"doctor": ExitCode.GATE_REFUSED}
