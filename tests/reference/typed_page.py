"""The commands of a page, typed in order, with the lines that the page shows of each output."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.reference.command import tiersnap

ROOT = Path(__file__).parents[2]
OMITTED = "…"  # a line of a page in place of lines that it omits
# What differs from run to run and from host to host.
_VARYING = (
    (re.compile(r"^/\S+/"), "/…/"),
    (re.compile(r"\S+ [KMGT]iB are free"), "… are free"),
    (re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"(?<=  )[\w-]{22}(?=  )"), "SEGMENT"),
)


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


def alike(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines with ids of runs and segments, folders and free space alike."""
    found = list(lines)
    for pattern, word in _VARYING:
        found = [pattern.sub(word, line) for line in found]
    return tuple(found)


def shows(shown: Iterable[str], printed: Iterable[str]) -> bool:
    """Return True if the lines of a page are those that were printed, but for lines that the page omits."""
    pattern = "".join(r"(?:.*\n)+" if line == OMITTED else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


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
