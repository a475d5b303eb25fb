"""`tiersnap dump`: print any Kafka storage file, also as kafka-dump-log does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import click
from rich.console import Console

from tiersnap.jobs.options.form import Form, chosen_form, form_option
from tiersnap.jobs.output import Output
from tiersnap.jobs.shown import shown
from tiersnap.snapshot.dump import render
from tiersnap.snapshot.dump.contents import Contents, Options, Text
from tiersnap.snapshot.dump.files import StorageFile, identify
from tiersnap.snapshot.errors import ExitCode, TiersnapError, UsageError


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@form_option("kafka-dump-log")
@click.option("--max-bytes", type=click.IntRange(min=0), help="Read this much of each log, as kafka-dump-log does.")
@click.option("-c", "--count", type=click.IntRange(min=1), help="Print this many entries of each file.")
@click.option("--no-crc", is_flag=True, help="Do not verify the checksum of every batch.")
@click.pass_context
def dump(
    ctx: click.Context, files: tuple[str, ...], form: str | None, max_bytes: int | None, count: int | None, no_crc: bool
) -> int:
    """Print the Kafka storage files FILES.

    Reads .log, .snapshot, .index, .timeindex, .txnindex and .checkpoint files, leader-epoch-checkpoint, the four offset
    checkpoints and partition.metadata; reading is safe while the broker runs. Exits 5 when a file is damaged, and says
    on stderr what is wrong and where.
    """
    output = ctx.find_object(Output) or Output()
    chosen = chosen_form(output, form)
    if chosen is Form.KAFKA and no_crc:
        raise UsageError(
            "--no-crc leaves no answer to isvalid, which --output kafka prints", hint="leave one of the two out"
        )
    options = Options(max_bytes=max_bytes, count=count, check_crc=not no_crc)
    reporter = Reporter(output)
    contents = reporter.watch([identify(file) for file in files], options)
    stdout = sys.stdout.buffer
    for text in _render(contents, chosen, several=len(files) > 1):
        stdout.write(text)
    stdout.flush()
    return reporter.exit_code


class Reporter:
    """Hands out contents one by one, and says what was noticed in each when it is done."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.damaged = 0

    def watch(self, files: list[StorageFile], options: Options) -> Iterator[Contents]:
        """Open each file when the one before is done."""
        for file in files:
            contents = render.open_contents(file, options)
            yield contents
            judgement = contents.judgement
            self.damaged += bool(judgement.damage)
            for damage in judgement.damage:
                click.echo(shown(f"tiersnap: {damage}"), err=True)
                if isinstance(damage, TiersnapError) and damage.hint:
                    click.echo(f"  {shown(damage.hint)}", err=True)
            if judgement.further:
                click.echo(f"tiersnap: {shown(file.path)}: {judgement.further} more damaged entries", err=True)
            for note in judgement.notes:
                self._output.talk(note)

    @property
    def exit_code(self) -> ExitCode:
        """5 when any file is damaged."""
        return ExitCode.DATA_CORRUPT if self.damaged else ExitCode.OK


def _render(every: Iterable[Contents], form: Form, *, several: bool) -> Iterator[Text]:
    if form is Form.JSON:
        yield from render.as_json(every)
        return
    for number, contents in enumerate(every):
        if form is Form.KAFKA:
            yield from render.as_kafka(contents)
        elif form is Form.JSONL:
            yield from render.as_jsonl(contents)
        else:
            if several:
                title = f"{shown(contents.file.path)} ({contents.file.kind.replace('_', ' ')})"
                yield from (b"\n" if number else b"", _heading(title, "bold underline"))
            rows = render.as_table(contents)
            yield _heading(bytes(next(rows)).decode().rstrip("\n"), "bold")
            yield from rows


def _heading(text: str, style: str) -> bytes:
    """A line that stands out on a terminal, and is plain anywhere else."""
    if not sys.stdout.isatty():
        return f"{text}\n".encode()
    console = Console(highlight=False, markup=False)
    with console.capture() as capture:
        console.print(text, style=style, soft_wrap=True)
    return capture.get().encode()
