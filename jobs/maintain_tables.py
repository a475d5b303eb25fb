"""The command `tiersnap maintain tables` as a file: `spark-submit …/jobs/maintain_tables.py --warehouse …`."""

from __future__ import annotations

import sys

from tiersnap.jobs.main import main

if __name__ == "__main__":
    main(["maintain", "tables", *sys.argv[1:]])
