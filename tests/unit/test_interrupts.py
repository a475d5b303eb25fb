"""Ctrl-C and SIGTERM end a command with 130 and 143, whatever it was at, and print no traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tiersnap.jobs.cli.interrupts import Terminated, interruption_of
from tiersnap.snapshot.errors import ExitCode, TransientError

pytestmark = pytest.mark.unit

BOTH = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
START = "from tiersnap.jobs.start import main; main()"
AWS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}


def child(program: str, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *words], env=os.environ | environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@BOTH
def test_command_that_waits_for_a_server_ends_without_a_traceback(number: signal.Signals, code: ExitCode) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(120)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        words = ("verify", "--remote", "s3://bucket/tiers", "--endpoint-url", url, "--path-style")
        process = child(START, *words, **AWS)
        connection, _ = listener.accept()  # the server answers nothing
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        connection.close()
    assert process.returncode == code, err
    assert err.strip() == ""


def test_process_that_still_imports_ends_by_the_signal_itself(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import signal\nprint('importing', flush=True)\nsignal.pause()\n")
    process = child(START, "scan", PYTHONPATH=str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (-signal.SIGINT, "")


@BOTH
def test_interrupt_that_python_drops_in_a_finalizer_comes_again(number: signal.Signals, code: ExitCode) -> None:
    program = f"""
import os, threading
from tiersnap.jobs.cli.interrupts import Terminated, raise_interrupts

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), {int(number)})

raise_interrupts()
try:
    Finalized()
    threading.Event().wait()
except Terminated:
    raise SystemExit({int(ExitCode.TERMINATED)})
except KeyboardInterrupt:
    raise SystemExit({int(ExitCode.INTERRUPTED)})
"""
    process = child(program)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (code, "")


def test_ctrl_c_stays_ignored_if_it_was_as_under_nohup() -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "import tiersnap.jobs.main as cli; cli.run = lambda argv: print(signal.getsignal(signal.SIGINT).name)\n" + START
    )
    process = child(program)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "SIG_IGN\n", "")


# As py4j does it: it logs the interrupt, gives up its connection, and the next call fails of that.
AS_PY4J = """
import logging
import tiersnap.jobs.main as cli
from tiersnap.jobs.cli.interrupts import Terminated
from tiersnap.jobs.cli.streams import LogFormat, configure
from tiersnap.snapshot.errors import UsageError

def main(*_, **__):
    configure("warning", LogFormat.{log_format})
    try:
        try:
            raise Terminated
        except KeyboardInterrupt:
            logging.exception("KeyboardInterrupt while sending command.")
            raise RuntimeError("Gateway must be connected to send cancel cmd.")
    except RuntimeError as error:
        if {ours}:
            raise UsageError("cannot be read") from None
        raise

cli.cli.main = main
raise SystemExit(cli.run([]))
"""


@pytest.mark.parametrize("log_format", ["TEXT", "JSON"])
@pytest.mark.parametrize("ours", [True, False])
def test_failure_that_an_interrupt_caused_is_told_as_the_interrupt(ours: bool, log_format: str) -> None:
    process = child(AS_PY4J.format(ours=ours, log_format=log_format))
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (ExitCode.TERMINATED, "", "")


def test_interruption_of_finds_it_behind_other_errors_and_nothing_else() -> None:
    error = TransientError("x")
    error.__context__ = Terminated()
    assert isinstance(interruption_of(error), Terminated)
    assert interruption_of(TransientError("x")) is None
