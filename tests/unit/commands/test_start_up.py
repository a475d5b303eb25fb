"""What a command imports before it works: --help and usage errors must not wait for a compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.reference.small_log import write_small_log
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.settings import commands_of
from tiersnap.jobs.commands import COMMANDS
from tiersnap.jobs.main import cli

pytestmark = pytest.mark.unit

HEAVY = {
    *("numba", "llvmlite", "numpy", "pyarrow", "pandas", "rich", "yaml", "jinja2"),
    *("boto3", "botocore", "pyspark", "deltalake", "confluent_kafka"),
}
SIMULATE = "tiersnap.snapshot.exactly_once.simulate"
_ASK = """
import sys
from tiersnap.jobs.main import run
assert run(sys.argv[1:]) in (0, 2)
print(*sys.modules)
"""


def modules_of(*words: str) -> set[str]:
    """Modules that a process has imported which ran the command."""
    done = subprocess.run([sys.executable, "-c", _ASK, *words], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def imported(*words: str) -> set[str]:
    """Top-level modules of these."""
    return {each.partition(".")[0] for each in modules_of(*words)}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_imports_no_heavy_module(name: str) -> None:
    assert imported(*name.split(), "--help") & HEAVY == set()


@pytest.mark.parametrize(
    "words", [("--version",), ("collect",), ("scan", "x", "--nope"), ("nope",), ("run", "--now", "x")]
)
def test_usage_error_imports_no_heavy_module(words: list[str]) -> None:
    assert imported(*words) & HEAVY == set()


@pytest.mark.parametrize("options", [(), ("--segments",), ("--output", "json")], ids=" ".join)
def test_scan_without_remote_storage_imports_no_simulation(options: tuple[str, ...], tmp_path: Path) -> None:
    write_small_log(tmp_path)
    found = {each for each in modules_of("scan", str(tmp_path), *options) if each.startswith(f"{SIMULATE}.")}
    assert found <= {f"{SIMULATE}.kinds", f"{SIMULATE}.risk_kinds"}, "the names in its JSON, and nothing that computes"


def test_every_command_prints_types_but_those_that_run_others() -> None:
    found = commands_of(click.Context(cli, obj=Output()), cli)
    assert {name for name, each in found.items() if each.prints is None} == {"demo"}
