"""The command `tiersnap run` as a file: `spark-submit …/jobs/run.py --source …`."""

from __future__ import annotations

import sys

from tiersnap.jobs.main import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
