"""`tiersnap config`: every setting, its value and where the value is from."""

from __future__ import annotations

import click

from tiersnap.jobs.extras import UnavailableCommand
from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.output import Output
from tiersnap.jobs.settings import commands_of
from tiersnap.jobs.tell.config import setting_rows


@click.command()
@click.argument("commands", nargs=-1)
@params.output_option
@click.pass_context
def config(ctx: click.Context, commands: tuple[str, ...]) -> int:
    """Show the settings of COMMANDS (all without any): value, source, and the variable that sets it.

    A flag on the command line wins over TIERSNAP_… variables, those over the file of --config, that over defaults.
    """
    group = ctx.find_root().command
    assert isinstance(group, click.Group)
    output = ctx.find_object(Output)
    assert output is not None
    known = commands_of(ctx, group)
    for name in commands:
        if name not in known:
            raise click.UsageError(f"no such command: {name}; known are {', '.join(known)}")
    names = commands or [name for name in known if name != "config"]
    rows = [row for name in names for row in setting_rows(ctx, name, known[name])]
    output.row_dicts("config", rows, columns=("command", "setting", "value", "source", "variable"))
    for name in names:
        if isinstance(command := known[name], UnavailableCommand):
            output.talk(f"not shown: {command.reason}")
    return 0
