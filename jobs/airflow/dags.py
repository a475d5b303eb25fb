"""Two DAGs: `tiersnap_daily`, and `tiersnap_backfill` over days of segments.

    clusters ──▶ cluster[0] = run ──▶ report ──▶ nothing_blocked
                                 └──▶ maintain
                 cluster[1] = …

`clusters` reads the Variable when it runs, so that parsing asks no database. `run` and `maintain` are spark-submit.
`report` adds an event to the cluster's Asset. `nothing_blocked` fails if the run left segments that a person must look
at; a retry would not help. conf/airflow/tiersnap_dags.py is the file for the folder of DAGs.
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
# Spark's INFO is 39,000 lines a run in the task's log; `conf` of a cluster may name another level.
_QUIET = {"spark.log.level": "WARN"}
_START = datetime(2026, 1, 1, tzinfo=UTC)


def daily(*, schedule: str = "0 3 * * *", maintain: bool = True, **submit: Any) -> DAG:  # noqa: ANN401 - RunOperator's
    """Return the DAG that tiers new and changed segments every day at `schedule` (UTC, cron).

    Args:
        maintain: compact the warehouse's tables after each run.
        submit: arguments of RunOperator, and so of SparkSubmitOperator: conn_id, packages, jars, poke_interval, …
    """
    return _dag("tiersnap_daily", schedule, submit, is_backfill=False, maintain=maintain, doc_md=_DAILY)


def backfill(*, schedule: str = "0 0 * * *", **submit: Any) -> DAG:  # noqa: ANN401 - RunOperator's
    """Return the DAG with one run a day: it tiers segments whose largest timestamp is before the end of the day.

    The days run in order, oldest first, so each run sends the segments that ended on its day. A day that is run again,
    or out of order, sends nothing twice and leaves no hole. Only `airflow backfill create` starts runs: Airflow needs
    `schedule` for their dates, and makes no scheduled run.
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
        # Airflow counts the runs of a backfill apart, by the --max-active-runs of its command. 0 refuses all others: a
        # scheduled run would upload all days, and `--reprocess-behavior none` would skip the day that it took.
        max_active_runs=0 if is_backfill else 1,
        is_paused_upon_creation=True,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
        doc_md=doc_md,
        tags=["tiersnap", "kafka"],
    ) as dag:

        @task
        def clusters() -> list[dict[str, object]]:
            """Return the arguments of `cluster`, one for each cluster; a wrong Variable fails without a retry."""
            until = get_current_context()["data_interval_end"] if is_backfill else None
            try:
                found = parse_clusters(json.loads(Variable.get(VARIABLE)))
            except (UsageError, ValueError) as error:
                hint = error.hint if isinstance(error, UsageError) else f"{VARIABLE} is a JSON list"
                raise AirflowFailException(f"{error}; {hint}") from error
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
    """Log the outcome, and add it as an event to the Asset of the cluster's remote storage."""
    print("\n".join(in_words(outcome)))  # noqa: T201 - the task's log
    asset = Asset(name=f"tiersnap {outcome['cluster']}", uri=str(outcome["remote"]))
    outlet_events[AssetAlias(ALIAS)].add(asset, extra=outcome)
    return outcome


@task(retries=0)
def nothing_blocked(outcome: ClusterOutcome) -> None:
    """Fail if segments are damaged or unreadable, or if the gate refused them: a person must act."""
    if outcome["exit_code"] != ExitCode.OK:
        raise AirflowFailException("\n".join(in_words(outcome)))


_DAILY = """
Decodes new segments, writes missing snapshots, tiers the segments that are ready, writes the readiness report, and
compacts the tables.
`nothing_blocked` fails if a person must act: its log names causes and commands.
"""
_BACKFILL = """
`airflow backfill create --dag-id tiersnap_backfill --from-date 2026-11-01 --to-date 2026-11-20
--reprocess-behavior none --max-active-runs 1` tiers, day by day, the segments that ended on that day.
`none` skips days that were run, `failed` repeats failed days, `completed` repeats all days. No segment is sent twice.
"""
