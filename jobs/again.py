"""The command that is running, for somebody who is to type it once more."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Sequence

import click

from tiersnap.jobs.kept_options import given_options, kept_options
from tiersnap.snapshot.readiness.host_commands import HostCommands


def again(*flags: str, without: Container[str] = ()) -> str:
    """The whole line for a shell, with `flags` besides what was given; secrets are masked.

    Args:
        without: long names, without dashes, of options that are left out.
    """
    ctx = click.get_current_context()
    name, *words = ctx.command_path.split()
    given = given_options(ctx)
    words += [*_arguments(ctx), *(word for option, each in given.items() if option not in without for word in each)]
    config = given_options(ctx.find_root()).get("config", ())
    return shlex.join([name, *config, *words, *(flag for flag in flags if flag not in words)])


def _arguments(ctx: click.Context) -> Iterator[str]:
    for param in ctx.command.params:
        if isinstance(param, click.Argument):
            value = ctx.params[str(param.name)]
            yield from map(str, value if isinstance(value, tuple) else (value,))


def host_commands(log_dirs: Sequence[str], remote: str) -> HostCommands:
    """What the next steps of a command that tiers from this host are filled with: the command itself tiers.

    Args:
        remote: as it was given.
    """
    options = kept_options(click.get_current_context())
    return HostCommands(log_dirs, again(without={"apply"}), remote, options)


def host_commands_of_scan(log_dirs: Sequence[str], remote: str | None = None) -> HostCommands:
    """What the next steps of a command that tiers nothing are filled with: `tier` with the options that it has as well.

    Args:
        remote: as it was given; None where it was not.
    """
    options = kept_options(click.get_current_context())
    words = ["tiersnap", "tier", *log_dirs, *options.get("tier", ()), "--remote", remote or "s3://bucket/prefix"]
    return HostCommands(log_dirs, shlex.join(words), remote or "", options)
