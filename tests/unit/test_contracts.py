"""What programs rely on: every command, in every form, of an empty, a healthy and a damaged log."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tests.reference.schemas import FOLDER, assert_follows_schema
from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.command_line.cli import run as tiersnap_run
from tiersnap.jobs.command_line.commands import COMMANDS
from tiersnap.jobs.contracts.commands import CONTRACTS, WITHOUT_JSON, schema_files
from tiersnap.jobs.contracts.json_schema import schema_of
from tiersnap.jobs.contracts.reference import reference
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.tables.facts import to_batches
from tiersnap.snapshot.tables.listed import to_row
from tiersnap.snapshot.tables.schemas import PARTITIONS, RUNS
from tiersnap.snapshot.tasks.carry_options import CarryOptions
from tiersnap.snapshot.tasks.carry_partition import CarryPartition
from tiersnap.snapshot.tasks.local_input import LocalInput

pytestmark = pytest.mark.unit

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
META = f"version=1\nnode.id=1\ncluster.id={CLUSTER}\ndirectory.id=a1b2c3d4e5f6g7h8i9j0kA\n"
ORDERS = ("--topic", "orders", "--partition", "0")
STATES = ("empty", "healthy", "damaged")
Place = dict[str, Path]


def write_state(root: Path, state: str) -> Place:
    """A log directory, what a run stored of it, a warehouse with its facts, and a file of it."""
    place = {name: root / name for name in ("log", "remote", "target", "warehouse", "against")}
    for folder in place.values():
        folder.mkdir()
    folder = write_small_log(place["log"])
    tiersnap("tier", place["log"], "--remote", place["remote"], "--apply", "--all")
    (place["target"] / "meta.properties").write_text(META)
    shutil.copytree(folder, place["against"] / folder.name)
    if state == "damaged":
        for path in (file_of(folder, 5, ".log"), file_of(folder, 10, ".snapshot")):
            data = bytearray(path.read_bytes())
            data[20] ^= 0xFF
            path.write_bytes(data)
    if state == "empty":
        shutil.rmtree(folder)
        folder = lb.write_partition(place["log"], "orders", 0, {0: []}, high_watermark=0)
    _write_facts(place["warehouse"], place["log"])
    row = dict.fromkeys(RUNS.names, 0) | {"tool": "tiersnap", "run_id": "a", "settings": '{"remote": "x"}'}
    write_deltalake(place["warehouse"] / "runs", pa.Table.from_pylist([row], schema=RUNS))
    return {**place, "file": file_of(folder, 0, ".log")}


def _write_facts(warehouse: Path, log: Path) -> None:
    log_dir = open_log_dir(str(log))
    for partition in log_dir.partitions():
        rows = LocalInput(
            log_dir.filesystem, partition, {**to_row(str(log), partition), "remote_error": None, "copies": []}
        )
        batches = list(to_batches(CarryPartition(CarryOptions(), None, run=1, now=1).facts(rows)))
        write_deltalake(warehouse / "partitions", pa.RecordBatchReader.from_batches(PARTITIONS, batches), mode="append")


CALLS: dict[str, Callable[[Place], list[object]]] = {
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
    "risk": lambda at: [at["log"]],
    "risk --boundaries": lambda at: [at["log"], "--replica", at["log"]],
    "tier": lambda at: [at["log"], "--remote", at["target"].parent / "other", "--apply"],
    "install": lambda at: ["--from", at["remote"], "--to", at["log"]],
    "restore": lambda at: ["--from", at["remote"], "--to", at["target"], *ORDERS, "--cluster-id", CLUSTER],
    "restore --segments": lambda at: ["--from", at["remote"], "--to", at["target"], *ORDERS, "--cluster-id", CLUSTER],
    "fetch": lambda at: ["--from", at["remote"], *ORDERS, "--offset", "3"],
    "expire": lambda at: [
        *("--remote", at["remote"], "--topic", ".*", "--retention-bytes", "0", "--unmanaged"),
    ],
    "transactions list": lambda at: [at["log"]],
    "transactions find-hanging": lambda at: [at["log"], "--all"],
    "producers": lambda at: [at["log"]],
    "report": lambda at: ["--warehouse", at["warehouse"]],
    "report --by topic": lambda at: ["--warehouse", at["warehouse"]],
    "report --by segment": lambda at: ["--warehouse", at["warehouse"]],
    "runs list": lambda at: ["--warehouse", at["warehouse"]],
    "runs show": lambda at: ["last", "--warehouse", at["warehouse"]],
    "config": lambda _: [],
    "version": lambda _: [],
}
# They need a JVM, a broker, a cluster or two reports: the tests of those validate what they print by the same schemas.
ELSEWHERE = {
    "run",
    "decode",
    "audit",
    "report diff",
    "publish",
    "unblock",
    "maintain remove-orphans",
    "maintain tables",
}


@pytest.fixture(scope="module", params=STATES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return write_state(tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
@pytest.mark.parametrize("call", CALLS)
def test_a_command_prints_what_its_schema_says(
    call: str, output: str, place: Place, request: pytest.FixtureRequest
) -> None:
    command = next(name for name in CONTRACTS if (call + " ").startswith(name + " "))
    ran = tiersnap(*call.split(), *CALLS[call](place), output=output)
    assert ran.exit_code in (0, 2, 4, 5, 6), ran.err
    assert "Traceback" not in ran.err
    assert_follows_schema(ran.out, output, command=command)
    if output == "json":
        document = json.loads(ran.out)
        assert document["command"] == command
        assert (document["result"] is None) == bool(document["errors"] and ran.exit_code == 2)
        # Of the healthy log every command has something to tell.
        assert document["result"] or request.node.callspec.params["place"] != "healthy"
    if output == "table":
        assert not ran.out.startswith(("{", "[")), "rows for people are no JSON"
    if ran.exit_code == 2:
        assert ran.err.startswith("tiersnap: ")


def test_the_three_logs_are_told_apart(place: Place, request: pytest.FixtureRequest) -> None:
    state = request.node.callspec.params["place"]
    ran = tiersnap("scan", place["log"])
    assert ran.exit_code == {"empty": 0, "healthy": 0, "damaged": 5}[state], ran.err
    assert bool(json.loads(ran.out)["result"]["findings"]) is (state == "damaged")


def test_every_command_has_a_contract_and_a_test() -> None:
    named = {name for command in CONTRACTS for name in [command.split()[0]]}
    assert named | WITHOUT_JSON == set(COMMANDS)
    tested = {next(name for name in CONTRACTS if (call + " ").startswith(name + " ")) for call in CALLS}
    assert tested | ELSEWHERE == set(CONTRACTS)


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
        "run_id": "r", "segments_decoded": 1, "snapshots_written": 0, "segments_tiered": 0, "bytes_tiered": 0,
        "delta_commits": 0, "finding_count": 0, "error_count": 0, "seconds": {"list": 0.5}, "report": "x",
    }  # fmt: skip
    result = {"rows": [row], "findings": [], **summary}
    right = {"schema_version": 1, "command": "run", "result": result, "errors": []}
    assert_follows_schema(json.dumps(right), "json")
    for wrong in (
        {**right, "more": 1},
        {**right, "result": {**result, "bytes_tiered": "1 KiB"}},
        {**right, "result": {**result, "rows": [{**row, "verdict": "FINE"}]}},
        {**right, "errors": [{"type": "UsageError"}]},
    ):
        with pytest.raises(ValidationError):
            assert_follows_schema(json.dumps(wrong), "json")


def test_a_type_that_no_schema_can_say_is_refused() -> None:
    with pytest.raises(TypeError, match="no place in a contract"):
        schema_of(set[int])


_WITHOUT_EXTRAS = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
import click
from tiersnap.jobs.command_line.cli import cli, run
from tiersnap.jobs.command_line.config_file import commands_of
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
    assert len(helps) == len(CONTRACTS) + len(WITHOUT_JSON) + 2
    for text in helps:
        assert "Usage: tiersnap" in text
        assert "is complete here" not in text
        assert "--help" in text


def test_a_usage_error_before_any_command_is_an_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert tiersnap_run(["--output", "json", "--no-such-option"]) == 2
    assert json.loads(capsys.readouterr().out)["errors"][0]["type"] == "UsageError"
