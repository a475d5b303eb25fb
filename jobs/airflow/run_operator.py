"""`tiersnap run` and `tiersnap maintain tables` as tasks; how they end is submit_operator's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from tiersnap.jobs.airflow.outcome import ClusterOutcome, read_outcome, run_id
from tiersnap.jobs.airflow.submit_operator import JOBS, TiersnapSubmitOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

# Of `run` the file that `tiersnap run --print-submit` names.
RUN, MAINTAIN = str(JOBS / "run.py"), str(JOBS / "maintain_tables.py")


class RunOperator(TiersnapSubmitOperator):
    """Runs `tiersnap run` for one cluster; its XCom is the outcome (see `outcome`).

    Args:
        cluster: its name.
        report: folder of the readiness report, as in `application_args`.
    """

    template_fields: Sequence[str] = (*TiersnapSubmitOperator.template_fields, "cluster", "report")

    def __init__(self, *, cluster: str, report: str, **kwargs: Any) -> None:  # noqa: ANN401 - the base's
        super().__init__(**{"application": RUN, **kwargs})
        self.cluster, self.report = cluster, report

    def execute(self, context: Context) -> ClusterOutcome:
        """Submit, and read what the run left in its report."""
        report = Path(self.report)
        before = run_id(report)
        code = self.submit(context)
        outcome = read_outcome(report, cluster=self.cluster, exit_code=code)
        if outcome is None or outcome["run_id"] == before:
            raise AirflowFailException(f"the run ended with {code} and left no report in {report.absolute()}")
        return outcome


class MaintainOperator(TiersnapSubmitOperator):
    """Runs `tiersnap maintain tables` for the warehouse of one cluster."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - the base's
        super().__init__(**{"application": MAINTAIN, **kwargs})

    def execute(self, context: Context) -> None:
        """Submit; a warehouse that a run is writing is waited for."""
        self.submit(context)
