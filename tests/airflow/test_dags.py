"""Airflow's DAGs, run by a real Airflow on a real Spark against a real HTTP S3."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.airflow.conftest import LOCAL, SECONDS, Airflow, Fleet, Started
from tests.spark import clusters
from tiersnap.jobs.main import run as tiersnap
from tiersnap.jobs.pipeline import delta_jars
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DAY = "2026-11-21"
# Runs of two days, as a scheduler would have left them; then the command, without its start each time.
_BACKFILLS = """
from datetime import UTC, datetime, timedelta
from airflow.cli.cli_parser import get_parser
from airflow.models import DagRun
from airflow.utils.session import create_session

def airflow(*words):
    arguments = get_parser().parse_args(words)
    arguments.func(arguments)

airflow("dags", "reserialize")
with create_session() as session:
    for day, state in ((1, "failed"), (2, "success")):
        date = datetime(2026, 11, day, tzinfo=UTC)
        session.add(DagRun(dag_id="tiersnap_backfill", run_id=f"backfill__{day}", logical_date=date, state=state,
                           data_interval=(date, date + timedelta(days=1)), run_after=date + timedelta(days=1),
                           run_type="backfill", start_date=date))
for behaviour in ("none", "failed", "completed"):
    print("behaviour:", behaviour, flush=True)
    airflow("backfill", "create", "--dag-id", "tiersnap_backfill", "--from-date", "2026-11-01", "--to-date",
            "2026-11-03", "--dry-run", "--reprocess-behavior", behaviour)
"""
_UNPAUSED = """
from airflow.cli.cli_parser import get_parser

for command in (
    "db migrate", "dags reserialize", "dags unpause tiersnap_daily", "dags unpause tiersnap_backfill",
    "backfill create --dag-id tiersnap_backfill --from-date 2026-11-20 --to-date 2026-11-20 --max-active-runs 1",
):
    arguments = get_parser().parse_args(command.split())
    arguments.func(arguments)
"""
_ON_KILL = """
import threading, time
from pathlib import Path
from tiersnap.jobs.airflow.run_operator import RunOperator

run = RunOperator(task_id="run", cluster="c", report="r", application_args={arguments!r}, conf={conf!r}, packages=None,
                  jars=",".join({jars!r}), driver_class_path=":".join({jars!r}), spark_binary={submit!r})

def go():
    try:
        run.execute({{}})
    except Exception as error:
        print("ended by", type(error).__name__, "killed" if "Error code is: -9" in str(error) else error)

thread = threading.Thread(target=go)
thread.start()
while not Path({warehouse!r}, "segments/_delta_log").exists():  # the driver is at work
    assert thread.is_alive()
    time.sleep(0.05)
run.on_kill()
thread.join(60)
assert not thread.is_alive()
"""
_PARSE = """
import runpy, sys, time, warnings
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    started = time.monotonic()
    found = runpy.run_path(sys.argv[1] if len(sys.argv) > 1 else FILE)
    seconds = time.monotonic() - started
import json
print(json.dumps({
    "seconds": seconds,
    "warnings": [str(each.message) for each in said],
    "dags": {name: list(dag.task_dict) for name, dag in found.items() if hasattr(dag, "task_dict")},
    "modules": sorted({"pyspark", "pyarrow", "boto3", "numba", "numpy", "pandas", "delta"} & set(sys.modules)),
    "jar": found["daily"].__globals__["DELTA"],
}))
"""


_NOT_AGAIN = """
import runpy
from airflow.sdk.exceptions import AirflowFailException
from tiersnap.jobs.airflow.run_operator import RunOperator

dag = runpy.run_path(FILE)["tiersnap_daily"]
run = RunOperator(task_id="run", cluster="c", report="r", application_args=[], packages=None)
for what in (dag.task_dict["clusters"].python_callable, lambda: run.submit({})):
    try:
        what()
    except AirflowFailException as error:
        print("fails at once:", error)
