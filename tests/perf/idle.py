"""What a run with nothing to do costs: `python -m tests.perf.idle LOGS WORK`, once for a first run, then again.

Prints one JSON object: CPU seconds of all processes from the start of Python to the end of a first idle run (cold), the
wall time of the same run again in the warm session, and what Spark's REST API and py4j say of each run.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from py4j.java_gateway import GatewayClient
from pyspark.sql import SparkSession

from tests.perf.fleet import cpu_of_tree, settings
from tiersnap.jobs.pipeline.run import run
from tiersnap.jobs.pipeline.session import open_session


@dataclass
class Cost:
    """Of one run.

    Attributes:
        calls: round trips to the JVM.
        shuffled, read: bytes that stages wrote to a shuffle, and read from files.
    """

    cpu: float = 0.0
    seconds: float = 0.0
    executions: int = 0
    jobs: int = 0
    tasks: int = 0
    calls: int = 0
    shuffled: int = 0
    read: int = 0


class Api:
    """Spark's REST API, as its user interface serves it on loopback."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
        self._calls = 0
        send = GatewayClient.send_command

        def counted(client: GatewayClient, *args: object, **kwargs: object) -> object:
            self._calls += 1
            return send(client, *args, **kwargs)

        GatewayClient.send_command = counted

    def _get(self, what: str) -> list[dict]:
        with urllib.request.urlopen(f"{self._url}/{what}", timeout=60) as answer:
            return json.load(answer)

    @contextmanager
    def measured(self) -> Iterator[Cost]:
        """Fill the cost of what is done in the block."""
        cost, before, calls = Cost(), self._sums(), self._calls
        cpu, began = cpu_of_tree(), time.perf_counter()
        yield cost
        cost.seconds, cost.cpu = time.perf_counter() - began, cpu_of_tree() - cpu
        cost.calls = self._calls - calls
        time.sleep(1)  # the listener hears of a job a little later
        for name, value in self._sums().items():
            setattr(cost, name, value - before[name])

    def executions(self) -> list[str]:
        return [each["description"] for each in self._get("sql?details=false&length=10000")]

    def _sums(self) -> dict[str, int]:
        stages = self._get("stages?status=complete")
        return {
            "executions": len(self.executions()),
            "jobs": len(self._get("jobs")),
            "tasks": sum(stage["numCompleteTasks"] for stage in stages),
            "shuffled": sum(stage["shuffleWriteBytes"] for stage in stages),
            "read": sum(stage["inputBytes"] for stage in stages),
        }


def main(source: str, folder: str, *conf: str) -> None:
    chosen = dict(each.split("=", 1) for each in conf)
    work = Path(folder)
    if not (work / "warehouse").exists():
        run(open_session("local[2]", chosen), settings(source, work, upload=True))
        return
    spark = open_session("local[2]", {"spark.ui.enabled": "true", "spark.ui.port": "0", **chosen})
    api, costs, stages = Api(spark), [], []
    for _ in range(3):
        with api.measured() as cost:
            outcome = run(spark, settings(source, work, upload=True))
        if not costs:
            cost.cpu = cpu_of_tree()
        assert outcome.did_nothing
        costs.append(asdict(cost))
        stages.append({name: round(seconds, 2) for name, seconds in outcome.seconds.items()})
    print(json.dumps({"cold": costs[0], "warm": costs[1:], "stages": stages}))


if __name__ == "__main__":
    main(*sys.argv[1:])
