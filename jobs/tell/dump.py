"""What `dump` shows: the contents of files in the form that was chosen, and what is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import click
from rich.console import Console

from tiersnap.jobs.old_options.form import Form
from tiersnap.jobs.output import Output
from tiersnap.jobs.shown import shown
from tiersnap.snapshot.dump import render
from tiersnap.snapshot.dump.contents import Contents, Options, Text
from tiersnap.snapshot.dump.files import StorageFile
from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.units import count_of


def show(output: Output, form: Form, files: list[StorageFile], options: Options) -> ExitCode:
    """Print the files; 5 when any is damaged."""
    reporter, stdout = Reporter(output), sys.stdout.buffer
    for text in _render(reporter.watch(files, options), form, several=len(files) > 1):
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
                click.echo(
                    f"tiersnap: {shown(file.path)}: "
                    f"{count_of(judgement.further, 'more damaged entry', 'more damaged entries')}",
                    err=True,
                )
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
