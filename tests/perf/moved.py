"""What a run moves that has little to do: `python -m tests.perf.moved SOURCE WORK SHAPE PARTITIONS`.

A first run over SOURCE, one that finds nothing to do, and one after PARTITIONS of its partitions have a segment more.
Prints one JSON object, what Spark's REST API says of the last two; nothing is written to remote storage.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.perf.fleet import settings
from tests.perf.idle import Api
from tiersnap.jobs.pipeline.run import run
from tiersnap.jobs.pipeline.session import open_session


def main(source: str, folder: str, shape: str, partitions: str) -> None:
    spark = open_session("local[2]", {"spark.ui.enabled": "true", "spark.ui.port": "0"})
    chosen, api = settings(source, Path(folder), upload=False), Api(spark)
    run(spark, chosen)
    with api.measured() as idle:
        assert not run(spark, chosen).counts.segments_decoded
    for number in range(int(partitions)):
        subprocess.run([sys.executable, "-m", "tests.perf.make_log", shape, f"{source}/perf-{number}"], check=True)
    with api.measured() as changed:
        outcome = run(spark, chosen)
    print(json.dumps({"idle": asdict(idle), "changed": asdict(changed), "decoded": outcome.counts.segments_decoded}))


if __name__ == "__main__":
    main(*sys.argv[1:])
