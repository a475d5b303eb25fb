"""The main job beside the storm: `tiersnap run` over all three hosts' directories, again and again on one warehouse."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field

from tests.chaos.cluster import Cluster
from tests.chaos.history import History
from tests.chaos.operator import OURS, run_command
from tests.chaos.schedule import NODES

_ENDS_WITHIN = 900.0  # seconds, on a machine that brokers and a storm load
_REST = 60.0  # seconds: a run's start alone takes half a minute of two processors


@dataclass(eq=False)
class SparkRuns(threading.Thread):
    """Runs until `stop`, a quarter of them killed."""

    history: History
    cluster: Cluster
    seed: int
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._chance = random.Random(self.seed)

    def run(self) -> None:
        while not self.stop.is_set():
            kill_after = self._chance.uniform(10, 90) if self._chance.random() < 0.25 else None
            run_command(self.history, *self._words(), kill_after=kill_after, hangs_after=_ENDS_WITHIN)
            self.stop.wait(self._chance.uniform(0.5, 1.5) * _REST)

    def _words(self) -> tuple[object, ...]:
        """Of the replicas that lie in the sources the leaders' are taken, which the cluster is asked for."""
        sources = [word for node in NODES for log_dir in self.cluster.log_dirs(node) for word in ("--source", log_dir)]
        tables = ("--warehouse", self.cluster.root / "warehouse", "--report", self.cluster.root / "report")
        where = ("--remote", self.cluster.remote, "--layout", "local-tiered-storage")
        asked = ("--bootstrap-server", self.cluster.bootstrap)
        return ("run", *sources, *where, *tables, *asked, "--topic", OURS, "--apply")
