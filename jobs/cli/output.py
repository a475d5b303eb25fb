"""stdout is data, stderr is talk: one place that renders results as a table, JSON or JSON lines.

A result has rows of one type, a frozen dataclass. Its fields are the keys in JSON, as are the fields of the dataclasses
that it contains (`snapshot.members`). Its class variable COLUMNS has the columns of the table: names of fields or
properties, or a mapping of such names to headings. Text from names, files and servers is escaped for people, is never
interpreted as markup, and shows no secret.
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
    FindingKind.PERMISSION_DENIED: "run it as the user that runs the broker",
    FindingKind.DELETED_FILE: "run the same command again",
}
Columns = Sequence[str] | Mapping[str, str]
T = TypeVar("T")


class Format(StrEnum):
    """Values of --output."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    KAFKA = "kafka"  # the text of a tool of Kafka's own, of commands that have it


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A row in words: a heading, and the sentence below it."""

    heading: str
    sentence: str


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """An error, and the next step."""

    type: Annotated[str, msgspec.Meta(description="class of the error; stable")]
    message: str
    hint: Annotated[str, msgspec.Meta(description='what to do next; "" where nothing is known')]
    attrs: dict[str, Any]


@dataclass
class Output:
    """Renders the results of a command."""

    format: Format = Format.TABLE
    quiet: bool = False
    color: Color = Color.AUTO
    # Erases the progress line from the terminal; "" while there is none.
    clear: str = ""

    def talk(self, *messages: str) -> None:
        """Print messages for people on stderr, one line each, unless quiet."""
        if not self.quiet:
            self.warn(*messages)

    def warn(self, *messages: str) -> None:
        """Print warnings on stderr, one line each, also when quiet."""
        for message in messages:
            print(self.clear + self._coloured(shown(message), sys.stderr), file=sys.stderr)  # noqa: T201

    def line(self, *texts: str) -> None:
        """Print a result for people, a line each."""
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
        """Emit result rows.

        Args:
            kind: the type of the rows.
            columns: names, or headings by name, of the table's columns; None for the type's COLUMNS.
            several: the rows are of several log directories, so the table gets a column `log_dir`.
            paragraph: returns a row in words, which replaces the line of the table.
            kafka: headings of Kafka's own tool, by field name.
            summary: an object, or a function that returns it after all rows: members of the result in JSON, a last
                line `{"summary": …}` in JSON lines, and lines below a table. The table leaves out members that its
                class variable NOT_TOLD names, and prints numbers named as bytes with units.
            findings: a member of the result in JSON, lines `{"finding": …}` after the rows in JSON lines. The first
                ones are always printed as warnings, too. It may grow with the rows.
            errors: failures of a run that continued: `errors` of the document in JSON, lines `{"error": …}` in JSON
                lines. The command itself prints them for people. It may grow with the rows.
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
                self._tell_members(told, getattr(made, "NOT_TOLD", ()))
            case Format.KAFKA:
                _print_as_kafka(everything, kafka)
            case Format.JSONL if told:
                self._line({"summary": told})
        self._tell_findings(findings)

    def _lines(self, rows: Iterable[T], findings: Iterable[Finding], errors: Iterable[TiersnapError]) -> None:
        for row in rows:
            self._line(members(row))
        for finding in findings:
            self._line({"finding": finding})
        for error in errors:
            self._line({"error": _error_object(error)})

    def _tell_members(self, told: Mapping[str, object], not_told: Iterable[str]) -> None:
        for name, value in told.items():
            if name in not_told:
                continue
            is_size = "bytes" in name.split("_")
            words = human_bytes(value) if is_size and isinstance(value, int) else in_words(value)
            self.talk(f"{name.replace('_', ' ')}: {words}")

    def _tell_findings(self, findings: Sequence[Finding]) -> None:
        self.warn(*map(str, findings[:MOST_TOLD]))
        if len(findings) > MOST_TOLD:
            self.warn(and_more(len(findings) - MOST_TOLD, "finding"))
        kinds = {finding.finding_kind for finding in findings}
        for kind, step in _NEXT_STEPS.items():
            if kind in kinds:
                self.warn(f"next for {kind}: {step}")

    def document(self, result: object, *, errors: Sequence[TiersnapError] = (), command: str | None = None) -> None:
        """Emit one JSON object with the contract's envelope, on one line where lines are asked for.

        Its texts are masked. `command` are the words of a command; None means the running one.
        """
        self._document(masked_values(plain(result)), errors, command)

    def _document(self, result: object, errors: Sequence[TiersnapError], command: str | None = None) -> None:
        if command is None:
            command = click.get_current_context().command_path.partition(" ")[2]
        body = {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "result": result,
            "errors": [_error_object(error) for error in errors],
        }
        print(json.dumps(plain(body), indent=None if self.format is Format.JSONL else 2))  # noqa: T201

    def error(self, command: str, error: TiersnapError) -> None:
        """Report an error: as an object on stdout in the JSON forms, always as text on stderr."""
        self.error_text(error)
        self.error_document(command, error)

    def error_text(self, error: TiersnapError) -> None:
        """Print the error and its hint on stderr."""
        print(f"tiersnap: {shown(error.message)}", file=sys.stderr)  # noqa: T201
        if error.hint:
            print(f"  {shown(error.hint)}", file=sys.stderr)  # noqa: T201

    def error_document(self, command: str, error: TiersnapError) -> None:
        """Emit the error as an object on stdout, in the JSON forms only."""
        if self.format in (Format.JSON, Format.JSONL):
            self.document(None, errors=[error], command=command)

    def _line(self, row: object) -> None:
        print(json.dumps(plain(row)))  # noqa: T201

    def _tell_others(self, printed: int, count: int) -> None:
        """Name the command that prints all rows, if some were left out."""
        if printed < count:
            from tiersnap.jobs.cli.next_command import again

            self.talk(f"{printed} of {count_of(count, 'row')}; next for all: {again()} | cat")

    def _paragraphs(self, paragraphs: Iterable[Paragraph]) -> None:
        """Print a heading for each row, and its sentence below."""
        for each in paragraphs:
            self.line(shown(each.heading), *folded(shown(each.sentence), terminal_width(), "  ", "  "))

    def _table(self, rows: list[T], headings: Mapping[str, str]) -> None:
        """Print rows below their headings, which are by field name."""
        values = [_values_of(row, headings) for row in rows]
        first = values[0] if values else [""] * len(headings)
        is_right = [isinstance(value, int) for value in first]
        cells = [list(headings.values()), *(list(map(cell, line)) for line in values)]
        self.line(*lines_of_table(cells, is_right, terminal_width()))


