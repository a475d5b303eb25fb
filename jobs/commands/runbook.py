"""`tiersnap runbook`: print the runbook entry for a verdict, a finding, an exit code or a log line, offline."""

from __future__ import annotations

import re
from importlib import import_module

import click

from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.escaped_text import shortened
from tiersnap.jobs.cli.output import Format, Output, terminal_width
from tiersnap.jobs.cli.runbook import RunbookEntry
from tiersnap.jobs.cli.runbook import runbook as whole_runbook
from tiersnap.snapshot.errors import UsageError, error_named

_WIDTH = 80


@command(RunbookEntry)
@click.argument("words", metavar="[WORD]", nargs=-1)
def runbook(output: Output, words: tuple[str, ...]) -> None:
    """Print the steps for a verdict, a finding, an exit code or a log line.

    tiersnap runbook
    tiersnap runbook MISSING_SNAPSHOT
    tiersnap runbook 6
    tiersnap runbook 'no space left on device'

    WORD is a title, a verdict, a finding, an action of repair, the number or name of an exit code, or the pasted text
    of an exception or a log line. Without WORD the command lists the entries. The package contains the runbook, so the
    command works offline.
    """
    word = " ".join(words)
    if not word:
        output.rows(RunbookEntry, [each for each in whole_runbook().entries if each.answers])
        return
    found = (*_of_failure(word), *(whole_runbook().find(word) or _of_error(word)))
    if not found:
        hint = "to list the entries: tiersnap runbook"
        if near := whole_runbook().near(word):
            hint = f"did you mean {' or '.join(near)}?"
        raise UsageError(f"{shortened(word)}: the runbook does not contain this word", hint=hint)
    if output.format is not Format.TABLE:
        output.rows(RunbookEntry, found)
        return
    from tiersnap.jobs.cli.runbook_text import lines_of

    width = min(terminal_width() or _WIDTH, 100)
    click.echo("\n\n".join("\n".join(lines_of(each, width)) for each in found))


def _of_error(word: str) -> tuple[RunbookEntry, ...]:
    """Return the entry for the exit code of an error that `word` names, as in `NoSpaceError: …`; else ()."""
    import_module("tiersnap.remote_storage.errors")
    kind = error_named(re.split(r"[:\s]", word, maxsplit=1)[0].rpartition(".")[2])
    if kind is None:
        return ()
    return whole_runbook().find(str(kind.exit_code.value))


def _of_failure(word: str) -> tuple[RunbookEntry, ...]:
    """Return an entry for a known error text of Spark, Delta Lake, Hadoop or a storage server; () for other texts."""
    from tiersnap.snapshot.tables.reader_errors import of_words

    error = of_words("this text", word)
    if error is None:
        return ()
    code = error.exit_code
    text = f"means: {error.message}\nexit code: {code.value} ({code.name})\ndo: {error.hint}"
    return (RunbookEntry(type(error).__name__, "Failures of Spark and of storage", "", text),)
