"""Settings from a YAML file. The environment overrides the file, and the command line overrides the environment.

    # tiersnap.yaml: the long option names, without the dashes in front
    remote: s3://bucket/tiers          # for every command that has --remote
    expiration: 7d
    run:                               # for this command only
      master: spark://spark-master:7077
    maintain remove-orphans:
      older-than: 2d

Click merges these sources, so a value from each source is parsed and checked in the same way.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from tiersnap.jobs.cli.option_types import OnceOption
from tiersnap.snapshot.errors import UsageError

# Options that a settings file may not set: options that change data, and options for a single call of a command.
NOT_SETTINGS = frozenset({"apply", "replace", "above-newest", "now", "print-submit", "help", "version", "config"})
_MOST_BITS = 64


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting. Its name has only letters, digits and `_`, as shells require."""
    return f"TIERSNAP_{setting.upper().replace('-', '_').replace('.', '_')}"


def commands_of(ctx: click.Context, group: click.Group) -> dict[str, click.Command]:
    """Return every command of a group by name; the name of a nested command has two words (`maintain tables`)."""
    found: dict[str, click.Command] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None:
            found |= leaves(ctx, name, command)
    return found


def leaves(ctx: click.Context, name: str, command: click.Command) -> dict[str, click.Command]:
    """Return a dict with the command under its name; for a group, return its subcommands by name."""
    if not isinstance(command, click.Group):
        return {name: command}
    return {f"{name} {word}": each for word, each in commands_of(ctx, command).items()}


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options that a settings file may set, by long name without dashes."""
    found = long_options(command)
    for name in _said_once(command):
        found.pop(name, None)
    return found


def _said_once(command: click.Command) -> set[str]:
    """Return the names of a command's options that a settings file may not set."""
    return {name for name, option in long_options(command).items() if isinstance(option, OnceOption)} | NOT_SETTINGS


def long_options(command: click.Command) -> dict[str, click.Option]:
    """Return the options by long name, without its dashes. Options that have only a short name are left out."""
    found = {}
    for param in command.params:
        name = _long_name(param)
        if name and isinstance(param, click.Option):
            found[name] = param
    return found


def _long_name(param: click.Parameter) -> str:
    """Return the parameter's first long name, without its dashes; "" if the parameter has no long name."""
    for name in param.opts:
        if name.startswith("--"):
            return name.removeprefix("--")
    return ""


def _reason(error: Exception) -> str:
    """Return the reason for a parse error. The file may contain secrets, and PyYAML's own message would quote them."""
    import yaml

    if isinstance(error, (yaml.scanner.ScannerError, yaml.parser.ParserError)):
        return error.problem or "syntax error"
    if isinstance(error, yaml.YAMLError):
        return "put values that begin with * or ! in quotes"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return "invalid number or date"


def read(path: Path, commands: Mapping[str, click.Command]) -> dict[str, Any]:
    """Return the settings of a file as a click default_map: `{"run": {"remote": …}, "maintain": {"tables": {…}}}`.

    Args:
        path: the settings file.
        commands: commands by name. The file may have settings only for these commands.

    Raises:
        UsageError: the file does not exist or is not YAML, a key is unknown, or a key has no value.
    """
    found = _read_yaml(path)
    known = {name: options_of(command) for name, command in commands.items()}
    defaults: dict[str, dict[str, object]] = {name: {} for name in commands}
    all_names = set(commands).union(*known.values())
    said_once = set[str]().union(*map(_said_once, commands.values()))
    for key, value in found.items():
        if key in commands:
            continue
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
        raise UsageError(f"{path}: {error.strerror}", hint="--config takes a YAML file") from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # The message has the line number but no content, because the file may contain a secret.
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path}{where}: not YAML: {_reason(error)}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path}: expected `setting: value` lines")
    return found


def _read_section(section: object, name: str, command: click.Command, path: Path) -> dict[str, object]:
    """Return the settings in a command's section of the file, by parameter name."""
    if not isinstance(section, dict):
        raise UsageError(f"{path}: expected `setting: value` lines below {name}")
    options, values = options_of(command), {}
    for key, value in section.items():
        _require(str(key), set(options), path, _said_once(command), section=name)
        values[str(options[key].name)] = _value(value, options[key], f"{path}: {key} of {name}")
    return values


def _value(value: object, option: click.Option, setting: str) -> object:
    """Return a value as a user would type it, because YAML has turned some values into numbers.

    Args:
        value: the value that YAML read.
        option: the option of the setting.
        setting: file and name of the setting, for errors.

    Raises:
        UsageError: the setting has no value, or a value that YAML misread.
    """
    if value is None:
        raise UsageError(f"{setting} has no value", hint="add a value, or delete the line")
    if isinstance(value, list):
        return [_value(each, option, setting) for each in value]
    _refuse_misread(value, option, setting)
    if isinstance(value, (bool, dict)):
        return value
    return str(value)


def _refuse_misread(value: object, option: click.Option, setting: str) -> None:
    """Raise UsageError for a boolean if the option is no flag, and for an integer of more than 64 bits."""
    if isinstance(value, bool) and not option.is_flag:
        raise UsageError(
            f"{setting}: the value is a YAML boolean, but the option is not a flag",
            hint="to give a text, put the value in quotes: 'yes', 'no', 'on' or 'off'",
        )
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise UsageError(f"{setting}: the number is too large")


def _nested(defaults: Mapping[str, dict[str, object]]) -> dict[str, Any]:
    """Return the settings with one level per word: `{"maintain": {"tables": …}}` for `{"maintain tables": …}`."""
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
    where = f" of {section}" if section else ""
    raise UsageError(f"{path}: {key!r} is not a setting{where}", hint=_hint_for_unknown(key, known, said_once))


def _hint_for_unknown(key: str, known: set[str], said_once: Collection[str]) -> str:
    if key in said_once:
        return f"{key} cannot be set in the file: give --{key} on the command line"
    close = difflib.get_close_matches(key, known, 1)
    if close:
        return f"did you mean {close[0]}?"
    return "settings: " + ", ".join(sorted(known))
