"""The table `readiness`: the verdict of each segment since a run, and questions to it in Spark SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.command import tiersnap
from tests.reference.questions import ANSWERS, HISTORY, QUESTIONS
from tests.spark.small_fleet import write_fleet
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.run import run
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.tables.all_tables import TABLES
from tiersnap.snapshot.tables.schema_parts import comment_of

pytestmark = pytest.mark.spark


def test_spark_sql_answers_the_questions_of_the_page(spark: SparkSession) -> None:
    spark.createDataFrame(HISTORY).createOrReplaceTempView("readiness")
    for question, sql in QUESTIONS.items():
        found = [tuple(row) for row in spark.sql(sql).collect()]
        assert sorted(found) == sorted(ANSWERS[question]), question
    spark.catalog.dropTempView("readiness")


def run_once(spark: SparkSession, folder: Path, *, upload: bool) -> tuple[RunOutcome, list[tuple[int, str | None]]]:
    """Run over `logs` in `folder`; return its outcome, and offsets with the verdicts that the last append has."""
    places = (str(folder / "logs"),), str(folder / "remote"), str(folder / "warehouse")
    done = run(spark, RunSettings(*places, left_for=None, no_upload=not upload, apply=True))
    rows = DeltaTable(folder / "warehouse/readiness").to_pyarrow_table().to_pylist()
    last = max(row["run"] for row in rows)
    return done, sorted(((row["base_offset"], row["verdict"]) for row in rows if row["run"] == last), key=repr)


def test_a_run_appends_the_verdicts_that_changed_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    logs, warehouse = write_fleet(tmp_path / "logs", 1), tmp_path / "warehouse"
    planned = [(0, "MISSING_SNAPSHOT"), (10, "GAP_BEFORE"), (20, "GAP_BEFORE"), (30, "ACTIVE_SEGMENT")]
    assert run_once(spark, tmp_path, upload=False)[1] == planned
    assert run_once(spark, tmp_path, upload=True)[1] == [(0, "UPLOADED"), (10, "UPLOADED"), (20, "UPLOADED")]
    for name in ("segments", "partitions", "readiness", "remote_log_segments", "runs"):
        schema, place = TABLES[name], f"delta.`{warehouse / name}`"
        described = {row.col_name: row.comment for row in spark.sql(f"DESCRIBE TABLE {place}").collect()}
        assert described == {each.name: comment_of(each) for each in schema}
        assert spark.sql(f"DESCRIBE DETAIL {place}").collect()[0].description == comment_of(schema)
    # Retention deletes the oldest segment.
    (logs / "orders-0" / f"{0:020d}.log").unlink()
    (logs / "log-start-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    assert run_once(spark, tmp_path, upload=True)[1] == [(0, None)]
    shown = tiersnap("report", "--warehouse", warehouse, "--by", "segment").rows
    assert [(row["base_offset"], row["verdict"]) for row in shown] == [
        *((10, "UPLOADED"), (20, "UPLOADED"), (30, "ACTIVE_SEGMENT")),
    ]


@pytest.mark.nightly
def test_a_run_appends_no_verdict_twice_and_ends_those_of_a_lost_partition(spark: SparkSession, tmp_path: Path) -> None:
    logs = write_fleet(tmp_path / "logs", 1)
    assert len(run_once(spark, tmp_path, upload=True)[1]) == 4
    idle, rows = run_once(spark, tmp_path, upload=True)
    assert (idle.did_nothing, len(rows)) == (True, 4)
    (tmp_path / "other").mkdir()
    (logs / "orders-0").rename(tmp_path / "other" / "orders-0")
    write_fleet(logs, 1)  # and the whole partition goes to another disk
    (logs / "orders-0").rename(logs / "orders-1")
    _, rows = run_once(spark, tmp_path, upload=False)
    assert (10, None) in rows and (30, None) in rows
