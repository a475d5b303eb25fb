"""What programs rely on: every command, in every form, of an empty, a healthy and a damaged log."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.published_docs import printing_commands, reference, schema_files
from tests.reference.command import tiersnap
from tests.reference.contracts import (
    CLUSTER,
    OUTPUTS,
    STATES,
    TRANSACTIONAL_ID,
    Calls,
    Place,
    assert_prints_what_its_schema_says,
    command_of,
    write_state,
)
from tests.reference.schemas import FOLDER, assert_follows_schema
from tiersnap.jobs.commands import COMMANDS
from tiersnap.jobs.main import run as tiersnap_run

pytestmark = pytest.mark.unit

CONTRACTS = printing_commands()
ORDERS = ("--partition", "orders-0")
RESTORE = [*ORDERS, "--cluster-id", CLUSTER, "--unpublished"]
ONE_PARTITION = ("--partition-count", "1")
CALLS: Calls = {
    "doctor": lambda at: [at["log"]],
    "scan": lambda at: [at["log"]],
    "scan --segments": lambda at: [at["log"]],
    "dump": lambda at: [at["file"]],
    "repair": lambda at: [at["log"], "--all", "--out", at["target"].parent / "out"],
    "verify": lambda at: [at["log"]],
    "verify --against": lambda at: [at["against"], at["log"]],
    "collect": lambda at: [at["log"], "--to", at["target"].parent / "collected", "--apply"],
    "simulate": lambda at: [at["log"], "--from", "empty", "--all"],
    "simulate --producers": lambda at: [at["log"], "--from", "empty"],
    "simulate --risk": lambda at: [at["log"]],
    "simulate --risk --boundaries": lambda at: [at["log"], "--replica", at["log"]],
    "tier": lambda at: [at["log"], "--remote", at["target"].parent / "other", "--apply"],
    "install": lambda at: ["--remote", at["remote"], "--to", at["log"]],
    "restore": lambda at: [*RESTORE, "--remote", at["remote"], "--to", at["target"]],
    "restore --segments": lambda at: [*RESTORE, "--remote", at["remote"], "--to", at["target"]],
    "transactions list": lambda at: [at["transactions"], *ONE_PARTITION],
    "transactions describe": lambda at: [at["transactions"], *ONE_PARTITION, "--transactional-id", TRANSACTIONAL_ID],
    "transactions find-hanging": lambda at: [at["log"], "--all"],
    "producers": lambda at: [at["log"]],
    "explain": lambda _: [],
    "explain PRODUCER_FENCED": lambda _: ["--broker", "4.1"],
    "runbook": lambda _: [],
    "runbook MISSING_SNAPSHOT": lambda _: [],
    "report": lambda at: ["--warehouse", at["warehouse"]],
    "report --by topic": lambda at: ["--warehouse", at["warehouse"]],
    "report --by segment": lambda at: ["--warehouse", at["warehouse"]],
    "config": lambda _: [],
}
# The grids of commands that need a JVM or a cluster.
ELSEWHERE = {
    "run": "tests.spark.test_contracts_of_jobs",
    "decode": "tests.spark.test_contracts_of_jobs",
    "audit": "tests.spark.test_contracts_of_jobs",
    "maintain tables": "tests.spark.test_contracts_of_jobs",
    "publish": "tests.broker.test_contracts_with_a_cluster",
    "unblock": "tests.broker.test_contracts_with_a_cluster",
    "mend": "tests.broker.test_contracts_with_a_cluster",
    "maintain remove-orphans": "tests.broker.test_contracts_with_a_cluster",
}


@pytest.fixture(scope="module")
def place(state: str, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return write_state(tmp_path_factory.mktemp(state), state)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("state", STATES, scope="module")
def test_a_command_prints_what_its_schema_says(call: str, output: str, state: str, place: Place) -> None:
    assert_prints_what_its_schema_says(call, CALLS[call](place), output, state)


@pytest.mark.parametrize("state", STATES, scope="module")
def test_the_three_logs_are_told_apart(state: str, place: Place) -> None:
    ran = tiersnap("scan", place["log"])
    assert ran.exit_code == {"empty": 0, "healthy": 0, "damaged": 5}[state], ran.err
    assert bool(json.loads(ran.out)["result"]["findings"]) is (state == "damaged")


def test_every_command_has_a_contract_and_is_in_one_grid() -> None:
    named = {name for command in CONTRACTS for name in [command.split()[0]]}
    assert named | {"demo"} == set(COMMANDS)
    here = {command_of(call) for call in CALLS}
    assert here | ELSEWHERE.keys() == CONTRACTS.keys()
    assert not here & ELSEWHERE.keys()


@pytest.mark.parametrize("name", [__name__, *sorted(set(ELSEWHERE.values()))])
def test_a_grid_is_asked_in_every_form_and_state_and_holds_the_commands_that_are_said_to_be_there(name: str) -> None:
    grid = importlib.import_module(name)
    marks = grid.test_a_command_prints_what_its_schema_says.pytestmark
    axes = {mark.args[0]: set(mark.args[1]) for mark in marks if mark.name == "parametrize"}
    assert axes == {"call": grid.CALLS.keys(), "output": {"table", "json", "jsonl"}, "state": set(STATES)}
    assert STATES == ("empty", "healthy", "damaged")
    said = {command for command, place in ELSEWHERE.items() if place == name}
    assert name == __name__ or {command_of(call) for call in grid.CALLS} == said


def test_the_page_of_commands_is_that_of_the_code_and_names_every_setting() -> None:
    published = (FOLDER.parent / "commands.md").read_text(encoding="utf-8")
    assert published == reference(), "make schemas"
    settings = tiersnap("config").rows
    assert {row["variable"] for row in settings} - set(re.findall(r"`(TIERSNAP_\w+)`", published)) == set()


def test_the_published_schemas_are_those_of_the_code() -> None:
    published = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert published == schema_files(), "make schemas"


def test_an_unknown_key_or_a_number_as_text_breaks_the_contract() -> None:
    from jsonschema import ValidationError

    row = {"verdict": "READY", "segments": 3}
    summary = {
        "run_id": "r", "segments_decoded": 1, "bytes_decoded": 9,
        "snapshots_written": 0, "snapshots_mended": 0, "segments_uploaded": 0,
        "bytes_uploaded": 0, "segments_published": 0, "delta_commits": 0,
        "encryption_unknown": 0, "finding_count": 0, "error_count": 0,
        "seconds": {"list": 0.5}, "report": "x",
    }  # fmt: skip
    result = {"rows": [row], "findings": [], **summary}
    right = {"schema_version": 1, "command": "run", "result": result, "errors": []}
    assert_follows_schema(json.dumps(right), "json")
    for wrong in (
        {**right, "more": 1},
        {**right, "result": {**result, "bytes_uploaded": "1 KiB"}},
        {**right, "result": {**result, "rows": [{**row, "verdict": "FINE"}]}},
        {**right, "errors": [{"type": "UsageError"}]},
    ):
        with pytest.raises(ValidationError):
            assert_follows_schema(json.dumps(wrong), "json")


_WITHOUT_EXTRAS = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
import click
from tiersnap.jobs.main import cli, run
from tiersnap.jobs.cli.settings import commands_of
for name in ["", *commands_of(click.Context(cli), cli), "maintain"]:
    print("== tiersnap " + name, flush=True)
    assert run([*name.split(), "--help"]) == 0
"""


def test_help_of_every_command_needs_no_extra_and_80_columns(tmp_path: Path) -> None:
    extras = {"pyspark", "py4j", "delta", "deltalake", "pandas", "boto3", "botocore", "confluent_kafka", "moto"}
    script = tmp_path / "without_extras.py"
    script.write_text(_WITHOUT_EXTRAS.replace("EXTRAS", repr(extras)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    helps = done.stdout.split("== tiersnap ")[1:]
    assert len(helps) == len(CONTRACTS) + 3
    for text in helps:
        assert "Usage: tiersnap" in text
        assert "--help" in text


def test_a_usage_error_before_any_command_is_an_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert tiersnap_run(["--output", "json", "--no-such-option"]) == 2
    assert json.loads(capsys.readouterr().out)["errors"][0]["type"] == "UsageError"
