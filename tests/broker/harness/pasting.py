"""A person at a broker's host who types `tiersnap doctor`, pastes the commands that it prints, and types it again.

The screen is a script: each command has a line to itself, and the lines behind `#` are for the person. Some of these
tell what no command can do, such as stopping the broker: `by_hand` names them by their words. If the last command is
`tiersnap doctor` again, the person goes on with that one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.harness.broker import Broker

ROOT = Path(__file__).parents[3]
MOST_ROUNDS = 5
SECONDS = 300
_COMMAND = f"""#!/bin/sh
exec {sys.executable} -m tests.broker.harness.command_of_host "$@"
"""
Acts = Mapping[str, Callable[[], object]]
"""What a person does for a line that begins with these words."""


@dataclass(frozen=True)
class Typed:
    """A line that was typed or an act by hand, and the exit code of the line."""

    line: str
    exit_code: int | None = None
    out: str = ""


@dataclass
class Cure:
    """What a person did until `doctor` ended with 0, or printed nothing new."""

    typed: list[Typed] = field(default_factory=list)
    seconds: float = 0.0
    rounds: int = 0

    @property
    def ended_with(self) -> int | None:
        """Return the exit code of the last line."""
        return self.typed[-1].exit_code

    def acts(self) -> list[str]:
        """Return what was done by hand, up to the reason."""
        return [re.split(r"[:;,]| \(", each.line)[0] for each in self.typed if each.exit_code is None]

    def commands(self) -> list[tuple[str, int]]:
        """Return the name of each command with its exit code; `--apply` is named, as it makes another of it."""
        return [
            (f"{each.line.split()[1]}{' --apply' * ('--apply' in each.line)}", each.exit_code)
            for each in self.typed
            if each.exit_code is not None
        ]


class Host:
    """The host of one broker, below `root`."""

    def __init__(self, broker: Broker, root: Path) -> None:
        self.broker = broker
        self.root = root
        self._bin, self._proc = root / "bin", root / "proc"
        self._bin.mkdir(parents=True)
        command = self._bin / "tiersnap"
        command.write_text(_COMMAND)
        command.chmod(0o755)

    def type_in(self, line: str) -> Typed:
        """Run a line in a shell of the host."""
        self._proc.mkdir(exist_ok=True)
        for each in self._proc.iterdir():
            each.unlink()
        for name in ("stat", *([str(self.broker.pid)] if self.broker.running else [])):
            (self._proc / name).symlink_to(Path("/proc", name))
        environment = {
            **os.environ,
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PROC_OF_HOST": str(self._proc),
        }
        shell = ["bash", "-c", line]
        ran = subprocess.run(
            shell, env=environment, cwd=self.root, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        print(f"\n$ {line}   [{ran.returncode}]", ran.stdout + ran.stderr, sep="\n")
        return Typed(line, ran.returncode, ran.stdout)

    def server_properties(self) -> Path:
        """Return the server.properties of the present or last start."""
        return max(self.broker.disks.output_dir.glob("*.properties"), key=lambda path: path.stat().st_mtime_ns)


def script_of(screen: str) -> list[str]:
    """Return the lines of doctor's next steps: commands, and comments behind `#`."""
    found = re.search(r"^# Next:\n(.*?)(?:\n\n|\Z)", screen, re.MULTILINE | re.DOTALL)
    return found[1].splitlines() if found else []


def cured(host: Host, doctor: str, by_hand: Acts, filled: Mapping[str, str] | None = None) -> Cure:
    """Paste until `doctor` ends with 0 or prints nothing new.

    Args:
        filled: what the person writes in place of words that no command can know.
    """
    cure, began, before = Cure(), time.monotonic(), None
    while cure.rounds < MOST_ROUNDS:
        cure.rounds += 1
        cure.typed.append(asked := host.type_in(doctor))
        script = script_of(asked.out)
        if asked.exit_code == 0 or script == before:
            break
        before = script
        if script and script[-1].startswith("tiersnap doctor "):
            doctor = script.pop()
        for line in script:
            cure.typed.extend(_followed(host, line, by_hand, filled or {}))
    cure.seconds = time.monotonic() - began
    return cure


def _followed(host: Host, line: str, by_hand: Acts, filled: Mapping[str, str]) -> Iterator[Typed]:
    """Do what a line says: paste a command, or act."""
    if line.startswith("#"):
        for words, act in by_hand.items():
            if line.startswith(f"# {words}"):
                act()
                yield Typed(line.removeprefix("# "))
        return
    for words, value in filled.items():
        if words in line:
            line = line.replace(words, value)
            yield Typed(f"fill in {words}")
    yield host.type_in(line)
