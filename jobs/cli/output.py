"""Print results on stdout as a table, JSON or JSON lines, and messages on stderr.

The rows of a result have one type, a frozen dataclass. Its fields become JSON keys. The fields of a nested dataclass
become keys of the same JSON object (see the module `snapshot.members`). The class variable COLUMNS of the row type
lists the columns of the table: names of fields or properties, or a mapping from such names to headings.

In tables and messages, control characters are escaped, because names, files and server replies may contain them.
Secrets are masked in every format.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, TextIO, TypeVar

import click
import msgspec

from tiersnap.jobs.cli.colour import Color, coloured
from tiersnap.jobs.cli.escaped_text import in_words, shown
from tiersnap.jobs.cli.table import folded, lines_of_table
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.masking import masked, masked_values
from tiersnap.snapshot.members import members
from tiersnap.snapshot.units import count_of, escaped, human_bytes

SCHEMA_VERSION = 1
MOST_TOLD = 200
MOST_ON_TERMINAL = 50
_NEXT_STEPS = {
    FindingKind.PERMISSION_DENIED: "run the command as the user that runs the broker",
    FindingKind.DELETED_FILE: "run the same command again",
}
Columns = Sequence[str] | Mapping[str, str]
T = TypeVar("T")


class Format(StrEnum):
    """Values of --output."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    KAFKA = "kafka"  # the text that Kafka's own tool prints; only some commands offer it


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A row as text: a heading, and a sentence below the heading."""

    heading: str
    sentence: str


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """An error in JSON output."""

    type: Annotated[str, msgspec.Meta(description="class of the error; stable across releases")]
    message: str
    hint: Annotated[str, msgspec.Meta(description='next step; "" if none is known')]
    attrs: dict[str, Any]


@dataclass
class Output:
    """A printer for the results and messages of one command."""

    format: Format = Format.TABLE
    quiet: bool = False
    color: Color = Color.AUTO
    # The text that erases the progress line from the terminal; "" if no progress line is shown.
    clear: str = ""

    def talk(self, *messages: str) -> None:
        """Print messages on stderr, one per line; with --quiet print nothing."""
        if not self.quiet:
            self.warn(*messages)

    def warn(self, *messages: str) -> None:
        """Print warnings on stderr, one per line, even with --quiet."""
        for message in messages:
            print(self.clear + self._coloured(shown(message), sys.stderr), file=sys.stderr)  # noqa: T201

    def line(self, *texts: str) -> None:
        """Print lines of a result for people on stdout."""
        for text in texts:
            print(self._coloured(text, sys.stdout))  # noqa: T201

    def _coloured(self, text: str, stream: TextIO) -> str:
        return coloured(text) if self.color.is_used(stream) else text

    def rows(
        self,
        kind: type[T],
        rows: Iterable[T],
        *,
        columns: Columns | None = None,
        several: bool = False,
        kafka: Mapping[str, str] = MappingProxyType({}),
        paragraph: Callable[[T], Paragraph] | None = None,
        summary: object = None,
        findings: Sequence[Finding] = (),
        errors: Sequence[TiersnapError] = (),
    ) -> None:
        """Print result rows in the chosen format.

        Args:
            kind: the type of the rows.
            columns: names of the table's columns, or headings by name; None for COLUMNS of `kind`.
            several: add a column `log_dir` to the table, for rows of several log directories.
            paragraph: returns a row as text; the text replaces the row's line in the table.
            kafka: headings of Kafka's own tool, by field name.
            summary: an object, or a function that is called after the last row and returns the object. Its fields
                become fields of the result in Format.JSON, and the last line `{"summary": …}` in Format.JSONL. For a
                table, each field is a line on stderr, except the fields in the object's class variable NOT_TOLD.
            findings: a field of the result in Format.JSON, and lines `{"finding": …}` after the rows in Format.JSONL.
                Every format prints the first MOST_TOLD findings as warnings. The caller may add findings while it
                yields rows.
            errors: errors after which the command continued. Format.JSON prints them in the field `errors`,
                Format.JSONL as lines `{"error": …}`. In the other formats the caller prints them. The caller may add
                errors while it yields rows.
        """
        everything: list[T] = []
        if self.format is Format.JSONL:
            self._lines(rows, findings, errors)
        else:
            everything.extend(rows)
        made = summary() if callable(summary) else summary
        told = {} if made is None else _plain_members(made)
        match self.format:
            case Format.JSON:
                shown_rows = [members(row) for row in everything]
                self._document({"rows": shown_rows, "findings": list(findings), **told}, errors)
            case Format.TABLE:
                first = _first_on_terminal(kind, everything)
                if paragraph is not None:
                    self._paragraphs(map(paragraph, first))
                else:
                    self._table(first, _headings(kind, columns, several=several))
                self._tell_others(len(first), len(everything))
                self._print_members(told, getattr(made, "NOT_TOLD", ()))
            case Format.KAFKA:
                _print_as_kafka(everything, kafka)
            case Format.JSONL if told:
                self._line({"summary": told})
        self._print_findings(findings)

    def _lines(self, rows: Iterable[T], findings: Iterable[Finding], errors: Iterable[TiersnapError]) -> None:
        for row in rows:
            self._line(members(row))
        for finding in findings:
            self._line({"finding": finding})
        for error in errors:
            self._line({"error": _error_object(error)})

    def _print_members(self, told: Mapping[str, object], hidden: Iterable[str]) -> None:
        for name, value in told.items():
            if name in hidden:
                continue
            is_size = "bytes" in name.split("_")
            words = human_bytes(value) if is_size and isinstance(value, int) else in_words(value)
            self.talk(f"{name.replace('_', ' ')}: {words}")

    def _print_findings(self, findings: Sequence[Finding]) -> None:
        self.warn(*map(str, findings[:MOST_TOLD]))
        if len(findings) > MOST_TOLD:
            self.warn(and_more(len(findings) - MOST_TOLD, "finding"))
        kinds = {finding.finding_kind for finding in findings}
        for kind, step in _NEXT_STEPS.items():
            if kind in kinds:
                self.warn(f"next for {kind}: {step}")

    def document(self, result: object, *, errors: Sequence[TiersnapError] = (), command: str | None = None) -> None:
        """Print one JSON object with the fields of docs/schemas, and mask secrets. In JSONL the object is one line.

        Args:
            result: value of the field `result`.
            command: words of the command; None for the running command.
        """
        self._document(masked_values(plain(result)), errors, command)

    def _document(self, result: object, errors: Sequence[TiersnapError], command: str | None = None) -> None:
        if command is None:
            command = click.get_current_context().command_path.partition(" ")[2]
        body = {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "result": result,
            "errors": list(map(_error_object, errors)),
        }
        indent = None
        if self.format is not Format.JSONL:
            indent = 2
        print(json.dumps(plain(body), indent=indent))  # noqa: T201

    def error(self, command: str, error: TiersnapError) -> None:
        """Print an error as text on stderr. With --output json or jsonl, print it as JSON on stdout too."""
        self.error_text(error)
        self.error_document(command, error)

    def error_text(self, error: TiersnapError) -> None:
        """Print an error and its hint on stderr."""
        print(f"tiersnap: {shown(error.message)}", file=sys.stderr)  # noqa: T201
        if error.hint:
            print(f"  {shown(error.hint)}", file=sys.stderr)  # noqa: T201

    def error_document(self, command: str, error: TiersnapError) -> None:
        """Print an error as a JSON object on stdout. Print nothing if --output is neither json nor jsonl."""
        if self.format in (Format.JSON, Format.JSONL):
            self.document(None, errors=[error], command=command)

    def _line(self, row: object) -> None:
        print(json.dumps(plain(row)))  # noqa: T201

    def _tell_others(self, printed: int, count: int) -> None:
        """Print the command that prints all rows, if the table left out rows."""
        if printed < count:
            from tiersnap.jobs.cli.next_command import again

            self.talk(f"{printed} of {count_of(count, 'row')} printed; to print all: {again()} | cat")

    def _paragraphs(self, paragraphs: Iterable[Paragraph]) -> None:
        """Print the heading of each row, and its sentence below the heading."""
        for each in paragraphs:
            self.line(shown(each.heading), *folded(shown(each.sentence), terminal_width(), "  ", "  "))

    def _table(self, rows: list[T], headings: Mapping[str, str]) -> None:
        """Print a table; `headings` maps field names to headings."""
        is_right = [False] * len(headings)
        cells = [list(headings.values())]
        for number, row in enumerate(rows):
            values = _values_of(row, headings)
            if number == 0:
                is_right = [isinstance(value, int) for value in values]
            cells.append(list(map(cell, values)))
        self.line(*lines_of_table(cells, is_right, terminal_width()))


def _first_on_terminal(kind: type[T], rows: list[T]) -> list[T]:
    """Return all rows; on a terminal at most MOST_ON_TERMINAL rows. If the type has `rank`, keep the lowest ranks."""
    if not sys.stdout.isatty() or len(rows) <= MOST_ON_TERMINAL:
        return rows
    rank: Callable[[T], int] | None = getattr(kind, "rank", None)
    if rank is not None:
        rows = sorted(rows, key=rank)
    return rows[:MOST_ON_TERMINAL]


def _headings(kind: type[Any], columns: Columns | None, *, several: bool) -> Mapping[str, str]:
    """Return the headings of a table by field name; see `Output.rows` for `columns` and `several`."""
    headings: Columns = columns or kind.COLUMNS
    if not isinstance(headings, Mapping):
        headings = {each: each.replace("_", " ") for each in headings}
    return {"log_dir": "log dir", **headings} if several else headings


def _print_as_kafka(rows: Iterable[object], headings: Mapping[str, str]) -> None:
    """Print rows in the text format of Kafka's own tool; `headings` maps field names to headings."""
    from tiersnap.snapshot.exactly_once.transactions.kafka_table import kafka_text

    values = (dict(zip(headings, _values_of(row, headings), strict=True)) for row in rows)
    for text in kafka_text(headings, values):
        sys.stdout.write(text)


