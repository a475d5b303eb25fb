"""The log directories that both revisions get, each a fresh copy with the same times."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.reference.all_logs import assemble
from tests.reference.random_log import write_random_partition
from tests.reference.recovered import DATA

GENERATED = 200
NAMES = ("all", "kafka-3.9.1", "ledger-2.7.2", "generated")
_TIME = 1_763_728_000  # file times count where a segment holds no timestamp


def make(folder: Path) -> dict[str, Path]:
    """Write the log directories below `folder`; paths by name."""
    made = {name: folder / name for name in NAMES}
    assemble(made["all"])
    for name in NAMES[1:3]:
        shutil.copytree(DATA / name / "logs", made[name])
    made["generated"].mkdir()
    for seed in range(GENERATED):
        write_random_partition(made["generated"], f"random{seed:03d}", seed)
    for path in sorted(folder.rglob("*")):
        os.utime(path, (_TIME, _TIME))
    return made


def copy(source: Path, target: Path) -> Path:
    """Copy a log directory with its times."""
    return Path(shutil.copytree(source, target, symlinks=True))
