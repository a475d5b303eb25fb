"""docs/commands.md: every command and every setting, made from the code; `make schemas` writes it.

Raises:
    ClickException: a command lacks its extra, so the page would lack a command.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from tiersnap.jobs.cli import cli
from tiersnap.jobs.extras import UnavailableCommand
from tiersnap.jobs.settings import commands_of, options_of, variable_of

PAGE = Path("docs/commands.md")
_TOP = """# Commands

Made from the code by `make schemas`. `tiersnap COMMAND --help` says the same for the installed release, and
`tiersnap config` which values hold and where each is from.

A *setting* can be given three ways: by the option, by the variable in the environment, or in the YAML file that
`--config` (TIERSNAP_CONFIG) names, under the option's name without dashes. The option wins over the variable, that over
the file. What changes something (`--apply`, `--replace`, …) is an option alone.
"""


def reference() -> str:
    """The page."""
    context = click.Context(cli, info_name="tiersnap")
    parts = [_TOP]
    for words, command in commands_of(context, cli).items():
        if isinstance(command, UnavailableCommand):
            raise click.ClickException(f"{words}: {command.reason}")
        parts.append("\n".join(_section(context, words, command)))
    return "\n".join(parts)


def _section(parent: click.Context, words: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=words, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## {words}\n"
    yield f"    tiersnap {words} {usage}\n"
    yield _paragraphs(command.help or "")
    settings = {id(option): variable_of(name) for name, option in options_of(command).items()}
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        yield "| option | setting | default | |"
        yield "| --- | --- | --- | --- |"
    for option in options:
        yield _row(context, option, settings.get(id(option), ""))
    yield ""


def _paragraphs(text: str) -> str:
    """Text of a docstring, its own line breaks kept out; what click prints as it stands stays as it is."""
    found = []
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
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
    PAGE.write_text(reference(), encoding="utf-8")
