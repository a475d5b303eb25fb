"""Options that several commands have together, in the order in which --help shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Command = Callable[..., object]


def with_options(command: Command, options: Iterable[Callable[[Command], Command]]) -> Command:
    """The command with all of them; the first one stands first in its help."""
    for option in reversed(list(options)):
        command = option(command)
    return command
