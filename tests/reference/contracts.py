"""What programs rely on, asked of one cell of a grid: a command, a form of its output, and the state of what it reads.

Each grid is a table CALLS of a test file, whose test gives every cell to `assert_prints_what_its_schema_says`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from tests.published_docs import printing_commands
from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tests.reference.local_facts import write_tables
from tests.reference.schemas import assert_follows_schema
from tests.reference.small_log import file_of, write_small_log
from tests.reference.transaction_state import key, value, write_states
from tiersnap.snapshot.report.from_tables import BEFORE_THE_FIRST
from tiersnap.snapshot.tables.spark_made_tables import RUNS

CONTRACTS = printing_commands()
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
TRANSACTIONAL_ID = "pay"
OUTPUTS = ("table", "json", "jsonl")
STATES = ("empty", "healthy", "damaged")
Place = dict[str, Path]
Calls = dict[str, Callable[[Place], list[object]]]
_META = f"version=1\nnode.id=1\ncluster.id={CLUSTER}\ndirectory.id=a1b2c3d4e5f6g7h8i9j0kA\n"


def command_of(call: str) -> str:
    """The command whose schema a call must follow: `report --by topic` -> `report`."""
    return max((name for name in CONTRACTS if f"{call} ".startswith(f"{name} ")), key=len)


def assert_prints_what_its_schema_says(call: str, words: Iterable[object], output: str, state: str) -> None:
    """`tiersnap --output OUTPUT CALL WORDS` ends as a command may, and what it prints follows its schema."""
    command = command_of(call)
    ran = tiersnap(*call.split(), *map(str, words), output=output)
    assert ran.exit_code in (0, 2, 4, 5, 6), ran.err
    assert "Traceback" not in ran.err
    assert_follows_schema(ran.out, output, command=command)
    failed = ran.err.startswith("tiersnap: ")
    assert failed or ran.exit_code != 2, ran.err
    # Of the healthy log every command has something to tell.
    assert not failed or (ran.exit_code in (2, 5) and state != "healthy"), ran.err
    if output == "json":
        document = json.loads(ran.out)
        assert document["command"] == command
        assert (document["result"] is None) == failed
        assert document["errors"] or not failed
    if output == "jsonl" and failed:
        assert json.loads(ran.out)["errors"]
    if output == "table":
        assert not ran.out.startswith(("{", "[")), "rows for people are no JSON"


def write_state(root: Path, state: str) -> Place:
    """A log directory, what runs stored and said of it, a warehouse with its facts, a file of it, and transactions."""
    names = ("log", "remote", "target", "warehouse", "against", "transactions")
    place = {name: root / name for name in names}
    for folder in place.values():
        folder.mkdir()
    folder = write_small_log(place["log"])
    tiersnap("tier", place["log"], "--remote", place["remote"], "--apply", "--all")
    (place["target"] / "meta.properties").write_text(_META)
    shutil.copytree(folder, place["against"] / folder.name)
    if state == "damaged":
        flip_a_byte(file_of(folder, 5, ".log"), file_of(folder, 10, ".snapshot"))
    if state == "empty":
        shutil.rmtree(folder)
        folder = lb.write_partition(place["log"], "orders", 0, {0: []}, high_watermark=0)
    _write_transactions(place["transactions"], state)
    _write_facts(place["warehouse"], place["log"])
    settings = json.dumps(asdict(replace(BEFORE_THE_FIRST, remote="x")))
    row = dict.fromkeys(RUNS.names, 0) | {"tool": "tiersnap", "run_id": "a", "settings": settings}
    write_deltalake(place["warehouse"] / "runs", pa.Table.from_pylist([row], schema=RUNS))
    return {**place, "file": file_of(folder, 0, ".log")}


def flip_a_byte(*paths: Path, at: int = 20) -> None:
    """The one at this position of each file."""
    for path in paths:
        data = bytearray(path.read_bytes())
        data[at] ^= 0xFF
        path.write_bytes(data)


def _write_transactions(log_dir: Path, state: str) -> None:
    records = [] if state == "empty" else [(key(name), value(1)) for name in (TRANSACTIONAL_ID, "other")]
    folder = write_states(log_dir, 0, *records)
    if state == "damaged":
        flip_a_byte(file_of(folder, 0, ".log"), at=-1)


def _write_facts(warehouse: Path, log: Path) -> None:
    write_tables(warehouse, log, run=1, now=1)
