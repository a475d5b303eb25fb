"""Two DAGs: `tiersnap_daily`, and `tiersnap_backfill` over days of segments.

    clusters ──▶ cluster[0] = run ──▶ report ──▶ nothing_blocked
                                 └──▶ maintain
                 cluster[1] = …

`clusters` reads the Variable when it runs, so that parsing asks no database; `run` and `maintain` are spark-submit;
`report` leaves an event at the cluster's Asset; `nothing_blocked` fails where a run left what waits for
a person, which no retry changes. conf/airflow/tiersnap_dags.py is the file for the folder of DAGs.
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
_START = datetime(2026, 1, 1, tzinfo=UTC)


def daily(*, schedule: str = "0 3 * * *", maintain: bool = True, **submit: Any) -> DAG:  # noqa: ANN401 - RunOperator's
    """Return the DAG that tiers every day at `schedule` (UTC, cron) all that is new or has changed.

    Args:
        maintain: then compact the warehouse's tables, too.
        submit: arguments of RunOperator, and so of SparkSubmitOperator: conn_id, packages, jars, poke_interval, …
    """
    return _dag("tiersnap_daily", schedule, submit, is_backfill=False, maintain=maintain, doc_md=_DAILY)


def backfill(*, schedule: str = "0 0 * * *", **submit: Any) -> DAG:  # noqa: ANN401 - RunOperator's
    """A run for each day of segments: it tiers those whose largest timestamp lies before the end of its day.

    So one day after the other, oldest first, each run sends what ended on its day. A day that is run again, or out of
    order, sends nothing twice and leaves no hole. Nothing is scheduled but by `airflow backfill create`.
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
        max_active_runs=1,
        is_paused_upon_creation=True,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
        doc_md=doc_md,
        tags=["tiersnap", "kafka"],
    ) as dag:

        @task
        def clusters() -> list[dict[str, object]]:
            """Return what `run` needs of each cluster; a Variable that cannot be used fails without a retry."""
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
                    "conf": dict(each.conf),
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
    """Say in the log what was found and done, and leave it as an event of the Asset of the cluster's remote storage."""
    print("\n".join(in_words(outcome)))  # noqa: T201 - the task's log
    asset = Asset(name=f"tiersnap {outcome['cluster']}", uri=str(outcome["remote"]))
    outlet_events[AssetAlias(ALIAS)].add(asset, extra=outcome)
    return outcome


@task(retries=0)
def nothing_blocked(outcome: ClusterOutcome) -> None:
    """Fail where segments are damaged or may not be read, or the gate refused them: somebody has to do something."""
    if outcome["exit_code"] != ExitCode.OK:
        raise AirflowFailException("\n".join(in_words(outcome)))


_DAILY = """
Decodes what is new, writes the snapshots that are missing, tiers what may be tiered, leaves the readiness report, and
compacts the tables.
`nothing_blocked` fails where something waits for a person: its log names causes and commands.
"""
_BACKFILL = """
`airflow backfill create --dag-id tiersnap_backfill --from-date 2026-11-01 --to-date 2026-11-20
--reprocess-behavior none` tiers day by day what ended on that day. `none` passes over days that were run, `failed`
runs failed ones again, `completed` all; none of them sends a segment twice.
"""
