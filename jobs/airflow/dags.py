"""Two DAGs: `tiersnap_daily` tiers new segments every day, `tiersnap_backfill` tiers old segments day by day.

    clusters ──▶ cluster[0] = run ──▶ report ──▶ nothing_blocked
                                 └──▶ maintain
                 cluster[1] = …

`clusters` reads the Variable at run time, so that Airflow can parse the DAG without its database. `run` and `maintain`
call spark-submit. `report` adds an event to the cluster's Asset. `nothing_blocked` fails if a person must repair
segments; a retry would not help. Copy conf/airflow/tiersnap_dags.py to the folder of DAGs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetAlias,
    CronDataIntervalTimetable,
    Variable,
    get_current_context,
    task,
    task_group,
)
from airflow.sdk.exceptions import AirflowFailException

from tiersnap.jobs.airflow.clusters import VARIABLE, parse_clusters
from tiersnap.jobs.airflow.outcome import ClusterOutcome, in_words
from tiersnap.jobs.airflow.run_operator import DELTA, MaintainOperator, RunOperator
from tiersnap.snapshot.errors import ExitCode, UsageError

ALIAS = "tiersnap"
# At level INFO Spark writes 39,000 lines per run to the task's log. The cluster's `conf` overrides this setting.
_QUIET = {"spark.log.level": "WARN"}
_START = datetime(2026, 1, 1, tzinfo=UTC)


def daily(*, schedule: str = "0 3 * * *", maintain: bool = True, **submit: Any) -> DAG:  # noqa: ANN401 - RunOperator's
    """Return the DAG that tiers new and changed segments every day.

    Args:
        schedule: cron expression in UTC.
        maintain: compact the warehouse's tables after each run.
        submit: arguments of RunOperator and SparkSubmitOperator, such as conn_id, packages, jars and poke_interval.
    """
    return _dag("tiersnap_daily", schedule, submit, is_backfill=False, maintain=maintain, doc_md=_DAILY)


def backfill(*, schedule: str = "0 0 * * *", **submit: Any) -> DAG:  # noqa: ANN401 - RunOperator's
    """Return the backfill DAG. A run tiers segments whose largest timestamp is before the end of the run's day.

    Airflow runs the oldest day first, so each run uploads the segments that ended on its day. You may repeat days or
    run them in another order: no segment is uploaded twice, and no gap remains.

    Only `airflow backfill create` starts runs. `schedule` determines their dates, but starts no run by itself.

    Args:
        schedule: cron expression in UTC.
        submit: see `daily`.
    """
    return _dag("tiersnap_backfill", schedule, submit, is_backfill=True, maintain=False, doc_md=_BACKFILL)


def _dag(
    dag_id: str, schedule: str, submit: Mapping[str, Any], *, is_backfill: bool, maintain: bool, doc_md: str
) -> DAG:
    submitted = {"packages": DELTA, "name": dag_id, **submit}
    with DAG(
        dag_id=dag_id,
        schedule=CronDataIntervalTimetable(schedule, timezone="UTC"),
        start_date=_START,
        catchup=False,
        # 0 forbids scheduled runs. The option --max-active-runs limits those of a backfill. A scheduled run would
        # upload the segments of all earlier days, and `--reprocess-behavior none` would then skip its day.
        max_active_runs=0 if is_backfill else 1,
        is_paused_upon_creation=True,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
        doc_md=doc_md,
        tags=["tiersnap", "kafka"],
    ) as dag:

        @task
        def clusters() -> list[dict[str, object]]:
            """Return the arguments of the task group `cluster`, one dict per cluster."""
            until = get_current_context()["data_interval_end"] if is_backfill else None
            try:
                found = parse_clusters(json.loads(Variable.get(VARIABLE)))
            except UsageError as error:
                raise AirflowFailException(f"{error}; {error.hint}") from error
            except ValueError as error:
                raise AirflowFailException(
                    f"{error}; the Airflow Variable {VARIABLE} must be a JSON list of clusters"
                ) from error
            return [
                {
                    "name": each.name,
                    "arguments": each.arguments(until),
                    "maintain_arguments": each.maintain_arguments(),
                    "report_folder": each.report,
                    "conf": {**_QUIET, **each.conf},
                }
                for each in found
            ]

        @task_group
        def cluster(
            name: str, arguments: list[str], maintain_arguments: list[str], report_folder: str, conf: dict[str, str]
        ) -> None:
            run = RunOperator(
                task_id="run",
                **submitted,
                cluster=name,
                report=report_folder,
                application_args=arguments,
                conf=conf,
            )
            outcome = report(run.output)
            nothing_blocked(outcome)
            if maintain:
                run >> MaintainOperator(task_id="maintain", **submitted, application_args=maintain_arguments, conf=conf)

        cluster.expand_kwargs(clusters())
    return dag


@task(outlets=[AssetAlias(ALIAS)])
def report(outcome: ClusterOutcome, *, outlet_events: Any = None) -> ClusterOutcome:  # noqa: ANN401 - Airflow's accessor
    """Log the outcome, add an event with the outcome to the Asset of the remote location, and return the outcome."""
    print("\n".join(in_words(outcome)))  # noqa: T201 - the task's log
    asset = Asset(name=f"tiersnap {outcome['cluster']}", uri=str(outcome["remote"]))
    outlet_events[AssetAlias(ALIAS)].add(asset, extra=outcome)
    return outcome


@task(retries=0)
def nothing_blocked(outcome: ClusterOutcome) -> None:
    """Raise AirflowFailException if the run's exit code is not 0. Its message has the causes and the next steps."""
    if outcome["exit_code"] != ExitCode.OK:
        raise AirflowFailException("\n".join(in_words(outcome)))


_DAILY = """
The run decodes new segments, writes missing snapshots, uploads READY segments, writes the readiness report, and
compacts the tables.
The task `nothing_blocked` fails if the exit code of the run is not 0. Its log names the causes and the next commands.
"""
_BACKFILL = """
`airflow backfill create --dag-id tiersnap_backfill --from-date 2026-11-01 --to-date 2026-11-20
--reprocess-behavior none --max-active-runs 1` uploads the segments of each day, one day after the other.
`none` skips days that Airflow has run, `failed` repeats failed days, `completed` repeats all days.
A segment that is in remote storage is not uploaded again.
"""
