"""`tiersnap run`, `tiersnap maintain tables` and other files by spark-submit, with exit codes in Airflow's words.

    0, 4, 5, 6
              success: the outcome lists segments that are blocked or unreadable
    3         the task waits without using up a retry: the warehouse is in use, or a server does not answer
    2         the task fails without a retry, which would not change a wrong setting; so it does without spark-submit
    1, …      the task fails and is tried again

Every job can be repeated and killed safely (docs/warehouse.md), so a retry is the same command again. Client mode only:
in cluster mode spark-submit does not return the driver's exit code, and the report is on another host.
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
# The jar of the extra [spark]. Airflow's environment has neither pyspark nor delta-spark that could name it.
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"


class TiersnapSubmitOperator(SparkSubmitOperator):
    """Submits a file of JOBS, and waits like a sensor if it ends with 3.

    Args:
        poke_interval: time between two tries while the job has to wait.
        wait_at_most: the task fails after this time, and is tried again if it has retries.
    """

    # Like a sensor, the task is rescheduled: a wait holds no worker slot and uses up no retry.
    reschedule = True

    def __init__(
        self,
        *,
        poke_interval: timedelta = timedelta(minutes=5),
        wait_at_most: timedelta = timedelta(hours=6),
        **kwargs: Any,  # noqa: ANN401 - SparkSubmitOperator's
    ) -> None:
        # Nothing to reattach to: in client mode the driver ends with the task.
        super().__init__(**{"deploy_mode": "client", "durable": False, **kwargs})
        self.poke_interval, self.wait_at_most = poke_interval, wait_at_most

    def submit(self, context: Context) -> int:
        """Submit, wait until the driver ends, and return its exit code if the job is over."""
        try:
            super().execute(context)
        except FileNotFoundError as error:  # no retry installs it
            raise AirflowFailException(f"{error}: spark-submit is not on this worker's PATH") from error
        except AirflowException as error:
            return self._exit_code(error, context)
        return int(ExitCode.OK)

    def _exit_code(self, error: AirflowException, context: Context) -> int:
        """Return the driver's exit code if the job is over; else raise Airflow's error for a wait, retry or failure."""
        code = exit_code_in(str(error))
        ending = ending_of(code)
        if ending is Ending.WAIT:
            self._wait(context)
        if ending is Ending.FAIL:
            raise AirflowFailException("a setting is wrong: the message of tiersnap is above") from error
        if ending is Ending.AGAIN:
            raise error
        return code

    def _wait(self, context: Context) -> None:
        now = datetime.now(UTC)
        since = context["ti"].get_first_reschedule_date(context) or now
        if is_over(since, now, self.wait_at_most):
            raise AirflowException(f"waited {now - since} for a warehouse in use or a server that was away")
        self.log.info("The warehouse is in use, or a server is away: trying again in %s", self.poke_interval)
        raise AirflowRescheduleException(now + self.poke_interval)


# For `run`, the file that `tiersnap run --print-submit` names.
RUN, MAINTAIN = str(JOBS / "run.py"), str(JOBS / "maintain_tables.py")


class RunOperator(TiersnapSubmitOperator):
    """Runs `tiersnap run` for one cluster; the XCom is the outcome that the run wrote into `report`."""

    template_fields: Sequence[str] = (*TiersnapSubmitOperator.template_fields, "cluster", "report")

    def __init__(self, *, cluster: str, report: str, **kwargs: Any) -> None:  # noqa: ANN401 - the base's
        super().__init__(**{"application": RUN, **kwargs})
        self.cluster, self.report = cluster, report

    def execute(self, context: Context) -> ClusterOutcome:
        """Submit, and return the outcome from the run's report."""
        report = Path(self.report)
        before = run_id(report)
        code = self.submit(context)
        until = until_of(self.application_args or [])
        outcome = read_outcome(report, cluster=self.cluster, exit_code=code, until=until)
        if outcome is None or outcome["run_id"] == before:
            raise AirflowFailException(f"the run ended with {code} and left no report in {report.absolute()}")
        return outcome


class MaintainOperator(TiersnapSubmitOperator):
    """Runs `tiersnap maintain tables` for the warehouse of one cluster."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - the base's
        super().__init__(**{"application": MAINTAIN, **kwargs})

    def execute(self, context: Context) -> None:
        """Submit, and wait while a run writes the warehouse."""
        self.submit(context)
