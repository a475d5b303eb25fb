"""Options that several commands have together, or that arrive as one value, in the order in which --help shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import wraps
from typing import Any

Command = Callable[..., object]
Option = Callable[[Command], Command]


def with_options(command: Command, options: Iterable[Option]) -> Command:
    """The command with all of them; the first one stands first in its help."""
    for option in reversed(list(options)):
        command = option(command)
    return command


def as_one(name: str, kind: type[Any], *options: Option) -> Option:
    """Options whose values are the fields of `kind`, a dataclass; the command is given `name`, one `kind`."""
    values = [field.name for field in fields(kind)]

    def gather(command: Command) -> Command:
        @wraps(command)
        def with_one(*args: object, **given: object) -> object:
            one = kind(**{each: given.pop(each) for each in values})
            return command(*args, **{name: one}, **given)

        return with_options(with_one, options)

    return gather
