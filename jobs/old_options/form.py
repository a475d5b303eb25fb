"""--output of the commands that can print a tool of Kafka's own text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import click

from tiersnap.jobs.old_options.common import Decorator
from tiersnap.jobs.output import Format, Output, Row
from tiersnap.snapshot.exactly_once.transactions.kafka_table import kafka_text
from tiersnap.snapshot.log.findings import Finding


class Form(StrEnum):
    """Values of --output: those of every command, and the text of Kafka's own tool."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    KAFKA = "kafka"


def form_option(tool: str) -> Decorator:
    """The option, given to the command as `form`; `tool` is the one whose text `kafka` is."""
    return click.option(
        "--output",
        "form",
        type=click.Choice([form.value for form in Form]),
        help=f"Form of what goes to stdout; kafka is the text of {tool}, for diff. table is the default.",
    )


def chosen_form(output: Output, form: str | None) -> Form:
    """What was asked for, before or after the command's name; `output` is told."""
    chosen = Form(form or output.format)
    if chosen is not Form.KAFKA:
        output.format = Format(chosen)
    return chosen


def print_as_kafka(
    output: Output, headings: Mapping[str, str], rows: Iterable[Row], findings: Sequence[Finding]
) -> None:
    """A table as kafka-transactions.sh prints it, and the findings as warnings; they may grow with the rows."""
    for line in kafka_text(headings, rows):
        sys.stdout.write(line)
    for finding in findings:
        output.warn(str(finding))
