"""The decorator of commands, which declares the types of their output, and the layout of their help pages.

    @command(VerifiedSnapshot, summary=VerifySummary)
    @log_dirs_argument()
    @click.option("--strict", is_flag=True, help="Count every entry.")
    def verify(output: Output, log_dirs: tuple[str, ...], strict: bool) -> int: ...

A command's module imports only the modules of these types: --help must not wait for numba, pyarrow or boto3. The body
of the function imports all others, and `if TYPE_CHECKING` those for annotations.

A help page has these parts, in this order: usage, the first paragraph of the docstring, examples (the next paragraph if
it begins with `tiersnap`), the commands of a group, required options and options that SECTIONS does not name, the other
paragraphs of the docstring, and SECTIONS, each under its heading.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import click

from tiersnap.jobs.cli.colour import Color
from tiersnap.jobs.cli.escaped_text import refuse_credentials
from tiersnap.jobs.cli.output import Format, Output

# An option name means the same in every command, so its section is declared here, once for all commands.
SECTIONS = {
    "Remote storage": (
        *("layout", "from-layout", "endpoint-url", "region", "path-style", "checksums", "max-bytes-per-second"),
        *("allow-plaintext", "leave-to-broker", "sample", "resume", "recheck"),
    ),
    "Cluster": ("bootstrap-server", "command-config", "hung-after", "broker-id", "prove", "unproven"),
    "Time and expiry": ("expiration", "as-of", "producer-expiration", "now", "older-than", "vacuum-after"),
    "Spark": ("master", "spark-conf", "print-submit"),
    "Metrics and lineage": ("metrics-file", "pushgateway", "metrics-by-partition", "openlineage"),
    "What --risk assumes": ("boundaries", "replica", "tiering-enabled", "delivery-timeout", "read-rate"),
    "Output": ("output", "quiet", "color"),
    "Rarely needed": (
        *("check-crc", "no-crc", "above-newest", "all", "topic-id", "as-topic-id", "cluster-id"),
        *("producer-state", "without", "unpublished", "log-start", "leader", "transaction-version"),
        *("partition-count", "max-transaction-timeout", "before-4.3"),
    ),
}
_SECTION_OF = {name: title for title, names in SECTIONS.items() for name in names}


class HelpPage(click.Command):
    """A command with the help page that this module describes."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the page."""
        first, *rest = paragraphs_of(self)
        self.format_usage(ctx, formatter)
        _write(formatter, [first])
        if rest and rest[0].startswith("\b"):
            with formatter.section("Examples"):
                formatter.write_text(rest.pop(0))
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        options: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *SECTIONS)}
        for param in self.get_params(ctx):
            if not isinstance(param, click.Option):
                continue
            record = param.get_help_record(ctx)
            if record is not None:
                title = "Options" if param.required else _SECTION_OF.get(max(param.opts, key=len)[2:], "Options")
                options[title].append(record)
        _write_section(formatter, "Options", options.pop("Options"))
        _write(formatter, rest)
        for title, records in options.items():
            _write_section(formatter, title, records)


def paragraphs_of(command: click.Command) -> list[str]:
    """Return the paragraphs of a command's help, with click's mark before examples: print them as they stand."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return [f"\b\n{each}" if each.startswith("tiersnap ") else each for each in paragraphs]


def _write(formatter: click.HelpFormatter, paragraphs: Iterable[str]) -> None:
    for paragraph in paragraphs:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(paragraph)


def _write_section(formatter: click.HelpFormatter, title: str, records: list[tuple[str, str]]) -> None:
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


@dataclass(frozen=True)
class Prints:
    """The types that a command prints as JSON; docs/schemas is generated from them."""

    rows: Sequence[object] = ()  # types of its rows; the options select one
    summary: object = None  # type of the members besides rows and findings; None without any
    result: object = None  # type of the whole result, if it has no rows
    lines: Sequence[object] = ()  # types of JSON lines, if they differ from the rows and the document


class Command(HelpPage):
    """A command with the types of its output; it refuses options that contain a password."""

    prints: Prints | None = None

    def invoke(self, ctx: click.Context) -> object:
        """Call the command."""
        for param in ctx.command.params:
            refuse_credentials(max(param.opts, key=len), ctx.params.get(str(param.name)))
        return super().invoke(ctx)


class Group(HelpPage, click.Group):
    """A name for the commands below it."""


def _sets(name: str, kind: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str], None]:
    """Return the callback of an option that sets a field of Output if it is given."""

    def set_field(ctx: click.Context, _: click.Parameter, value: str) -> None:
        if value:
            setattr(ctx.ensure_object(Output), name, kind(value))

    return set_field


def _output_option(kafka: str | None = None) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return --output; `kafka` is the tool whose text it can be, too."""
    forms = [each.value for each in Format if kafka or each is not Format.KAFKA]
    of_kafka = f"kafka is the text of {kafka}, for diff. " if kafka else ""
    return click.option(
        "--output",
        type=click.Choice(forms),
        callback=_sets("format", Format),
        expose_value=False,
        help=f"Form of what goes to stdout; {of_kafka}table is the default.",
    )


_quiet_option = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    callback=_sets("quiet", bool),
    expose_value=False,
    help="Print nothing on stderr but warnings and errors.",
)
_color_option = click.option(
    "--color",
    type=click.Choice([each.value for each in Color]),
    callback=_sets("color", Color),
    expose_value=False,
    help="Colour of verdicts; auto is the default: on a terminal, unless NO_COLOR is set.",
)


# Accepted before and after the command's name, because people write them in either place.
def output_options(function: Callable[..., object], kafka: str | None = None) -> Callable[..., object]:
    """Add --output, --color and --quiet."""
    return _output_option(kafka)(_color_option(_quiet_option(function)))


def command(
    *rows: object,
    name: str | None = None,
    summary: object = None,
    result: object = None,
    lines: Sequence[object] = (),
    help: str | None = None,
    cls: type[Command] = Command,
    has_output: bool = True,
    kafka: str | None = None,
    **attrs: object,
) -> Callable[[Callable[..., object]], Command]:
    """Return the decorator of a command, whose function is given the Output first; see `Prints`, and click for `attrs`.

    Args:
        has_output: whether it takes --output, and prints JSON there.
        kafka: a tool of Kafka's own whose text it prints with --output kafka.
    """

    def decorate(function: Callable[..., object]) -> Command:
        made = click.command(name, cls=cls, help=help, **attrs)(
            click.pass_obj(output_options(function, kafka) if has_output else function)
        )
        if has_output:
            made.params += made.params[:3]  # they stand last in the help
            del made.params[:3]
        made.prints = Prints(rows, summary, result, lines) if has_output else None
        return made

    return decorate
