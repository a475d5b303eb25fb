"""Stages in processes of this host: what is left when a task fails, a process dies or the whole run is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pyarrow as pa
import pytest

from tiersnap.jobs.engine import LocalEngine

pytestmark = pytest.mark.unit

SCHEMA = pa.schema([("what", pa.string())])


def write_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each row names what to do."""
    for what in pa.Table.from_batches(batches)["what"].to_pylist():
        if what == "fail":
            raise ValueError("the task says no")
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "stay":
            time.sleep(60)
        if what.startswith("/"):
            time.sleep(1)
            Path(what).touch()
    yield pa.record_batch([[str(os.getpid())]], schema=SCHEMA)


def plan(*what: str) -> pa.Table:
    return pa.table({"what": list(what)})


def test_stages_run_in_the_same_processes() -> None:
    engine = LocalEngine(2)
    first, second = (
        set(engine.map("stage", plan(*"abcdef"), write_late, SCHEMA)["what"].to_pylist()) for _ in range(2)
    )
    assert str(os.getpid()) not in first
    assert len(first | second) <= 2


def test_a_failure_is_raised_when_nothing_writes_any_more(tmp_path: Path) -> None:
    engine = LocalEngine(2)
    with pytest.raises(ValueError, match="the task says no"):
        engine.map("stage", plan(str(tmp_path / "late"), "fail"), write_late, SCHEMA)
    assert (tmp_path / "late").exists()
    assert engine.map("stage", plan("a", "b"), write_late, SCHEMA).num_rows == 2


def test_after_a_process_has_died_the_engine_runs_again() -> None:
    engine = LocalEngine(2)
    with pytest.raises(BrokenProcessPool):
        engine.map("stage", plan("die", "a"), write_late, SCHEMA)
    assert engine.map("stage", plan("a", "b"), write_late, SCHEMA).num_rows == 2


def test_processes_end_with_a_run_that_is_killed() -> None:
    program = (
        "import time, sys\n"
        "from tiersnap.jobs.engine import LocalEngine\n"
        "from tests.unit.test_local_engine import SCHEMA, plan, write_late\n"
        "if __name__ == '__main__':\n"
        "    engine = LocalEngine(2)\n"
        "    print(*set(engine.map('stage', plan(*'abcd'), write_late, SCHEMA)['what'].to_pylist()), flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        processes = run.stdout.readline().split()
        assert processes
        run.kill()
        # The end of what they inherited as stdout is the end of all of them.
        assert run.stdout.read() == ""


@pytest.mark.parametrize("whom", ["the run alone", "all of its processes"])
def test_an_interrupted_run_ends_at_once_and_its_processes_say_nothing(whom: str) -> None:
    program = (
        "import sys\n"
        "from tiersnap.jobs.engine import LocalEngine\n"
        "from tests.unit.test_local_engine import SCHEMA, plan, write_late\n"
        "if __name__ == '__main__':\n"
        "    engine = LocalEngine(2)\n"
        "    engine.map('stage', plan('a', 'b'), write_late, SCHEMA)\n"
        "    print('ready', flush=True)\n"
        "    try:\n"
        "        engine.map('stage', plan('stay', 'stay'), write_late, SCHEMA)\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
    )
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        time.sleep(0.5)
        (os.kill if whom == "the run alone" else os.killpg)(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=20)
    assert run.returncode == 130
    assert "Traceback" not in said
