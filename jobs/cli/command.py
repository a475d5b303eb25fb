"""The decorator `command` makes a click command from a function. HelpPage writes the help page of the command.

    @command(VerifiedSnapshot, summary=VerifySummary)
    @log_dirs_argument()
    @click.option("--strict", is_flag=True, help="Count every entry.")
    def verify(output: Output, log_dirs: tuple[str, ...], strict: bool) -> int: ...

The arguments of the decorator are the types that the command prints as JSON. At its top, a command's module imports
only what these types need, so that --help does not wait for numba, pyarrow or boto3. The function body imports all
other modules. Imports for annotations are below `if TYPE_CHECKING`.

A help page has these parts in this order:

    1. usage
    2. the first paragraph of the docstring
    3. examples: the second paragraph, if it begins with `tiersnap`
    4. the subcommands of a group
    5. required options, and options that SECTIONS does not name
    6. the other paragraphs of the docstring
    7. the options of SECTIONS below their headings
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import click

from tiersnap.jobs.cli.colour import Color
from tiersnap.jobs.cli.escaped_text import refuse_credentials
from tiersnap.jobs.cli.output import Format, Output

# Help headings, and the options below each heading in every command.
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
        """Write the help page."""
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
                options[_title_of(param)].append(record)
        _write_section(formatter, "Options", options.pop("Options"))
        _write(formatter, rest)
        for title, records in options.items():
            _write_section(formatter, title, records)


def _title_of(option: click.Option) -> str:
    if option.required:
        return "Options"
    return _SECTION_OF.get(max(option.opts, key=len)[2:], "Options")


def paragraphs_of(command: click.Command) -> list[str]:
    """Return the paragraphs of a command's help. Examples begin with a backspace, so that click does not wrap them."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if paragraph.startswith("tiersnap "):
            paragraphs[number] = f"\b\n{paragraph}"
    return paragraphs


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
    """The types that a command prints as JSON. `python -m tests.published_docs` writes docs/schemas from them."""

    rows: Sequence[object] = ()  # row types; the command's options select one
    summary: object = None  # type whose fields are members of the result, besides rows and findings; None adds none
    result: object = None  # type of a result without rows
    lines: Sequence[object] = ()  # types of JSON lines, if they differ from the rows and the document


class Command(HelpPage):
    """A command with declared output types. The command refuses parameter values that contain a password."""

    prints: Prints | None = None

    def invoke(self, ctx: click.Context) -> object:
        """Call the command. If the value of a parameter contains a password, raise UsageError before the call."""
        for param in ctx.command.params:
            refuse_credentials(max(param.opts, key=len), ctx.params.get(str(param.name)))
        return super().invoke(ctx)


class Group(HelpPage, click.Group):
    """A command with subcommands, such as `maintain`."""


def _sets(name: str, kind: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str], None]:
    """Return an option callback that calls `kind` with the value, and stores the result in the field `name` of Output.

    If the option is not given, the callback changes nothing.
    """

    def set_field(ctx: click.Context, _: click.Parameter, value: str) -> None:
        if value:
            setattr(ctx.ensure_object(Output), name, kind(value))

    return set_field


def _output_option(kafka: str | None = None) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return the option --output; `kafka` names the tool whose text format `--output kafka` prints."""
    forms = [each.value for each in Format]
    of_kafka = f" kafka prints the same text as {kafka}."
    if kafka is None:
        forms.remove(Format.KAFKA)
        of_kafka = ""
    return click.option(
        "--output",
        type=click.Choice(forms),
        callback=_sets("format", Format),
        expose_value=False,
        help=f"Format of stdout.{of_kafka}  [default: table]",
    )


_quiet_option = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    callback=_sets("quiet", bool),
    expose_value=False,
    help="Print only warnings and errors to stderr.",
)
_color_option = click.option(
    "--color",
    type=click.Choice([each.value for each in Color]),
    callback=_sets("color", Color),
    expose_value=False,
    help="Colours of verdicts. auto: colours on a terminal, unless NO_COLOR is set.  [default: auto]",
)


# Users write these options before or after the command's name, so the group and each command take them.
def output_options(function: Callable[..., object], kafka: str | None = None) -> Callable[..., object]:
    """Add --output, --color and --quiet to a command."""
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
    """Return the decorator that makes a function a command. The function receives the Output as its first argument.

    Args:
        rows: see `Prints`.
        name: name of the command; by default the name of the function.
        summary: see `Prints`.
        result: see `Prints`.
        lines: see `Prints`.
        help: help text; by default the docstring.
        cls: class of the command.
        has_output: add --output, --color and --quiet.
        kafka: Kafka's own tool whose text `--output kafka` prints; None if the command has no such format.
        attrs: passed to `click.command`.
    """

    def decorate(function: Callable[..., object]) -> Command:
        make = click.command(name, cls=cls, help=help, **attrs)
        if not has_output:
            return make(click.pass_obj(function))
        made = make(click.pass_obj(output_options(function, kafka)))
        made.params += made.params[:3]  # the help lists the output options last
        del made.params[:3]
        made.prints = Prints(rows, summary, result, lines)
        return made

    return decorate
