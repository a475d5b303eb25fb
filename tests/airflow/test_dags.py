"""Airflow's DAGs, run by a real Airflow on a real Spark against a real HTTP S3."""

from __future__ import annotations

import json

import pytest

from tests.airflow.conftest import Airflow, Fleet
from tiersnap.jobs import delta_jars
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DAY = "2026-11-21"
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


def contents(fleet: Fleet) -> tuple[dict[str, bytes], list[tuple[object, ...]]]:
    """Snapshots by key, and for each segment that is visible what identifies it beside its own random id."""
    keys = ObjectKeys()
    snapshots, segments = {}, []
    for key in fleet.remote.objects():
        parsed = keys.parse(key)
        if parsed.kind is KeyKind.SNAPSHOT:
            snapshots[key] = fleet.remote.store.get(key)
        elif parsed.kind in (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST):
            segments.append((parsed.partition, parsed.offset, parsed.kind))
    return snapshots, sorted(segments, key=str)


def test_a_dag_file_is_parsed_without_a_warning_and_without_what_the_work_needs(bare_airflow: Airflow) -> None:
    file = bare_airflow.environment["AIRFLOW__CORE__DAGS_FOLDER"] + "/tiersnap_dags.py"
    found = json.loads(bare_airflow.python(_PARSE.replace("FILE", repr(file))))
    print(f"parsed in {found['seconds']:.2f} s")
    assert (found["warnings"], found["modules"]) == ([], [])
    tasks = ["clusters", "cluster.run", "cluster.report", "cluster.nothing_blocked"]
    assert found["dags"] == {"tiersnap_daily": tasks, "tiersnap_backfill": tasks}
    name, revision = delta_jars.artifact()
    assert found["jar"] == f"io.delta:{name}:{revision}"


def test_the_daily_chain_tiers_the_bundled_logs_and_leaves_report_and_event(airflow: Airflow, fleet: Fleet) -> None:
    airflow.run("dags", "test", "tiersnap_daily", DAY, **fleet.variable)

    report = fleet.readiness()
    verdicts = {name: count["segments"] for name, count in report["cluster"]["verdicts"].items()}  # type: ignore[index]
    assert verdicts == {"ALREADY_TIERED": 12, "ACTIVE_SEGMENT": 2}
    snapshots, segments = contents(fleet)
    assert (len(snapshots), len(segments)) == (8, 36)
    (event,) = airflow.select(
        "select e.extra from asset_event e join asset a on a.id = e.asset_id "
        f"where a.name = 'tiersnap {fleet.cluster['name']}' and a.uri = '{fleet.remote.uri}'"
    )
    extra = json.loads(str(event[0]))
    run = report["run"]
    assert extra["run_id"] == run["run_id"]  # type: ignore[index]
    assert (extra["segments_tiered"], extra["snapshots_written"], extra["exit_code"]) == (12, 8, 0)
    assert extra["blocked"] == []
