"""What programs rely on, of the commands that need Spark: each in every form, of three logs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.reference.contracts import (
    OUTPUTS,
    STATES,
    Calls,
    Place,
    assert_prints_what_its_schema_says,
    write_state,
)
from tiersnap.jobs.pipeline.warehouse import Warehouse

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

CALLS: Calls = {
    "run": lambda at: [
        *("--source", at["log"], "--remote", at["target"].parent / "other", "--apply"),
        *("--warehouse", at["target"].parent / "ran", "--report", at["target"].parent / "page"),
    ],
    "decode": lambda at: ["--source", at["log"], "--warehouse", at["target"].parent / "decoded", "--apply"],
    "audit": lambda at: ["--source", at["log"]],
    "maintain tables": lambda at: ["--warehouse", at["tables"], "--apply"],
}


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    """The commands take the session that is there."""
    return spark


@pytest.fixture(scope="module")
def place(state: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """With tables of two runs, but for the damaged log, whose tables name no format."""
    place = write_state(tmp_path_factory.mktemp(state), state)
    if state == "damaged":
        return {**place, "tables": place["warehouse"]}
    tables = place["target"].parent / "tables"
    facts = spark.read.format("delta").load(str(place["warehouse"] / "partitions"))
    for run in (1, 2):
        Warehouse(spark, str(tables)).append("partitions", facts.withColumn("run", F.lit(run)), run_id=str(run))
    return {**place, "tables": tables}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("state", STATES, scope="module")
def test_a_command_prints_what_its_schema_says(call: str, output: str, state: str, place: Place) -> None:
    assert_prints_what_its_schema_says(call, CALLS[call](place), output, state)
