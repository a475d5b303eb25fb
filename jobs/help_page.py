"""The layout of a help page: a sentence, examples and the common options first, the details and the rest after them.

Usage, the first paragraph of the docstring, and the next one if it begins with `tiersnap`: examples
Commands of a group
Options: those that SECTIONS does not name, and those that are required
The other paragraphs of the docstring
SECTIONS, each under its heading
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import click

# A name means the same in every command, so where it belongs is said here once.
SECTIONS = {
    "Remote storage": (
        *("layout", "from-layout", "endpoint-url", "region", "path-style", "checksums", "max-bytes-per-second"),
        *("allow-plaintext", "leave-to-broker", "sample", "resume", "recheck"),
    ),
    "Cluster": ("bootstrap-server", "command-config", "hung-after", "broker-id", "probe-topic", "unproven", "log-dir"),
    "Time and expiry": ("expiration", "as-of", "producer-expiration", "now", "older-than", "vacuum-after"),
    "Spark": ("master", "spark-conf", "print-submit"),
    "Metrics and lineage": ("metrics-file", "pushgateway", "metrics-by-partition", "openlineage"),
    "What --risk assumes": ("boundaries", "replica", "tiering-enabled", "delivery-timeout", "read-rate"),
    "Rarely needed": (
        *("check-crc", "no-crc", "above-newest", "all", "topic-ids", "topic-id", "as-topic-id", "cluster-id"),
        *("producer-state", "without", "unpublished", "segment-id", "log-start", "leader", "transaction-version"),
        *("partition-count", "max-transaction-timeout", "before-4.3"),
    ),
}
_SECTION_OF = {name: title for title, names in SECTIONS.items() for name in names}


class HelpPage(click.Command):
    """A command whose help is laid out so."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the page."""
        first, *rest = paragraphs_of(self)
        examples = [rest.pop(0)] if rest and rest[0].startswith("\b") else []
        self.format_usage(ctx, formatter)
        _write(formatter, [first])
        for each in examples:
            with formatter.section("Examples"):
                formatter.write_text(each)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        options: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *SECTIONS)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
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


def examples_of(command: click.Command) -> list[str]:
    """Return the lines of a command's help that can be typed as they are, those that go on joined."""
    lines = (command.help or "").replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip().startswith("tiersnap ")]


def _write(formatter: click.HelpFormatter, paragraphs: Iterable[str]) -> None:
    for paragraph in paragraphs:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(paragraph)


def _write_section(formatter: click.HelpFormatter, title: str, records: list[tuple[str, str]]) -> None:
    if records:
        with formatter.section(title):
            formatter.write_dl(records)
