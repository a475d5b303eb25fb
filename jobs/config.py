"""`tiersnap config`: every setting, its value and where the value is from."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.core import ParameterSource

from tiersnap.jobs.config_file import commands_of, options_of, variable_of
from tiersnap.jobs.extras import UnavailableCommand
from tiersnap.jobs.kept_options import text_of
from tiersnap.jobs.options import common as params
from tiersnap.jobs.output import Output
from tiersnap.jobs.shown import masked

_SOURCES = {
    ParameterSource.DEFAULT: "default",
    ParameterSource.DEFAULT_MAP: "file",
    ParameterSource.ENVIRONMENT: "environment",
}


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
    rows = [row for name in names for row in _rows(ctx, name, known[name])]
    output.rows("config", rows, columns=("command", "setting", "value", "source", "variable"))
    for name in names:
        if isinstance(command := known[name], UnavailableCommand):
            output.talk(f"not shown: {command.reason}")
    return 0


def _rows(ctx: click.Context, name: str, command: click.Command) -> Iterator[dict[str, object]]:
    root = ctx.find_root()
    *groups, word = name.split()
    for each in groups:
        root = click.Context(click.Group(each), parent=root, info_name=each)
    # Resilient parsing takes the values and leaves required options and callbacks alone.
    with command.make_context(word, [], parent=root, resilient_parsing=True) as own:
        for setting, option in options_of(command).items():
            parameter = str(option.name)
            source = own.get_parameter_source(parameter)
            value = own.params.get(parameter)
            yield {
                "command": name,
                "setting": setting,
                "value": _text(option, value),
                "source": _SOURCES.get(source, "default") if source else "default",
                "variable": variable_of(setting),
            }


def _text(option: click.Option, value: object) -> str | None:
    """The value as it would be written, without secrets; None where there is none."""
    if hasattr(option.type, "text") and (value is not None or option.default is not None):
        return str(option.type.text(value))
    if value is None or value == ():
        return None
    if isinstance(value, tuple):
        return masked(", ".join(map(str, value)))
    return text_of(option, value)
