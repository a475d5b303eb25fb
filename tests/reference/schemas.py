"""The published schemas of docs/schemas/, and whether an output follows them: by jsonschema, which is not ours."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[2] / "docs/schemas"


def _file_name(command: str) -> str:
    return f"{command.replace(' ', '-')}.schema.json"


@cache
def _validator(command: str, definition: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / _file_name(command)).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator({**schema, "$ref": f"#/$defs/{definition}"})


def assert_follows_schema(out: str, output: str, *, command: str = "") -> None:
    """One document, or lines of `command`; other forms have no schema, and neither has an unknown command."""
    if output == "json" and out.startswith("{"):
        document = json.loads(out)
        # A word that is no command ends as an error of `tiersnap`, or of the group that does not know it.
        if (FOLDER / _file_name(document["command"])).exists() or document["result"] is not None:
            _validator(document["command"], "document").validate(document)
    if output == "jsonl" and command:
        for line in out.splitlines():
            _validator(command, "line").validate(json.loads(line))