def _values_of(row: object, columns: Iterable[str]) -> list[object]:
    found = members(row)
    values = []
    for column in columns:
        if column in found:
            values.append(found[column])
        else:
            values.append(getattr(row, column, None))
    return values


def and_more(count: int, noun: str) -> str:
    """Return a message: `count` more items exist, and --output json prints them."""
    return f"… and {count_of(count, noun)} more: --output json prints all of them"


def terminal_width() -> int | None:
    """Return the width of the terminal on stdout in columns; None if stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def plain(value: object) -> Any:  # noqa: ANN401 - what JSON takes
    """Return a result as dicts, lists, strings and numbers; enums become their values."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=str)


def _plain_members(made: object) -> dict[str, Any]:
    """Return the fields of a summary as numbers and masked texts. Leave out fields that are UNSET."""
    found = plain({name: each for name, each in members(made).items() if each is not msgspec.UNSET})
    masked_members: Any = masked_values(found)
    return dict(masked_members)


def cell(value: object) -> str:
    """Return the escaped text of a table cell, such as `4 MISSING, 3 MATCHES`; see `in_words`."""
    return escaped(in_words(value))


def _error_object(error: TiersnapError) -> ErrorObject:
    of: Any = masked_values(plain(error.as_dict()), masked)
    return ErrorObject(**of)
