"""What all commands have in common: one document in JSON, one object a line in JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from tiersnap.jobs.contracts.json_schema import Schema, schema_of
from tiersnap.jobs.output import SCHEMA_VERSION
from tiersnap.snapshot.log.findings import FindingKind

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class FindingObject(TypedDict):
    """One damaged place of a log; docs/runbook.md has an entry for each kind."""

    kind: FindingKind
    path: str
    position: Annotated[int, "byte position in the file; -1: the whole file"]
    message: str


class ErrorObject(TypedDict):
    """What could not be done, and what to do next."""

    type: Annotated[str, "class of the error; stable"]
    message: str
    hint: Annotated[str, 'what to do next; "" where nothing is known']
    attrs: dict[str, object]


@dataclass(frozen=True)
class Contract:
    """The JSON of one command.

    Attributes:
        rows: TypedDicts of its rows; which of them comes is a matter of its options.
        summary: TypedDict of what its result holds beside rows and findings; None where there is nothing.
        result: the whole result, where it has another form than rows.
        line: of JSON lines, where it has another form than a row.
    """

    rows: Sequence[Any] = ()
    summary: Any = None
    result: Any = None
    line: Sequence[Any] = field(default_factory=tuple)


def document_schema(command: str, contract: Contract) -> Schema:
    """The schema of `--output json`; `$defs.line` is that of each line of `--output jsonl`."""
    rows = [{"$ref": f"#/$defs/{each.__name__}"} for each in contract.rows]
    lines = [schema_of(each) for each in contract.line] or rows or [{"$ref": "#/$defs/document"}]
    shared = {"finding": schema_of(FindingObject), "error": schema_of(ErrorObject)}
    summary = None if contract.summary is None else schema_of(contract.summary)
    # A command that fails prints one document in both forms, with errors and without a result.
    in_lines = [*lines, _single("finding", {"$ref": "#/$defs/finding"}), _single("error", {"$ref": "#/$defs/error"})]
    if summary is not None:
        in_lines.append(_single("summary", {"$ref": "#/$defs/summary"}))
    if contract.result is None:
        in_lines.append({"$ref": "#/$defs/failure"})
    return {
        "$schema": _DRAFT,
        "title": f"tiersnap {command} --output json",
        "$ref": "#/$defs/document",
        "$defs": {
            "document": _document(command, {"anyOf": [_result(contract, rows, summary), {"type": "null"}]}),
            "failure": _document(command, {"type": "null"}),
            "line": {"description": "a line of --output jsonl", "anyOf": in_lines},
            **({} if summary is None else {"summary": summary}),
            **{each.__name__: schema_of(each) for each in contract.rows},
            **shared,
        },
    }


def _document(command: str, result: Schema) -> Schema:
    fields: Schema = {
        "schema_version": {"const": SCHEMA_VERSION},
        "command": {"const": command},
        "result": result,
        "errors": {"type": "array", "items": {"$ref": "#/$defs/error"}},
    }
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _result(contract: Contract, rows: list[Schema], summary: Schema | None) -> Schema:
    if contract.result is not None:
        return schema_of(contract.result)
    items: Schema = rows[0] if len(rows) == 1 else {"anyOf": rows}
    fields: Schema = {
        "rows": {"type": "array", "items": items},
        "findings": {"type": "array", "items": {"$ref": "#/$defs/finding"}},
    }
    required = list(fields)
    if summary is not None:
        fields |= summary["properties"]
        required += summary["required"]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _single(name: str, of: Schema) -> Schema:
    return {"type": "object", "properties": {name: of}, "required": [name], "additionalProperties": False}
