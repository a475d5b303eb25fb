"""The command that is running, and those that it names as next steps, with the options that it was given."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tiersnap.jobs.escaped_text import masked
from tiersnap.jobs.settings import NOT_SETTINGS, long_options

if TYPE_CHECKING:
    from tiersnap.snapshot.gate.commands import Place

NAMED = (
    *("run", "tier", "repair", "verify", "publish", "doctor", "simulate"),
    *("transactions find-hanging", "maintain remove-orphans"),
)
# Filled in where a command is shown, said each time, or of this one run's own output.
_NOT_KEPT = {
    *("source", "remote", "warehouse", "report", "to", "output", "spark-conf", "by"),
    *("metrics-file", "metrics-by-partition", "pushgateway", "openlineage"),
}
UNKNOWN_REMOTE = "s3://bucket/prefix"
_NOT_GIVEN = (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


def kept_options(ctx: click.Context) -> dict[str, tuple[str, ...]]:
    """By command the words of those options of `ctx` that it has as well; secrets are masked.

    What a file of settings says is said by it again, so only the command line and the environment count.
    """
    names = _names(ctx.command) - _NOT_KEPT
    given = {option: words for option, words in given_options(ctx).items() if option in names}
    root = ctx.find_root()
    found: dict[str, tuple[str, ...]] = {}
    for name in NAMED if isinstance(root.command, click.Group) else ():
        command: click.Command | None = root.command
        for word in name.split():
            command = command.get_command(root, word) if isinstance(command, click.Group) else None
        known = set() if command is None else _names(command)
        words = tuple(word for option, words in given.items() if option in known for word in words)
        if words:
            found[name] = words
    return found


def _names(command: click.Command) -> set[str]:
    return long_options(command).keys() - (NOT_SETTINGS - {"replace", "now"})


def given_options(ctx: click.Context) -> dict[str, tuple[str, ...]]:
    """By long name, without dashes, the words of each option that the command line or the environment gave `ctx`."""
    found: dict[str, tuple[str, ...]] = {}
    for param in ctx.command.params:
        names = [name for name in (*param.opts, *param.secondary_opts) if name.startswith("--")]
        option = names[0].removeprefix("--") if names else ""
        value = ctx.params.get(str(param.name))
        if not isinstance(param, click.Option) or not option or value is None:
            continue
        if ctx.get_parameter_source(str(param.name)) in _NOT_GIVEN:
            continue
        if isinstance(value, bool):
            found[option] = (names[0],) if value else tuple(param.secondary_opts)
        else:
            values = value if isinstance(value, tuple) else (value,)
            found[option] = tuple(word for each in values for word in (names[0], text_of(param, each)))
    return found


def text_of(option: click.Option, value: object) -> str:
    """A value as it would be written anywhere, without secrets."""
    if hasattr(option.type, "text"):
        return str(option.type.text(value))
    if isinstance(value, Path):
        return masked(str(value.absolute()))
    return masked(str(getattr(value, "pattern", getattr(value, "name", value))))


def again(*flags: str, without: Container[str] = ()) -> str:
    """Return the whole line for a shell, with `flags` besides what was given, `without` some (long names, no dashes).

    Secrets are masked.
    """
    ctx = click.get_current_context()
    name, *words = ctx.command_path.split()
    given = given_options(ctx)
    words += [*_arguments(ctx), *(word for option, each in given.items() if option not in without for word in each)]
    config = given_options(ctx.find_root()).get("config", ())
    # A value may equal another word.
    more = (flag for flag in flags if not (flag.startswith("--") and flag in words))
    return shlex.join([name, *config, *words, *more])


def _arguments(ctx: click.Context) -> Iterator[str]:
    for param in ctx.command.params:
        if isinstance(param, click.Argument):
            value = ctx.params[str(param.name)]
            yield from map(str, value if isinstance(value, tuple) else (value,))


def host_place(log_dirs: Sequence[str], remote: str) -> Place:
    """Return the place of the next steps of a command that tiers from this host itself; `remote` is as it was given."""
    return _place_of_host(log_dirs, shlex.split(again(without={"apply"}))[1:], remote)


def host_place_of_scan(log_dirs: Sequence[str], remote: str | None = None) -> Place:
    """Return the place of the next steps of a command that tiers nothing: they name `tier` with its own options."""
    options = kept_options(click.get_current_context()).get("tier", ())
    return _place_of_host(log_dirs, ["tier", *log_dirs, *options, "--remote", remote or UNKNOWN_REMOTE], remote or "")


def _place_of_host(log_dirs: Sequence[str], tier: Sequence[str], remote: str) -> Place:
    from tiersnap.snapshot.gate.commands import Place
    from tiersnap.snapshot.gate.next_step import Hole

    ctx = click.get_current_context()
    server = given_options(ctx).get("bootstrap-server", ())[1:]
    values = {Hole.LOG_DIRS: log_dirs, Hole.REMOTE: (remote or UNKNOWN_REMOTE,), Hole.SERVER: server}
    return Place(tier, values, kept_options(ctx))
