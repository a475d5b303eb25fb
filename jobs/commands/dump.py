"""`tiersnap dump`: print any Kafka storage file, optionally in the format of kafka-dump-log."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec import Meta

from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.escaped_text import shown
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.snapshot.dump.files import FileKind
from tiersnap.snapshot.errors import TiersnapError, UsageError
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.snapshot.dump.contents import Contents, Text

# The JSON schema of a finding or an error: msgspec supports no union of two dataclasses.
_Damage = Annotated[
    Any, Meta(extra_json_schema={"anyOf": [{"$ref": f"#/$defs/{each}"} for each in ("Finding", "ErrorObject")]})
]


@dataclass(frozen=True, slots=True)
class DumpedFile:
    """A file of `dump`. The members of `entries` depend on the kind of the file."""

    file: str
    kind: FileKind
    offset: int | None
    epoch: int | None
    entries: list[dict[str, Any]]
    damage: Annotated[list[_Damage], Meta(description="the first findings and errors of the file")]
    further_damage: int
    notes: list[str]


@command(result=list[DumpedFile], lines=(dict[str, Any],), kafka="kafka-dump-log")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option(
    "--max-bytes", type=click.IntRange(min=0), help="Read at most this many bytes of each log, as kafka-dump-log does."
)
@click.option("-c", "--count", type=click.IntRange(min=1), help="Print at most this many entries of each file.")
@click.option("--no-crc", is_flag=True, help="Do not verify the checksum of every batch.")
def dump(output: Output, files: tuple[str, ...], max_bytes: int | None, count: int | None, no_crc: bool) -> int:
    """Print the Kafka storage files FILES.

    tiersnap dump /var/lib/kafka/data/orders-0/*.snapshot
    tiersnap dump --count 5 /var/lib/kafka/data/orders-0/00000000000000000000.log

    Reads .log, .snapshot, .index, .timeindex, .txnindex and .checkpoint files, leader-epoch-checkpoint, the four offset
    checkpoints, and partition.metadata. Reading is safe while the broker runs.

    If a file is damaged, stderr names the damage and its position, and the exit code is 5.
    """
    if output.format is Format.KAFKA and no_crc:
        raise UsageError(
            "--no-crc and --output kafka exclude each other: the output has the field isvalid, which needs the "
            "checksums",
            hint="remove one of the two options",
        )
    from tiersnap.snapshot.dump import render
    from tiersnap.snapshot.dump.contents import Options
    from tiersnap.snapshot.dump.files import identify
    from tiersnap.snapshot.gate.exit_code import Problem, exit_code_of

    options = Options(max_bytes=max_bytes, count=count, check_crc=not no_crc)
    found = [identify(file) for file in files]
    damaged: list[Problem] = []

    def contents() -> Iterator[Contents]:
        for file in found:
            opened = render.open_contents(file, options)
            yield opened
            damaged.extend(opened.judgement.damage)
            _tell(output, opened)

    for text in _texts(output.format, contents(), several=len(found) > 1):
        sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    return exit_code_of(damaged)


def _tell(output: Output, contents: Contents) -> None:
    """Print the damage of a file and notes about the file on stderr."""
    judgement = contents.judgement
    for damage in judgement.damage:
        click.echo(shown(f"tiersnap: {damage}"), err=True)
        if isinstance(damage, TiersnapError) and damage.hint:
            click.echo(f"  {shown(damage.hint)}", err=True)
    if judgement.further:
        more = count_of(judgement.further, "more damaged entry", "more damaged entries")
        click.echo(f"tiersnap: {shown(contents.file.path)}: {more}", err=True)
    output.talk(*judgement.notes)


def _texts(form: Format, every: Iterable[Contents], *, several: bool) -> Iterator[Text]:
    from tiersnap.snapshot.dump import render

    if form is Format.JSON:
        yield from render.as_json(every)
        return
    for number, contents in enumerate(every):
        if form is Format.KAFKA:
            yield from render.as_kafka(contents)
        elif form is Format.JSONL:
            yield from render.as_jsonl(contents)
        else:
            if several:
                title = f"{shown(contents.file.path)} ({contents.file.kind.replace('_', ' ')})"
                if number:
                    yield b"\n"
                yield _heading(title, underline=True)
            rows = render.as_table(contents)
            yield _heading(bytes(next(rows)).decode().rstrip("\n"))
            yield from rows


def _heading(text: str, *, underline: bool = False) -> bytes:
    """Return a line that is bold on a terminal, and plain in a pipe or file."""
    if sys.stdout.isatty():
        text = click.style(text, bold=True, underline=underline or None)
    return f"{text}\n".encode()
