"""What `config` shows: a row a setting."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.core import ParameterSource

from tiersnap.jobs.again import text_of
from tiersnap.jobs.settings import options_of, variable_of
from tiersnap.jobs.shown import masked

_SOURCES = {
    ParameterSource.DEFAULT: "default",
    ParameterSource.DEFAULT_MAP: "file",
    ParameterSource.ENVIRONMENT: "environment",
}


def setting_rows(ctx: click.Context, name: str, command: click.Command) -> Iterator[dict[str, object]]:
    """The settings of one command, by its words: value, source, and the variable that sets it."""
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
