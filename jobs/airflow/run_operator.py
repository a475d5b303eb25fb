"""Operators that start `tiersnap run` and `tiersnap maintain tables` with spark-submit, and map their exit codes.

    0, 4, 5, 6  the task succeeds; the outcome lists blocked and unreadable segments
    3           the task waits without using up a retry: the warehouse is in use, or a server does not answer
    2           the task fails without a retry: a setting is wrong. A missing spark-submit has the same effect
    1, …        the task fails, and Airflow retries it

Every job can be killed and repeated safely (docs/warehouse.md), so a retry runs the same command. The operators need
client mode. In cluster mode spark-submit does not return the driver's exit code, and the report is on another host.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRescheduleException

from tiersnap.jobs import airflow as here
from tiersnap.jobs.airflow.outcome import (
    ClusterOutcome,
    Ending,
    ending_of,
    exit_code_in,
    is_over,
    read_outcome,
    run_id,
    until_of,
)
from tiersnap.snapshot.errors import ExitCode

if TYPE_CHECKING:
    from airflow.sdk import Context

JOBS = Path(here.__file__).parents[1]
# Delta's jar for the Spark of the extra [spark]. Airflow's environment has no pyspark whose version would name the jar.
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"


class TiersnapSubmitOperator(SparkSubmitOperator):
    """Submits a Python file of the package `jobs`. If the driver's exit code is 3, the task waits like a sensor.

    Args:
        poke_interval: time until the task submits the file again.
        wait_at_most: waiting time after which the task fails; Airflow may then retry it.
    """

    # Airflow reschedules the task like a sensor: a wait occupies no worker slot and uses up no retry.
    reschedule = True

    def __init__(
        self,
        *,
        poke_interval: timedelta = timedelta(minutes=5),
        wait_at_most: timedelta = timedelta(hours=6),
        **kwargs: Any,  # noqa: ANN401 - SparkSubmitOperator's
    ) -> None:
        # In client mode the driver ends with the task, so Airflow must not try to reattach to it (durable).
        super().__init__(**{"deploy_mode": "client", "durable": False, **kwargs})
        self.poke_interval, self.wait_at_most = poke_interval, wait_at_most

    def submit(self, context: Context) -> int:
        """Submit the file, wait until the driver ends, and return its exit code: 0, 4, 5 or 6.

        Raises:
            AirflowRescheduleException: exit code 3; Airflow submits the file again after `poke_interval`.
            AirflowFailException: exit code 2, or spark-submit is missing; Airflow does not retry the task.
            AirflowException: another exit code, or exit code 3 after `wait_at_most`; Airflow retries the task.
        """
        try:
            super().execute(context)
        except FileNotFoundError as error:  # a retry would not install spark-submit
            raise AirflowFailException(
                f"{error}: the command spark-submit is not on the PATH of this Airflow worker"
            ) from error
        except AirflowException as error:
            return self._exit_code(error, context)
        return int(ExitCode.OK)

    def _exit_code(self, error: AirflowException, context: Context) -> int:
        """Return the driver's exit code, or raise an exception; `submit` documents both."""
        code = exit_code_in(str(error))
        ending = ending_of(code)
        if ending is Ending.WAIT:
            self._wait(context)
        if ending is Ending.FAIL:
            raise AirflowFailException(
                "tiersnap refused a setting: tiersnap's error message above in this log names the setting"
            ) from error
        if ending is Ending.AGAIN:
            raise error
        return code

    def _wait(self, context: Context) -> None:
        now = datetime.now(UTC)
        since = context["ti"].get_first_reschedule_date(context) or now
        if is_over(since, now, self.wait_at_most):
            raise AirflowException(
                f"waited {now - since}: another run still uses the warehouse, or a server does not answer; see "
                "tiersnap's error message above in this log"
            )
        self.log.info("Another run uses the warehouse, or a server does not answer: next try in %s", self.poke_interval)
        raise AirflowRescheduleException(now + self.poke_interval)


# `tiersnap run --print-submit` prints the same path for RUN.
RUN, MAINTAIN = str(JOBS / "run.py"), str(JOBS / "maintain_tables.py")


class RunOperator(TiersnapSubmitOperator):
    """Runs `tiersnap run` for one cluster. The task's XCom is the outcome.

    Args:
        cluster: name of the cluster.
        report: folder that the run writes its report to.
    """

    template_fields: Sequence[str] = (*TiersnapSubmitOperator.template_fields, "cluster", "report")

    def __init__(self, *, cluster: str, report: str, **kwargs: Any) -> None:  # noqa: ANN401 - the base's
        super().__init__(**{"application": RUN, **kwargs})
        self.cluster, self.report = cluster, report

    def execute(self, context: Context) -> ClusterOutcome:
        """Submit the job, and return the outcome from the report.

        Raises:
            AirflowFailException: the run wrote no report. `submit` lists the other errors.
        """
        report = Path(self.report)
        before = run_id(report)
        code = self.submit(context)
        until = until_of(self.application_args or [])
        outcome = read_outcome(report, cluster=self.cluster, exit_code=code, until=until)
        if outcome is None or outcome["run_id"] == before:
            raise AirflowFailException(
                f"the run ended with exit code {code} and wrote no report to {report.absolute()}"
            )
        return outcome


class MaintainOperator(TiersnapSubmitOperator):
    """Runs `tiersnap maintain tables` for the warehouse of one cluster."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - the base's
        super().__init__(**{"application": MAINTAIN, **kwargs})

    def execute(self, context: Context) -> None:
        """Submit the job. The task waits while another run writes to the warehouse."""
        self.submit(context)
