"""The Variable `tiersnap_clusters`, and the words that follow from it; Airflow itself is in tests/airflow."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.small_log import write_small_log
from tiersnap.jobs.airflow.clusters import parse_clusters
from tiersnap.jobs.airflow.outcome import (
    Ending,
    ending_of,
    exit_code_in,
    in_words,
    is_over,
    read_outcome,
    run_id,
    until_of,
)
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.commands.maintain import maintain_tables
from tiersnap.jobs.commands.run import run
from tiersnap.jobs.main import cli
from tiersnap.snapshot.errors import UsageError

pytestmark = pytest.mark.unit

LEAST = {"name": "eu-1", "sources": ["/mnt/a", "/mnt/b"], "remote": "s3://bucket/tiers"}


def test_the_command_line_takes_every_word() -> None:
    full = LEAST | {"warehouse": "/w", "report": "/r", "options": ["--region", "eu-central-1"], "conf": {"a": "b"}}
    full |= {"maintain": ["--vacuum-after", "30d"], "bootstrap_server": "broker-1:9092"}
    (cluster,) = parse_clusters([full])
    words = cluster.arguments(datetime(2026, 11, 21, tzinfo=UTC))
    with cli.make_context("tiersnap", ["run", *words], obj=Output()) as context:
        own = run.make_context("run", list(words), parent=context).params
    assert own["sources"] == ("/mnt/a", "/mnt/b")
    assert (own["warehouse"], str(own["report"]), own["region"], own["apply"]) == ("/w", "/r", "eu-central-1", True)
    assert own["until"] == 1_795_219_200_000
    assert words[words.index("--bootstrap-server") + 1] == "broker-1:9092"
    assert cluster.conf == {"a": "b"}
    words = cluster.maintain_arguments()
    with cli.make_context("tiersnap", ["maintain", "tables", *words], obj=Output()) as context:
        own = maintain_tables.make_context("tables", list(words), parent=context).params
    assert (own["warehouse"], own["vacuum_after"], own["apply"]) == ("/w", 30 * 86_400_000, True)


def test_files_that_operators_submit_exist_and_know_their_command() -> None:
    jobs = Path(__file__).parents[2] / "jobs"
    names = re.findall(r'JOBS / "(\w+\.py)"', (jobs / "airflow/run_operator.py").read_text())
    assert sorted(names) == ["maintain_tables.py", "run.py"]
    for name in names:
        done = subprocess.run([sys.executable, jobs / name, "--help"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"Usage: tiersnap {'run' if name == 'run.py' else 'maintain tables'} ")


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"run": [], "cluster": 3}', "[" * 100_000])
def test_a_report_that_is_none_tells_of_no_run(tmp_path: Path, content: str) -> None:
    assert run_id(tmp_path) is None
    (tmp_path / "readiness.json").write_text(content)
    assert run_id(tmp_path) is None


def test_a_cluster_has_places_of_its_own_and_uploads_unless_it_says_otherwise() -> None:
    one, two = parse_clusters([LEAST, LEAST | {"name": "eu-2", "upload": False}])
    assert (one.warehouse, one.report) == ("tiersnap-warehouse/eu-1", "tiersnap-report/eu-1")
    assert (two.warehouse, two.report) == ("tiersnap-warehouse/eu-2", "tiersnap-report/eu-2")
    assert one.arguments()[-1] == "--apply" and "--no-upload" not in one.arguments()
    assert two.arguments()[-2:] == ["--no-upload", "--apply"] and two.maintain_arguments()[-1] == "--apply"
    assert "--until" not in one.arguments()
    assert "--bootstrap-server" not in one.arguments()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "not a list of clusters"),
        ([], "not a list of clusters"),
        (["eu-1"], "is not a JSON object"),
        ([LEAST | {"source": ["/mnt"]}], "unknown key 'source'"),
        ([{"name": "eu-1", "sources": ["/mnt"]}], "'remote' is missing"),
        ([LEAST | {"sources": "/mnt"}], "'sources' is not a list"),
        ([LEAST | {"sources": [None, 3]}], "'sources': the element None is not a text"),
        ([LEAST | {"options": ["--tasks", True]}], "'options': the element True is not a text"),
        ([LEAST | {"bootstrap_server": 3}], "'bootstrap_server': the value 3 is not a text"),
        ([LEAST | {"remote": 3}], "'remote': the value 3 is not a text"),
        ([LEAST | {"warehouse": ["/w"]}], r"'warehouse': the value \['/w'\] is not a text"),
        ([LEAST | {"upload": "false"}], "'upload' is 'false': write true or false without quotes"),
        ([LEAST | {"upload": None}], "'upload' is None"),
        ([LEAST | {"conf": "x"}], "'conf': the value is not a JSON object"),
        ([LEAST | {"conf": ["a"]}], "'conf': the value is not a JSON object"),
        ([LEAST | {"conf": None}], "'conf': the value is not a JSON object"),
        ([LEAST | {"conf": {"spark.x": None}}], "'conf': the value is not a JSON object"),
        ([LEAST, LEAST], "two clusters have the name"),
        ([LEAST, LEAST | {"name": "b", "report": "tiersnap-report/eu-1"}], "two clusters have the report"),
    ],
)
def test_a_variable_that_is_wrong_is_refused_by_name(found: object, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        parse_clusters(found)
    assert caught.value.hint


def test_numbers_and_flags_of_a_configuration_are_written_as_spark_reads_them() -> None:
    (one,) = parse_clusters(
        [LEAST | {"conf": {"spark.a": True, "spark.b": 4, "spark.c": "x"}, "options": ["--tasks", 8]}]
    )
    assert one.conf == {"spark.a": "true", "spark.b": "4", "spark.c": "x"}
    assert one.options == ("--tasks", "8")


def test_the_outcome_is_what_the_report_says_and_fits_into_an_event(tmp_path: Path) -> None:
    logs, report = tmp_path / "logs", tmp_path / "report"
    logs.mkdir()
    write_small_log(logs, high_watermark=10)
    assert read_outcome(report, cluster="eu-1", exit_code=0) is None
    assert run_id(report) is None
    ran = tiersnap("tier", logs, "--remote", tmp_path / "remote", "--report", report, "--apply")
    said = json.loads(ran.out)["result"]
    outcome = read_outcome(report, cluster="eu-1", exit_code=ran.exit_code)
    assert outcome is not None
    assert outcome["run_id"] == run_id(report) == said["run_id"]
    assert (outcome["segments_uploaded"], outcome["waiting_segments"]) == (2, 1)
    (blocked,) = outcome["blocked"]  # type: ignore[misc]
    assert (blocked["verdict"], blocked["segments"]) == ("ABOVE_LSO", 1)
    assert len(json.dumps(outcome)) < 2000
    first, second = in_words(outcome)
    assert "uploaded 2 segments" in first
    assert "1 segment cannot be tiered yet; report: /" in first, "no segment is still ready"
    assert second.startswith("ABOVE_LSO: 1 segment; next: wait until replication")


def test_in_words_counts_the_segments_that_are_still_ready(tmp_path: Path) -> None:
    logs, report = tmp_path / "logs", tmp_path / "report"
    logs.mkdir()
    write_small_log(logs, high_watermark=10)
    tiersnap("tier", logs, "--remote", tmp_path / "remote", "--report", report)
    (cluster,) = parse_clusters([LEAST])
    until = until_of(cluster.arguments(datetime(2026, 11, 21, tzinfo=UTC)))
    planned = read_outcome(report, cluster="eu-1", exit_code=0, until=until)
    assert planned is not None
    assert "1 segment cannot be tiered yet; 2 segments are ready; report: /" in in_words(planned)[0]
    day = planned | {"applied": True}
    left = "2 ready segments are left for later days, because --until was 2026-11-21T00:00:00+00:00; report: /"
    assert left in in_words(day)[0]
    assert until_of(cluster.arguments()) is None


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (0, Ending.DONE),
        (1, Ending.AGAIN),
        (2, Ending.FAIL),
        (3, Ending.WAIT),
        (4, Ending.DONE),
        (5, Ending.DONE),
        (6, Ending.DONE),
        (130, Ending.AGAIN),
        (-9, Ending.AGAIN),
    ],
)
def test_an_exit_code_ends_the_task_as_the_page_for_airflow_says(code: int, ending: Ending) -> None:
    said = f"Cannot execute: spark-submit --master local run.py. Error code is: {code}."
    assert ending_of(exit_code_in(said)) is ending


def test_a_submit_that_names_no_exit_code_is_tried_again() -> None:
    assert ending_of(exit_code_in("spark-submit was not found")) is Ending.AGAIN


def test_a_task_waits_until_its_time_is_over_and_no_longer() -> None:
    since, most = datetime(2026, 11, 23, tzinfo=UTC), timedelta(hours=6)
    assert not is_over(since, since, most)
    assert not is_over(since, since + most - timedelta(seconds=1), most)
    assert is_over(since, since + most, most)
    assert is_over(since, since, timedelta(0)), "who waits for nothing fails at once"
