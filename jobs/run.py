"""The main job as a file for spark-submit: `spark-submit …/jobs/run.py --source …`; see `tiersnap run`."""

from __future__ import annotations

import sys

from tiersnap.jobs.main import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