def _first_on_terminal(kind: type[T], rows: list[T]) -> list[T]:
    """Return all rows; on a terminal at most MOST_ON_TERMINAL, those of the lowest `rank` if they have one."""
    if not sys.stdout.isatty() or len(rows) <= MOST_ON_TERMINAL:
        return rows
    rank: Callable[[T], int] | None = getattr(kind, "rank", None)
    if rank is not None:
        rows = sorted(rows, key=rank)
    return rows[:MOST_ON_TERMINAL]


def _headings(kind: type[Any], columns: Columns | None, *, several: bool) -> Mapping[str, str]:
    """Return the headings of a table by field name; `columns` and `several` as `Output.rows` takes them."""
    headings: Columns = columns or kind.COLUMNS
    if not isinstance(headings, Mapping):
        headings = {each: each.replace("_", " ") for each in headings}
    return {"log_dir": "log dir", **headings} if several else headings


def _print_as_kafka(rows: Iterable[object], headings: Mapping[str, str]) -> None:
    """Print rows as Kafka's own tool does; `headings` are by field name."""
    from tiersnap.snapshot.exactly_once.transactions.kafka_table import kafka_text

    values = (dict(zip(headings, _values_of(row, headings), strict=True)) for row in rows)
    for text in kafka_text(headings, values):
        sys.stdout.write(text)


def _values_of(row: object, columns: Iterable[str]) -> list[object]:
    found = members(row)
    return [found[column] if column in found else getattr(row, column, None) for column in columns]


def and_more(count: int, noun: str) -> str:
    """Return the line after the shown rows: `count` more are not shown."""
    return f"… and {count_of(count, noun)} more: --output json has all of them"


def terminal_width() -> int | None:
    """Return the columns of the terminal on stdout; None if stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def plain(value: object) -> Any:  # noqa: ANN401 - what JSON takes
    """Return a result as dicts, lists, strings and numbers, its enums by value."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=str)


def _plain_members(made: object) -> dict[str, Any]:
    """Return the members of a summary as texts, which are masked, and numbers; without those that are UNSET."""
    found = plain({name: each for name, each in members(made).items() if each is not msgspec.UNSET})
    masked_members: Any = masked_values(found)
    return dict(masked_members)


def cell(value: object) -> str:
    """Return a value as text; nothing for None, and counts by name as `4 MISSING, 3 MATCHES`."""
    return escaped(in_words(value))


def _error_object(error: TiersnapError) -> ErrorObject:
    of: Any = masked_values(plain(error.as_dict()), masked)
    return ErrorObject(**of)
