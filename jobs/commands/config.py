"""`tiersnap config`: print every setting, its value and its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import click
from click.core import ParameterSource

from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import text_of
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.settings import commands_of, options_of, variable_of
from tiersnap.snapshot.masking import masked

_SOURCES = {ParameterSource.DEFAULT_MAP: "file", ParameterSource.ENVIRONMENT: "environment"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of `config`; the value is written as in a settings file."""

    COLUMNS: ClassVar = ("command", "setting", "value", "source", "variable")
    command: str
    setting: str
    value: str | None
    source: str
    variable: str


@command(Setting)
@click.argument("commands", nargs=-1)
@click.pass_context
def config(ctx: click.Context, output: Output, commands: tuple[str, ...]) -> None:
    """Show the settings of COMMANDS, or of all commands: value, source, and environment variable.

    tiersnap config run
    tiersnap --config tiersnap.yaml config tier run

    The command line overrides TIERSNAP_… variables. Variables override the file of --config. The file overrides
    defaults.
    """
    group = ctx.find_root().command
    assert isinstance(group, click.Group)
    known = commands_of(ctx, group)
    for name in commands:
        if name not in known:
            raise click.UsageError(f"no such command: {name}; the commands are {', '.join(known)}")
    rows: list[Setting] = []
    for name in commands or [each for each in known if each != "config"]:
        rows += _settings(ctx, name, known[name])
    output.rows(Setting, rows)


def _settings(ctx: click.Context, name: str, of: click.Command) -> Iterator[Setting]:
    """Yield the settings of one command. `name` begins with the names of the command's groups."""
    root = ctx.find_root()
    *groups, word = name.split()
    for each in groups:
        root = click.Context(click.Group(each), parent=root, info_name=each)
    # With resilient parsing, click reads the values, but requires no option and calls no callback.
    with of.make_context(word, [], parent=root, resilient_parsing=True) as own:
        for setting, option in options_of(of).items():
            parameter = str(option.name)
            source = own.get_parameter_source(parameter)
            value = _text(option, own.params.get(parameter))
            where = "default"
            if source is not None:
                where = _SOURCES.get(source, where)
            yield Setting(name, setting, value, where, variable_of(setting))


def _text(option: click.Option, value: object) -> str | None:
    """Return a value as a user would type it, with masked secrets; None if the setting has no value."""
    has_text = value is not None or isinstance(option.default, str)
    if has_text and hasattr(option.type, "text"):
        return str(option.type.text(value))
    if value is None or value == ():
        return None
    if isinstance(value, tuple):
        return masked(", ".join(map(str, value)))
    return text_of(option, value)
