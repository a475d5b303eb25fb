"""docs/schemas and docs/commands.md, made of the types and options of the commands: `make schemas`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
from msgspec import UNSET, UnsetType

from tiersnap.jobs.cli.command import Command, Prints, paragraphs_of
from tiersnap.jobs.cli.output import SCHEMA_VERSION, ErrorObject
from tiersnap.jobs.cli.settings import commands_of, options_of, variable_of
from tiersnap.jobs.main import cli
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.members import member_types
from tiersnap.snapshot.report.model import ReadinessDocument
from tiersnap.snapshot.rows import without_extras

Schema = dict[str, Any]
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TOP = """# Commands

Read this page to look up a command or an option. `make schemas` writes it from the code. `tiersnap COMMAND --help`
prints the same text for the installed release. `tiersnap config` prints the value of every setting, and its source.

You can give a *setting* in three ways: by its option, by its environment variable, or in the YAML file of `--config`
(TIERSNAP_CONFIG), under the option's name without dashes. The option has priority over the variable, and the variable
over the file. Options that change something (`--apply`, `--replace`, …) exist only on the command line.
"""


# JSON Schemas --------------------------------------------------------------------------------------------------------


def file_name(words: str) -> str:
    """Return `maintain-tables.schema.json` for `maintain tables`."""
    return f"{words.replace(' ', '-')}.schema.json"


def printing_commands() -> dict[str, Prints]:
    """Return by its words what each command prints that has JSON."""
    found = commands_of(click.Context(cli, info_name="tiersnap"), cli)
    return {words: each.prints for words, each in found.items() if isinstance(each, Command) and each.prints}


def schema_files() -> dict[str, str]:
    """Return the text of every file of docs/schemas, by name."""
    return {
        file_name(words): json.dumps(document_schema(words, prints), indent=2) + "\n"
        for words, prints in printing_commands().items()
    }


def readiness_schema() -> Schema:
    """Return the schema of readiness.json."""
    (part,), defs = _schemas_of([ReadinessDocument])
    return {"$schema": _DRAFT, "title": "readiness.json of a tiersnap report", **part, "$defs": defs}


def document_schema(words: str, prints: Prints) -> Schema:
    """Return the schema of `--output json`; `$defs/line` is that of each line of `--output jsonl`."""
    of_summary = [] if prints.summary is None else [_flat(prints.summary)]
    of_result = [] if prints.result is None else [prints.result]
    flat = [*map(_flat, prints.rows), *map(_flat, prints.lines)]
    parts, defs = _schemas_of([*flat, *of_summary, *of_result, Finding, ErrorObject])
    rows, lines = parts[: len(prints.rows)], parts[len(prints.rows) : len(prints.rows) + len(prints.lines)]
    finding, error = parts[-2:]
    summary = parts[len(rows) + len(lines)] if of_summary else None
    result = parts[-3] if of_result else _result(rows, finding, defs[_name(summary)] if summary else None)
    # A command that fails prints one document in both forms, with errors and without a result.
    in_lines = [
        *(lines or rows or [{"$ref": "#/$defs/document"}]),
        *(
            _object({name: part})
            for name, part in (("finding", finding), ("error", error), ("summary", summary))
            if part
        ),
    ]
    return {
        "$schema": _DRAFT,
        "title": f"tiersnap {words} --output json",
        "$ref": "#/$defs/document",
        "$defs": {
            "document": _document(words, {"anyOf": [result, {"type": "null"}]}, error),
            "failure": _document(words, {"type": "null"}, error),
            "line": {
                "description": "a line of --output jsonl",
                "anyOf": [*in_lines, *([] if of_result else [{"$ref": "#/$defs/failure"}])],
            },
            **defs,
        },
    }


def _flat(kind: object) -> object:
    """A type with the members of the dataclasses that a row contains beside its own, as they are printed."""
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return kind
    members = [(name, hint, *_unset(hint)) for name, hint in member_types(kind).items()]
    return msgspec.defstruct(kind.__name__, members, namespace={"__doc__": kind.__doc__}, kw_only=True)


def _unset(hint: Any) -> tuple[object, ...]:
    """The default of a member that may be absent."""
    return (UNSET,) if UnsetType in get_args(without_extras(hint)) else ()


def _schemas_of(kinds: Sequence[object]) -> tuple[tuple[Schema, ...], dict[str, Schema]]:
    """Return the schema of each type, and by name those that they refer to; no object has members beside its own."""
    parts, defs = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for each in defs.values():
        each.pop("title", None)
        if "description" in each:
            each["description"] = each["description"].partition("\n")[0]
        if "properties" in each:
            each["additionalProperties"] = False
            each["required"] = [*each["required"], *_drop_defaults(each["properties"])]
    return parts, defs


def _drop_defaults(members: Schema) -> Iterator[str]:
    """Yield the names of members with a default, which are always there, and forget the defaults."""
    for name, member in members.items():
        if "default" in member:
            del member["default"]
            yield name


def _name(part: Schema) -> str:
    return str(part["$ref"]).rpartition("/")[2]


def _object(members: Schema, optional: Iterable[str] = ()) -> Schema:
    required = [name for name in members if name not in set(optional)]
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


def _document(words: str, result: Schema, error: Schema) -> Schema:
    errors = {"type": "array", "items": error}
    return _object(
        {"schema_version": {"const": SCHEMA_VERSION}, "command": {"const": words}, "result": result, "errors": errors}
    )


def _result(rows: Sequence[Schema], finding: Schema, summary: Schema | None) -> Schema:
    items = rows[0] if len(rows) == 1 else {"anyOf": list(rows)}
    arrays = {"rows": {"type": "array", "items": items}, "findings": {"type": "array", "items": finding}}
    if summary is None:
        return _object(arrays)
    return _object({**arrays, **summary["properties"]}, summary["properties"].keys() - set(summary["required"]))


# Commands ------------------------------------------------------------------------------------------------------------


def reference() -> str:
    """The page."""
    context = click.Context(cli, info_name="tiersnap")
    parts = [_TOP]
    for words, command in commands_of(context, cli).items():
        parts.append("\n".join(_section(context, words, command)))
    return "\n".join(parts)


def _section(parent: click.Context, words: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=words, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## {words}\n"
    yield f"    tiersnap {words} {usage}\n"
    yield _paragraphs(command)
    settings = {id(option): variable_of(name) for name, option in options_of(command).items()}
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        yield "| option | setting | default | |"
        yield "| --- | --- | --- | --- |"
    for option in options:
        yield _row(context, option, settings.get(id(option), ""))
    yield ""


def _paragraphs(command: click.Command) -> str:
    """Text of the help, its own line breaks kept out; what click prints as it stands stays as it is."""
    found = []
    for paragraph in paragraphs_of(command):
        if paragraph.startswith("\b"):
            found.append(textwrap.indent(paragraph.removeprefix("\b\n"), "    "))
        else:
            found.append(textwrap.fill(" ".join(paragraph.split()), 120))
    return "\n\n".join(found) + "\n"


def _row(context: click.Context, option: click.Option, variable: str) -> str:
    name, said = option.get_help_record(context) or (", ".join(option.opts), "")
    extra = option.get_help_extra(context)
    default = "required" if "required" in extra else extra.get("default", "")
    # What click puts behind the text in brackets stands in columns of its own.
    text = said.rpartition("  [")[0] if said.endswith("]") and "  [" in said else said
    cells = (f"`{name}`", f"`{variable}`" if variable else "", default, text)
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    docs = Path("docs")
    for name, text in schema_files().items():
        (docs / "schemas" / name).write_text(text, encoding="utf-8")
    (docs / "readiness.schema.json").write_text(json.dumps(readiness_schema(), indent=2) + "\n", encoding="utf-8")
    (docs / "commands.md").write_text(reference(), encoding="utf-8")