"""


def contents(fleet: Fleet) -> tuple[dict[str, bytes], list[tuple[object, ...]]]:
    """Snapshots by key, and for each segment that is visible what identifies it beside its own random id."""
    snapshots, segments = {}, []
    for key in fleet.remote.objects():
        parsed = keys.parse(key)
        if parsed.kind is KeyKind.SNAPSHOT:
            snapshots[key] = fleet.remote.store.get(key)
        elif parsed.kind in (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST):
            segments.append((parsed.partition, parsed.offset, parsed.kind))
    return snapshots, sorted(segments, key=str)


def expected(tmp_path: Path, fleet: Fleet) -> dict[str, bytes]:
    """Snapshots by key, as one host writes them without Spark and without Airflow."""
    target = tmp_path / "host"
    options = [str(word) for word in fleet.cluster["options"]]  # type: ignore[attr-defined]
    words = options[options.index("--topic") :]
    assert tiersnap(["-q", "tier", str(fleet.cluster["sources"][0]), "--remote", str(target), *words, "--apply"]) == 0  # type: ignore[index]
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*.snapshot")}


def states(airflow: Airflow) -> dict[str, tuple[object, object]]:
    """State and number of the try by task, of the newest run."""
    newest = "select run_id from dag_run order by id desc limit 1"
    rows = airflow.select(f"select task_id, state, try_number from task_instance where run_id = ({newest})")
    return {str(name): (state, number) for name, state, number in rows}


def await_(what: Callable[[], object], started: Started) -> None:
    """Wait until it is so, while the command runs."""
    end = time.monotonic() + SECONDS
    while not what():
        assert started.process.poll() is None, started.tail
        assert time.monotonic() < end, started.tail
        time.sleep(0.1)


def test_a_dag_file_is_parsed_without_a_warning_and_without_what_the_work_needs(bare_airflow: Airflow) -> None:
    file = bare_airflow.environment["AIRFLOW__CORE__DAGS_FOLDER"] + "/tiersnap_dags.py"
    found = json.loads(bare_airflow.python(_PARSE.replace("FILE", repr(file))))
    print(f"parsed in {found['seconds']:.2f} s")
    assert (found["warnings"], found["modules"]) == ([], [])
    tasks = ["clusters", "cluster.run", "cluster.report", "cluster.nothing_blocked"]
    assert found["dags"] == {"tiersnap_daily": [*tasks, "cluster.maintain"], "tiersnap_backfill": tasks}
    name, revision = delta_jars.artifact()
    assert found["jar"] == f"io.delta:{name}:{revision}"


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("{", "the Airflow Variable tiersnap_clusters must be a JSON list of clusters"),
        ('[{"name": "eu-1"}]', "eu-1: 'sources' is missing"),
    ],
)
def test_a_variable_or_a_worker_that_cannot_be_used_fails_without_a_retry(
    bare_airflow: Airflow, variable: str, said: str
) -> None:
    file = bare_airflow.environment["AIRFLOW__CORE__DAGS_FOLDER"] + "/tiersnap_dags.py"
    environment = {"AIRFLOW_VAR_TIERSNAP_CLUSTERS": variable, **LOCAL, "PATH": "/nowhere"}
    found = bare_airflow.python(_NOT_AGAIN.replace("FILE", repr(file)), **environment)
    of_variable, of_worker = [line for line in found.splitlines() if line.startswith("fails at once: ")]
    assert said in of_variable
    assert "the command spark-submit is not on the PATH of this Airflow worker" in of_worker


@pytest.mark.nightly
def test_the_daily_chain_waits_for_a_warehouse_in_use_then_tiers_and_leaves_report_and_event(
    airflow: Airflow, fleet: Fleet
) -> None:
    another_run = contextlib.ExitStack()
    another_run.enter_context(only_run(str(fleet.warehouse), "another-run"))
    with airflow.start("dags", "test", "tiersnap_daily", DAY, **fleet.variable, MAINTAIN="") as started:
        await_(lambda: states(airflow).get("cluster.run", ("", 0))[0] == "up_for_reschedule", started)
        another_run.close()
        assert started.process.wait(SECONDS) == 0, started.tail
    # The wait used up no retry.
    assert states(airflow)["cluster.run"] == ("success", 1)
    assert {state for state, _ in states(airflow).values()} == {"success"}
    assert states(airflow)["cluster.maintain"] == ("success", 1)

    report = fleet.readiness()
    verdicts = {name: count["segments"] for name, count in report["cluster"]["verdicts"].items()}  # type: ignore[index]
    assert verdicts == {"UPLOADED": 12, "ACTIVE_SEGMENT": 2}
    snapshots, segments = contents(fleet)
    assert (len(snapshots), len(segments)) == (8, 36)
    (event,) = airflow.select(
        "select e.extra from asset_event e join asset a on a.id = e.asset_id "
        f"where a.name = 'tiersnap {fleet.cluster['name']}' and a.uri = '{fleet.remote.uri}'"
    )
    extra = json.loads(str(event[0]))
    run = report["run"]
    assert extra["run_id"] == run["run_id"]  # type: ignore[index]
    assert (extra["segments_uploaded"], extra["snapshots_written"], extra["exit_code"]) == (12, 8, 0)
    assert extra["blocked"] == []


@pytest.mark.nightly
def test_a_retry_after_a_killed_task_ends_in_the_same_state(airflow: Airflow, fleet: Fleet, tmp_path: Path) -> None:
    with airflow.start("dags", "test", "tiersnap_daily", DAY, **fleet.variable) as started:
        await_(lambda: any(key.endswith(".log") for key in fleet.remote.objects()), started)
        started.kill()
    assert not Path(str(fleet.cluster["report"])).exists()

    airflow.run("dags", "test", "tiersnap_daily", DAY, **fleet.variable)
    assert {state for state, _ in states(airflow).values()} == {"success"}
    snapshots, segments = contents(fleet)
    assert snapshots == expected(tmp_path, fleet)
    assert len(segments) == len({str(each) for each in segments}) == 36


@pytest.mark.nightly
def test_what_blocks_is_in_the_event_and_fails_the_last_task_alone(airflow: Airflow, fleet: Fleet) -> None:
    damaged = Path(shutil.copytree(str(fleet.cluster["sources"][0]), fleet.warehouse.parent / "logs"))  # type: ignore[index]
    log = damaged / "ledger-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    fleet.cluster["sources"] = [str(damaged)]
    with airflow.start("dags", "test", "tiersnap_daily", DAY, **fleet.variable, **LOCAL) as started:
        started.process.wait(SECONDS)
    ended = states(airflow)
    assert ended["cluster.nothing_blocked"][0] == "failed", started.tail
    assert (ended["cluster.run"], ended["cluster.report"][0]) == (("success", 1), "success")
    (event,) = airflow.select(
        "select e.extra from asset_event e join asset a on a.id = e.asset_id "
        f"where a.name = 'tiersnap {fleet.cluster['name']}'"
    )
    extra = json.loads(str(event[0]))
    assert extra["exit_code"] == 5
    assert extra["segments_uploaded"] == 6
    worst = extra["blocked"][0]
    assert (worst["verdict"], worst["segments"]) == ("CORRUPT_SEGMENT", 1)


@pytest.mark.nightly
def test_killing_the_task_ends_its_driver(airflow: Airflow, fleet: Fleet) -> None:
    """`on_kill`, as the supervisor calls it; nobody is left who would write."""
    code = _ON_KILL.format(
        arguments=[
            *("--source", fleet.cluster["sources"][0], "--remote", fleet.remote.uri),  # type: ignore[index]
            *("--warehouse", str(fleet.warehouse), "--report", fleet.cluster["report"]),
            *fleet.cluster["options"],  # type: ignore[misc]
            "--apply",
        ],
        conf=fleet.cluster["conf"],
        submit=str(clusters.HOME / "bin/spark-submit"),
        jars=delta_jars.jars(),
        warehouse=str(fleet.warehouse),
    )
    assert "killed" in airflow.python(code, **LOCAL)
    end = time.monotonic() + SECONDS
    while drivers(fleet):
        assert time.monotonic() < end, drivers(fleet)
        time.sleep(0.2)


def drivers(fleet: Fleet) -> list[str]:
    """Processes with the cluster's warehouse on their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = process.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if str(fleet.warehouse) in command and "--apply" in command:
                found.append(command)
    return found


