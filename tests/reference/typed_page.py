"""The commands of a page, typed in order, with what each prints."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.reference.command import tiersnap

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class TypedCommand:
    """A line behind `$ ` of a block `console`, and the lines below it."""

    words: str
    shown: tuple[str, ...]


def commands_of(page: Path) -> Iterator[TypedCommand]:
    """Yield the commands of a page in its order."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for words, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            yield TypedCommand(words, tuple(shown.splitlines()))


def type_in(folder: Path, command: TypedCommand) -> tuple[str, ...]:
    """Type a command in a folder, the working one, and return the lines that it prints, without spaces at their ends.

    `tiersnap` runs in this process, anything else in a shell, where it must succeed.
    """
    program, *arguments = shlex.split(command.words)
    if program == "tiersnap":
        ran = tiersnap(*arguments, output="table")
        return tuple(line.rstrip() for line in (ran.out + ran.err).splitlines())
    done = subprocess.run(command.words, shell=True, cwd=folder, capture_output=True, text=True, check=True)
    return tuple(done.stdout.splitlines())
