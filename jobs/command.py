"""The decorator of commands: options, the call of the core, and the types of what is printed.

    @command(VerifiedSnapshot, summary=VerifySummary)
    @log_dirs_argument()
    @click.option("--strict", is_flag=True, help="Count every entry.")
    def verify(output: Output, log_dirs: tuple[str, ...], strict: bool) -> int: ...

Its module imports no more of the core than these types need: --help must not wait for numba, pyarrow or boto3. What a
body needs it imports; what annotations need stands below `if TYPE_CHECKING`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import click

from tiersnap.jobs.help_page import HelpPage
from tiersnap.jobs.output import Format, Output
from tiersnap.jobs.shown import refuse_credentials


@dataclass(frozen=True)
class Prints:
    """The types that a command prints as JSON; docs/schemas is made of them.

    Attributes:
        rows: types of its rows; which of them comes is a matter of its options.
        summary: what its result holds beside rows and findings; None where there is nothing.
        result: the whole result, where it is no rows.
        lines: of JSON lines, where they are neither rows nor the document.
    """

    rows: Sequence[object] = ()
    summary: object = None
    result: object = None
    lines: Sequence[object] = ()


class _Printing:
    """A command that knows what it prints, and refuses settings with a password in them."""

    prints: Prints | None = None

    def invoke(self, ctx: click.Context) -> object:
        """Call the command."""
        for param in ctx.command.params:
            refuse_credentials(max(param.opts, key=len), ctx.params.get(str(param.name)))
        return super().invoke(ctx)  # type: ignore[misc]


class Command(_Printing, HelpPage):
    """A command with --output."""


class Group(_Printing, HelpPage, click.Group):
    """A command with --output, and commands below it."""


C = TypeVar("C", Command, Group)


def _set_format(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(Output).format = Format(value)


def _output_option(kafka: str | None = None) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return --output; `kafka` is the tool whose text it can be, too."""
    forms = [each.value for each in Format if kafka or each is not Format.KAFKA]
    of_kafka = f"kafka is the text of {kafka}, for diff. " if kafka else ""
    return click.option(
        "--output",
        type=click.Choice(forms),
        callback=_set_format,
        expose_value=False,
        help=f"Form of what goes to stdout; {of_kafka}table is the default.",
    )


# Accepted before and after the command's name, because people write it in either place.
output_option = _output_option()


def command(
    *rows: object,
    name: str | None = None,
    summary: object = None,
    result: object = None,
    lines: Sequence[object] = (),
    help: str | None = None,
    cls: type[C] = Command,  # type: ignore[assignment]
    has_output: bool = True,
    kafka: str | None = None,
    **attrs: object,
) -> Callable[[Callable[..., object]], C]:
    """Return the decorator of a command, whose function is given the Output first; see `Prints`.

    Args:
        has_output: whether it takes --output, and prints JSON there.
        kafka: a tool of Kafka's own whose text it prints with --output kafka.
        attrs: of click.
    """

    def decorate(function: Callable[..., object]) -> C:
        made = click.command(name, cls=cls, help=help, **attrs)(
            click.pass_obj(_output_option(kafka)(function) if has_output else function)
        )
        if has_output:
            made.params.append(made.params.pop(0))  # --output stands last in the help
        made.prints = Prints(rows, summary, result, lines) if has_output else None
        return made

    return decorate
