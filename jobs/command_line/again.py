"""The command that is running, for somebody who is to type it once more."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click

from tiersnap.jobs.command_line.kept_options import given_options


def again(*flags: str) -> str:
    """The whole line for a shell, with `flags` besides what was given; secrets are masked."""
    ctx = click.get_current_context()
    name, *words = ctx.command_path.split()
    words += [*_arguments(ctx), *(word for option in given_options(ctx).values() for word in option)]
    config = given_options(ctx.find_root()).get("config", ())
    return shlex.join([name, *config, *words, *(flag for flag in flags if flag not in words)])


def _arguments(ctx: click.Context) -> Iterator[str]:
    for param in ctx.command.params:
        if isinstance(param, click.Argument):
            value = ctx.params[str(param.name)]
            yield from map(str, value if isinstance(value, tuple) else (value,))
