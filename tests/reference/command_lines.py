"""Command lines as pages and files show them, parsed by the real command without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.main import cli

# What may stand before and behind the words of `tiersnap` in a line of shell.
_END = {"&&", "||", "|", ";", ">", ">/dev/null", "2>/dev/null"}


def words_of(line: str) -> list[str] | None:
    """What `tiersnap` is given in a line of shell; None if it is not called there."""
    words = shlex.split(line, comments=True)
    places = [number for number, word in enumerate(words) if Path(word).name in ("tiersnap", "tiersnap.pex")]
    if not places:
        return None
    after = words[places[0] + 1 :]
    return after[: next((number for number, word in enumerate(after) if word in _END), len(after))]


def parse(words: Iterable[str]) -> dict[str, object]:
    """Values of the options of the command that is called; errors as of `context_of`."""
    return dict(context_of(words).params)


def context_of(words: Iterable[str]) -> click.Context:
    """The command that is called, with its options.

    Raises:
        click.ClickException: the command does not take the words.
    """
    context = cli.make_context("tiersnap", list(words), obj=Output())
    with context:
        command: click.Command = cli
        while isinstance(command, click.Group):
            left = [*context._protected_args, *context.args]
            found = command.get_command(context, left[0])
            if found is None:
                raise click.UsageError(f"no such command: {left[0]}")
            command = found
            context = command.make_context(left[0], left[1:], parent=context)
        return context


def commands_in(markdown: str) -> Iterator[str]:
    """Lines that call `tiersnap` with an argument: in blocks of code, and between back-ticks."""
    blocks = re.findall(r"^ *```[a-z]*\n(.*?)^ *```", markdown, re.MULTILINE | re.DOTALL)
    for block in blocks:
        joined = block.replace("\\\n", " ")
        for line in joined.splitlines():
            text = line.strip().removeprefix("$ ")
            if re.match(r"(sudo |[A-Z_]+=\S+ )*(\S*/)?tiersnap(\.pex)? ", text):
                yield text
    prose = re.sub(r"^ *```[a-z]*\n.*?^ *```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`([^`]+)`", prose):
        text = " ".join(code.split())
        if re.match(r"(sudo -u \S+ )?tiersnap ", text):
            yield text
