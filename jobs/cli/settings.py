"""Settings from a file: below the environment, which is below the command line.

    # tiersnap.yaml: the long option names, without the dashes in front
    remote: s3://bucket/tiers          # of every command that has --remote
    expiration: 7d
    run:                               # of this command only
      master: spark://spark-master:7077
    maintain remove-orphans:
      older-than: 2d

Click resolves the three, so each option has one type, one default and one error message wherever its value is from.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from tiersnap.jobs.cli.option_types import OnceOption
from tiersnap.snapshot.errors import UsageError

# Options that a settings file may not set: they change data or belong to one call, so the command line must have them.
NOT_SETTINGS = frozenset({"apply", "replace", "above-newest", "now", "print-submit", "help", "version", "config"})
_MOST_BITS = 64


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting; it has only letters, digits and `_`, so that a shell can set it."""
    return f"TIERSNAP_{setting.upper().replace('-', '_').replace('.', '_')}"


def commands_of(ctx: click.Context, group: click.Group) -> dict[str, click.Command]:
    """Return every command of a group by its words; a command of a nested group as `maintain remove-orphans`."""
    found: dict[str, click.Command] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None:
            found |= leaves(ctx, name, command)
    return found


def leaves(ctx: click.Context, name: str, command: click.Command) -> dict[str, click.Command]:
    """Return the command, or the commands of a group, by their words."""
    if not isinstance(command, click.Group):
        return {name: command}
    return {f"{name} {word}": each for word, each in commands_of(ctx, command).items()}


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options that a file may set, by long name without dashes."""
    said_once = _said_once(command)
    return {name: option for name, option in long_options(command).items() if name not in said_once}


def _said_once(command: click.Command) -> set[str]:
    """Return the names of a command's options that a settings file may not set."""
    return {name for name, option in long_options(command).items() if isinstance(option, OnceOption)} | NOT_SETTINGS


def long_options(command: click.Command) -> dict[str, click.Option]:
    """Return the options with a long name, by that name without dashes."""
    found = {}
    for param in command.params:
        name = _long_name(param)
        if name and isinstance(param, click.Option):
            found[name] = param
    return found


def _long_name(param: click.Parameter) -> str:
    """Return the first long name without dashes; "" without one."""
    for name in param.opts:
        if name.startswith("--"):
            return name.removeprefix("--")
    return ""


def _reason(error: Exception) -> str:
    """Return the reason of a parse error without text of the file: PyYAML's messages quote aliases and tags."""
    import yaml

    if isinstance(error, (yaml.scanner.ScannerError, yaml.parser.ParserError)):
        return error.problem or "it cannot be read"
    if isinstance(error, yaml.YAMLError):
        return "quote values that begin with * or !"
    return "no text" if isinstance(error, UnicodeDecodeError) else "an invalid number or date"


def read(path: Path, commands: Mapping[str, click.Command]) -> dict[str, Any]:
    """Return defaults by command and parameter name, groups nested (a click default_map).

    `commands`, by their words, are those whose settings are known.

    Raises:
        UsageError: no such file, not YAML, a key that no command knows, or one without a value; it names the key.
    """
    found = _read_yaml(path)
    known = {name: options_of(command) for name, command in commands.items()}
    defaults: dict[str, dict[str, object]] = {name: {} for name in commands}
    everywhere = {key: value for key, value in found.items() if key not in commands}
    all_names = set(commands).union(*known.values())
    said_once = set[str]().union(*map(_said_once, commands.values()))
    for key, value in everywhere.items():
        _require(str(key), all_names, path, said_once)
        for name, options in known.items():
            if key in options:
                defaults[name][str(options[key].name)] = _value(value, options[key], f"{path}: {key}")
    for name in commands.keys() & found.keys():
        defaults[name] |= _read_section(found[name], name, commands[name], path)
    return _nested(defaults)


def _read_yaml(path: Path) -> dict[Any, Any]:
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="--config names a YAML file") from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # The message has the line number but no content, because the file may hold a secret.
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path}{where}: not YAML: {_reason(error)}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path}: expected `setting: value` lines")
    return found


def _read_section(section: object, name: str, command: click.Command, path: Path) -> dict[str, object]:
    """Return the values of the settings below a command's `name`, by parameter name."""
    if not isinstance(section, dict):
        raise UsageError(f"{path}: {name}: expected `setting: value` lines below it")
    options, values = options_of(command), {}
    for key, value in section.items():
        _require(str(key), set(options), path, _said_once(command), section=name)
        values[str(options[key].name)] = _value(value, options[key], f"{path}: {key} of {name}")
    return values


def _value(value: object, option: click.Option, setting: str) -> object:
    """Return a value as a user would type it, for its option to parse: YAML turned some into numbers.

    Args:
        setting: its file and name, for errors.

    Raises:
        UsageError: there is no value, or the option does not take it.
    """
    if value is None:
        raise UsageError(f"{setting} has no value", hint="give it one, or leave the line out")
    if isinstance(value, list):
        return [_value(each, option, setting) for each in value]
    _refuse_misread(value, option, setting)
    return value if isinstance(value, (bool, dict)) else str(value)


def _refuse_misread(value: object, option: click.Option, setting: str) -> None:
    """Refuse a truth value of an option that is no flag, and a number that no option takes."""
    if isinstance(value, bool) and not option.is_flag:
        raise UsageError(f"{setting} is no flag", hint="a value that reads yes, no, on, off wants quotes")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise UsageError(f"{setting} is too large a number")


def _nested(defaults: Mapping[str, dict[str, object]]) -> dict[str, Any]:
    """Return `{"maintain remove-orphans": …}` as `{"maintain": {"remove-orphans": …}}`."""
    found: dict[str, Any] = {}
    for name, values in defaults.items():
        *groups, last = name.split()
        inner = found
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = values
    return found


def _require(key: str, known: set[str], path: Path, said_once: Collection[str], *, section: str = "") -> None:
    if key in known:
        return
    close = difflib.get_close_matches(key, known, 1)
    where = f" of {section}" if section else ""
    hint = f"did you mean {close[0]}?" if close else "known are: " + ", ".join(sorted(known))
    if key in said_once:
        hint = f"give --{key} on the command line, each time"
    raise UsageError(f"{path}: {key!r} is no setting{where}", hint=hint)
