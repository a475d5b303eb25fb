"""`tiersnap run` by spark-submit, with its exit codes in Airflow's words.

    0, 4, 5   success: all that could be done is done; what is blocked is in the outcome
    3         the task waits without using up a retry: the warehouse is in use, or a server is away for a while
    2         the task fails at once: no retry mends a setting
    1, 6, …   the task fails and is tried again

A run is safe to repeat and to kill (docs/warehouse.md), so a retry is the same command again. Client mode only: in
cluster mode spark-submit's exit code is not that of the driver, and the report lies elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRescheduleException

from tiersnap.jobs import airflow as here
from tiersnap.jobs.airflow.outcome import ClusterOutcome, read_outcome, run_id
from tiersnap.snapshot.errors import ExitCode

if TYPE_CHECKING:
    from airflow.sdk import Context

# The file that `tiersnap run --print-submit` names.
RUN = str(Path(here.__file__).parents[1] / "run.py")
# The jar that goes with the extra [spark]; Airflow's environment has neither pyspark nor delta-spark to ask.
DELTA = "io.delta:delta-spark_4.1_2.13:4.3.1"
_ENDED = re.compile(r"Error code is: (?P<code>-?[0-9]+)")
_DONE = (ExitCode.OK, ExitCode.GATE_REFUSED, ExitCode.DATA_CORRUPT)


class RunOperator(SparkSubmitOperator):
    """Runs `tiersnap run` for one cluster; its XCom is the outcome (see `outcome`).

    Args:
        cluster: its name.
        report: folder of the readiness report, as in `application_args`.
        poke_interval: time between two tries while the run has to wait.
        wait_at_most: then the task fails, and is tried again if it has retries.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "cluster", "report")
    # A wait is a reschedule, as of a sensor: no slot of a worker is held, no retry is used up.
    reschedule = True

    def __init__(
        self,
        *,
        cluster: str,
        report: str,
        poke_interval: timedelta = timedelta(minutes=5),
        wait_at_most: timedelta = timedelta(hours=6),
        **kwargs: Any,  # noqa: ANN401 - SparkSubmitOperator's
    ) -> None:
        # Nothing to reattach to: in client mode the driver ends with the task.
        super().__init__(**{"application": RUN, "deploy_mode": "client", "durable": False, **kwargs})
        self.cluster, self.report = cluster, report
        self.poke_interval, self.wait_at_most = poke_interval, wait_at_most

    def execute(self, context: Context) -> ClusterOutcome:
        """Submit, and wait until the driver has ended."""
        report = Path(self.report)
        before = run_id(report)
        try:
            super().execute(context)
            code = int(ExitCode.OK)
        except AirflowException as error:
            code = self._exit_code(error, context)
        outcome = read_outcome(report, cluster=self.cluster, exit_code=code)
        if outcome is None or outcome["run_id"] == before:
            raise AirflowFailException(f"the run ended with {code} and left no report in {report.absolute()}")
        return outcome

    def _exit_code(self, error: AirflowException, context: Context) -> int:
        """Of the driver, where the run is over; else how the task goes on is raised."""
        found = _ENDED.search(str(error))
        code = int(found["code"]) if found else int(ExitCode.UNEXPECTED)
        if code == ExitCode.TRANSIENT:
            self._wait(context)
        if code == ExitCode.USAGE:
            raise AirflowFailException("a setting is wrong: the message of tiersnap is above") from error
        if code not in _DONE:
            raise error
        return code

    def _wait(self, context: Context) -> None:
        now = datetime.now(UTC)
        since = context["ti"].get_first_reschedule_date(context) or now
        if now - since >= self.wait_at_most:
            raise AirflowException(f"waited {now - since} for a warehouse in use or a server that was away")
        self.log.info("The warehouse is in use, or a server is away: trying again in %s", self.poke_interval)
        raise AirflowRescheduleException(now + self.poke_interval)