@pytest.mark.nightly
def test_a_day_of_the_backfill_tiers_what_ended_by_then_and_a_later_day_the_rest(
    airflow: Airflow, fleet: Fleet
) -> None:
    # A run by hand is of the day before its date: the bundled logs were written on the 21st.
    said = airflow.run("dags", "test", "tiersnap_backfill", "2026-11-21", **fleet.variable, **LOCAL)
    assert "12 ready segments are left for later days, because --until was 2026-11-21T00:00:00+00:00" in said
    assert len(re.findall(" INFO [A-Z]", said)) < 100, "Spark's"
    assert fleet.readiness()["cluster"]["ready_segments"] == 12  # type: ignore[index]
    assert contents(fleet)[1] == []
    airflow.run("dags", "test", "tiersnap_backfill", "2026-11-22", **fleet.variable, **LOCAL)
    assert len(contents(fleet)[1]) == 36


@pytest.mark.nightly
def test_scheduler_starts_only_backfill_runs_of_the_backfill_dag(bare_airflow: Airflow, tmp_path: Path) -> None:
    """By a real scheduler, in the order of docs/airflow.md, with a database of its own; no task can reach an API."""
    here = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(clusters.free_port())}
    own = Airflow(tmp_path, bare_airflow.environment | here)
    own.python(_UNPAUSED)
    own.run("scheduler", "--num-runs", "3", "--skip-serve-logs")
    runs = own.select("select dag_id, run_type from dag_run where state != 'queued' order by dag_id")
    assert runs == [("tiersnap_backfill", "backfill"), ("tiersnap_daily", "scheduled")]


@pytest.mark.nightly
def test_a_backfill_takes_the_days_that_its_reprocess_behaviour_says(bare_airflow: Airflow) -> None:
    """By `airflow backfill create`, on the runs of three days: one failed, one succeeded, one never was."""
    out = bare_airflow.python(_BACKFILLS)
    found = {}
    for part in out.split("behaviour: ")[1:]:
        behaviour = part.split()[0]
        found[behaviour] = sorted(set(re.findall(r"2026-11-0[1-3]", part.split("Runs to be attempted")[1])))
    assert found == {
        "none": ["2026-11-03"],
        "failed": ["2026-11-01", "2026-11-03"],
        "completed": ["2026-11-01", "2026-11-02", "2026-11-03"],
    }
