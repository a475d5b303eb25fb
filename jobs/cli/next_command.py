"""Build the command lines that a command prints as next steps, with the options that the user gave."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tiersnap.jobs.cli.settings import NOT_SETTINGS, long_options
from tiersnap.snapshot.masking import masked, masked_uri

if TYPE_CHECKING:
    from tiersnap.jobs.situation.situation import Situation
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.gate.step_template import Hole

NAMED = (
    *("run", "tier", "repair", "verify", "publish", "unblock", "mend", "simulate", "doctor", "scan"),
    *("transactions find-hanging", "maintain remove-orphans"),
)
_LOCATION = ("remote", "layout", "endpoint-url", "region", "path-style", "checksums")
_CLUSTER = ("bootstrap-server", "command-config")
# Options that no next step copies: the step sets its own value, or the option concerns only the output of this command.
_NOT_KEPT = {
    *("source", "remote", "warehouse", "report", "to", "output", "spark-conf", "by", "remote-checks"),
    *("metrics-file", "metrics-by-partition", "pushgateway", "openlineage", "no-upload"),
}
_NOT_GIVEN = (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


def kept_options(ctx: click.Context) -> dict[str, tuple[str, ...]]:
    """Return the words of the user's options that each command in NAMED accepts, by command name.

    Options that a settings file set are left out, because the next command reads the same file. The options of the
    remote location (_LOCATION) are returned even if a settings file set them. Secrets are masked.
    """
    given = given_options(ctx, of_file=_LOCATION)
    names = given.keys() & (_names(ctx.command) - _NOT_KEPT)
    found: dict[str, tuple[str, ...]] = {}
    for name in NAMED:
        command = _find_command(ctx.find_root(), name)
        if command is None:
            continue
        shared = names & _names(command)
        words = _words_of(given, filter(shared.__contains__, given))
        if words:
            found[name] = words
    return found


def _find_command(root: click.Context, name: str) -> click.Command | None:
    command: click.Command | None = root.command
    for word in name.split():
        if not isinstance(command, click.Group):
            return None
        command = command.get_command(root, word)
    return command


def _words_of(given: Mapping[str, Sequence[str]], options: Iterable[str]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(given.get(option, ()) for option in options))


def _names(command: click.Command) -> set[str]:
    return long_options(command).keys() - (NOT_SETTINGS - {"replace", "now"})


def given_options(ctx: click.Context, *, of_file: Container[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return the options that the command line or the environment set, as words, by long name without dashes.

    Args:
        ctx: context of the command.
        of_file: long names of options to return even if a settings file set them.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, option in long_options(ctx.command).items():
        value = ctx.params.get(str(option.name))
        source = ctx.get_parameter_source(str(option.name))
        is_of_file = source is ParameterSource.DEFAULT_MAP and name in of_file
        is_given = is_of_file or source not in _NOT_GIVEN
        if is_given and _is_written(option, value):
            found[name] = _as_written(f"--{name}", option, value)
    return found


def _as_written(name: str, option: click.Option, value: object) -> tuple[str, ...]:
    if value is False:
        return tuple(option.secondary_opts)
    if value is True:
        return (name,)
    words: list[str] = []
    for each in _values_of(value):
        words += (name, text_of(option, each))
    return tuple(words)


def _values_of(value: object) -> tuple[object, ...]:
    """Return the values of a parameter as a tuple, even if the parameter takes only one value."""
    return value if isinstance(value, tuple) else (value,)


def _is_written(option: click.Option, value: object) -> bool:
    """Return whether a user can type the value.

    Every value can be typed except None. If the option's type has a method `text`, None can be typed too, such as
    `none` for a DURATION.
    """
    return value is not None or hasattr(option.type, "text")


def text_of(option: click.Option, value: object) -> str:
    """Return a value as a user would type it, with masked secrets."""
    if hasattr(option.type, "text"):
        return str(option.type.text(value))
    if isinstance(value, Path):
        return masked(str(value.absolute()))
    return masked(str(getattr(value, "pattern", getattr(value, "name", value))))


def again(*flags: str, without: Container[str] = ()) -> str:
    """Return the running command as a shell line with masked secrets.

    Args:
        flags: words to append; a flag that the command already has is not repeated.
        without: long names of the options to leave out.
    """
    ctx = click.get_current_context()
    name, *words = ctx.command_path.split()
    words += _arguments(ctx)
    for option, values in given_options(ctx).items():
        if option not in without:
            words += values
    config = given_options(ctx.find_root()).get("config", ())
    # Only flags are left out as repeated. An equal word without dashes may be the value of another option.
    more = [flag for flag in flags if not (flag.startswith("--") and flag in words)]
    return shlex.join([name, *config, *words, *more])


def _arguments(ctx: click.Context) -> Iterator[str]:
    for param in ctx.command.params:
        if isinstance(param, click.Argument):
            value = ctx.params[str(param.name)]
            yield from (masked_uri(str(each)) for each in _values_of(value))


def host_place(log_dirs: Sequence[str], situation: Situation) -> Place:
    """Return the Place for the next steps of a command that uploads segments, such as `tier`.

    If a next step is to upload segments, its command line is that of the running command, with --apply if needed.
    """
    return situation_place(log_dirs, situation, tier=shlex.split(again(without={"apply"}))[1:])


def situation_place(log_dirs: Sequence[str], situation: Situation, *, tier: Sequence[str | Hole] = ()) -> Place:
    """Return the Place for the running command's next steps, with values from the situation for each Hole.

    Args:
        log_dirs: log directories of the command.
        situation: facts about the host.
        tier: see `command_place`.
    """
    from tiersnap.remote_storage.publish.storage_manager import client_words

    broker, remote = situation.broker.value, situation.remote.value or situation.broker_location
    location = [] if remote is None else remote.words
    server = () if broker is None else client_words(broker.values)
    return command_place(log_dirs, location=location, cluster=server, tier=tier)


def command_place(
    log_dirs: Sequence[str] = (),
    *,
    location: Sequence[str] | None = None,
    cluster: Sequence[str] = (),
    tier: Sequence[str | Hole] = (),
) -> Place:
    """Return the Place for the running command's next steps. It has the values that replace each Hole in a step.

    Args:
        log_dirs: log directories of the command.
        location: URI and options of the remote location (RemoteView.words); None for the options that the user gave.
        cluster: options of the cluster; used only if the user did not give --bootstrap-server.
        tier: words of the step that uploads segments. [default: `tier` with the log directories and --remote]
    """
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.gate.step_template import Hole

    ctx = click.get_current_context()
    given = given_options(ctx, of_file={*_LOCATION, *_CLUSTER})
    if location is None:
        location = _words_of(given, _LOCATION)[1:] if "remote" in given else ()
    server = _words_of(given, _CLUSTER) or tuple(cluster)
    shown = tuple(map(masked_uri, log_dirs))
    sources: list[str] = []
    for each in shown:
        sources += ("--source", each)
    values = {
        Hole.LOG_DIRS: shown,
        Hole.SOURCES: tuple(sources),
        Hole.REMOTE: tuple(map(masked, location)),
        Hole.CLUSTER: server,
        Hole.SERVER: server[1:2],
    }
    return Place(tier or ("tier", Hole.LOG_DIRS, "--remote", Hole.REMOTE), values, kept_options(ctx))
