"""stdout is data, stderr is talk: one place that renders results as a table, JSON or JSON lines.

What came from names, files and servers is escaped where people read it, never taken for markup, and shows no secret.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tiersnap.jobs.shown import in_words, masked, shown
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.escaped import escaped
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.units import count_of, human_bytes

SCHEMA_VERSION = 1
MOST_TOLD = 200
Row = Mapping[str, object]


class Format(StrEnum):
    """Values of --output."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


@dataclass
class Output:
    """Renders what a command found."""

    format: Format = Format.TABLE
    quiet: bool = False
    # Takes a line that renews itself off the terminal, while there is one.
    clear: str = ""

    def talk(self, message: str) -> None:
        """Say something to the person at the terminal."""
        if not self.quiet:
            self.warn(message)

    def warn(self, message: str) -> None:
        """Say what went wrong, also when quiet."""
        print(self.clear + shown(message), file=sys.stderr)  # noqa: T201

    def rows(
        self,
        command: str,
        rows: Iterable[Row],
        *,
        columns: Sequence[str] | Mapping[str, str],
        summary: Mapping[str, object] | None = None,
        findings: Sequence[Finding] = (),
        errors: Sequence[TiersnapError] = (),
    ) -> None:
        """Emit result rows; `columns` are those of the table form, the others show all keys.

        Args:
            columns: keys, or keys and the headings that people see over them.
            summary: members of the result in JSON, a last line `{"summary": …}` in JSON lines, and lines below the
                table otherwise; numbers that are named as bytes are told in words there.
            findings: a member of the result in JSON, lines `{"finding": …}` behind the rows in JSON lines, and always
                warnings, of which the first are shown; it may grow with the rows.
            errors: what failed while the rest was done: `errors` of the document in JSON, lines `{"error": …}` in JSON
                lines; people are told by the command. It may grow with the rows.
        """
        self._rows(command, rows, columns, summary or {}, findings, errors)
        for finding in findings[:MOST_TOLD]:
            self.warn(str(finding))
        if len(findings) > MOST_TOLD:
            self.warn(f"… and {count_of(len(findings) - MOST_TOLD, 'finding')} more: --output json has all of them")
        if any(finding.kind is FindingKind.PERMISSION_DENIED for finding in findings):
            self.warn(f"next for {FindingKind.PERMISSION_DENIED}: run it as the user that runs the broker")

    def _rows(
        self,
        command: str,
        rows: Iterable[Row],
        columns: Sequence[str] | Mapping[str, str],
        summary: Mapping[str, object],
        findings: Sequence[Finding],
        errors: Sequence[TiersnapError],
    ) -> None:
        if self.format is Format.JSONL:
            for row in rows:
                self._line(row)
            for finding in findings:
                self._line({"finding": finding.as_dict()})
            for error in errors:
                self._line({"error": _error_object(error)})
            if summary:
                self._line({"summary": summary})
            return
        rows = list(rows)
        if self.format is Format.JSON:
            found = [finding.as_dict() for finding in findings]
            self.document(command, {"rows": rows, "findings": found, **summary}, errors=errors)
            return
        self._table(rows, columns)
        for name, value in summary.items():
            told = human_bytes(value) if "bytes" in name.split("_") and isinstance(value, int) else in_words(value)
            self.talk(f"{name.replace('_', ' ')}: {told}")

    def document(self, command: str, result: object, *, errors: Sequence[TiersnapError] = ()) -> None:
        """Emit one JSON object with the contract's envelope; on one line where lines are asked for."""
        body = {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "result": result,
            "errors": [_error_object(error) for error in errors],
        }
        print(json.dumps(body, indent=None if self.format is Format.JSONL else 2, default=str))  # noqa: T201

    def error(self, command: str, error: TiersnapError) -> None:
        """Report an error: as an object on stdout in the JSON forms, always as text on stderr."""
        self.error_text(error)
        self.error_document(command, error)

    def error_text(self, error: TiersnapError) -> None:
        """The error and its hint on stderr."""
        print(f"tiersnap: {shown(error.message)}", file=sys.stderr)  # noqa: T201
        if error.hint:
            print(f"  {shown(error.hint)}", file=sys.stderr)  # noqa: T201

    def error_document(self, command: str, error: TiersnapError) -> None:
        """The error as an object on stdout, in the JSON forms only."""
        if self.format is not Format.TABLE:
            self.document(command, None, errors=[error])

    def _line(self, row: Row) -> None:
        print(json.dumps(row, default=str))  # noqa: T201

    def _table(self, rows: Sequence[Row], columns: Sequence[str] | Mapping[str, str]) -> None:
        terminal = sys.stdout.isatty()
        console = Console(width=None if terminal else 240, highlight=False)
        table = Table(box=None, pad_edge=False, header_style="bold" if terminal else None)
        headings = columns if isinstance(columns, Mapping) else {column: column.replace("_", " ") for column in columns}
        for column, heading in headings.items():
            numeric = bool(rows) and isinstance(rows[0].get(column), int)
            table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell(row.get(column))) for column in columns))
        console.print(table)


def cell(value: object) -> str:
    """A value as text; nothing for None, and counts by name as `4 MISSING, 3 MATCHES`."""
    if isinstance(value, Mapping):
        return escaped(", ".join(f"{count} {name}" for name, count in value.items()) or "none")
    return escaped(in_words(value))


def _error_object(error: TiersnapError) -> object:
    return _without_secrets(error.as_dict())


def _without_secrets(value: object) -> object:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _without_secrets(each) for key, each in value.items()}
    return [_without_secrets(each) for each in value] if isinstance(value, (list, tuple)) else value
