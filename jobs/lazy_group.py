"""A group of commands that imports each when it is called, gives it its variables and checks its settings."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from difflib import get_close_matches

import click

from tiersnap.jobs.commands import COMMANDS, MERGED
from tiersnap.jobs.extras import UnavailableCommand, missing_extra
from tiersnap.jobs.settings import leaves, options_of, variable_of
from tiersnap.jobs.shown import refuse_credentials


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a working day."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the command."""
        if cmd_name not in COMMANDS:
            return None
        summary = COMMANDS[cmd_name]
        try:
            command: click.Command = getattr(importlib.import_module(f"tiersnap.jobs.commands.{cmd_name}"), cmd_name)
        except ImportError as error:
            missing = missing_extra(error, f"tiersnap {cmd_name}")
            if missing is None:
                raise
            return UnavailableCommand(cmd_name, summary, missing)
        for each in leaves(ctx, cmd_name, command).values():
            for setting, option in options_of(each).items():
                # One variable for one setting, whatever the command: TIERSNAP_REMOTE, not TIERSNAP_RUN_REMOTE.
                option.envvar = variable_of(setting)
            if each.callback is not None:
                each.callback = _Checked.of(each.callback)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or the names that are near what was typed."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = [MERGED[args[0]]] if args[0] in MERGED else get_close_matches(args[0], COMMANDS, n=3)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


class _Checked:
    """A command that refuses settings with a password in them, wherever they are from."""

    def __init__(self, command: Callable[..., object]) -> None:
        self._command = command

    @classmethod
    def of(cls, command: Callable[..., object]) -> _Checked:
        """The command, checked once."""
        return command if isinstance(command, cls) else cls(command)

    def __call__(self, *args: object, **settings: object) -> object:
        for name, value in settings.items():
            refuse_credentials(f"--{name.replace('_', '-')}", value)
        return self._command(*args, **settings)
