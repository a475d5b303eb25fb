"""The main job beside the storm: `tiersnap run` over all three hosts' directories, again and again on one warehouse."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.operator import OURS, UNHARMED, Harm, Operator, run_command, sources
from tests.chaos.schedule import NODES

_ENDS_WITHIN = 900.0  # seconds, on a machine that brokers and a storm load
_REST = 60.0  # seconds: a run's start alone takes half a minute of two processors


@dataclass(eq=False)
class SparkRuns(Operator):
    """Somebody who types that one command, a quarter of the times killed."""

    def run(self) -> None:
        while not self.stop.is_set():
            harm = Harm(killed=self._chance.uniform(10, 90)) if self._chance.random() < 0.25 else UNHARMED
            run_command(self.history, *self._words(), harm=harm, hangs_after=_ENDS_WITHIN)
            self.stop.wait(self._chance.uniform(0.5, 1.5) * _REST)

    def _words(self) -> tuple[object, ...]:
        """Of the replicas that lie in the sources the leaders' are taken, which the cluster is asked for."""
        root = self.cluster.root
        places = (*sources(self.cluster, *NODES), *self._remote(), "--warehouse", root / "warehouse")
        return ("run", *places, "--report", root / "report", *self._server(), "--topic", OURS, "--apply")
