"""`risk` and `simulate` over a warehouse say what they say of the log directories that it was made of."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.reference.command import assert_said, tiersnap
from tests.reference.fleet_run import Runner, arrow_table
from tests.reference.surveying import headers_of
from tiersnap.jobs.cli.option_types import parse_time
from tiersnap.jobs.pipeline.schemas import of_arrow
from tiersnap.jobs.pipeline.simulate import SIMULATED
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.snapshot.tables.all_tables import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

DATA = Path(__file__).parents[1] / "data"
LOGS = (DATA / "kafka-3.9.1" / "logs", DATA / "ledger-2.7.2" / "logs")
TOPICS = "(?P<python>fenced)|ledger"  # Java has no such groups
AT = ("--now", "2026-11-21T12:45:00Z")
# Of transactions that cross a segment's end the tables know no fate.
UNTOLD = ("aborted", "aborted_records", "aborted_bytes", "beginning_late", "undecided")


def fill(spark: SparkSession, warehouse: Path, folder: Path) -> None:
    """What a run over the logs leaves, and `tiersnap decode`."""
    runner = Runner(folder, LOGS[0])
    now = parse_time(AT[1])
    runner(sources=tuple(map(str, LOGS)), apply=False, as_of=None, now=now, topic=re.compile(TOPICS))
    tables = {name: getattr(runner.tables, name) for name in ("segments", "partitions")}
    tables["record_batches"] = [row for log_dir in LOGS for row in headers_of(log_dir, TOPICS)]
    into = Warehouse(spark, str(warehouse))
    for name, rows in tables.items():
        into.append(name, spark.createDataFrame(arrow_table(name, rows), of_arrow(TABLES[name])), run_id="test")


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in UNTOLD} for row in rows]


def test_a_warehouse_says_of_the_bundled_logs_what_the_log_directories_say(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    fill(spark, warehouse, tmp_path)
    words = ("--topic", TOPICS, "--boundaries", *AT)
    of_logs = tiersnap("simulate", "--risk", *LOGS, *words)
    of_tables = tiersnap("simulate", "--risk", "--warehouse", warehouse, "--limit", "12", *words)

    assert_said(of_tables, 0, "only the worst 12 rows are shown")
    results = [json.loads(ran.out)["result"] for ran in (of_tables, of_logs)]
    names = ("empty_snapshots", "waiting", "archiving_none")
    sentences = [{name: result[name] for name in names} for result in results]
    assert sentences[0] == sentences[1]
    assert plain(of_tables.rows) == plain(of_logs.rows)[:12]

    simulated = tiersnap("simulate", "--warehouse", warehouse, "--from", "empty", "--broker", "3.9", *AT)
    wanted: Counter = Counter()
    for log_dir in LOGS:
        ran = tiersnap("simulate", log_dir, "--topic", TOPICS, "--from", "empty", "--broker", "3.9", *AT)
        for row in ran.rows:
            wanted[answer(row)] += row["writes"]
    assert_said(simulated, 0)
    assert Counter({answer(row): row["writes"] for row in simulated.rows}) == wanted
    assert "it would lack" in json.loads(simulated.out)["result"]["summary"]


def answer(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in SIMULATED.names if name not in ("writes", "example"))


def test_a_warehouse_without_tables_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    assert_said(
        tiersnap("simulate", "--risk", "--warehouse", tmp_path, *AT),
        2,
        "no run has replayed a partition",
        "tiersnap run --source",
    )
    said = tiersnap("simulate", "--warehouse", tmp_path, "--from", "broker", *AT)
    assert_said(said, 2, "--from broker needs a LOGDIR")
