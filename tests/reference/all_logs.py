"""The bundled logs as one log directory, each topic behind the name of the broker that wrote it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.reference.recovered import DATA

BROKERS = ("kafka-2.7.2", "kafka-3.9.1", "kafka-4.1.1", "ledger-2.7.2")
CHECKPOINTS = ("replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint")


def assemble(log_dir: Path) -> dict[tuple[str, int], Path]:
    """Write the log directory; what Kafka's own classes fold, by partition folder and offset."""
    log_dir.mkdir(parents=True)
    expected = {}
    lines: dict[str, list[str]] = {name: [] for name in CHECKPOINTS}
    for broker in BROKERS:
        logs = DATA / broker / "logs"
        for folder in logs.glob("*-[0-9]*"):
            shutil.copytree(folder, log_dir / f"{broker}.{folder.name}")
        for name in CHECKPOINTS:
            if (logs / name).exists():
                lines[name] += [f"{broker}.{line}" for line in (logs / name).read_text().splitlines()[2:]]
        for path in (DATA / broker / "expected").glob("*/*.snapshot"):
            expected[f"{broker}.{path.parent.name}", int(path.stem)] = path
    for name, found in lines.items():
        (log_dir / name).write_text("".join(f"{line}\n" for line in ("0", str(len(found)), *found)))
    return expected
