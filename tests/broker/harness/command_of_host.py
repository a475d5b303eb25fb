"""The `tiersnap` command on a host of one broker: its /proc has no other broker of this machine."""

import os
from pathlib import Path

from tiersnap.jobs.cli import situation_options
from tiersnap.jobs.main import main

situation_options.PROC = Path(os.environ["PROC_OF_HOST"])
main()
