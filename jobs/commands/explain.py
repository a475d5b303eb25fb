"""`tiersnap explain`: explain a producer error: its causes, the brokers' answers, and the clients' reactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.escaped_text import shortened
from tiersnap.jobs.cli.kips import ExplainedKip, explained_kips, find_kip
from tiersnap.jobs.cli.option_types import RELEASE
from tiersnap.jobs.cli.output import Format, Output, Paragraph, terminal_width
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.explain.situations import ExplainedRow

_WIDTH = 80


@dataclass(frozen=True, slots=True)
class ExplainableName:
    """A name that `explain` knows (`explain` alone)."""

    COLUMNS: ClassVar = ("name", "request", "when")
    name: str
    request: str
    when: str


@command(ExplainedRow, ExplainableName, ExplainedKip)
@click.argument("word", metavar="[ERROR|SITUATION|KIP]", required=False)
@click.option("--broker", type=RELEASE, help="Only brokers and coordinators of this release.  [default: all]")
@click.option("--client", type=RELEASE, help="Only Java clients of this release.  [default: all]")
def explain(output: Output, word: str | None, broker: str | None, client: str | None) -> None:
    """Say which situations are answered with an error, what clients of each release do then, and what changed it.

    tiersnap explain UNKNOWN_PRODUCER_ID
    tiersnap explain producerStateSnapshotFile
    tiersnap explain retry --broker 3.9 --client 3.9
    tiersnap explain KIP-952

    ERROR is a name such as UNKNOWN_PRODUCER_ID, an exception such as OutOfOrderSequenceException, or a code such as 45.
    SITUATION is a name such as retry or commit-after-timeout; without an argument the command lists all names. It says
    what brokers answer, release by release, from tables, and asks no cluster. KIP is KIP-360, KIP-691 or KIP-952: their
    problems, the command that shows each on data, and its output.
    """
    from tiersnap.snapshot.exactly_once.explain.explain import explain as explain_word
    from tiersnap.snapshot.exactly_once.explain.explain import names

    if word is None:
        kips = [(each.kip, "", each.title) for each in explained_kips()]
        output.rows(ExplainableName, (ExplainableName(*each) for each in (*names(), *kips)))
        return
    if (kip := find_kip(word)) is not None:
        _print_kip(output, kip)
        return
    explained = explain_word(word, broker=broker, client=client)
    if explained is None:
        raise UsageError(
            f"{shortened(word)}: no error of producers, no situation and no word of a broker's log",
            hint="tiersnap explain lists all words",
        )
    _warn_of_newer(output, broker, client)
    error = explained.error
    if error is not None and error.code is not None:
        output.talk(f"{error.error}: error {error.code}, {error.exception}")
    output.rows(ExplainedRow, explained.rows, paragraph=_paragraph)
    if not explained.is_answered:
        modelled = "no release is modelled to answer so"
        output.talk(modelled if broker is None else f"not modelled as an answer of Kafka {broker}")
    if explained.word is not None:
        output.talk(f"next: {explained.word.command}")


def _warn_of_newer(output: Output, broker: str | None, client: str | None) -> None:
    """Warn if a release is newer than all whose answers are known."""
    from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, CLIENT_ERAS, is_newer, newest_known

    for release, whose, eras in ((broker, "brokers", BROKER_ERAS), (client, "clients", CLIENT_ERAS)):
        if release is not None and is_newer(release, eras):
            newest = newest_known(eras)
            output.warn(f"Kafka {release} is newer than the known releases: the {whose} of {newest} are shown")


def _print_kip(output: Output, kip: ExplainedKip) -> None:
    if output.format is not Format.TABLE:
        output.rows(ExplainedKip, [kip])
        return
    from tiersnap.jobs.cli.runbook_text import lines_of_markdown

    width = min(terminal_width() or _WIDTH, 100)
    click.echo("\n".join(lines_of_markdown(f"{kip.kip}: {kip.title}", kip.text, width)))


def _paragraph(row: ExplainedRow) -> Paragraph:
    """Return an answer in words: a heading with actor, releases and subject, then condition and answer."""
    version = "" if row.transaction_version is None else f"transaction.version {row.transaction_version}"
    about = ", ".join(filter(None, (row.request, row.situation, version, row.changed_by)))
    answer = "" if row.answer is None else str(row.answer)
    heading = f"{row.who} {row.releases}: {about}"
    if row.who == "application":  # the row is about the error, independent of its cause
        return Paragraph(heading, f"{answer} {row.does}.")
    severity = f" ({row.severity})" if row.severity else ""
    condition = row.when.capitalize() if row.when in ("otherwise", "in any case") else f"If {row.when}"
    if not answer:
        return Paragraph(heading, f"{condition}, the {row.who} {row.does}.")
    does = f" The {row.who} {row.does}." if row.does else ""
    return Paragraph(heading, f"{condition}: {answer}{severity}.{does}")
