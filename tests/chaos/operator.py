"""tiersnap beside the cluster: real commands in processes of their own, again and again, some of them killed."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.chaos.cluster import TOPICS, Cluster
from tests.chaos.history import History
from tests.chaos.schedule import NODES

OURS = "|".join(topic for topic, settings in TOPICS.items() if "remote.log.copy.disable" in settings)
COPIED = "|".join(topic for topic in TOPICS if topic not in OURS.split("|"))
HANGS_AFTER = 300.0  # seconds, on a loaded machine
HELD = 20.0  # seconds: brokers elect another leader in the meantime, if need be
_SETTLED, _OLD = 30.0, 3 * 86_400.0  # seconds
_ORPHANS = ("maintain", "remove-orphans", "--older-than", "1d", "--apply")
_running: set[subprocess.Popen[str]] = set()


class Harm(NamedTuple):
    """What comes to a command, so many seconds after its start: it is killed, or held while the world goes on."""

    killed: float | None = None
    held: float | None = None


UNHARMED = Harm()


def run_command(
    history: History,
    *words: object,
    harm: Harm = UNHARMED,
    node: int | None = None,
    hangs_after: float = HANGS_AFTER,
) -> tuple[int | None, str]:
    """Exit code (None if it was killed) and stdout of `tiersnap --output json WORDS`; told as `ran`."""
    command = [sys.executable, "-m", "tests.reference.tiersnap", "--output", "json", *map(str, words)]
    began, killed, hung, held = time.monotonic(), False, False, False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _running.add(process)
        try:
            held = harm.held is not None and _hold(process, harm.held)
            out, err = process.communicate(timeout=harm.killed or hangs_after)
        except subprocess.TimeoutExpired:
            killed, hung = True, harm.killed is None
            process.kill()
            out, err = process.communicate()
        finally:
            _running.discard(process)
    history.tell(
        "ran",
        words=[str(word) for word in words],
        node=node,
        exit_code=None if killed else process.returncode,
        killed=killed and not hung,
        hung=hung,
        held=held,
        seconds=round(time.monotonic() - began, 2),
        error=err[-2000:],
    )
    return (None if killed else process.returncode), out


def _hold(process: subprocess.Popen[str], after: float) -> bool:
    """Stop it `after` seconds for HELD seconds; False if it had ended by then."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)
        return False
    process.send_signal(signal.SIGSTOP)
    time.sleep(HELD)
    process.send_signal(signal.SIGCONT)
    return True


def end_running() -> None:
    """Kill the commands that still run, when the run itself is cut short."""
    for process in tuple(_running):
        process.kill()


def age(folder: Path) -> None:
    """Let remote storage's clock jump by three days for all that has been there for half a minute."""
    before = time.time() - _SETTLED
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_mtime < before:
                os.utime(path, (before - _OLD, before - _OLD))


def sources(cluster: Cluster, *nodes: int) -> tuple[object, ...]:
    """Words that name all log directories of these hosts."""
    return tuple(word for node in nodes for log_dir in cluster.log_dirs(node) for word in ("--source", log_dir))


def unblock_words(cluster: Cluster, node: int, topics: str) -> tuple[object, ...]:
    """`unblock` for the replicas of one host."""
    where = ("--remote", cluster.remote, "--layout", "local-tiered-storage", "--bootstrap-server", cluster.bootstrap)
    return ("unblock", *cluster.log_dirs(node), *where, "--topic", topics, "--apply")


@dataclass(eq=False)
class Operator(threading.Thread):
    """Somebody who types commands of the hosts' way until `stop`; a fault's own repair waits for nothing here.

    A quarter of them is killed, an eighth is held, and somebody else goes on meanwhile.
    """

    history: History
    cluster: Cluster
    seed: int
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._chance = random.Random(self.seed)

    def run(self) -> None:
        held: threading.Thread | None = None
        while not self.stop.is_set():
            action = self._chance.choices((self.tier, self.publish, self.unblock, self.orphans), (5, 3, 3, 1))[0]
            node, end, after = self._chance.choice(NODES), self._chance.random(), self._chance.uniform(0.8, 5.0)
            if end < 0.25:
                action(node, harm=Harm(killed=after))
            elif end < 0.375 and (held is None or not held.is_alive()):
                held = threading.Thread(target=action, args=(node,), kwargs={"harm": Harm(held=after)}, daemon=True)
                held.start()
            else:
                action(node)
            time.sleep(self._chance.uniform(0.2, 1.5))
        if held is not None:
            held.join()

    def tier(self, node: int, *, jumps: bool = True, harm: Harm = UNHARMED) -> None:
        """Each log directory of a host; where the clock `jumps` it may be two days slow, or six hours fast."""
        for source in self.cluster.log_dirs(node):
            off = datetime.timedelta(days=self._chance.choice((0, 0, -2, 0.25)) if jumps else 0)
            now = (datetime.datetime.now(datetime.UTC) + off).isoformat()
            self._run("tier", source, *self._remote(), "--topic", OURS, "--now", now, harm=harm)

    def publish(self, node: int = 0, *, harm: Harm = UNHARMED) -> None:
        self._run("publish", *self._remote(), *self._server(), "--topic", OURS, harm=harm)

    def unblock(self, node: int, *, topics: str = COPIED, harm: Harm = UNHARMED) -> None:
        run_command(self.history, *unblock_words(self.cluster, node, topics), harm=harm)

    def orphans(self, node: int = 0, *, harm: Harm = UNHARMED) -> None:
        age(self.cluster.remote)
        words = (*_ORPHANS, "--remote", self.cluster.remote, "--bootstrap-server", self.cluster.bootstrap)
        run_command(self.history, *words, harm=harm)

    def _run(self, *words: object, harm: Harm) -> None:
        run_command(self.history, *words, "--apply", harm=harm)

    def _remote(self) -> tuple[object, ...]:
        return ("--remote", self.cluster.remote, "--layout", "local-tiered-storage")

    def _server(self) -> tuple[str, str]:
        return ("--bootstrap-server", self.cluster.bootstrap)
